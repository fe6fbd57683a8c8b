//! Judges a call in a fixed order: deny rules, the mode plan, the sandbox, what is asked about
//! whatever the mode (secrets, protected files, hard links), the mode, allow rules. An ask rule
//! then turns a permission into a question. Pure: the same call under the same policy always
//! gets the same verdict.

use std::path::Path;
use std::sync::Arc;

use super::Sandbox;
use super::kind::AccessKind;
use super::mode::Mode;
use super::path_lists::{PROTECTED, PathList, SENSITIVE};
use super::path_pattern::PatternRoots;
use super::reached::ReachedPath;
use super::rules::{RuledCall, Rules};
use crate::workspace::ResolveError;

/// Who may log in, and as whom. Writing them is denied in every mode.
const ACCOUNTS: [&str; 5] =
    ["/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d"];

/// The settings that apply to every call of a session.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) mode: Mode,
    pub(super) sandbox: Sandbox,
    pub(super) rules: Arc<Rules>,
    pub(super) roots: Arc<PatternRoots>,
}

/// The effect of a call, as far as the verdict depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessEffect<'a> {
    Read(ReachedPath<'a>),
    Write {
        path: ReachedPath<'a>,
        /// The number of hard links of the file that would be replaced.
        names: u64,
    },
    Command,
    Nothing,
}

impl<'a> AccessEffect<'a> {
    fn kind(self) -> AccessKind {
        match self {
            Self::Read(_) => AccessKind::Read,
            Self::Write { .. } => AccessKind::Edit,
            Self::Command => AccessKind::Command,
            Self::Nothing => AccessKind::None,
        }
    }

    pub(super) fn reached(self) -> Option<ReachedPath<'a>> {
        match self {
            Self::Read(path) | Self::Write { path, .. } => Some(path),
            Self::Command | Self::Nothing => None,
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
    pub(super) fn judge(&self, tool: &str, effect: AccessEffect<'_>) -> PolicyVerdict {
        let call = self.ruled(tool, effect);
        if let Some(rule) = self.rules.denying(call) {
            return PolicyVerdict::Deny(denied_by(rule, tool));
        }
        let verdict = self.judge_without_ask_rules(tool, effect);
        match self.rules.asking(call) {
            Some(rule) => with_ask_rule(rule, verdict),
            None => verdict,
        }
    }

    fn ruled<'a>(&'a self, tool: &'a str, effect: AccessEffect<'a>) -> RuledCall<'a> {
        let (kind, reached) = (effect.kind(), effect.reached());
        RuledCall { tool, kind, reached, roots: &self.roots }
    }

    /// Judges a call that no deny rule covers, without the ask rules.
    fn judge_without_ask_rules(&self, tool: &str, effect: AccessEffect<'_>) -> PolicyVerdict {
        if self.mode == Mode::Plan && changes(effect) {
            return PolicyVerdict::Deny(format!(
                "{tool} is not available in the mode plan, which only looks; \
                 another mode is chosen with `--permission-mode` or in the request"
            ));
        }
        if effect == AccessEffect::Command && self.sandbox != Sandbox::Off {
            return self.judge_without_sandbox(tool);
        }
        if let AccessEffect::Write { path, .. } = effect
            && let Some(account) = ACCOUNTS.iter().find(|account| path.real.starts_with(account))
        {
            return PolicyVerdict::Deny(format!("no tool writes to {account}, in any mode"));
        }
        // With the sandbox off, commands reach every place anyway.
        let is_outside = effect.reached().is_some_and(|path| path.is_outside);
        if self.mode == Mode::BypassPermissions && (!is_outside || self.sandbox == Sandbox::Off) {
            return PolicyVerdict::Allow;
        }
        if let Some(question) = self.asks_in_every_mode(tool, effect) {
            return question;
        }
        let accepts = self.mode == Mode::AcceptEdits && effect.kind() == AccessKind::Edit;
        if accepts || !changes(effect) || self.rules.allows(self.ruled(tool, effect)) {
            return PolicyVerdict::Allow;
        }
        PolicyVerdict::Ask { why: None, remedy: format!("with {}", rule_or_mode(tool)) }
    }

    /// What is asked about although the mode or a rule for many files would allow it.
    fn asks_in_every_mode(&self, tool: &str, effect: AccessEffect<'_>) -> Option<PolicyVerdict> {
        let path = effect.reached()?;
        let call = self.ruled(tool, effect);
        let asks = |list: &PathList, what: &str| {
            let pattern = path.on(list).filter(|_| !self.rules.allows_by_name(call, list))?;
            Some(listed_path(tool, pattern, what))
        };
        let secret = || asks(&SENSITIVE, "may hold secrets");
        let outside = || {
            let is_named = !path.is_outside || self.rules.allows_outside(call);
            (!is_named).then(|| outside(tool, path))
        };
        let AccessEffect::Write { names, .. } = effect else { return secret().or_else(outside) };
        let protected = || asks(&PROTECTED, "decides what other programs run");
        let shared = || (names > 1).then(|| shared_file(names));
        secret().or_else(protected).or_else(outside).or_else(shared)
    }

    /// Whether a rule denies the tool reading this path, so that nothing may tell of it.
    pub(super) fn hides(&self, tool: &str, path: &Path, is_directory: bool) -> bool {
        let reached = ReachedPath::met(path, is_directory, &self.roots);
        self.rules.denying(self.ruled(tool, AccessEffect::Read(reached))).is_some()
    }

    /// Whether the file may hold secrets, and no rule names it.
    pub(super) fn keeps_secret(&self, tool: &str, file: &Path) -> bool {
        let reached = ReachedPath::met(file, false, &self.roots);
        let call = self.ruled(tool, AccessEffect::Read(reached));
        reached.on(&SENSITIVE).is_some() && !self.rules.allows_by_name(call, &SENSITIVE)
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
        let is_allowed = self.mode == Mode::BypassPermissions
            || self.rules.allows(self.ruled(tool, AccessEffect::Command));
        let also = if is_allowed { String::new() } else { format!(" and {}", rule_or_mode(tool)) };
        let why = Some("there is no sandbox to run it in".to_owned());
        PolicyVerdict::Ask { why, remedy: format!("{off}{also}") }
    }
}

fn changes(effect: AccessEffect<'_>) -> bool {
    matches!(effect, AccessEffect::Write { .. } | AccessEffect::Command)
}

/// The refusal of a call that a deny rule covers, for the model.
pub(super) fn denied_by(rule: &str, tool: &str) -> String {
    if rule.contains('(') {
        return format!("the rule `{rule}` in `permissions.deny` forbids {tool} this path");
    }
    format!("the rule `{rule}` in `permissions.deny` forbids {tool}")
}

fn listed_path(tool: &str, pattern: &str, what: &str) -> PolicyVerdict {
    PolicyVerdict::Ask {
        why: Some(format!("`{pattern}` {what}")),
        remedy: format!(
            "with a rule that names it, such as `permissions.allow = [\"{tool}({pattern})\"]`, or \
             `--permission-mode bypassPermissions`"
        ),
    }
}

fn outside(tool: &str, path: ReachedPath<'_>) -> PolicyVerdict {
    let (asked, leads_to) = (path.asked.to_owned(), path.real.to_owned());
    let real = path.real.display();
    PolicyVerdict::Ask {
        why: Some(ResolveError::Outside { path: asked, leads_to }.to_string()),
        remedy: format!(
            "with `permissions.additional_directories`, or with a rule that names the place, such as \
             `permissions.allow = [\"{tool}(/{real})\"]`"
        ),
    }
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
    type Call = (&'static str, AccessEffect<'static>);

    const BASH: Call = ("Bash", AccessEffect::Command);

    fn reached(path: &'static str) -> ReachedPath<'static> {
        ReachedPath::for_test(Path::new(path), Path::new(path))
    }

    fn read(path: &'static str) -> Call {
        ("Read", AccessEffect::Read(reached(path)))
    }

    fn write(path: &'static str, names: u64) -> Call {
        ("Write", AccessEffect::Write { path: reached(path), names })
    }

    /// `lists` holds rules such as `allow Write` or `ask Bash`, separated by commas.
    fn judged(mode: Mode, sandbox: Sandbox, lists: &str, call: Call) -> String {
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
        let roots = PatternRoots { home: "/home/u".into(), roots: vec!["/ws".into()] };
        let roots = Arc::new(roots);
        let verdict = Policy { mode, sandbox, rules, roots }.judge(tool, effect);
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

    const MODES: [Mode; 5] =
        [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions];

    fn by_mode(sandbox: Sandbox, lists: &str, call: Call) -> String {
        MODES.map(|mode| format!("{mode}: {}", judged(mode, sandbox, lists, call))).join("\n")
    }

    #[test]
    fn reading_is_allowed_in_every_mode() {
        for mode in MODES {
            assert_eq!(judged(mode, Sandbox::Auto, "", read("/ws/a.rs")), "allowed");
        }
    }

    #[test]
    fn writing_without_a_rule() {
        assert_snapshot!(by_mode(Sandbox::Auto, "", write("/ws/a.rs", 1)), @r#"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval, and the mode dontAsk denies what would ask. The operator can allow it with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        default: Write needs an approval, and approvals are not available here. The operator can allow it with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        acceptEdits: allowed
        bypassPermissions: allowed
        "#);
    }

    #[test]
    fn writing_with_an_allow_rule() {
        assert_snapshot!(by_mode(Sandbox::Auto, "allow Write", write("/ws/a.rs", 1)), @r"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: allowed
        default: allowed
        acceptEdits: allowed
        bypassPermissions: allowed
        ");
    }

    #[test]
    fn replacing_a_file_with_several_names() {
        assert_snapshot!(by_mode(Sandbox::Auto, "allow Write", write("/ws/a.rs", 2)), @r"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval (the file has 2 hard links, and replacing it would part it from the others), and the mode dontAsk denies what would ask. The operator can allow it with `--permission-mode bypassPermissions`, or give this name a copy of its own
        default: Write needs an approval (the file has 2 hard links, and replacing it would part it from the others), and approvals are not available here. The operator can allow it with `--permission-mode bypassPermissions`, or give this name a copy of its own
        acceptEdits: Write needs an approval (the file has 2 hard links, and replacing it would part it from the others), and approvals are not available here. The operator can allow it with `--permission-mode bypassPermissions`, or give this name a copy of its own
        bypassPermissions: allowed
        ");
    }

    #[test]
    fn a_command_where_there_is_no_sandbox() {
        assert_snapshot!(by_mode(Sandbox::Auto, "", BASH), @r#"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval (there is no sandbox to run it in), and the mode dontAsk denies what would ask. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user) and `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        default: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user) and `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        acceptEdits: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user) and `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        bypassPermissions: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        "#);
        assert_snapshot!(by_mode(Sandbox::Auto, "allow Bash", BASH), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval (there is no sandbox to run it in), and the mode dontAsk denies what would ask. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        default: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        acceptEdits: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        bypassPermissions: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        ");
    }

    #[test]
    fn a_command_where_a_sandbox_is_required() {
        assert_snapshot!(by_mode(Sandbox::Required, "allow Bash", BASH), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        default: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        acceptEdits: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        bypassPermissions: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        ");
    }

    #[test]
    fn a_command_where_the_sandbox_is_off() {
        assert_snapshot!(by_mode(Sandbox::Off, "", BASH), @r#"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval, and the mode dontAsk denies what would ask. The operator can allow it with `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        default: Bash needs an approval, and approvals are not available here. The operator can allow it with `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        acceptEdits: Bash needs an approval, and approvals are not available here. The operator can allow it with `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        bypassPermissions: allowed
        "#);
        assert_snapshot!(by_mode(Sandbox::Off, "allow shell", BASH), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: allowed
        default: allowed
        acceptEdits: allowed
        bypassPermissions: allowed
        ");
    }

    #[test]
    fn the_table_in_the_documentation_is_what_the_policy_says() {
        const TEXT: &str = include_str!("../../docs/permissions.md");
        let calls = [
            ("read a file of the workspace", Sandbox::Off, read("/ws/a.rs")),
            ("read a file that may hold secrets", Sandbox::Off, read("/ws/.env")),
            ("read a protected file", Sandbox::Off, read("/ws/.git/config")),
            ("edit a file of the workspace", Sandbox::Off, write("/ws/a.rs", 1)),
            ("edit a file that may hold secrets", Sandbox::Off, write("/ws/.env", 1)),
            ("edit a protected file", Sandbox::Off, write("/ws/.git/config", 1)),
            ("edit a file with several hard links", Sandbox::Off, write("/ws/a.rs", 2)),
            ("read outside the workspace", Sandbox::Auto, read("/home/u/a.rs")),
            ("edit outside the workspace", Sandbox::Auto, write("/home/u/a.rs", 1)),
            ("edit outside the workspace, sandbox off", Sandbox::Off, write("/home/u/a.rs", 1)),
            ("edit `/etc/passwd` and its like", Sandbox::Off, write("/etc/passwd", 1)),
            ("run a command, sandbox off", Sandbox::Off, BASH),
            ("run a command, no sandbox there", Sandbox::Auto, BASH),
            ("run a command, sandbox required", Sandbox::Required, BASH),
        ];
        for (what, sandbox, call) in calls {
            let verdicts = MODES.map(|mode| match judged(mode, sandbox, "", call) {
                text if text == "allowed" => "allow",
                text if mode != Mode::DontAsk && text.contains("needs an approval") => "ask",
                _ => "deny",
            });
            let row = format!("| {what} | {} |\n", verdicts.join(" | "));
            assert!(TEXT.contains(&row), "{row}");
        }
        for pattern in [&SENSITIVE, &PROTECTED].into_iter().flat_map(PathList::patterns) {
            let is_told = TEXT.to_lowercase().contains(&format!("`{pattern}`"));
            assert!(is_told, "{pattern} is not in the documentation");
        }
    }

    #[test]
    fn t20_a_protected_file_is_asked_about_unless_a_rule_names_it() {
        let hook = || write("/ws/.git/hooks/pre-commit", 1);
        assert_snapshot!(by_mode(Sandbox::Off, "allow Edit, allow Write(**)", hook()), @r#"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval (`.git` decides what other programs run), and the mode dontAsk denies what would ask. The operator can allow it with a rule that names it, such as `permissions.allow = ["Write(.git)"]`, or `--permission-mode bypassPermissions`
        default: Write needs an approval (`.git` decides what other programs run), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Write(.git)"]`, or `--permission-mode bypassPermissions`
        acceptEdits: Write needs an approval (`.git` decides what other programs run), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Write(.git)"]`, or `--permission-mode bypassPermissions`
        bypassPermissions: allowed
        "#);
        let named = by_mode(Sandbox::Off, "allow Edit(.git/hooks/**)", hook());
        assert_eq!(named.matches(": allowed").count(), 4, "{named}");
        let read = by_mode(Sandbox::Off, "", read("/ws/.git/config"));
        assert_eq!(read.matches(": allowed").count(), 5, "{read}");
    }

    #[test]
    fn t5_t7_what_lies_outside_is_asked_about_unless_a_rule_is_written_for_it() {
        let read_there = || read("/home/u/notes/a");
        assert_snapshot!(judged(Mode::Default, Sandbox::Auto, "allow Read(**), allow Read", read_there()), @r#"Read needs an approval (/home/u/notes/a is outside the workspace), and approvals are not available here. The operator can allow it with `permissions.additional_directories`, or with a rule that names the place, such as `permissions.allow = ["Read(//home/u/notes/a)"]`"#);
        for rule in ["Read(~/notes/**)", "Read(//home/u/**)"] {
            let verdict =
                judged(Mode::DontAsk, Sandbox::Auto, &format!("allow {rule}"), read_there());
            assert_eq!(verdict, "allowed");
        }
        // A place is no secret.
        let key = read("/home/u/.ssh/id_rsa");
        let verdict = judged(Mode::Default, Sandbox::Auto, "allow Read(//home/**)", key);
        assert!(verdict.contains("may hold secrets"), "{verdict}");
        let key = read("/home/u/.ssh/id_rsa");
        assert_eq!(
            judged(Mode::Default, Sandbox::Auto, "allow Read(~/.ssh/id_rsa)", key),
            "allowed"
        );
    }

    #[test]
    fn a_secret_is_asked_about_for_reading_too_unless_a_rule_names_it() {
        assert_snapshot!(by_mode(Sandbox::Off, "allow Read", read("/ws/a/.env")), @r#"
        plan: Read needs an approval (`.env` may hold secrets), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Read(.env)"]`, or `--permission-mode bypassPermissions`
        dontAsk: Read needs an approval (`.env` may hold secrets), and the mode dontAsk denies what would ask. The operator can allow it with a rule that names it, such as `permissions.allow = ["Read(.env)"]`, or `--permission-mode bypassPermissions`
        default: Read needs an approval (`.env` may hold secrets), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Read(.env)"]`, or `--permission-mode bypassPermissions`
        acceptEdits: Read needs an approval (`.env` may hold secrets), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Read(.env)"]`, or `--permission-mode bypassPermissions`
        bypassPermissions: allowed
        "#);
        let named = by_mode(Sandbox::Off, "allow Read(.env)", read("/ws/a/.env"));
        assert_eq!(named.matches(": allowed").count(), 5, "{named}");
        let wide = by_mode(Sandbox::Off, "allow Read(**), allow Read(a/**)", read("/ws/a/.env"));
        assert_eq!(wide.matches(": allowed").count(), 1, "{wide}");
    }

    #[test]
    fn deny_and_ask_rules_hold_in_every_mode() {
        assert_snapshot!(by_mode(Sandbox::Off, "deny shell, allow Bash", BASH), @r"
        plan: the rule `shell` in `permissions.deny` forbids Bash
        dontAsk: the rule `shell` in `permissions.deny` forbids Bash
        default: the rule `shell` in `permissions.deny` forbids Bash
        acceptEdits: the rule `shell` in `permissions.deny` forbids Bash
        bypassPermissions: the rule `shell` in `permissions.deny` forbids Bash
        ");
        assert_snapshot!(by_mode(Sandbox::Off, "ask Bash, allow Bash", BASH), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval (the rule `Bash` says to ask), and the mode dontAsk denies what would ask. The operator can allow it by taking `Bash` out of `permissions.ask`
        default: Bash needs an approval (the rule `Bash` says to ask), and approvals are not available here. The operator can allow it by taking `Bash` out of `permissions.ask`
        acceptEdits: Bash needs an approval (the rule `Bash` says to ask), and approvals are not available here. The operator can allow it by taking `Bash` out of `permissions.ask`
        bypassPermissions: Bash needs an approval (the rule `Bash` says to ask), and approvals are not available here. The operator can allow it by taking `Bash` out of `permissions.ask`
        ");
        assert_snapshot!(by_mode(Sandbox::Off, "ask Write", write("/ws/a.rs", 1)), @r#"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval (the rule `Write` says to ask), and the mode dontAsk denies what would ask. The operator can allow it by taking `Write` out of `permissions.ask`, and with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        default: Write needs an approval (the rule `Write` says to ask), and approvals are not available here. The operator can allow it by taking `Write` out of `permissions.ask`, and with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        acceptEdits: Write needs an approval (the rule `Write` says to ask), and approvals are not available here. The operator can allow it by taking `Write` out of `permissions.ask`
        bypassPermissions: Write needs an approval (the rule `Write` says to ask), and approvals are not available here. The operator can allow it by taking `Write` out of `permissions.ask`
        "#);
    }
}
