//! Implements the assembler's rules a second time as a simple, slow model, and compares the two
//! on random input. It searches linearly, and reads every text from its start again at each
//! delta.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::super::{Assembler, End, Slot, Step};
use super::{TOOLS, assembler};
use crate::openai::chunk::{CallDelta, Chunk};

#[expect(clippy::struct_excessive_bools, reason = "facts that hold apart from each other")]
#[derive(Clone, Debug, Default)]
struct Call {
    index: Option<u64>,
    /// Further indexes under which the rest of the call came.
    aliases: Vec<u64>,
    id: Option<String>,
    /// Other ids under which pieces of it came.
    ids_of_pieces: Vec<String>,
    names: Vec<String>,
    text: String,
    /// The last piece, if it begins with all that came before.
    snapshot: Option<String>,
    /// Whether each piece begins with all that came before.
    is_cumulative: bool,
    /// The place of the first call of the same text, or under the same index without an id.
    first: usize,
    /// Whether an earlier call has the same id, or stands in the same place.
    may_be_echo: bool,
    /// The name, place, id and object that it had when it was whole.
    compared: Option<(String, usize, Option<String>, Value)>,
    is_echo: bool,
    /// Whether the call was named and whole before a later one. Bytes that come afterwards make
    /// it invalid, but change its name no more: it may have started.
    is_sealed: bool,
}

#[derive(Debug, PartialEq)]
enum Text {
    Empty,
    Open,
    Whole(Value),
    Bad,
}

fn is_tool(name: &str) -> bool {
    TOOLS.contains(&name)
}

/// Reads a call's text. Returns the object and the text after it.
fn judge(text: &str) -> (Text, &str) {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return (Text::Empty, "");
    }
    if text.starts_with('"') {
        return judge_quoted(text);
    }
    if !text.starts_with('{') {
        return (Text::Bad, "");
    }
    let mut ends = text.match_indices(['}', ']']).map(|(at, _)| at + 1);
    let Some(end) = ends.find(|&end| is_balanced(&text[..end])) else {
        return (Text::Open, "");
    };
    let Ok(value) = serde_json::from_str(&text[..end]) else { return (Text::Bad, "") };
    match text[end..].trim_ascii_start() {
        rest if rest.is_empty() || rest.starts_with('{') => (Text::Whole(value), rest),
        _ => (Text::Bad, ""),
    }
}

/// Reads a text that holds the object as a JSON text.
fn judge_quoted(text: &str) -> (Text, &str) {
    let quotes = text.match_indices('"').map(|(at, _)| at + 1).skip(1);
    let is_string = |end: &usize| {
        let before = text[..end - 1].chars().rev();
        before.take_while(|char| *char == '\\').count() % 2 == 0
    };
    let Some(end) = quotes.into_iter().find(is_string) else { return (Text::Open, "") };
    let Ok(inner) = serde_json::from_str::<String>(&text[..end]) else { return (Text::Bad, "") };
    let inner = inner.trim();
    let (Text::Whole(value), "") = judge(inner) else { return (Text::Bad, "") };
    if !inner.starts_with('{') {
        return (Text::Bad, "");
    }
    match text[end..].trim_ascii_start() {
        rest if rest.is_empty() || rest.starts_with('{') => (Text::Whole(value), rest),
        _ => (Text::Bad, ""),
    }
}

/// Whether the call is whole whatever comes. An empty object may be followed by another.
fn is_sure(text: &Text) -> bool {
    matches!(text, Text::Whole(value) if *value != serde_json::json!({}))
}

fn is_balanced(text: &str) -> bool {
    let mut outside = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        outside.push(char);
        if char == '"' {
            loop {
                match chars.next() {
                    Some('\\') => drop(chars.next()),
                    Some('"') => break,
                    Some(_) => {}
                    None => return false,
                }
            }
        }
    }
    let count = |brackets: [char; 2]| outside.matches(brackets).count();
    count(['{', '[']) == count(['}', ']'])
}

impl Call {
    /// Adds a piece. Where the pieces together are nothing, and the last one begins with all
    /// before it, that one is the text.
    fn push(&mut self, piece: &str) {
        let is_open = judge(&self.text).0 == Text::Open;
        let own = self.text.trim_ascii_start().to_owned();
        let own = if own.starts_with('"') { String::new() } else { own };
        let start = piece.trim_ascii_start();
        if is_open && self.is_cumulative && !own.is_empty() && start.starts_with(&own) {
            let (text, rest) = judge(start);
            if text != Text::Bad && rest.is_empty() {
                self.text = start.to_owned();
                return;
            }
        }
        if !piece.is_empty() {
            let known = self.snapshot.take().unwrap_or(own);
            let repeats = is_open && !known.is_empty() && start.starts_with(&known);
            self.snapshot = repeats.then(|| start.to_owned());
        }
        self.text.push_str(piece);
        if judge(&self.text).0 == Text::Bad {
            self.adopt_snapshot();
        }
    }

    fn adopt_snapshot(&mut self) {
        let Some(snapshot) = self.snapshot.take() else { return };
        let (text, rest) = judge(&snapshot);
        if text != Text::Bad && rest.is_empty() {
            self.text = snapshot;
            self.is_cumulative = true;
        }
    }

    fn is_over(&self) -> bool {
        matches!(judge(&self.text).0, Text::Whole(_) | Text::Bad)
    }

    fn name(&self) -> Option<String> {
        self.names_joined().map(|(name, _)| name)
    }

    /// The name, and all of its pieces joined.
    fn names_joined(&self) -> Option<(String, String)> {
        let (mut name, mut joined) = (self.names.first()?.clone(), String::new());
        for (position, piece) in self.names.iter().enumerate() {
            let longer = joined.clone() + piece;
            if position > 0 && !is_tool(&name) {
                if is_tool(&longer) {
                    name.clone_from(&longer);
                } else if is_tool(piece) {
                    name.clone_from(piece);
                } else if name == *piece {
                    continue;
                }
            }
            joined = longer;
        }
        Some((name, joined))
    }
}

#[derive(Default)]
struct Model(Vec<Call>);

impl Model {
    fn take(&mut self, delta: &CallDelta) {
        let text = delta.arguments.clone().unwrap_or_default();
        if delta.id.is_none() && delta.name.is_none() && text.is_empty() {
            return;
        }
        let at = match self.call_meant_by(delta) {
            Some(at) if !self.is_another(at, delta) => at,
            Some(at) => {
                let index = delta.index.or(self.0[at].index);
                self.open(index, delta.id.clone())
            }
            None => self.open(delta.index, delta.id.clone()),
        };
        self.fill(at, delta, &text);
        self.find_echoes(false);
        let last = self.0.len() - 1;
        for call in &mut self.0[..last] {
            let is_whole = call.name().is_some() && is_sure(&judge(&call.text).0);
            call.is_sealed |= is_whole && !call.is_echo;
        }
    }

    /// Compares each call that has become whole with all before it. At the end an empty object is
    /// whole as well.
    fn find_echoes(&mut self, is_end: bool) {
        for at in 0..self.0.len() {
            let (mut object, name) = (judge(&self.0[at].text).0, self.0[at].name());
            if is_end && object == Text::Empty {
                object = Text::Whole(serde_json::json!({}));
            }
            let is_whole = is_sure(&object) || is_end;
            let (Text::Whole(object), Some(name), true) = (object, name, is_whole) else {
                continue;
            };
            let call = &self.0[at];
            if call.compared.is_some() {
                continue;
            }
            let own = (name, call.first, call.id.clone(), object);
            let is_same = |other: &Call| {
                other.compared.as_ref().is_some_and(|(name, first, id, object)| {
                    let is_in_place = *first == own.1 || (id.is_some() && *id == own.2);
                    is_in_place && *name == own.0 && *object == own.3
                })
            };
            let is_echo = call.may_be_echo && self.0.iter().any(is_same);
            self.0[at].is_echo = is_echo;
            self.0[at].compared = Some(own);
        }
    }

    fn fill(&mut self, at: usize, delta: &CallDelta, text: &str) {
        if let Some(index) = delta.index {
            let is_free = self.by_index(index).is_none();
            let call = &mut self.0[at];
            call.index.get_or_insert(index);
            if is_free && call.index != Some(index) {
                call.aliases.push(index);
            }
        }
        let unknown = delta.id.clone().filter(|id| self.by_id(id).is_none());
        let call = &mut self.0[at];
        if call.id.is_some() {
            call.ids_of_pieces.extend(unknown);
        } else {
            call.id.clone_from(&delta.id);
        }
        if !call.is_sealed {
            call.names.extend(delta.name.clone());
        }
        call.push(text);
        self.split(at);
    }

    /// Splits off further objects as calls of their own, unless the first one is empty.
    fn split(&mut self, at: usize) {
        let text = self.0[at].text.clone();
        let (first, rest) = judge(&text);
        if rest.is_empty() {
            return;
        }
        if !is_sure(&first) {
            self.0[at].text = rest.to_owned();
            return self.split(at);
        }
        let before = &mut self.0[at];
        before.text.truncate(text.len() - rest.len());
        let name = before.name();
        let (index, id, aliases) = (before.index, before.id.clone(), before.aliases.clone());
        let first = before.first;
        let next = self.open(index, id);
        (self.0[next].first, self.0[next].may_be_echo) = (first, true);
        self.0[next].aliases = aliases;
        self.0[next].ids_of_pieces = self.0[at].ids_of_pieces.clone();
        self.0[next].names.extend(name);
        self.0[next].text = rest.to_owned();
        self.split(next);
    }

    fn open(&mut self, index: Option<u64>, id: Option<String>) -> usize {
        let anonymous = index.and_then(|index| self.by_index(index));
        let anonymous = anonymous.filter(|&at| self.0[at].id.is_none());
        let first = anonymous.map_or(self.0.len(), |at| self.0[at].first);
        let is_known_id = id.as_deref().is_some_and(|id| self.by_id(id).is_some());
        let may_be_echo = anonymous.is_some() || is_known_id;
        self.0.iter_mut().for_each(|call| call.aliases.retain(|alias| Some(*alias) != index));
        self.0.push(Call { index, id, first, may_be_echo, ..Call::default() });
        self.0.len() - 1
    }

    fn by_index(&self, index: u64) -> Option<usize> {
        self.0.iter().rposition(|call| call.index == Some(index) || call.aliases.contains(&index))
    }

    fn by_id(&self, id: &str) -> Option<usize> {
        let is_piece = |call: &Call| call.ids_of_pieces.iter().any(|piece| piece == id);
        self.0.iter().rposition(|call| call.id.as_deref() == Some(id) || is_piece(call))
    }

    fn call_meant_by(&self, delta: &CallDelta) -> Option<usize> {
        let last = self.0.len().checked_sub(1);
        let at_index = delta.index.and_then(|index| self.by_index(index));
        let Some(id) = delta.id.as_deref() else {
            let is_tail = |at: &usize| delta.name.is_none() && !self.0[*at].is_over();
            return match delta.index {
                Some(_) => at_index.or(last.filter(is_tail)),
                None => last,
            };
        };
        if let Some(at) = at_index.filter(|&at| self.0[at].id.as_deref() == Some(id)) {
            return Some(at);
        }
        if let Some(at) = self.by_id(id) {
            let index = self.0[at].index;
            let is_same_place = delta.index.is_none() || index.is_none() || delta.index == index;
            return (is_same_place || delta.name.is_none()).then_some(at);
        }
        let waiting = if delta.index.is_some() { at_index } else { last };
        waiting.filter(|&at| {
            let call = &self.0[at];
            let is_late = call.id.is_none() && (delta.name.is_none() || !call.is_over());
            let is_open = judge(&call.text).0 == Text::Open;
            let is_piece = match &delta.name {
                Some(name) => is_open && call.name().as_ref() == Some(name),
                None => is_open || (delta.index.is_some() && !call.is_over()),
            };
            is_late || is_piece
        })
    }

    fn is_another(&self, at: usize, delta: &CallDelta) -> bool {
        let call = &self.0[at];
        let (Some((name, joined)), Some(new)) = (call.names_joined(), &delta.name) else {
            return false;
        };
        let is_fragment = !is_tool(&name) && is_tool(&(joined + new));
        let both_are_tools =
            is_tool(&name) && is_tool(new) && !is_tool(&(call.names.concat() + new));
        let is_empty = judge(&call.text).0 == Text::Empty;
        name != *new && !is_fragment && (call.is_over() || (is_empty && both_are_tools))
    }
}

fn deltas() -> impl Strategy<Value = Vec<CallDelta>> {
    let texts = vec![
        "",
        "",
        " ",
        "{",
        "}",
        "{}",
        "{\"a\":",
        "1",
        "\"x\"",
        "\"",
        "\\",
        "[",
        "]",
        "{\"a\":1}",
        "{\"b\":\"}\"}",
        "}{",
        "x",
        ",",
        "ä",
    ];
    let delta = (
        option::of(0_u64..3),
        option::of(select(vec!["a", "b", "c"])),
        option::of(select(vec!["Read", "Grep", "Gr", "ep", "Nobody"])),
        option::of(select(texts)),
    )
        .prop_map(|(index, id, name, arguments)| CallDelta {
            index,
            id: id.map(str::to_owned),
            name: name.map(str::to_owned),
            arguments: arguments.map(str::to_owned),
            ..CallDelta::default()
        });
    vec(delta, 0..14)
}

/// The deltas of each recorded stream that has calls. They are read line by line, without the
/// guard and the decoder.
fn recorded() -> Vec<Vec<CallDelta>> {
    let streams = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams");
    let paths = std::fs::read_dir(streams).unwrap().map(|file| file.unwrap().path());
    let texts = paths.map(|path| std::fs::read_to_string(path).unwrap());
    let deltas = texts.map(|text| {
        let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let chunks = events.filter_map(|event| Chunk::parse(event).ok());
        chunks.flat_map(|chunk| chunk.delta.tool_calls).collect::<Vec<_>>()
    });
    deltas.filter(|deltas| !deltas.is_empty()).collect()
}

/// A change that a provider, or the way from it, may make to a delta.
#[derive(Clone, Copy, Debug)]
enum Change {
    Drop,
    Double,
    SwapWithNext,
    CutShort,
    LoseId,
    LoseIndex,
    LoseName,
    IndexZero,
    IdOfAnother,
    RunTogether,
}

/// The deltas of a recorded stream with a few changes.
fn changed() -> impl Strategy<Value = Vec<CallDelta>> {
    use Change::*;
    let kinds = vec![
        Drop,
        Double,
        SwapWithNext,
        CutShort,
        LoseId,
        LoseIndex,
        LoseName,
        IndexZero,
        IdOfAnother,
        RunTogether,
    ];
    let changes = vec((any::<prop::sample::Index>(), select(kinds)), 0..5);
    (select(recorded()), changes).prop_map(|(mut deltas, changes)| {
        for (at, change) in changes {
            if !deltas.is_empty() {
                let at = at.index(deltas.len());
                apply(&mut deltas, at, change);
            }
        }
        deltas
    })
}

fn apply(deltas: &mut Vec<CallDelta>, at: usize, change: Change) {
    let next = (at + 1) % deltas.len();
    match change {
        Change::Drop => drop(deltas.remove(at)),
        Change::Double => deltas.insert(at, deltas[at].clone()),
        Change::SwapWithNext => deltas.swap(at, next),
        Change::CutShort => {
            let text = deltas[at].arguments.take().unwrap_or_default();
            let half = text.chars().take(text.chars().count() / 2).collect();
            deltas[at].arguments = Some(half);
        }
        Change::LoseId => deltas[at].id = None,
        Change::LoseIndex => deltas[at].index = None,
        Change::LoseName => deltas[at].name = None,
        Change::IndexZero => deltas.iter_mut().for_each(|delta| delta.index = Some(0)),
        Change::IdOfAnother => deltas[at].id = deltas[next].id.clone(),
        Change::RunTogether => {
            let more = deltas[next].arguments.clone().unwrap_or_default();
            deltas[at].arguments.get_or_insert_default().push_str(&more);
        }
    }
}

/// Compares the calls of the assembler with those of the model.
fn compare(deltas: &[CallDelta]) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    for delta in deltas {
        model.take(delta);
    }
    let (assembler, _) = assembled(deltas);
    for call in &mut model.0 {
        if judge(&call.text).0 == Text::Open {
            call.adopt_snapshot();
        }
    }
    model.find_echoes(!assembler.is_cut());

    prop_assert_eq!(assembler.calls().len(), model.0.len());
    for (call, expected) in assembler.calls().iter().zip(&model.0) {
        prop_assert_eq!(call.is_echo(), expected.is_echo);
        prop_assert_eq!(&call.name, &expected.name());
        prop_assert_eq!(&call.wire_id, &expected.id);
        let text = judge(&expected.text).0;
        prop_assert_eq!(call.invalid.is_some(), text == Text::Bad);
        if let Text::Whole(value) = text {
            prop_assert_eq!(call.input.as_ref(), Some(&value));
            if !expected.text.trim_start().starts_with('"') {
                prop_assert_eq!(call.arguments.trim(), expected.text.trim());
            }
        }
        let is_half_open = expected.name().is_none() || judge(&expected.text).0 == Text::Open;
        prop_assert_eq!(call.is_half_open(), is_half_open);
    }
    Ok(())
}

/// Compares the steps: each must come with the very delta that causes it.
fn compare_steps(deltas: &[CallDelta]) -> Result<(), TestCaseError> {
    let (mut model, mut assembler) = (Model::default(), assembler());
    let mut told: Vec<Step> = Vec::new();
    for delta in deltas {
        model.take(delta);
        for step in assembler.push(std::slice::from_ref(delta)) {
            match step {
                Step::Reopened(slot) => told.retain(|&known| known != Step::Closed(slot)),
                step => told.push(step),
            }
        }
        prop_assert!(!told.iter().any(|step| matches!(step, Step::Echoed(slot)
            if told.contains(&Step::Closed(*slot)) || told.contains(&Step::Sealed(*slot)))));
        for (at, call) in model.0.iter().enumerate() {
            let (slot, text) = (Slot(at), judge(&call.text).0);
            let is_told = |step: Step| told.contains(&step);
            let is_whole = matches!(text, Text::Whole(_)) && call.name().is_some();
            let is_of_a_tool = call.name().is_some_and(|name| is_tool(&name));
            prop_assert!(is_told(Step::Opened(slot)));
            prop_assert_eq!(is_told(Step::Invalid(slot)), text == Text::Bad);
            if is_whole {
                let is_sealed = is_sure(&text) && at + 1 < model.0.len() && !call.is_echo;
                let is_undecided = call.may_be_echo && call.compared.is_none();
                let is_closed = is_of_a_tool && !is_undecided && !call.is_echo;
                prop_assert_eq!(is_told(Step::Echoed(slot)), call.is_echo);
                prop_assert_eq!(is_told(Step::Closed(slot)), is_closed);
                prop_assert_eq!(is_told(Step::Sealed(slot)), is_sealed);
            } else if text != Text::Bad {
                prop_assert!(!is_told(Step::Closed(slot)) && !is_told(Step::Sealed(slot)));
            }
        }
    }
    Ok(())
}

fn assembled(deltas: &[CallDelta]) -> (Assembler, Vec<Step>) {
    let mut assembler = assembler();
    let mut steps = assembler.push(deltas);
    steps.extend(assembler.finish(End::Finished));
    (assembler, steps)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_deltas_make_the_calls_that_the_slow_model_makes(deltas in deltas()) {
        compare(&deltas)?;
    }

    #[test]
    fn recorded_deltas_make_the_same_calls_however_they_are_changed(deltas in changed()) {
        compare(&deltas)?;
    }

    #[test]
    fn each_step_is_told_as_soon_as_the_slow_model_knows_it(deltas in deltas(), more in changed()) {
        compare_steps(&deltas)?;
        compare_steps(&more)?;
    }

    #[test]
    fn every_step_is_told_once_and_in_its_order(deltas in deltas()) {
        let (assembler, steps) = assembled(&deltas);
        for (at, call) in assembler.calls().iter().enumerate() {
            let slot = Slot(at);
            let told = |step: Step| steps.iter().filter(|&&other| other == step).count();
            let when = |step: Step| steps.iter().position(|&other| other == step);
            prop_assert_eq!(told(Step::Opened(slot)), 1);
            prop_assert_eq!(told(Step::Sealed(slot)), usize::from(call.is_sealed()));
            prop_assert_eq!(told(Step::Invalid(slot)), usize::from(call.invalid.is_some()));
            prop_assert!(told(Step::Closed(slot)) <= 1 + told(Step::Reopened(slot)));
            if let Some(sealed) = when(Step::Sealed(slot)) {
                prop_assert!(call.name.is_some() && call.input.is_some());
                prop_assert!(when(Step::Closed(slot)).is_none_or(|closed| closed < sealed));
            }
        }
        let ids: std::collections::HashSet<_> = assembler.calls().iter().map(|c| &c.id).collect();
        prop_assert_eq!(ids.len(), assembler.calls().len());
    }

    #[test]
    fn arguments_in_smaller_pieces_make_the_same_calls(deltas in deltas(), cut in 0_usize..20) {
        let cut_up: Vec<_> = deltas.iter().flat_map(|delta| in_two(delta, cut)).collect();
        prop_assume!(!has_cumulative_call(&deltas) && !has_cumulative_call(&cut_up));
        let (whole, _) = assembled(&deltas);
        let (pieces, _) = assembled(&cut_up);
        let words = |assembler: &Assembler| {
            let calls = assembler.calls().iter();
            calls
                .map(|call| (call.name.clone(), call.arguments.clone(), call.invalid.clone()))
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(words(&whole), words(&pieces));
    }
}

/// Whether a call's pieces each repeat all before them: then it counts how they were cut.
fn has_cumulative_call(deltas: &[CallDelta]) -> bool {
    let mut model = Model::default();
    for delta in deltas {
        model.take(delta);
    }
    model.0.iter_mut().any(|call| {
        if judge(&call.text).0 == Text::Open {
            call.adopt_snapshot();
        }
        call.is_cumulative
    })
}

/// Cuts a delta in two where its text is long enough. The second half points to the same call.
fn in_two(delta: &CallDelta, cut: usize) -> Vec<CallDelta> {
    let text = delta.arguments.clone().unwrap_or_default();
    if !text.is_char_boundary(cut) || cut >= text.len() || cut == 0 {
        return vec![delta.clone()];
    }
    let (one, two) = text.split_at(cut);
    let head = CallDelta { arguments: Some(one.to_owned()), ..delta.clone() };
    let tail = CallDelta { arguments: Some(two.to_owned()), name: None, ..delta.clone() };
    vec![head, tail]
}
