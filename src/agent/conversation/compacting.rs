//! Hands out the transcript to be made shorter, and takes the shorter form.

use bytes::Bytes;
use serde_json::{Value, json};

use super::history::History;
use super::{Conversation, request_end, write_head};
use crate::agent::beginning::HistoryPiece;
use crate::agent::compaction::{INSTRUCTIONS, Material, Size, estimate};
use crate::agent::record::RecordedRound;
use crate::agent::settings::{AskedModel, Delivery};
use crate::openai::Body;
use crate::upstream::{RequestBody, UpstreamTrait};

/// The request fields that a summary is asked for with. The others shape the answer to the
/// client: its form, its length, its end.
const SUMMARY_FIELDS: [&str; 5] =
    ["model", "user", "metadata", "safety_identifier", "service_tier"];

impl Conversation {
    /// The transcript behind the leading instructions, as `model` is sent it.
    pub(crate) fn material(&mut self, model: &AskedModel) -> Material {
        self.prepare_for(model);
        let leading = self.history.leading();
        let history = self.history.records(&model.name).skip(leading);
        let rounds = self.rounds.iter().map(|round| round.to_record(&model.name));
        Material::new(history.chain(rounds), &model.name)
    }

    /// Goes on from a shorter form of the transcript behind the leading instructions.
    pub(crate) fn compact(&mut self, rounds: &[RecordedRound]) {
        let leading = self.history.leading_messages().map(HistoryPiece::Client);
        let rounds = rounds.iter().cloned().map(HistoryPiece::Recorded);
        self.history = History::new(leading.chain(rounds).collect());
        self.rounds.clear();
        if let Some(recipient) = &mut self.recipient {
            recipient.rounds = 0;
        }
    }

    /// The bytes of everything but the transcript behind the leading instructions.
    pub(crate) fn bytes_beside(&self) -> usize {
        let leading: usize =
            self.history.leading_messages().map(|message| message.get().len()).sum();
        leading + self.tail.len()
    }

    /// The bytes of the transcript and the tools.
    pub(crate) fn bytes(&self) -> usize {
        let rounds: usize = self.rounds.iter().map(super::WrittenRound::counted).sum();
        self.history.counted() + rounds + self.tail.len()
    }

    /// The size of the next request, of which nothing was counted yet.
    pub(crate) fn estimate(&self) -> Size {
        let rounds: Vec<Bytes> = self.rounds.iter().map(super::WrittenRound::bytes).collect();
        let pieces = [self.history.whole(), self.tail.definitions()];
        let pieces = pieces.into_iter().chain(rounds.iter().map(|bytes| &bytes[..]));
        Size { tokens: estimate(pieces), bytes: self.bytes() }
    }

    /// Asks `model` for a summary of this transcript, without tools.
    pub(crate) fn summary_request(&self, model: &AskedModel, transcript: &str) -> RequestBody {
        let is_kept = |name: &str| SUMMARY_FIELDS.contains(&name);
        let fields = self.fields.iter().filter(|(name, _)| is_kept(name));
        let fields: Body = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
        let transcript = format!("<transcript>\n{transcript}\n</transcript>");
        let messages = if model.learnt.has(UpstreamTrait::RefusesSystem) {
            let content = format!("{INSTRUCTIONS}\n\n{transcript}");
            vec![json!({ "role": "user", "content": content })]
        } else {
            vec![
                json!({ "role": "system", "content": INSTRUCTIONS }),
                json!({ "role": "user", "content": transcript }),
            ]
        };
        let mut body = RequestBody::default();
        body.push(write_head(&fields, &model.name).into());
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        body.push(messages.join(",").into());
        body.push(Bytes::from_static(b"]"));
        body.push(request_end(model, model.delivery(Delivery::Streamed)));
        body
    }
}
