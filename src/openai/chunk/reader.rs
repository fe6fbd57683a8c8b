//! Reads the chunks of one stream, with what only several of them tell.

use super::halves::Halves;
use super::{BadChunk, Chunk, FrameCache};

/// The state between the chunks of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkReader {
    frames: FrameCache,
    halves: Halves,
}

impl ChunkReader {
    /// Parses the next payload, except that only the first of several alike has the model's
    /// name.
    pub(crate) fn read(&mut self, payload: &str) -> Result<Chunk, BadChunk> {
        let mut chunk = self.frames.read(payload)?;
        self.halves.join(&mut chunk);
        Ok(chunk)
    }

    /// What waited for more of the stream, which has ended, as a chunk of its own.
    pub(crate) fn rest(&mut self) -> Option<Chunk> {
        let delta = self.halves.rest()?;
        Some(Chunk { has_choice: true, delta, ..Chunk::default() })
    }
}
