//! Judges a call in a fixed order: deny rules, the mode, the sandbox, hard links, allow rules.
//! An ask rule then turns a permission into a question. Pure: the same call under the same
//! policy always gets the same verdict.

use std::sync::Arc;

use super::Sandbox;
use super::kind::AccessKind;
use super::mode::Mode;
use super::rules::Rules;

/// The settings that apply to every call of a session.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) mode: Mode,
    pub(super) sandbox: Sandbox,
    pub(super) rules: Arc<Rules>,
}

/// The effect of a call, as far as the verdict depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessEffect {
    Read,
    /// `names` is the number of hard links of the file that would be replaced.
    Write {
        names: u64,
    },
    Command,
    Nothing,
}

impl AccessEffect {
    fn kind(self) -> AccessKind {
        match self {
            Self::Read => AccessKind::Read,
            Self::Write { .. } => AccessKind::Edit,
            Self::Command => AccessKind::Command,
            Self::Nothing => AccessKind::None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PolicyVerdict {
    Allow,
    /// A person must approve the call. `why` gives the reason, `remedy` tells the operator
    /// which setting avoids the question.
    Ask {
        why: Option<String>,
        remedy: String,
    },
    Deny(String),
}

impl Policy {
    pub(super) fn judge(&self, tool: &str, effect: AccessEffect) -> PolicyVerdict {
        let kind = effect.kind();
        if let Some(rule) = self.rules.denying(tool, kind) {
            return PolicyVerdict::Deny(format!(
                "the rule `{rule}` in `permissions.deny` forbids {tool}"
            ));
        }
        let verdict = self.judge_without_ask_rules(tool, effect);
        match self.rules.asking(tool, kind) {
            Some(rule) => with_ask_rule(rule, verdict),
            None => verdict,
        }
    }

    /// Judges a call that no deny rule covers, without the ask rules.
    fn judge_without_ask_rules(&self, tool: &str, effect: AccessEffect) -> PolicyVerdict {
        if self.mode == Mode::Plan && changes(effect) {
            return PolicyVerdict::Deny(format!(
                "{tool} is not available in the mode plan, which only looks; \
                 another mode is chosen with `--permission-mode` or in the request"
            ));
        }
        if effect == AccessEffect::Command && self.sandbox != Sandbox::Off {
            return self.judge_without_sandbox(tool);
        }
        if self.mode == Mode::BypassPermissions {
            return PolicyVerdict::Allow;
        }
        if let AccessEffect::Write { names } = effect
            && names > 1
        {
            return shared_file(names);
        }
        if self.rules.allows(tool, effect.kind()) || !changes(effect) {
            return PolicyVerdict::Allow;
        }
        PolicyVerdict::Ask { why: None, remedy: format!("with {}", rule_or_mode(tool)) }
    }

    /// Judges a command that would run without a sandbox. Nothing confines it, so no rule and
    /// no mode can replace a person's approval.
    fn judge_without_sandbox(&self, tool: &str) -> PolicyVerdict {
        if self.sandbox == Sandbox::Required {
            return PolicyVerdict::Deny(format!(
                "{tool} runs only in a sandbox here (`--sandbox required`), and there is none"
            ));
        }
        let off = "with `--sandbox off` (commands then have all rights of the server's user)";
        let is_allowed =
            self.mode == Mode::BypassPermissions || self.rules.allows(tool, AccessKind::Command);
        let also = if is_allowed { String::new() } else { format!(" and {}", rule_or_mode(tool)) };
        let why = Some("there is no sandbox to run it in".to_owned());
        PolicyVerdict::Ask { why, remedy: format!("{off}{also}") }
    }
}

fn changes(effect: AccessEffect) -> bool {
    matches!(effect, AccessEffect::Write { .. } | AccessEffect::Command)
}

fn rule_or_mode(tool: &str) -> String {
    format!("`permissions.allow = [\"{tool}\"]` or `--permission-mode bypassPermissions`")
}

fn shared_file(names: u64) -> PolicyVerdict {
    PolicyVerdict::Ask {
        why: Some(format!(
            "the file has {names} hard links, and replacing it would part it from the others"
        )),
        remedy: "with `--permission-mode bypassPermissions`, or give this name a copy of its own"
            .to_owned(),
    }
}

/// Turns a verdict into the one under an ask rule.
fn with_ask_rule(rule: &str, verdict: PolicyVerdict) -> PolicyVerdict {
    let mut remedy = format!("by taking `{rule}` out of `permissions.ask`");
    match verdict {
        PolicyVerdict::Deny(_) => return verdict,
        PolicyVerdict::Ask { remedy: more, .. } => remedy = format!("{remedy}, and {more}"),
        PolicyVerdict::Allow => {}
    }
    PolicyVerdict::Ask { why: Some(format!("the rule `{rule}` says to ask")), remedy }
}

/// Why nobody answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The mode denies what would ask.
    DontAsk,
    /// There is no channel to a person.
    Nobody,
}

/// The refusal of a call that needs an approval where nobody can be asked, for the model.
pub(crate) fn unanswered(
    tool: &str,
    why: Option<&str>,
    remedy: &str,
    no_answer: NoAnswer,
) -> String {
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    let nobody = match no_answer {
        NoAnswer::DontAsk => "the mode dontAsk denies what would ask",
        NoAnswer::Nobody => "approvals are not available here",
    };
    format!("{tool} needs an approval{why}, and {nobody}. The operator can allow it {remedy}")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::rules::{KnownTool, PermissionSettings};
    use super::*;

    const KNOWN: [KnownTool<'_>; 3] = [
        KnownTool { name: "Read", aliases: &[], access: AccessKind::Read },
        KnownTool { name: "Write", aliases: &[], access: AccessKind::Edit },
        KnownTool { name: "Bash", aliases: &["shell"], access: AccessKind::Command },
    ];
    const READ: (&str, AccessEffect) = ("Read", AccessEffect::Read);
    const WRITE: (&str, AccessEffect) = ("Write", AccessEffect::Write { names: 1 });
    const LINKED: (&str, AccessEffect) = ("Write", AccessEffect::Write { names: 2 });
    const BASH: (&str, AccessEffect) = ("Bash", AccessEffect::Command);

    /// `lists` holds rules such as `allow Write` or `ask Bash`, separated by commas.
    fn judged(mode: Mode, sandbox: Sandbox, lists: &str, call: (&str, AccessEffect)) -> String {
        let mut settings = PermissionSettings { mode, ..PermissionSettings::default() };
        for (list, rule) in lists.split(',').filter_map(|entry| entry.trim().split_once(' ')) {
            let list = match list {
                "allow" => &mut settings.allow,
                "ask" => &mut settings.ask,
                _ => &mut settings.deny,
            };
            list.push(rule.to_owned());
        }
        let rules = Arc::new(Rules::parse(&settings, &KNOWN).unwrap());
        let (tool, effect) = call;
        let verdict = Policy { mode, sandbox, rules }.judge(tool, effect);
        match verdict {
            PolicyVerdict::Allow => "allowed".to_owned(),
            PolicyVerdict::Deny(message) => message,
            PolicyVerdict::Ask { why, remedy } => {
                let no_answer =
                    if mode == Mode::DontAsk { NoAnswer::DontAsk } else { NoAnswer::Nobody };
                unanswered(tool, why.as_deref(), &remedy, no_answer)
            }
        }
    }

    const MODES: [Mode; 4] = [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::BypassPermissions];

    fn by_mode(sandbox: Sandbox, lists: &str, call: (&str, AccessEffect)) -> String {
        MODES.map(|mode| format!("{mode}: {}", judged(mode, sandbox, lists, call))).join("\n")
    }

    #[test]
    fn reading_is_allowed_in_every_mode() {
        for mode in MODES {
            assert_eq!(judged(mode, Sandbox::Auto, "", READ), "allowed");
        }
    }

    #[test]
    fn writing_without_a_rule() {
        assert_snapshot!(by_mode(Sandbox::Auto, "", WRITE), @r#"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval, and the mode dontAsk denies what would ask. The operator can allow it with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        default: Write needs an approval, and approvals are not available here. The operator can allow it with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        bypassPermissions: allowed
        "#);
    }

    #[test]
    fn writing_with_an_allow_rule() {
        assert_snapshot!(by_mode(Sandbox::Auto, "allow Write", WRITE), @r"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: allowed
        default: allowed
        bypassPermissions: allowed
        ");
    }

    #[test]
    fn replacing_a_file_with_several_names() {
        assert_snapshot!(by_mode(Sandbox::Auto, "allow Write", LINKED), @r"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval (the file has 2 hard links, and replacing it would part it from the others), and the mode dontAsk denies what would ask. The operator can allow it with `--permission-mode bypassPermissions`, or give this name a copy of its own
        default: Write needs an approval (the file has 2 hard links, and replacing it would part it from the others), and approvals are not available here. The operator can allow it with `--permission-mode bypassPermissions`, or give this name a copy of its own
        bypassPermissions: allowed
        ");
    }

    #[test]
    fn a_command_where_there_is_no_sandbox() {
        assert_snapshot!(by_mode(Sandbox::Auto, "", BASH), @r#"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval (there is no sandbox to run it in), and the mode dontAsk denies what would ask. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user) and `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        default: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user) and `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        bypassPermissions: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        "#);
        assert_snapshot!(by_mode(Sandbox::Auto, "allow Bash", BASH), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval (there is no sandbox to run it in), and the mode dontAsk denies what would ask. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        default: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        bypassPermissions: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        ");
    }

    #[test]
    fn a_command_where_a_sandbox_is_required() {
        assert_snapshot!(by_mode(Sandbox::Required, "allow Bash", BASH), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        default: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        bypassPermissions: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        ");
    }

    #[test]
    fn a_command_where_the_sandbox_is_off() {
        assert_snapshot!(by_mode(Sandbox::Off, "", BASH), @r#"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval, and the mode dontAsk denies what would ask. The operator can allow it with `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        default: Bash needs an approval, and approvals are not available here. The operator can allow it with `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        bypassPermissions: allowed
        "#);
        assert_snapshot!(by_mode(Sandbox::Off, "allow shell", BASH), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: allowed
        default: allowed
        bypassPermissions: allowed
        ");
    }

    #[test]
    fn deny_and_ask_rules_hold_in_every_mode() {
        assert_snapshot!(by_mode(Sandbox::Off, "deny shell, allow Bash", BASH), @r"
        plan: the rule `shell` in `permissions.deny` forbids Bash
        dontAsk: the rule `shell` in `permissions.deny` forbids Bash
        default: the rule `shell` in `permissions.deny` forbids Bash
        bypassPermissions: the rule `shell` in `permissions.deny` forbids Bash
        ");
        assert_snapshot!(by_mode(Sandbox::Off, "ask Bash, allow Bash", BASH), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval (the rule `Bash` says to ask), and the mode dontAsk denies what would ask. The operator can allow it by taking `Bash` out of `permissions.ask`
        default: Bash needs an approval (the rule `Bash` says to ask), and approvals are not available here. The operator can allow it by taking `Bash` out of `permissions.ask`
        bypassPermissions: Bash needs an approval (the rule `Bash` says to ask), and approvals are not available here. The operator can allow it by taking `Bash` out of `permissions.ask`
        ");
        assert_snapshot!(by_mode(Sandbox::Off, "ask Write", WRITE), @r#"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval (the rule `Write` says to ask), and the mode dontAsk denies what would ask. The operator can allow it by taking `Write` out of `permissions.ask`, and with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        default: Write needs an approval (the rule `Write` says to ask), and approvals are not available here. The operator can allow it by taking `Write` out of `permissions.ask`, and with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        bypassPermissions: Write needs an approval (the rule `Write` says to ask), and approvals are not available here. The operator can allow it by taking `Write` out of `permissions.ask`
        "#);
    }
}
