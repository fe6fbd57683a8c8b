//! Defines what a turn starts with.

use std::sync::Arc;

use crate::agent::asking::bare_choice::CodeRequirement;
use crate::agent::beginning::{Asking, Beginning};
use crate::agent::compaction::ContextLimits;
use crate::agent::conversation::Conversation;
use crate::agent::held_text::ContentRule;
use crate::agent::settings::{AskedModel, Delivery, ModelRule, TurnSettings};
use crate::execution::pipeline::Pipeline;
use crate::ids::TurnId;
use crate::upstream;

/// What a turn starts with.
#[derive(Debug)]
pub(crate) struct TurnStart {
    /// The client's own name of the session, or its id.
    pub(crate) session: String,
    pub(crate) turn: TurnId,
    /// The requested model, then its fallbacks in order. The turn's state takes them out.
    pub(crate) models: Vec<AskedModel>,
    /// The form in which upstream is asked for each round.
    pub(crate) delivery: Delivery,
    pub(crate) content: ContentRule,
    /// Whether the client is shown cards, with arguments and answers.
    pub(crate) cards: bool,
    pub(crate) conversation: Conversation,
    pub(crate) context_limits: Arc<dyn ContextLimits>,
    /// The tokens of the conversation by the count of the turn before.
    pub(crate) context_tokens: Option<u64>,
    /// Whether the client has limited the length of one answer.
    pub(crate) limits_output: bool,
    pub(crate) pipeline: Pipeline,
    pub(crate) client_tools: Arc<[String]>,
    pub(crate) settings: TurnSettings,
    pub(crate) model_rules: Arc<[ModelRule]>,
    pub(crate) upstream: Arc<upstream::UpstreamSettings>,
    /// The most characters of all answers of a round together.
    pub(crate) max_round_chars: usize,
    pub(crate) beginning: Beginning,
    /// What hooks told the person before the turn.
    pub(crate) notices: Vec<String>,
    /// What background tasks have left since the turn before.
    pub(crate) left_behind: Vec<String>,
    pub(crate) asking: Asking,
    /// Whether a reply to what this turn asks must carry its code, whatever the turn says.
    pub(crate) code_requirement: CodeRequirement,
    /// The text of earlier turns that the client shows in one message with this one's.
    pub(crate) shown_before: String,
    /// Whether the client wants what the turn adds to the conversation.
    pub(crate) include_messages: bool,
    /// Milliseconds since 1970 when the turn began, for the times of what it asks.
    pub(crate) began_ms: i64,
}
