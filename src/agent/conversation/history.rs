//! Keeps the transcript before the turn as it is sent upstream.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::written::{self, Form, Shape};
use crate::agent::beginning::HistoryPiece;
use crate::agent::compaction::Size;
use crate::agent::message;
use crate::agent::pictures;
use crate::agent::record::RecordedRound;
use crate::agent::settings::{AskedModel, ImageRule};
use crate::openai::message::text_of;
use crate::upstream::UpstreamTrait;

/// The pieces of the transcript, serialised once. They are serialised a second time for a model
/// that must not be sent all of it.
#[derive(Debug)]
pub(super) struct History {
    /// All messages in whole form, with commas between them.
    whole: Bytes,
    pieces: Vec<Piece>,
    /// What was written for this model; shares the bytes of `whole` where nothing is left out.
    adapted: Option<(AskedModel, Bytes)>,
    /// The size of `whole` with each recorded picture as it counts for a model.
    counted: usize,
    /// How many recorded rounds hold calls.
    rounds_with_calls: usize,
}

/// One piece of the transcript.
#[derive(Debug)]
struct Piece {
    /// Where it stands in `whole`.
    range: Range<usize>,
    /// The model that wrote it, and whether it holds reasoning; `None` for a message of the
    /// client's.
    origin: Option<Origin>,
}

#[derive(Debug)]
struct Origin {
    model: Arc<str>,
    has_reasoning: bool,
    has_pictures: bool,
    /// The number of the round among those with calls, if it has any.
    number: Option<usize>,
}

impl History {
    pub(super) fn new(pieces: Vec<HistoryPiece>) -> Self {
        let mut history = Self {
            whole: Bytes::new(),
            pieces: Vec::with_capacity(pieces.len()),
            adapted: None,
            counted: 0,
            rounds_with_calls: 0,
        };
        let size = |piece: &HistoryPiece| match piece {
            HistoryPiece::Client(message) => message.get().len(),
            HistoryPiece::Recorded(round) => round.messages.len(),
        };
        // With a comma each.
        let mut whole = Vec::with_capacity(pieces.iter().map(size).sum::<usize>() + pieces.len());
        for piece in pieces {
            match piece {
                HistoryPiece::Client(message) => history.add(&mut whole, message.get(), None),
                HistoryPiece::Recorded(round) => {
                    let origin = history.origin_of(&round);
                    let messages = written::without_brackets(&round.messages);
                    history.add(&mut whole, messages, Some(origin));
                }
            }
        }
        history.whole = whole.into();
        history
    }

    fn add(&mut self, whole: &mut Vec<u8>, messages: &str, origin: Option<Origin>) {
        if messages.is_empty() {
            return;
        }
        if !whole.is_empty() {
            whole.push(b',');
        }
        let start = whole.len();
        whole.extend_from_slice(messages.as_bytes());
        let has_pictures = origin.as_ref().is_some_and(|origin| origin.has_pictures);
        self.counted +=
            if has_pictures { Size::counted(messages.as_bytes()) } else { messages.len() } + 1;
        self.pieces.push(Piece { range: start..whole.len(), origin });
    }

    fn origin_of(&mut self, round: &RecordedRound) -> Origin {
        let last = self.pieces.iter().rev().find_map(|piece| piece.origin.as_ref());
        // Most transcripts know one model.
        let model = last.map(|origin| &origin.model).filter(|model| ***model == *round.model);
        let model = model.map_or_else(|| round.model.as_str().into(), Arc::clone);
        let number = written::has_calls(&round.messages).then_some(self.rounds_with_calls);
        self.rounds_with_calls += usize::from(number.is_some());
        Origin {
            model,
            has_reasoning: round.has_reasoning,
            has_pictures: pictures::are_among(&round.messages),
            number,
        }
    }

    /// How many pieces are the instructions that it begins with.
    pub(super) fn leading(&self) -> usize {
        self.leading_messages().count()
    }

    /// The instructions that it begins with.
    pub(super) fn leading_messages(&self) -> impl Iterator<Item = Box<RawValue>> {
        let clients = self.pieces.iter().take_while(|piece| piece.origin.is_none());
        let messages = clients.map(|piece| self.client_message(piece).to_owned());
        messages.take_while(|message| message::is_instructions(message))
    }

    /// Whether it has instructions in messages of their own.
    pub(super) fn has_instructions(&self) -> bool {
        self.pieces.iter().any(|piece| self.is_instructions(piece))
    }

    fn is_instructions(&self, piece: &Piece) -> bool {
        piece.origin.is_none() && message::is_instructions(self.client_message(piece))
    }

    /// Whether it holds pictures of tools.
    pub(super) fn has_pictures(&self) -> bool {
        let mut origins = self.pieces.iter().filter_map(|piece| piece.origin.as_ref());
        origins.any(|origin| origin.has_pictures)
    }

    /// Each piece as a record. What the client sent counts as written by `model`.
    pub(super) fn records(&self, model: &str) -> impl Iterator<Item = RecordedRound> {
        self.pieces.iter().map(move |piece| {
            let messages = String::from_utf8_lossy(&self.whole[piece.range.clone()]);
            let (writer, has_reasoning) = match &piece.origin {
                Some(origin) => (&*origin.model, origin.has_reasoning),
                None => (model, message::without_reasoning(self.client_message(piece)).is_some()),
            };
            let messages = format!("[{messages}]");
            RecordedRound { messages, model: writer.to_owned(), has_reasoning }
        })
    }

    /// All messages in whole form.
    pub(super) fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// The bytes that it counts for in the size of a request.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// How many rounds with calls it holds: the number of the turn's first own round.
    pub(super) fn rounds_with_calls(&self) -> usize {
        self.rounds_with_calls
    }

    /// The messages for `model`, with commas between them.
    pub(super) fn written(&mut self, model: &AskedModel) -> Bytes {
        if let Some((known, bytes)) = &self.adapted
            && known.name == model.name
            && known.takes_reasoning() == model.takes_reasoning()
            && known.reasoning_filler() == model.reasoning_filler()
            && known.images == model.images
            && folds_instructions(known) == folds_instructions(model)
            && known.takes_null_content() == model.takes_null_content()
        {
            return bytes.clone();
        }
        let bytes = self.adapted_to(model);
        self.adapted = Some((model.clone(), bytes.clone()));
        bytes
    }

    /// Whether `model` is sent any reasoning.
    pub(super) fn has_reasoning_for(&self, model: &AskedModel) -> bool {
        model.takes_reasoning()
            && self.pieces.iter().any(|piece| match &piece.origin {
                Some(origin) => origin.has_reasoning && *origin.model == *model.name,
                None => message::without_reasoning(self.client_message(piece)).is_some(),
            })
    }

    /// Whether it has messages of the assistant's.
    pub(super) fn has_assistant(&self) -> bool {
        self.pieces.iter().any(|piece| {
            piece.origin.is_some() || message::is_assistants(self.client_message(piece))
        })
    }

    /// Whether it has calls, be they recorded or sent by the client.
    pub(super) fn has_calls(&self) -> bool {
        self.rounds_with_calls > 0
            || self.pieces.iter().any(|piece| {
                piece.origin.is_none() && message::has_calls(self.client_message(piece))
            })
    }

    /// The bytes that it keeps in memory.
    pub(super) fn size(&self) -> usize {
        let other = self.adapted.as_ref().map(|(_, bytes)| bytes);
        // Without anything to leave out, both share one allocation, which counts once.
        let other = other.filter(|other| other.as_ptr() != self.whole.as_ptr());
        self.whole.len() + other.map_or(0, Bytes::len) + self.pieces.len() * size_of::<Piece>()
    }

    fn adapted_to(&self, model: &AskedModel) -> Bytes {
        let changed: Vec<_> =
            self.pieces.iter().map(|piece| self.changed_piece(piece, model)).collect();
        let folds = folds_instructions(model) && self.has_instructions();
        if !folds && changed.iter().all(Option::is_none) {
            return self.whole.clone();
        }
        let mut written = Written(Vec::with_capacity(self.whole.len()));
        // Instructions that wait for the next message of the user's.
        let mut waiting = String::new();
        for (piece, changed) in self.pieces.iter().zip(changed) {
            let messages = changed.as_deref().unwrap_or(&self.whole[piece.range.clone()]);
            if folds && self.is_instructions(piece) {
                message::add_paragraph(&mut waiting, &text_of(self.client_message(piece)));
            } else if waiting.is_empty() {
                written.push(messages);
            } else {
                written.push_behind(&std::mem::take(&mut waiting), piece, messages);
            }
        }
        if !waiting.is_empty() {
            written.push(message::of_user(&waiting).get().as_bytes());
        }
        written.0.into()
    }

    /// The piece without what `model` must not be sent; `None` if it stays as it is.
    fn changed_piece(&self, piece: &Piece, model: &AskedModel) -> Option<Vec<u8>> {
        let filler = model.reasoning_filler();
        let Some(origin) = &piece.origin else {
            return self.changed_message(piece, model);
        };
        let form = Form::of(&origin.model, model);
        let is_changed = match form {
            Form::Whole => false,
            Form::WithoutReasoning => origin.has_reasoning,
            Form::Foreign => origin.has_reasoning || origin.number.is_some(),
        };
        let moves_pictures = origin.has_pictures && model.images != ImageRule::UserMessage;
        let fills_content = !model.takes_null_content();
        (is_changed || moves_pictures || filler.is_some() || fills_content).then(|| {
            let messages = &self.whole[piece.range.clone()];
            let shape = Shape { form, images: model.images, filler, fills_content };
            written::in_shape(messages, shape, origin.number.unwrap_or(0))
        })
    }

    /// The same for a message of the client's.
    fn changed_message(&self, piece: &Piece, model: &AskedModel) -> Option<Vec<u8>> {
        let message = self.client_message(piece);
        let stripped =
            if model.takes_reasoning() { None } else { message::without_reasoning(message) };
        let left = stripped.as_deref().unwrap_or(message);
        let filler = model.reasoning_filler();
        let completed = filler.and_then(|filler| message::with_reasoning(left, filler));
        let changed = completed.or(stripped);
        let left = changed.as_deref().unwrap_or(message);
        let fills_content = !model.takes_null_content();
        let with_content = if fills_content { message::with_content(left) } else { None };
        let changed = with_content.or(changed)?;
        Some(changed.get().as_bytes().to_vec())
    }

    fn client_message(&self, piece: &Piece) -> &RawValue {
        serde_json::from_slice(&self.whole[piece.range.clone()])
            .expect("a client's message is valid JSON")
    }
}

/// Messages with commas between them.
struct Written(Vec<u8>);

impl Written {
    fn push(&mut self, messages: &[u8]) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        self.0.extend_from_slice(messages);
    }

    /// Adds the messages of a piece with instructions in front: within the first of them if a user
    /// has written it.
    fn push_behind(&mut self, instructions: &str, piece: &Piece, messages: &[u8]) {
        let message = serde_json::from_slice::<&RawValue>(messages).ok();
        let of_user =
            message.filter(|message| piece.origin.is_none() && message::is_users(message));
        if let Some(joined) =
            of_user.and_then(|message| message::with_text_in_front(instructions, message))
        {
            return self.push(joined.get().as_bytes());
        }
        self.push(message::of_user(instructions).get().as_bytes());
        self.push(messages);
    }
}

/// Whether the model is sent instructions within messages of the user's.
fn folds_instructions(model: &AskedModel) -> bool {
    model.learnt.has(UpstreamTrait::RefusesSystem)
}
