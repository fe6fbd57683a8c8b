//! Tests every rule of docs/stream.md, Assembling calls, and the rows of docs/threats.md about
//! calls.

mod model;

use serde_json::json;

use super::*;
use crate::openai::chunk::CallKind;

const TOOLS: [&str; 5] = ["Read", "Grep", "Bash", "ListTasks", "WebFetch"];

fn assembler() -> Assembler {
    Assembler::new(|name| TOOLS.contains(&name))
}

/// Parses a delta such as `"0 #id Name {…"`, with `-` for no index; id and name may be missing.
fn delta(text: &str) -> CallDelta {
    let (index, mut rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut delta = CallDelta { index: index.parse().ok(), ..CallDelta::default() };
    if let Some(id) = rest.strip_prefix('#') {
        let (id, after) = id.split_once(' ').unwrap_or((id, ""));
        delta.id = Some(id.to_owned());
        rest = after;
    }
    if rest.starts_with(|c: char| c.is_ascii_uppercase()) {
        let (name, after) = rest.split_once(' ').unwrap_or((rest, ""));
        delta.name = Some(name.to_owned());
        rest = after;
    }
    delta.arguments = Some(rest.to_owned());
    delta
}

/// The steps of some deltas and an end, in words, and the assembler after them.
fn run(deltas: &[&str], end: End) -> (Vec<String>, Assembler) {
    let mut assembler = assembler();
    let mut steps = Vec::new();
    for text in deltas {
        steps.extend(assembler.push(&[delta(text)]));
    }
    steps.extend(assembler.finish(end));
    let words = steps.iter().map(|step| match step {
        Step::Opened(slot) => format!("open {}", slot.0),
        Step::Closed(slot) => format!("close {}", slot.0),
        Step::Reopened(slot) => format!("reopen {}", slot.0),
        Step::Sealed(slot) => format!("seal {}", slot.0),
        Step::Invalid(slot) => format!("invalid {}", slot.0),
        Step::Echoed(slot) => format!("echo {}", slot.0),
    });
    (words.collect(), assembler)
}

/// The calls of some deltas that end in order, as `id Name arguments`.
fn calls(deltas: &[&str]) -> Vec<String> {
    let (_, assembler) = run(deltas, End::Finished);
    let words = assembler.calls().iter().filter(|call| !call.is_echo()).map(|call| {
        let is_made_up = call.id.len() == 37 && call.id.starts_with("call_");
        let id = if is_made_up { "*" } else { &call.id };
        format!("{id} {} {}", call.name.as_deref().unwrap_or("?"), call.arguments)
    });
    words.collect()
}

fn check(deltas: &[&str], expected: &[&str]) {
    assert_eq!(calls(deltas), expected);
}

fn check_steps(deltas: &[&str], end: End, expected: &[&str]) {
    assert_eq!(run(deltas, end).0, expected);
}

#[test]
fn the_text_of_a_custom_tool_is_no_arguments() {
    let mut assembler = assembler();
    let custom = |text: &str| CallDelta { kind: CallKind::Custom, ..delta(text) };
    for text in ["0 #a Note {\"x", "0 }{} ", "0 [", "1 #b Note "] {
        assembler.push(&[custom(text)]);
    }

    let steps = assembler.finish(End::Finished);

    assert_eq!(steps, [Step::Sealed(Slot(0)), Step::Sealed(Slot(1))]);
    assert!(!assembler.is_cut());
    let calls = assembler.calls().iter();
    let entries: Vec<_> = calls.map(|call| assembler.to_message(call)).collect();
    let entry = |id: &str, input: &str| json!({ "id": id, "type": "custom", "custom": { "name": "Note", "input": input } });
    assert_eq!(entries, [entry("a", "{\"x}{} ["), entry("b", "")]);
}

#[test]
fn a_call_in_pieces_is_put_together() {
    check(&["0 #a Read ", r#"0 {"p":"#, r#"0 "x"}"#], &[r#"a Read {"p":"x"}"#]);
}

#[test]
fn a_call_closes_at_its_last_brace_and_seals_when_another_opens() {
    check_steps(
        &["0 #a Read {", r#"0 "p":1}"#, r#"1 #b Grep {"p":1}"#],
        End::Finished,
        &["open 0", "close 0", "open 1", "seal 0", "close 1", "seal 1"],
    );
}

#[test]
fn a_call_that_closes_after_another_opened_is_sealed_at_once() {
    check_steps(
        &[r#"0 #a Read {"p":"#, r#"1 #b Grep {"p":"#, "0 1}", "1 2}"],
        End::Finished,
        &["open 0", "open 1", "close 0", "seal 0", "close 1", "seal 1"],
    );
}

#[test]
fn u23_without_an_index_an_id_opens_a_call_and_none_continues_the_last() {
    check(
        &["- #a Read {", "- }", "- #b Grep {", r#"- "x":1}"#],
        &["a Read {}", r#"b Grep {"x":1}"#],
    );
}

#[test]
fn u24_a_new_id_opens_a_call_even_at_the_same_index() {
    check(
        &["0 #a Read {}", "0 #b Grep {}", "0 #c Bash {}"],
        &["a Read {}", "b Grep {}", "c Bash {}"],
    );
}

#[test]
fn wire_01_pieces_that_have_an_id_each_are_one_call() {
    let one = r#"a Bash {"command":"x","n":1}"#;
    for pieces in [
        [r#"0 #a Bash {"command":"#, r#"0 #b "x","#, r#"0 #c "n":1}"#],
        [r#"0 #a Bash {"command":"#, r#"0 #b Bash "x","#, r#"0 #c Bash "n":1}"#],
        ["0 #a Bash", r#"0 #b {"command":"x","#, r#"0 #b "n":1}"#],
        [r#"- #a Bash {"command":"#, r#"- #b "x","#, r#"- #c "n":1}"#],
    ] {
        check(&pieces, &[one]);
    }
    // Behind a whole object another id is another call.
    check(
        &[r#"0 #a Bash {"n":1}"#, r#"0 #b Bash {"n":2}"#],
        &[r#"a Bash {"n":1}"#, r#"b Bash {"n":2}"#],
    );
    check(
        &["0 #a Bash", r#"1 #b Bash {"n":2}"#, r#"0 {"n":1}"#],
        &[r#"a Bash {"n":1}"#, r#"b Bash {"n":2}"#],
    );
}

#[test]
fn u25_the_first_index_may_be_one() {
    check(&["1 #a Read {", "1 }"], &["a Read {}"]);
}

#[test]
fn u26_a_known_id_wins_over_the_index_of_a_tail() {
    check(&["0 #a Read {}", "0 #b Grep {", "1 #b }"], &["a Read {}", "b Grep {}"]);
    check(&["0 #a Read {}", "0 #b Grep {", "1 }"], &["a Read {}", "b Grep {}"]);
    check(&["0 #a Read {", "0 #b Grep {", "0 #a }", "0 #b }"], &["a Read {}", "b Grep {}"]);
}

#[test]
fn u27_two_entries_of_one_index_in_one_chunk_are_one_call() {
    let mut assembler = assembler();
    let steps = assembler.push(&[delta("0 #a Read {"), delta("0 }")]);
    assert_eq!(steps, [Step::Opened(Slot(0)), Step::Closed(Slot(0))]);
}

#[test]
fn u28_an_id_may_be_missing_repeated_or_only_on_the_first() {
    check(&["0 Read {", "0 }"], &["* Read {}"]);
    check(&["0 #a Read {", "0 #a }"], &["a Read {}"]);
    check(&["0 #a Read {", "0 }"], &["a Read {}"]);
}

#[test]
fn made_up_ids_differ() {
    let (_, assembler) = run(&["0 Read {}", "1 Read {}"], End::Finished);
    assert_ne!(assembler.calls()[0].id, assembler.calls()[1].id);
}

#[test]
fn an_id_that_comes_late_is_adopted() {
    check(&["0 Read {", "0 #a }"], &["a Read {}"]);
    check(&["- Read {", "- #a }"], &["a Read {}"]);
    check(&["0 Read {", "0 #a }", "1 Grep {", "1 #b }"], &["a Read {}", "b Grep {}"]);
    check(&["0 Read {}", "0 #b Grep {}"], &["* Read {}", "b Grep {}"]);
}

#[test]
fn an_id_goes_back_byte_for_byte_however_long() {
    let id = format!("call_1__thought__{}+/=", "Q".repeat(5000));
    check(&[&format!("0 #{id} Read {{}}")], &[&format!("{id} Read {{}}")]);
}

#[test]
fn u29_a_repeated_name_is_one_name() {
    check(&["0 #a Read {", "0 Read }"], &["a Read {}"]);
    check(&["0 #a Unknown {", "0 Unknown ", "0 Unknown }"], &["a Unknown {}"]);
}

#[test]
fn a_name_in_fragments_is_joined_where_only_the_join_is_a_tool() {
    let fragments = |names: &[&str]| {
        let deltas = names.iter().map(|name| CallDelta {
            index: Some(0),
            name: Some((*name).to_owned()),
            ..CallDelta::default()
        });
        let mut assembler = assembler();
        assembler.push(&deltas.collect::<Vec<_>>());
        assert_eq!(assembler.calls().len(), 1);
        assembler.calls()[0].name.clone().unwrap()
    };
    assert_eq!(fragments(&["Gr", "ep"]), "Grep");
    assert_eq!(fragments(&["W", "eb", "Fetch"]), "WebFetch");
    assert_eq!(fragments(&["Web", "WebFetch"]), "WebFetch");
    assert_eq!(fragments(&["Foo", "bar"]), "Foo");
    assert_eq!(fragments(&["Read", "ing"]), "Read");
}

#[test]
fn u29_what_brings_nothing_opens_nothing() {
    check(&["0", "3 ", "-"], &[]);
}

#[test]
fn u30_one_id_for_two_calls_gives_the_second_a_fresh_one() {
    check(&["0 #x Read {", "1 #x Grep {", "1 #x }", "0 #x }"], &["x Read {}", "* Grep {}"]);
    check(&["0 #x Read {}", "0 #x Grep {}"], &["x Read {}", "* Grep {}"]);
    check(&["- #x Read {}", "- #x Grep {}"], &["x Read {}", "* Grep {}"]);
}

#[test]
fn u31_a_half_open_call_at_a_normal_end_is_a_cut() {
    let (steps, assembler) = run(&["0 #a Read {", "1 #b Grep {}"], End::Finished);
    assert_eq!(steps, ["open 0", "open 1", "close 1"]);
    assert!(assembler.is_cut());
    assert!(assembler.calls()[0].is_half_open());
    assert!(!assembler.calls()[1].is_half_open());
}

#[test]
fn u31_a_call_before_the_cut_stays_sealed() {
    let (steps, assembler) = run(&[r#"0 #a Read {"p":1}"#, "1 #b Grep {"], End::Finished);
    assert_eq!(steps, ["open 0", "close 0", "open 1", "seal 0"]);
    assert!(assembler.is_cut());
}

#[test]
fn u31_the_output_limit_seals_nothing_and_is_no_cut() {
    let (steps, assembler) = run(&["0 #a Read {}", "0 "], End::CutOff);
    assert_eq!(steps, ["open 0", "close 0"]);
    assert!(!assembler.is_cut());
}

#[test]
fn empty_arguments_are_an_empty_object_once_the_round_ended() {
    check(&["0 #a ListTasks ", "0  "], &["a ListTasks {}"]);
    check_steps(&["0 #a ListTasks "], End::Finished, &["open 0", "seal 0"]);
    check_steps(&["0 #a ListTasks "], End::CutOff, &["open 0"]);
}

#[test]
fn heads_before_any_piece_do_not_seal_a_call_without_its_arguments() {
    check_steps(
        &["0 #a Read ", "1 #b Grep ", "0 {", r#"1 {"p":2}"#, r#"0 "p":1}"#],
        End::Finished,
        &["open 0", "open 1", "close 1", "close 0", "seal 0", "seal 1"],
    );
}

#[test]
fn several_objects_in_one_text_are_several_calls() {
    check(
        &["0 #a Bash {\"c\":1", "0 }{\"c\"", "0 :2} \n{\"c\":3}"],
        &[r#"a Bash {"c":1}"#, r#"a_2 Bash {"c":2}"#, r#"a_3 Bash {"c":3}"#],
    );
    check(&["0 Bash {\"c\":1}{}"], &["* Bash {\"c\":1}", "* Bash {}"]);
    check_steps(&["0 #a Bash {\"c\":1}{"], End::CutOff, &["open 0", "close 0", "open 1", "seal 0"]);
}

#[test]
fn a_derived_id_is_fresh_where_it_would_be_taken_or_too_long() {
    check(
        &["0 #a_2 Read {}", "1 #a Bash {\"c\":1}{}"],
        &["a_2 Read {}", "a Bash {\"c\":1}", "a_3 Bash {}"],
    );
    let (long, object) = ("x".repeat(38), "{\"c\":1}");
    check(
        &[&format!("0 #{long} Bash {object}{{}}")],
        &[&format!("{long} Bash {object}"), "* Bash {}"],
    );
}

#[test]
fn a_brace_after_a_closed_object_without_a_new_id_is_a_new_call() {
    check(
        &[r#"0 #a Read {"p":1}"#, r#"0 Read {"p":2}"#],
        &[r#"a Read {"p":1}"#, r#"a_2 Read {"p":2}"#],
    );
    check(&[r#"- Read {"p":1}"#, "- Read {}"], &[r#"* Read {"p":1}"#, "* Read {}"]);
}

#[test]
fn an_empty_object_that_another_follows_is_nothing() {
    check(&["0 #a Read {}", r#"0 {"p":1}"#], &[r#"a Read {"p":1}"#]);
    check(
        &["0 #a Read {}{} { }\n", r#"0 {"p":1}{"p":2}"#],
        &[r#"a Read {"p":1}"#, r#"a_2 Read {"p":2}"#],
    );
    check(&["- Read {", "- }", r#"- Read {"p":1}"#], &[r#"* Read {"p":1}"#]);
    check(
        &["0 #a Read {}", "1 #b Grep {}", r#"0 {"p":1}"#, r#"1 {"p":2}"#],
        &[r#"a Read {"p":1}"#, r#"b Grep {"p":2}"#],
    );
    check(&["0 #a Read {}", "0 #b Grep {}"], &["a Read {}", "b Grep {}"]);
}

#[test]
fn an_index_that_comes_late_is_not_another_one() {
    check(&["- #a Read {", "0 #a Read }"], &["a Read {}"]);
    check(&["- #a Read {", "0 #a Read }", "1 #a Grep {}"], &["a Read {}", "* Grep {}"]);
}

#[test]
fn a_name_in_fragments_may_come_behind_the_arguments() {
    check(&[r#"0 #a Gr {"p":1}"#, "0 #a", "0 Nobody "], &[r#"a Gr {"p":1}"#, "* Nobody {}"]);
    let mut assembler = assembler();
    let fragment =
        CallDelta { index: Some(0), name: Some("ep".to_owned()), ..CallDelta::default() };
    assembler.push(&[delta(r#"0 #a Gr {"p":1}"#), fragment]);
    assert_eq!(assembler.calls().len(), 1);
    assert_eq!(assembler.calls()[0].name.as_deref(), Some("Grep"));
}

#[test]
fn another_name_after_a_closed_object_is_a_new_call() {
    check(&["0 Read {}", "0 Grep ", "0 {}"], &["* Read {}", "* Grep {}"]);
    check(&["0 ListTasks ", "0 Read {}"], &["* ListTasks {}", "* Read {}"]);
}

#[test]
fn white_space_around_an_object_is_nothing() {
    check_steps(
        &["0 #a Read \n {", "0 }", "0  \r\n\t"],
        End::Finished,
        &["open 0", "close 0", "seal 0"],
    );
}

#[test]
fn any_other_byte_after_the_object_makes_the_call_invalid() {
    let (steps, assembler) = run(&["0 #a Read {} ", "0 x", "0 {}"], End::Finished);
    assert_eq!(steps, ["open 0", "close 0", "invalid 0"]);
    assert_eq!(
        assembler.calls()[0].invalid.as_deref(),
        Some(
            "the arguments are not one JSON object: \
             unexpected 'x' after the end of the object, at byte 4"
        )
    );
    check_steps(
        &[r#"0 #a Read {"p":1}"#, r#"1 #b Read {"p":2}"#, "0 ]"],
        End::Finished,
        &["open 0", "close 0", "open 1", "seal 0", "close 1", "invalid 0", "seal 1"],
    );
}

#[test]
fn what_is_no_object_or_no_json_is_invalid_and_says_where() {
    let reason = |arguments: &str| {
        let (steps, assembler) = run(&[&format!("0 #a Read {arguments}")], End::Finished);
        assert_eq!(steps, ["open 0", "invalid 0"], "{arguments}");
        assert!(!assembler.is_cut());
        assembler.calls()[0].invalid.clone().unwrap()
    };
    assert_eq!(
        reason(" [1]"),
        "the arguments are not one JSON object: \
         unexpected '[' where an object should begin, at byte 2"
    );
    assert!(reason("null").ends_with("unexpected 'n' where an object should begin, at byte 1"));
    assert!(reason(r#"{"a":tru}"#).contains("column 9"), "{}", reason(r#"{"a":tru}"#));
    assert!(reason(r#"{"a":1,}"#).contains("column 8"));
    assert!(reason("{]").contains("column 2"));
    assert!(reason(r#"{"a":1e999}"#).contains("out of range"));
    assert!(reason(&format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200))).contains("limit"));
}

#[test]
fn t34_arguments_over_a_mebibyte_are_invalid() {
    let mut assembler = assembler();
    assembler.push(&[delta("0 #a Read {\"p\":\"")]);
    let piece = format!("0 {}", "x".repeat(1 << 16));
    let steps: Vec<_> = (0..20).flat_map(|_| assembler.push(&[delta(&piece)])).collect();
    assert_eq!(steps, [Step::Invalid(Slot(0))]);
    assert!(assembler.calls()[0].arguments.len() <= 1 << 20);
    assert!(assembler.calls()[0].invalid.as_ref().unwrap().contains("1048576"));
}

#[test]
fn what_a_model_said_is_kept_with_what_makes_it_invalid() {
    for (text, said) in [
        (r#" {"p":1} "#, r#"{"p":1}"#),
        (r#" {"p":1} so, é{}"#, r#"{"p":1} so, é{}"#),
        (r#"{"p":tru} {"p":1}"#, r#"{"p":tru} {"p":1}"#),
        (r#" Sure: {"p":1}"#, r#" Sure: {"p":1}"#),
        ("[1]", "[1]"),
    ] {
        let cuts = (0..=text.len()).filter(|cut| text.is_char_boundary(*cut));
        for cut in cuts {
            let mut assembler = assembler();
            let mut heard = String::new();
            for piece in [&text[..cut], &text[cut..]] {
                let arguments = Some(piece.to_owned());
                assembler.push(&[CallDelta { arguments, ..delta("0 #a Read ") }]);
                heard += &assembler.calls()[0].arguments_from(heard.len());
            }
            assert_eq!(heard, said, "cut at {cut}");
        }
    }
}

#[test]
fn a_name_may_come_after_the_arguments() {
    check_steps(&["0 #a {}", "0 Read "], End::Finished, &["open 0", "close 0", "seal 0"]);
    check_steps(
        &[r#"0 #a {"p":1}"#, r#"1 #b Grep {"p":1}"#, "0 Read "],
        End::Finished,
        &["open 0", "open 1", "close 1", "close 0", "seal 0", "seal 1"],
    );
}

#[test]
fn a_call_without_a_name_is_never_closed_and_is_a_cut() {
    let (steps, assembler) = run(&["0 #a {}", "1 #b Grep {}"], End::Finished);
    assert_eq!(steps, ["open 0", "open 1", "close 1"]);
    assert!(assembler.is_cut());
}

#[test]
fn an_end_that_comes_twice_adds_nothing() {
    let mut assembler = assembler();
    assembler.push(&[delta("0 #a Read {}")]);
    assert_eq!(assembler.finish(End::Finished), [Step::Sealed(Slot(0))]);
    assert_eq!(assembler.finish(End::Finished), []);
}

#[test]
fn u33_five_hundred_calls_are_all_there() {
    let deltas: Vec<_> = (0..500).map(|n| delta(&format!("{n} #c{n} Read {{}}"))).collect();
    let mut assembler = assembler();
    assembler.push(&deltas);
    assert_eq!(assembler.calls().len(), 500);
}

#[test]
fn what_the_provider_put_beside_a_call_goes_back_with_it() {
    let mut assembler = assembler();
    assembler.push(&[CallDelta {
        members: [("extra".to_owned(), json!({"signature": "s"}))].into(),
        function_members: [("fields".to_owned(), json!(1))].into(),
        ..delta("0 #a Read {}")
    }]);
    assert_eq!(
        assembler.to_message(&assembler.calls()[0]),
        json!({
            "id": "a", "type": "function",
            "function": {"name": "Read", "arguments": "{}", "fields": 1},
            "extra": {"signature": "s"},
        })
    );
}

#[test]
fn history_never_holds_arguments_that_are_no_json() {
    let (_, assembler) = run(&["0 #a Read {\"p\":tru}"], End::Finished);
    let entry = assembler.to_message(&assembler.calls()[0]);
    assert_eq!(entry["function"]["arguments"], "{}");
}

#[test]
fn u33_more_calls_than_any_model_means_are_told_and_not_kept() {
    for (count, is_overfull) in [(MAX_CALLS, false), (MAX_CALLS + 1, true)] {
        let objects: String =
            (0..count).fold(String::new(), |all, at| all + &format!(r#"{{"p":{at}}}"#));
        let in_one_text = delta(&format!("0 #a Read {objects}"));
        let one_by_one = (0..count).map(|at| delta(&format!("{at} #c{at} Read {{}}")));
        for deltas in [vec![in_one_text], one_by_one.collect()] {
            let mut assembler = assembler();
            assembler.push(&deltas);
            assert_eq!(assembler.is_overfull(), is_overfull);
            assert_eq!(assembler.calls().len(), MAX_CALLS);
        }
    }
}

#[test]
fn a_great_many_empty_objects_are_one_and_cost_little() {
    let mut assembler = assembler();
    let steps = assembler.push(&[delta(&format!("0 #a Read {}", "{}".repeat(100_000)))]);
    assert_eq!(steps, [Step::Opened(Slot(0)), Step::Closed(Slot(0))]);
    let mut steps = assembler.push(&[delta("0 {}{}")]);
    steps.extend(assembler.finish(End::Finished));
    let slot = Slot(0);
    assert_eq!(steps, [Step::Reopened(slot), Step::Closed(slot), Step::Sealed(slot)]);
    assert_eq!(assembler.calls().len(), 1);
}

#[test]
fn a_finish_reason_seals_what_is_whole_and_leaves_the_rest_open() {
    let words = |deltas: &[&str], behind: &[&str]| {
        let mut assembler = assembler();
        let mut steps = assembler.push(&deltas.iter().map(|text| delta(text)).collect::<Vec<_>>());
        steps.extend(assembler.finish_reason());
        steps.extend(assembler.finish_reason());
        let before = steps.len();
        steps.extend(assembler.push(&behind.iter().map(|text| delta(text)).collect::<Vec<_>>()));
        steps.extend(assembler.finish(End::Finished));
        (format!("{:?}", &steps[..before]), format!("{:?}", &steps[before..]), assembler)
    };
    let (before, behind, _) = words(&[r#"0 #a Read {"p":1}"#], &[]);
    assert!(before.ends_with("Sealed(Slot(0))]") && behind == "[]");

    for open in ["0 #a Read ", "0 #a Read {}", "0 #a Read {"] {
        let tail = if open.ends_with('{') { r#"0 "p":1}"# } else { r#"0 {"p":1}"# };
        let (before, behind, assembler) = words(&[open], &[tail]);
        assert!(!before.contains("Sealed") && behind.ends_with("Sealed(Slot(0))]"), "{open}");
        assert_eq!(assembler.calls().len(), 1);
        assert_eq!(assembler.calls()[0].arguments, r#"{"p":1}"#);
    }
    let (_, behind, assembler) = words(&["0 #a Read ", "1 #b Grep {}"], &[]);
    assert_eq!(behind, "[Sealed(Slot(0)), Sealed(Slot(1))]");
    assert_eq!(assembler.calls()[0].arguments, "{}");
}

#[test]
fn what_has_changed_is_told_once() {
    let mut assembler = assembler();
    assembler.push(&[delta("0 #a Read {"), delta("1 #b Read {}")]);
    assert_eq!(assembler.take_changed().into_iter().collect::<Vec<_>>(), [0, 1]);
    assembler.push(&[delta("0 }")]);
    assert_eq!(assembler.take_changed().into_iter().collect::<Vec<_>>(), [0]);
    assembler.finish(End::Finished);
    assert_eq!(assembler.take_changed().into_iter().collect::<Vec<_>>(), [0, 1]);
    assert!(assembler.take_changed().is_empty());
}

#[test]
fn a_finish_reason_looks_only_at_what_came_since_the_one_before() {
    let mut assembler = assembler();
    assembler.push(&[delta(r#"0 #a Read {"x":1}{"x":2}{"x":3}"#)]);
    assert_eq!(assembler.finish_reason(), [Step::Sealed(Slot(2))]);
    assert!(assembler.unsealed.is_empty());

    assembler.push(&[delta("1 #b Read {")]);
    for _ in 0..2 {
        assert_eq!(assembler.finish_reason(), []);
        assert_eq!((&assembler.half_open, &assembler.unsealed), (&[3].into(), &[3].into()));
    }
    assembler.push(&[delta(r#"1 "x":4}"#)]);
    assert!(assembler.half_open.is_empty());
    assert_eq!(assembler.finish_reason(), [Step::Sealed(Slot(3))]);
}

/// The calls of the pieces of one call and what comes behind them.
#[track_caller]
fn check_echo(behind: &[&str], expected: &[&str]) {
    let deltas = [&[r#"0 #a Bash {"command":"#, r#"0 "x",""#, r#"0 n":1}"#], behind].concat();
    check(&deltas, expected);
}

#[test]
fn wire_01_arguments_that_come_once_more_whole_are_one_call() {
    let one = r#"a Bash {"command":"x","n":1}"#;
    for echo in [
        r#"0 {"command":"x","n":1}"#,
        r#"0 #a {"command":"x","n":1}"#,
        r#"0 #a Bash {"command":"x","n":1}"#,
        r#"0 Bash {"command":"x","n":1}"#,
        r#"- {"command":"x","n":1}"#,
        r#"- #a Bash {"command":"x","n":1}"#,
        r#"7 #a Bash {"command":"x","n":1}"#,
        // As another program writes it.
        r#"0 { "n": 1, "command": "x" }"#,
    ] {
        check_echo(&[echo], &[one]);
        check_echo(&[echo, echo], &[one]);
    }
    // The echo in pieces in its turn.
    check_echo(&[r#"0 {"command":"x""#, r#"0 ,"n":1}"#], &[one]);
    check_echo(
        &[r#"1 #b Read {"p":1}"#, r#"0 {"command":"x","n":1}"#],
        &[one, r#"b Read {"p":1}"#],
    );
    check_steps(
        &[r#"0 #a Bash {"p":"#, "0 1}", r#"0 #a Bash {"p":1}"#],
        End::Finished,
        &["open 0", "close 0", "open 1", "seal 0", "echo 1"],
    );
}

#[test]
fn wire_01_pieces_without_an_id_have_their_echo_with_one() {
    check(&[r#"0 Bash {"p":"#, "0 1}", r#"0 #a Bash {"p":1}"#], &[r#"* Bash {"p":1}"#]);
    check(
        &[r#"0 Bash {"p":1}"#, r#"0 #a Read {"p":1}"#],
        &[r#"* Bash {"p":1}"#, r#"a Read {"p":1}"#],
    );
}

#[test]
fn wire_01_other_arguments_or_another_id_are_another_call() {
    let one = r#"a Bash {"command":"x","n":1}"#;
    check_echo(&[r#"0 {"command":"x","n":2}"#], &[one, r#"a_2 Bash {"command":"x","n":2}"#]);
    check_echo(&[r#"0 #b Bash {"command":"x","n":1}"#], &[one, r#"b Bash {"command":"x","n":1}"#]);
    check_echo(&[r#"1 #a Grep {"command":"x","n":1}"#], &[one, r#"* Grep {"command":"x","n":1}"#]);
}

#[test]
fn wire_01_an_empty_object_under_a_known_id_is_no_further_call() {
    check_steps(
        &["0 #a ListTasks {}", "1 #a ListTasks {}"],
        End::Finished,
        &["open 0", "close 0", "open 1", "seal 0", "echo 1"],
    );
    check(&["0 #a Read {}", "1 #a Read {}", r#"1 {"p":1}"#], &["a Read {}", r#"* Read {"p":1}"#]);
}

#[test]
fn an_echo_that_is_cut_is_a_cut() {
    let (steps, assembler) = run(&[r#"0 #a Bash {"p":1}"#, r#"0 {"p""#], End::Finished);
    assert_eq!(steps, ["open 0", "close 0", "open 1", "seal 0"]);
    assert!(assembler.is_cut());
}

#[test]
fn wire_09_a_name_that_is_no_tools_goes_back_mended() {
    let mut assembler = Assembler::new(|name| name == "my.tool");
    for name in ["my.tool", "Read<|channel|>commentary", "functions.Read"] {
        let name = Some(name.to_owned());
        assembler.push(&[CallDelta { name, id: None, ..delta("- {}") }]);
    }
    let names = assembler.calls().iter().map(|call| assembler.to_message(call));
    let names: Vec<_> = names.map(|entry| entry["function"]["name"].clone()).collect();
    assert_eq!(names, ["my.tool", "Read__channel__commentary", "functions_Read"]);
}

#[test]
fn half_a_surrogate_pair_in_arguments_is_replaced_and_noted() {
    let (steps, assembler) = run(&[r#"0 #a Read {"p":"a\ud83d""#, "0 }"], End::Finished);
    assert_eq!(steps, ["open 0", "close 0", "seal 0"]);
    let call = &assembler.calls()[0];
    assert_eq!(call.input, Some(json!({ "p": "a\u{fffd}" })));
    assert!(call.note.is_some_and(|note| note.contains("U+FFFD")));
    assert_eq!(assembler.to_message(call)["function"]["arguments"], r#"{"p":"a\ufffd"}"#);

    let (_, assembler) = run(&[r#"0 #a Read {"p":"\ud83d"#, r#"0 \ude00"}"#], End::Finished);
    let call = &assembler.calls()[0];
    assert_eq!((&call.input, call.note), (&Some(json!({ "p": "😀" })), None));

    // In the name of a member, in a nested text, and in arguments that are quoted.
    for (arguments, expected) in [
        (r#"{"\ud83d":1}"#, json!({ "\u{fffd}": 1 })),
        (r#"{"p":[{"q":"\ude00x"}]}"#, json!({ "p": [{ "q": "\u{fffd}x" }] })),
        (r#""{\"p\":\"\\ud83d\"}""#, json!({ "p": "\u{fffd}" })),
        (r#""{\"p\":\"\ud83d\"}""#, json!({ "p": "\u{fffd}" })),
    ] {
        let (_, assembler) = run(&[&format!("0 #a Read {arguments}")], End::Finished);
        let call = &assembler.calls()[0];
        assert_eq!(call.input, Some(expected), "{arguments}");
        assert!(call.note.is_some_and(|note| note.contains("U+FFFD")), "{arguments}");
        let sent = assembler.to_message(call)["function"]["arguments"].to_string();
        assert!(sent.contains("fffd") || sent.contains('\u{fffd}'), "{sent}");
    }
}

#[test]
fn wire_01_pieces_that_each_repeat_all_before_them_are_one_call() {
    let one = r#"a Bash {"command":"echo {x}","n":1}"#;
    check(
        &[
            "0 #a Bash {",
            r#"0 {"command":"#,
            r#"0 {"command":"echo {x}""#,
            r#"0 {"command":"echo {x}","n":1}"#,
        ],
        &[one],
    );
    // The pieces lack their end, and the whole comes behind them.
    check(
        &[r#"0 #a Bash {"command":"#, r#"0 "echo {x}","n":1"#, r#"0 {"command":"echo {x}","n":1}"#],
        &[one],
    );
    check(
        &[r#"0 #a Bash {"c""#, r#"0 {"c":1}"#, r#"0 {"c":1}"#, r#"1 #b Read {"p":1}"#],
        &[r#"a Bash {"c":1}"#, r#"b Read {"p":1}"#],
    );
    // An object that begins like the one around it is what it says.
    check(&[r#"0 #a Bash {"a":"#, r#"0 {"a":1}"#, "0 }"], &[r#"a Bash {"a":{"a":1}}"#]);
}

#[test]
fn arguments_that_are_quoted_once_too_often_are_what_they_say() {
    let whole = r#"a Bash {"command":"say \"hi\""}"#;
    let quoted = format!("0 #a Bash {}", json!(r#"{"command":"say \"hi\""}"#));
    check(&[&quoted], &[whole]);
    for cut in 12..quoted.len() {
        let (one, two) = quoted.split_at(cut);
        check(&[one, &format!("0 {two}")], &[whole]);
    }
    check(&[r#"0 #a Read "{}""#], &["a Read {}"]);
    for wrong in [r#""[1]""#, r#""hi""#, r#""{\"a\":""#, r#""{}" x"#, r#""a\q""#] {
        let (steps, _) = run(&[&format!("0 #a Read {wrong}")], End::Finished);
        assert!(steps.contains(&"invalid 0".to_owned()), "{wrong}: {steps:?}");
    }
    let (_, assembler) = run(&[r#"0 #a Read "{\"p\""#], End::Finished);
    assert!(assembler.is_cut());
}

#[test]
fn pieces_that_repeat_a_part_of_the_arguments_are_kept() {
    check(
        &[r#"0 #a Bash {"c":"fixed-step"#, "0 -step", "0 -counts", "0 00", "0 00\"}"],
        &[r#"a Bash {"c":"fixed-step-step-counts0000"}"#],
    );
    check(&[r#"0 #a Bash {"c":[{"#, "0 },", "0 {", "0 }]}"], &[r#"a Bash {"c":[{},{}]}"#]);
}
