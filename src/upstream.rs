//! Talks to LiteLLM: sends requests and reads chunks.
//!
//! [`client`] opens a [`stream`] of chunks. [`sse`] splits its bytes into events, and
//! [`assemble`] builds tool calls from the chunks. [`fault`] names what went wrong and what the
//! client is told; [`retry`] decides whether to ask again. [`traits`] remembers what models take.

pub(crate) mod assemble;
mod body;
pub(crate) mod client;
mod deadlines;
pub(crate) mod fault;
mod model_hints;
mod model_info;
pub(crate) mod retry;
pub(crate) mod settings;
pub(crate) mod sse;
pub(crate) mod stream;
mod trace;
pub(crate) mod traits;
mod whole_body;

pub(crate) use body::RequestBody;
pub(crate) use client::Client;
pub(crate) use fault::Fault;
pub(crate) use model_hints::{ModelHints, ModelOrigin};
pub(crate) use model_info::ModelInfo;
pub(crate) use settings::UpstreamSettings;
pub(crate) use stream::{ChunkStream, StreamEvent};
pub(crate) use trace::TraceHeaders;
pub(crate) use traits::{KnownLesson, Lesson, TraitSet, UpstreamTrait};
pub(crate) use whole_body::{BodyFault, whole_body};
