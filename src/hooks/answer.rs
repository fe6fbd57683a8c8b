//! Reads what a hook says: its exit code, and what it printed. Pure.

use serde::Deserialize;
use serde_json::Value;

use super::event::HookEvent;
use crate::openai::chunk::surrogates;
use crate::text;

/// The characters of a hook's text that a model or a person is shown.
const MAX_SHOWN_CHARS: usize = 10_000;

/// The exit code by which a hook blocks.
const BLOCKS: i32 = 2;

/// A program that ended by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct HookEnd {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// The reason why a program that was started has no answer that counts. The text follows the hook's
/// name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HookFault {
    /// The hook could not do its work, or its answer could not be read to the end: nobody knows
    /// what it would have said.
    NoAnswer(String),
    /// The hook ended in a way that the protocol counts as saying nothing.
    SaysNothing(String),
}

/// What one hook says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HookAnswer {
    pub(super) decision: HookDecision,
    /// The arguments that the call shall have.
    pub(super) changed_input: Option<Value>,
    /// For the model.
    pub(super) context: Option<String>,
    /// Ends the turn, with this as its last text.
    pub(super) ends_turn: Option<String>,
    /// For the person only.
    pub(super) notice: Option<String>,
}

/// What a hook decides, the strongest last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum HookDecision {
    #[default]
    None,
    Allow,
    Ask(String),
    /// Blocked, or where something has happened already: a remark on it.
    Deny(String),
}

impl HookAnswer {
    /// A person must decide.
    pub(super) fn asks(reason: &str) -> Self {
        Self { decision: HookDecision::Ask(reason.to_owned()), ..Self::default() }
    }
}

/// The JSON that a hook prints. Members that are not known mean nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Printed {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<PlainDecision>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
}

/// The older form of a decision.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PlainDecision {
    Approve,
    Block,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Specific {
    permission_decision: Option<Permission>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
    /// The form of `PermissionRequest`.
    decision: Option<RequestDecision>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Permission {
    Allow,
    Deny,
    Ask,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestDecision {
    behavior: Permission,
    message: Option<String>,
    updated_input: Option<Value>,
}

/// The exit codes by which bash says that it could not run a program, or found none. So does
/// `env`.
const NOT_RUN: [i32; 2] = [126, 127];

/// What the end of a hook means; an error says what is wrong with it.
pub(super) fn read(event: HookEvent, end: &HookEnd) -> Result<HookAnswer, HookFault> {
    match end.code {
        0 => printed(event, end.stdout.trim()),
        BLOCKS => Ok(blocked(event, &end.stderr)),
        code => {
            let fault = with_last_words(format!("ended with code {code}"), &end.stderr);
            let is_run = !NOT_RUN.contains(&code);
            Err(if is_run { HookFault::SaysNothing(fault) } else { HookFault::NoAnswer(fault) })
        }
    }
}

/// A fault, and what the hook said on standard error.
pub(super) fn with_last_words(fault: String, stderr: &str) -> String {
    let said = shown(stderr.trim());
    if said.is_empty() { fault } else { format!("{fault}: {said}") }
}

fn blocked(event: HookEvent, stderr: &str) -> HookAnswer {
    let said = shown(stderr.trim());
    let reason =
        if said.is_empty() { "a hook blocks it, without a reason".to_owned() } else { said };
    decided(event, HookDecision::Deny(reason))
}

/// Where nothing can be denied, the reason is for the person.
fn decided(event: HookEvent, decision: HookDecision) -> HookAnswer {
    use HookEvent::{Notification, SessionEnd, SessionStart};
    match (event, decision) {
        (SessionStart | SessionEnd | Notification, HookDecision::Deny(reason)) => {
            HookAnswer { notice: Some(reason), ..HookAnswer::default() }
        }
        (_, decision) => HookAnswer { decision, ..HookAnswer::default() },
    }
}

/// Stands for what is left out of a very long output.
pub(super) const MORE_IS_NOT_READ: &str = "more than a megabyte is not read";

/// Members of the JSON of a hook that decides, and spellings that people use for them.
const DECIDING: [&str; 4] =
    ["permissionDecision", "permission_decision", "decision", "hook_specific_output"];

/// Whether the text may hold a decision. One that nobody finds must not pass for none.
fn may_decide(event: HookEvent, stdout: &str) -> bool {
    let names = |member: &&str| stdout.contains(&format!("\"{member}\""));
    event.is_gate()
        && (DECIDING.iter().any(names)
            || stdout.contains("hookSpecificOutput")
            || stdout.contains("permissionDecision")
            || stdout.contains("\"continue\""))
}

/// Whether a member of the object, or of its specific output, decides.
fn decides(printed: &Value) -> bool {
    let Some(members) = printed.as_object() else { return false };
    members.iter().any(|(name, value)| {
        let is_decision = DECIDING.contains(&name.as_str()) && !value.is_null();
        is_decision || (name == "hookSpecificOutput" && decides(value))
    })
}

/// Whether the text begins with a whole object that means to decide, whatever follows it.
fn first_object_decides(stdout: &str) -> bool {
    let mut objects = serde_json::Deserializer::from_str(stdout).into_iter::<Value>();
    let Some(Ok(first)) = objects.next() else { return false };
    decides(&first) || first.get("continue").is_some_and(|goes_on| !goes_on.is_boolean())
}

fn printed(event: HookEvent, stdout: &str) -> Result<HookAnswer, HookFault> {
    let stdout = stdout.trim_start_matches('\u{feff}').trim_start();
    if !stdout.starts_with('{') {
        if may_decide(event, stdout) {
            let fault = "printed a decision among other text: print one JSON object alone";
            return Err(HookFault::NoAnswer(fault.to_owned()));
        }
        let is_decision = event.is_gate() && !event.takes_plain_context();
        if is_decision && stdout.contains(MORE_IS_NOT_READ) {
            let fault = "printed more than a megabyte in front of its answer";
            return Err(HookFault::NoAnswer(fault.to_owned()));
        }
        let context = event.takes_plain_context() && !stdout.is_empty();
        let context = context.then(|| shown(stdout));
        return Ok(HookAnswer { context, ..HookAnswer::default() });
    }
    let printed: Result<Printed, _> = serde_json::from_str(&surrogates::repaired(stdout));
    match printed {
        Ok(printed) => {
            let answer = meant(event, printed);
            let is_silent = answer.decision == HookDecision::None && event.is_gate();
            if is_silent && serde_json::from_str(stdout).is_ok_and(|printed| decides(&printed)) {
                let fault = "printed a decision that is none of allow, deny and ask";
                return Err(HookFault::NoAnswer(fault.to_owned()));
            }
            Ok(answer)
        }
        // The protocol lets JSON pass that does not parse. This does: a word of it is another.
        Err(error) if event.is_gate() && first_object_decides(stdout) => {
            Err(HookFault::NoAnswer(format!("printed a decision that cannot be read: {error}")))
        }
        Err(error) => {
            let fault = format!("printed JSON that cannot be read: {error}");
            // What we have cut is no fault of the hook's.
            let is_cut = stdout.contains(MORE_IS_NOT_READ);
            Err(if is_cut { HookFault::NoAnswer(fault) } else { HookFault::SaysNothing(fault) })
        }
    }
}

fn meant(event: HookEvent, printed: Printed) -> HookAnswer {
    let specific = printed.hook_specific_output.unwrap_or_default();
    let (by_request, of_request, request_input) = match specific.decision {
        Some(decision) => (Some(decision.behavior), decision.message, decision.updated_input),
        None => (None, None, None),
    };
    let by_plain = printed.decision.map(|decision| match decision {
        PlainDecision::Approve => Permission::Allow,
        PlainDecision::Block => Permission::Deny,
    });
    let reason = of_request.or(specific.permission_decision_reason).or(printed.reason);
    let reason = reason.map(|reason| shown(reason.trim())).filter(|reason| !reason.is_empty());
    let decision = match by_request.or(specific.permission_decision).or(by_plain) {
        None => HookDecision::None,
        Some(Permission::Allow) => HookDecision::Allow,
        Some(Permission::Ask) => {
            HookDecision::Ask(reason.unwrap_or_else(|| "a hook wants a person to decide".into()))
        }
        Some(Permission::Deny) => HookDecision::Deny(
            reason.unwrap_or_else(|| "a hook blocks it, without a reason".into()),
        ),
    };
    let ends_turn = (printed.goes_on == Some(false)).then(|| {
        let reason = printed.stop_reason.unwrap_or_default();
        let reason = shown(reason.trim());
        if reason.is_empty() { "A hook ended the turn.".to_owned() } else { reason }
    });
    let text =
        |text: Option<String>| text.map(|text| shown(text.trim())).filter(|text| !text.is_empty());
    let answer = decided(event, decision);
    HookAnswer {
        changed_input: request_input.or(specific.updated_input),
        context: text(specific.additional_context),
        ends_turn,
        notice: answer.notice.or(text(printed.system_message)),
        decision: answer.decision,
    }
}

/// `said` as a model or a person is shown it.
fn shown(said: &str) -> String {
    let head = text::first_chars(said, MAX_SHOWN_CHARS);
    let hidden = said[head.len()..].chars().count();
    if hidden == 0 {
        head.to_owned()
    } else {
        format!("{head}\n[… {hidden} characters left out …]")
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_debug_snapshot;
    use proptest::prelude::*;
    use serde_json::json;

    use super::HookEvent::*;
    use super::*;

    fn said(event: HookEvent, stdout: &str) -> Result<HookAnswer, HookFault> {
        read(event, &HookEnd { stdout: stdout.to_owned(), ..HookEnd::default() })
    }

    fn says(event: HookEvent, stdout: &Value) -> HookAnswer {
        said(event, &stdout.to_string()).unwrap()
    }

    fn decision(stdout: &Value) -> HookDecision {
        says(PreToolUse, stdout).decision
    }

    #[test]
    fn silence_decides_nothing() {
        assert_eq!(said(PreToolUse, ""), Ok(HookAnswer::default()));
        assert_eq!(said(PreToolUse, "looks fine\n"), Ok(HookAnswer::default()));
        assert_eq!(said(Stop, "[1]"), Ok(HookAnswer::default()));
    }

    /// Else a hook that denies would let everything pass because of a line before its answer.
    #[test]
    fn a_decision_that_does_not_stand_alone_is_a_fault_and_not_silence() {
        let deny = r#"{"hookSpecificOutput":{"permissionDecision":"deny"}}"#;
        let marked = said(PreToolUse, &format!("\u{feff} {deny}")).unwrap();
        assert!(matches!(marked.decision, HookDecision::Deny(_)));
        for noise in ["loading…\n", "[", "null\n"] {
            for event in [PreToolUse, PermissionRequest, UserPromptSubmit] {
                let fault = said(event, &format!("{noise}{deny}")).unwrap_err();
                let HookFault::NoAnswer(why) = fault else { panic!("{fault:?}") };
                assert!(why.contains("one JSON object alone"), "{why}");
            }
        }
        for cut in [format!("{MORE_IS_NOT_READ} x"), format!("{{\"a\": {MORE_IS_NOT_READ}")] {
            let fault = said(PreToolUse, &cut).unwrap_err();
            assert!(matches!(fault, HookFault::NoAnswer(_)), "{fault:?}");
        }
    }

    #[test]
    fn k1_a_decision_that_is_not_understood_is_a_fault_and_not_silence() {
        for printed in [
            r#"{"hookSpecificOutput":{"permissionDecision":"DENY"}}"#,
            r#"{"hookSpecificOutput":{"permissionDecision":"denied"}}"#,
            r#"{"decision":"deny"}"#,
            r#"{"decision": "maybe"}"#,
            r#"{"continue": "no"}"#,
            r#"{"hookSpecificOutput":{"permissionDecision":"deny"}} done"#,
            r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":5}}"#,
            r#"{"permissionDecision":"deny"}"#,
            r#"{"hookSpecificOutput":{"permission_decision":"deny"}}"#,
            r#"{"hook_specific_output":{"permissionDecision":"deny"}}"#,
            r#"{"continue":"false"}"#,
        ] {
            let fault = said(PreToolUse, printed).unwrap_err();
            assert!(matches!(fault, HookFault::NoAnswer(_)), "{printed}: {fault:?}");
        }
        for silent in [
            r#"{"continue":true}"#,
            r#"{"decision":null,"hookSpecificOutput":{"permissionDecision":null}}"#,
            r#"{"hookSpecificOutput":{"additionalContext":"see x"}}"#,
            r#"{"systemMessage":"fine"}"#,
        ] {
            let answer = said(PreToolUse, silent).unwrap();
            assert_eq!(answer.decision, HookDecision::None, "{silent}");
        }
    }

    #[test]
    fn a_decision_is_read_in_each_of_its_forms() {
        let deny = |reason: &str| HookDecision::Deny(reason.to_owned());
        let specific = json!({"permissionDecision": "deny", "permissionDecisionReason": "no"});
        assert_eq!(decision(&json!({"hookSpecificOutput": specific})), deny("no"));
        assert_eq!(decision(&json!({"decision": "block", "reason": "no"})), deny("no"));
        assert_eq!(decision(&json!({"decision": "approve"})), HookDecision::Allow);
        let ask = json!({"permissionDecision": "ask", "permissionDecisionReason": "sure?"});
        let asks = HookDecision::Ask("sure?".to_owned());
        assert_eq!(decision(&json!({"hookSpecificOutput": ask})), asks);
        let request = json!({"decision": {"behavior": "deny", "message": "no"}});
        assert_eq!(decision(&json!({"hookSpecificOutput": request})), deny("no"));
        let silent = decision(&json!({"decision": "block"}));
        assert_eq!(silent, deny("a hook blocks it, without a reason"));
    }

    #[test]
    fn exit_2_blocks_with_what_stands_on_standard_error() {
        let end = HookEnd {
            code: 2,
            stdout: json!({"decision": "approve"}).to_string(),
            stderr: " not there\n".to_owned(),
        };
        let deny = HookDecision::Deny("not there".to_owned());
        for event in [PreToolUse, PermissionRequest, UserPromptSubmit, Stop, PostToolUse] {
            assert_eq!(read(event, &end).unwrap().decision, deny, "{event}");
        }
        for event in [SessionStart, SessionEnd, Notification] {
            let answer = read(event, &end).unwrap();
            assert_eq!(answer.notice.as_deref(), Some("not there"), "{event}");
            assert_eq!(answer.decision, HookDecision::None, "{event}");
        }
    }

    #[test]
    fn another_code_is_a_failure() {
        let ended = |code: i32| {
            let end = HookEnd { code, stderr: "oops\n".to_owned(), ..HookEnd::default() };
            read(PreToolUse, &end).unwrap_err()
        };
        for code in [1, 3, 125, 128, 255] {
            let fault = format!("ended with code {code}: oops");
            assert_eq!(ended(code), HookFault::SaysNothing(fault));
        }
        for code in [126, 127] {
            let fault = format!("ended with code {code}: oops");
            assert_eq!(ended(code), HookFault::NoAnswer(fault), "there was no hook to run");
        }
    }

    #[test]
    fn plain_text_is_context_where_a_prompt_or_a_session_begins() {
        let context = |event| said(event, "today is a holiday\n").unwrap().context;
        assert_eq!(context(UserPromptSubmit).as_deref(), Some("today is a holiday"));
        assert_eq!(context(SessionStart).as_deref(), Some("today is a holiday"));
        assert_eq!(context(PostToolUse), None);
    }

    #[test]
    fn everything_else_is_read_from_the_json() {
        let answer = says(
            PostToolUse,
            &json!({
                "continue": false, "stopReason": "enough", "systemMessage": "seen",
                "suppressOutput": true,
                "hookSpecificOutput": {
                    "hookEventName": "PostToolUse",
                    "additionalContext": "formatted",
                    "updatedInput": {"command": "true"},
                },
            }),
        );
        assert_debug_snapshot!(answer, @r#"
        HookAnswer {
            decision: None,
            changed_input: Some(
                Object {
                    "command": String("true"),
                },
            ),
            context: Some(
                "formatted",
            ),
            ends_turn: Some(
                "enough",
            ),
            notice: Some(
                "seen",
            ),
        }
        "#);
        let silent = says(Stop, &json!({"continue": false}));
        assert_eq!(silent.ends_turn.as_deref(), Some("A hook ended the turn."));
        assert_eq!(says(Stop, &json!({"continue": true})), HookAnswer::default());
    }

    #[test]
    fn half_json_and_wrong_types_are_failures() {
        for stdout in [
            "{",
            r#"{"decision": "block""#,
            r#"{"systemMessage": 5}"#,
            "{} {}",
            &format!("{{\"a\":{}", "[".repeat(100_000)),
        ] {
            let fault = said(PreToolUse, stdout).unwrap_err();
            let HookFault::SaysNothing(why) = fault else { panic!("{fault:?}") };
            assert!(why.starts_with("printed JSON that cannot be read"), "{why}");
        }
    }

    #[test]
    fn a_lone_surrogate_does_not_undo_a_decision() {
        let stdout = r#"{"decision": "block", "reason": "no \ud83d"}"#;
        let deny = HookDecision::Deny("no \u{fffd}".to_owned());
        assert_eq!(said(PreToolUse, stdout).unwrap().decision, deny);
    }

    #[test]
    fn what_is_shown_is_cut() {
        let long = "é".repeat(10_001);
        let HookDecision::Deny(reason) = decision(&json!({"decision": "block", "reason": long}))
        else {
            panic!("it denies");
        };
        assert!(reason.ends_with("é\n[… 1 characters left out …]"));
        assert_eq!(reason.chars().filter(|it| *it == 'é').count(), 10_000);
    }

    proptest! {
        #[test]
        fn no_output_makes_it_panic(stdout in "\\PC{0,80}", code in -3i32..5) {
            for event in HookEvent::ALL {
                let end = HookEnd { code, stdout: stdout.clone(), stderr: stdout.clone() };
                let _ = read(event, &end);
                let end = HookEnd { stdout: format!("{{{stdout}"), ..end };
                let _ = read(event, &end);
            }
        }
    }
}
