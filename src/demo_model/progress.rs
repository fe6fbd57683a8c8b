//! Decides which calls of the plan are still to be made.
//!
//! Compares the plan with the calls of the conversation, by name and arguments. The
//! conversation may lack calls that were made: a client is not shown the calls of the
//! server's tools. It may also lack calls that were withdrawn, because the client's tools
//! were called beside them. So calls that are missing from an earlier round were made, and
//! those that are missing from the round of the last call were not.

use serde_json::Value;

use super::grammar::Call;
use super::messages::MadeCall;

/// How far the conversation has come with the plan.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Progress<'a> {
    /// Calls of earlier rounds that the conversation does not show.
    pub(super) hidden: Vec<&'a Call>,
    /// The calls to make now; none if the plan is done.
    pub(super) next: Vec<&'a Call>,
}

struct Planned<'a> {
    round: usize,
    call: &'a Call,
    arguments: String,
    is_made: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn new<'m>(plan: &'a [Vec<Call>], made: impl Iterator<Item = &'m MadeCall>) -> Self {
        let mut planned = planned(plan);
        let mut round = 0;
        for made in made {
            if let Some(found) = matching(&mut planned, round, made) {
                found.is_made = true;
                round = found.round;
            }
        }
        let is_done = planned.iter().all(|call| call.round != round || call.is_made);
        let now = if is_done { round + 1 } else { round };
        let missing = planned.iter().filter(|call| !call.is_made);
        let (hidden, rest): (Vec<_>, Vec<_>) = missing.partition(|call| call.round < now);
        Self {
            hidden: hidden.into_iter().map(|call| call.call).collect(),
            next: rest.into_iter().filter(|call| call.round == now).map(|call| call.call).collect(),
        }
    }
}

fn planned(plan: &[Vec<Call>]) -> Vec<Planned<'_>> {
    let calls = plan.iter().enumerate().flat_map(|(round, calls)| {
        calls.iter().map(move |call| Planned {
            round,
            call,
            arguments: canonical(&call.arguments),
            is_made: false,
        })
    });
    calls.collect()
}

/// The planned call that was made: the first with these arguments from `round` on, else the
/// first of this name. A client may have normalised the arguments, and would be called again
/// for ever if that made them another call.
fn matching<'p, 'a>(
    planned: &'p mut [Planned<'a>],
    round: usize,
    made: &MadeCall,
) -> Option<&'p mut Planned<'a>> {
    let arguments = match made.arguments.trim() {
        "" => "{}".to_owned(),
        text => {
            serde_json::from_str(text).map_or_else(|_| text.to_owned(), |json| canonical(&json))
        }
    };
    let is_open =
        |call: &Planned<'_>| !call.is_made && call.round >= round && call.call.tool == made.tool;
    let exact = planned.iter().position(|call| is_open(call) && call.arguments == arguments);
    let found = exact.or_else(|| planned.iter().position(is_open))?;
    planned.get_mut(found)
}

/// The JSON text with its members in order and numbers written in one way.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let members: Vec<String> = members
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map(|number| number.to_string()).unwrap_or_default()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::grammar::rounds;
    use super::super::messages::Message;
    use super::*;

    /// Compares what is next and what is hidden, after these calls, with `expected`. Calls are
    /// written as a sentence; arguments of each are JSON.
    #[track_caller]
    fn check(sentence: &str, made: &[(&str, &str)], expected: &str) {
        let plan = rounds(sentence).unwrap();
        let calls: Vec<Value> = made
            .iter()
            .map(|(name, arguments)| json!({ "id": "", "function": { "name": name, "arguments": arguments } }))
            .collect();
        let message: Message =
            serde_json::from_value(json!({ "role": "assistant", "tool_calls": calls })).unwrap();
        let progress = Progress::new(&plan, message.tool_calls.iter());
        let named = |calls: &[&Call]| {
            let names: Vec<_> =
                calls.iter().map(|call| format!("{}{}", call.tool, call.arguments)).collect();
            names.join(" ")
        };
        let mut found = named(&progress.next);
        if !progress.hidden.is_empty() {
            found = format!("{found} (hidden: {})", named(&progress.hidden));
        }
        assert_eq!(found, expected, "{sentence} after {made:?}");
    }

    const READ_A: (&str, &str) = ("Read", r#"{"file_path":"a"}"#);
    const A: &str = r#"Read{"file_path":"a"}"#;

    #[test]
    fn rounds_follow_each_other() {
        check("read a then run b", &[], A);
        check("read a then run b", &[READ_A], r#"Bash{"command":"b"}"#);
        check("read a then run b", &[READ_A, ("Bash", r#"{"command":"b"}"#)], "");
    }

    #[test]
    fn the_servers_call_that_was_withdrawn_is_made_when_the_client_returns() {
        let sentence = r#"read a and call w with {"x": 1} then run b"#;
        check(sentence, &[], &format!(r#"{A} w{{"x":1}}"#));
        check(sentence, &[("w", r#"{"x":1}"#)], A);
        check(sentence, &[("w", r#"{"x":1}"#), READ_A], r#"Bash{"command":"b"}"#);
    }

    #[test]
    fn a_hidden_call_of_an_earlier_round_is_not_made_again() {
        let sentence = r#"run b then call w with {"x": 1} then read a"#;
        let hidden = r#" (hidden: Bash{"command":"b"})"#;
        check(sentence, &[("w", r#"{ "x" : 1.0 }"#)], &format!("{A}{hidden}"));
        check(sentence, &[("w", r#"{"x":1}"#), READ_A], hidden);
    }

    #[test]
    fn equal_calls_count_one_by_one() {
        check("read a then call w then read a", &[READ_A], "w{}");
        check("read a then call w then read a", &[READ_A, ("w", "")], A);
        check("read a then call w then read a", &[READ_A, ("w", "{}"), READ_A], "");
        // The first one is hidden behind the client's list.
        check("read a then call w then read a", &[("w", "{}")], &format!("{A} (hidden: {A})"));
        check("read a then call w then read a", &[("w", "{}"), READ_A], &format!(" (hidden: {A})"));
        check("read a and read a", &[READ_A], A);
    }

    #[test]
    fn parallel_calls_may_be_told_in_any_order() {
        let sentence = r#"call w with {"x": 1} and call w with {"x": 2, "y": null}"#;
        check(sentence, &[("w", r#"{"y":null,"x":2}"#)], r#"w{"x":1}"#);
        check(sentence, &[("w", r#"{"y":null,"x":2}"#), ("w", r#"{"x":1}"#)], "");
    }

    #[test]
    fn arguments_that_a_client_normalised_are_no_other_call() {
        let sentence = r#"call w with {"x": 1, "unknown": 2} then read a"#;
        check(sentence, &[("w", r#"{"x":1,"unit":"C"}"#)], A);
        check(sentence, &[("w", "no JSON")], A);
    }

    #[test]
    fn calls_that_nobody_planned_change_nothing() {
        check("read a", &[("other", "{}")], A);
    }
}
