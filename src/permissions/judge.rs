//! Judges a call in a fixed order: deny rules, the mode plan, the sandbox, what is asked about
//! whatever the mode (secrets, protected files, hard links, unknown parts of a command), the
//! mode, allow rules. An ask rule then turns a permission into a question. Pure: the same call
//! under the same policy always gets the same verdict.

use std::path::Path;
use std::sync::Arc;

use super::SandboxMode;
use super::kind::AccessKind;
use super::mode::Mode;
use super::opened_command::CommandAnalysis;
use super::path_lists::{PROTECTED, PathList, SENSITIVE};
use super::path_pattern::{PathPattern, PatternRoots};
use super::reached::ReachedPath;
use super::remedy::Remedy;
use super::rule_origin::RuleOrigin;
use super::rules::{RuledCall, Rules};
use crate::page_url::PageUrl;
use crate::processes::confinement::Level;
use crate::workspace::ResolveError;

mod command;

/// Who may log in, and as whom. Writing them is denied in every mode.
const ACCOUNTS: [&str; 5] =
    ["/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d"];

/// What files on the list of protected ones do.
const DECIDES: &str = "decides what other programs run";

/// How the refusal of a call in the mode plan ends, unless somebody plans.
pub(super) const OTHER_MODE: &str =
    "another mode is chosen with `--permission-mode` or in the request";

/// The settings that apply to every call of a session.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) mode: Mode,
    pub(super) sandbox: SandboxMode,
    /// A command in bubblewrap needs no approval.
    pub(super) auto_allow: bool,
    /// What earlier commands of the session have left that other programs obey, and which were
    /// interrupted before that was looked at, until a person has answered about it. Meanwhile
    /// `auto_allow` does not count.
    pub(super) left_behind: Option<Arc<str>>,
    pub(super) confined: Confined,
    /// What hooks say of the call that is judged.
    pub(super) hooks: HookOpinion,
    pub(super) rules: Arc<Rules>,
    pub(super) roots: Arc<PatternRoots>,
    /// The type of the agent whose calls these are, if such agents change nothing.
    pub(super) only_reads: Option<Arc<str>>,
    /// What to do in the mode plan instead of what it refuses.
    pub(super) instead: Arc<str>,
    /// A settings file of the workspace that cannot be read as rules: then every call asks.
    pub(super) unreadable: Option<Arc<str>>,
}

/// What confines the command that is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Confined {
    /// `None`: nothing does.
    pub(super) level: Option<Level>,
    /// Why nothing does, if that is known.
    pub(super) why: Option<String>,
}

/// What hooks say of a call. It never weighs more than a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HookOpinion {
    #[default]
    None,
    /// Counts as an allow rule for the tool, for this one call.
    Allows,
    /// Counts as an ask rule, with this reason.
    Asks(String),
}

/// The effect of a call, as far as the verdict depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) enum AccessEffect<'a> {
    Read(ReachedPath<'a>),
    Write {
        path: ReachedPath<'a>,
        /// The number of hard links of the file that would be replaced.
        names: u64,
    },
    Command(&'a CommandAnalysis),
    Named(&'a str),
    Fetch(&'a PageUrl),
    WebSearch,
    Mcp {
        server: &'a str,
        /// The operator has said so of the tool.
        is_read_only: bool,
    },
    Consent,
    Nothing,
}

/// A path that is read or written, and the call that rules see.
struct AskedPath<'a> {
    /// The tool's name in a rule that would name the path.
    word: &'a str,
    path: ReachedPath<'a>,
    call: RuledCall<'a>,
    is_written: bool,
}

impl<'a> AccessEffect<'a> {
    fn kind(self) -> AccessKind {
        match self {
            Self::Read(_) => AccessKind::Read,
            Self::Write { .. } => AccessKind::Edit,
            Self::Command(_) => AccessKind::Command,
            Self::Named(_) => AccessKind::Named,
            Self::Fetch(_) => AccessKind::Fetch,
            Self::WebSearch => AccessKind::WebSearch,
            Self::Mcp { .. } => AccessKind::Mcp,
            Self::Consent => AccessKind::Consent,
            Self::Nothing => AccessKind::None,
        }
    }

    pub(super) fn reached(self) -> Option<ReachedPath<'a>> {
        match self {
            Self::Read(path) | Self::Write { path, .. } => Some(path),
            _ => None,
        }
    }

    fn named(self) -> Option<&'a str> {
        match self {
            Self::Named(name) => Some(name),
            _ => None,
        }
    }
}

/// What allows a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedBy {
    /// The mode, because of what the call does.
    Mode,
    /// The proof that it only reads.
    OnlyReads,
    /// The list of what only reads, and the sandbox that confines it to that.
    ConfinedToReading,
    /// `sandbox.auto_allow`
    Sandbox,
    /// Rules in `permissions.allow`.
    Rules,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PolicyVerdict {
    Allow(AllowedBy),
    /// A person must approve the call. `why` gives the reason, `remedy` tells
    /// which setting avoids the question.
    Ask {
        why: Option<String>,
        remedy: Remedy,
    },
    Deny(String),
}

impl AllowedBy {
    /// Whether reading is all that the call may do.
    pub(super) fn only_reads(self) -> bool {
        matches!(self, Self::OnlyReads | Self::ConfinedToReading)
    }
}

impl Policy {
    pub(super) fn judge(&self, tool: &str, effect: AccessEffect<'_>) -> PolicyVerdict {
        let verdict = match effect {
            AccessEffect::Command(command) => self.judge_command(tool, command),
            _ => self.judge_by_rules(tool, effect),
        };
        let verdict = match &self.unreadable {
            Some(why) => with_unreadable_rules(why, verdict),
            None => verdict,
        };
        match &self.hooks {
            HookOpinion::Asks(reason) => with_asking_hook(reason, verdict),
            HookOpinion::None | HookOpinion::Allows => verdict,
        }
    }

    fn judge_by_rules(&self, tool: &str, effect: AccessEffect<'_>) -> PolicyVerdict {
        if let Some(refusal) = self.denies(tool, effect) {
            return PolicyVerdict::Deny(refusal);
        }
        let verdict = self.judge_without_ask_rules(tool, effect);
        match self.rules.asking(self.ruled(tool, effect)) {
            Some(rule) => with_ask_rule(rule, verdict),
            None => verdict,
        }
    }

    /// The refusal by a deny rule, or of a command by what holds in every mode.
    pub(super) fn denies(&self, tool: &str, effect: AccessEffect<'_>) -> Option<String> {
        if let AccessEffect::Command(command) = effect {
            return self.refuses_command(tool, command);
        }
        let rule = self.rules.denying(self.ruled(tool, effect))?;
        Some(match effect {
            AccessEffect::Named(name) => forbids(rule, &format!("{tool} of {name}")),
            AccessEffect::Fetch(page) if rule.has_specifier() => {
                forbids(rule, &format!("{tool} of {}", page.host()))
            }
            _ => denied_by(rule, tool),
        })
    }

    /// Whether a rule denies the call or asks about it, or cannot be read and may.
    pub(super) fn restricts(&self, tool: &str, effect: AccessEffect<'_>) -> bool {
        let is_asked_about = || self.rules.asking(self.ruled(tool, effect)).is_some();
        self.unreadable.is_some() || self.denies(tool, effect).is_some() || is_asked_about()
    }

    fn plan_refuses(&self, tool: &str) -> String {
        format!("{tool} is not available in the mode plan, which only looks; {}", self.instead)
    }

    fn ruled<'a>(&'a self, tool: &'a str, effect: AccessEffect<'a>) -> RuledCall<'a> {
        let (host, server) = match effect {
            AccessEffect::Fetch(page) => (Some(page.host()), None),
            AccessEffect::Mcp { server, .. } => (None, Some(server)),
            _ => (None, None),
        };
        let (reached, name) = (effect.reached(), effect.named());
        let call = RuledCall::new(tool, effect.kind(), &self.roots);
        RuledCall { reached, name, host, server, ..call }
    }

    /// Judges a call that no deny rule covers, without the ask rules.
    fn judge_without_ask_rules(&self, tool: &str, effect: AccessEffect<'_>) -> PolicyVerdict {
        let is_edit = matches!(effect, AccessEffect::Write { .. });
        let may_change = is_edit || matches!(effect, AccessEffect::Mcp { is_read_only: false, .. });
        if let Some(agent_type) = self.only_reads.as_ref().filter(|_| may_change) {
            return PolicyVerdict::Deny(only_reads(agent_type));
        }
        if self.mode == Mode::Plan && may_change {
            return PolicyVerdict::Deny(self.plan_refuses(tool));
        }
        if let AccessEffect::Write { path, .. } = effect
            && let Some(refusal) = account_refuses(path.real)
        {
            return PolicyVerdict::Deny(refusal);
        }
        if matches!(effect, AccessEffect::Consent) {
            return PolicyVerdict::Ask { why: None, remedy: Remedy::Nothing };
        }
        // With the sandbox off, commands reach every place anyway.
        let is_outside = effect.reached().is_some_and(|path| path.is_outside);
        if self.mode == Mode::BypassPermissions && (!is_outside || self.sandbox == SandboxMode::Off)
        {
            return PolicyVerdict::Allow(AllowedBy::Mode);
        }
        if let Some(question) = self.asks_unless_bypassed(tool, effect) {
            return question;
        }
        if let AccessEffect::Fetch(page) = effect
            && page.has_long_query()
        {
            let why = "its query is so long that it could carry data out".to_owned();
            let how = "with `--permission-mode bypassPermissions` alone: no rule covers it";
            let remedy = Remedy::Operator(how.to_owned());
            return PolicyVerdict::Ask { why: Some(why), remedy };
        }
        let reaches_out = matches!(
            effect,
            AccessEffect::Fetch(_) | AccessEffect::WebSearch | AccessEffect::Mcp { .. }
        );
        let accepts = self.mode == Mode::AcceptEdits && is_edit;
        if accepts || !(is_edit || reaches_out) {
            return PolicyVerdict::Allow(AllowedBy::Mode);
        }
        let allows_once = self.hooks == HookOpinion::Allows;
        if allows_once || self.rules.allows(self.ruled(tool, effect)) {
            return PolicyVerdict::Allow(AllowedBy::Rules);
        }
        PolicyVerdict::Ask {
            why: None,
            remedy: Remedy::Operator(format!("with {}", rule_or_mode(&narrow_rule(tool, effect)))),
        }
    }

    /// What is asked about although the mode or a rule for many files would allow it.
    fn asks_unless_bypassed(&self, tool: &str, effect: AccessEffect<'_>) -> Option<PolicyVerdict> {
        let (path, call) = (effect.reached()?, self.ruled(tool, effect));
        let names = if let AccessEffect::Write { names, .. } = effect { Some(names) } else { None };
        let asked = AskedPath { word: tool, path, call, is_written: names.is_some() };
        let shared = || names.filter(|names| *names > 1).map(shared_file);
        self.asks_about_path(&asked).or_else(shared)
    }

    fn asks_about_path(&self, asked: &AskedPath<'_>) -> Option<PolicyVerdict> {
        let AskedPath { word, path, call, is_written } = *asked;
        let asks = |list: &PathList, what: &str| {
            let pattern = path.on(list).filter(|_| !self.rules.allows_by_name(call, list))?;
            Some(listed_path(word, path, pattern, what))
        };
        let secret = || asks(&SENSITIVE, "may hold secrets");
        let outside = || {
            let is_named = !path.is_outside || self.rules.allows_outside(call);
            (!is_named).then(|| outside(word, path))
        };
        let protected = || asks(&PROTECTED, DECIDES);
        secret().or_else(|| protected().filter(|_| is_written)).or_else(outside)
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
}

impl Confined {
    fn because(&self) -> String {
        self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
    }
}

/// The refusal of what an agent may not do that changes nothing.
fn only_reads(agent_type: &str) -> String {
    format!(
        "an agent of the type {agent_type} changes nothing, and this is not proven to only read"
    )
}

/// The refusal of a call that a deny rule covers, for the model.
pub(super) fn denied_by(rule: &RuleOrigin, tool: &str) -> String {
    let what = if rule.has_specifier() { " this path" } else { "" };
    forbids(rule, &format!("{tool}{what}"))
}

fn forbids(rule: &RuleOrigin, what: &str) -> String {
    let (place, because) = (rule.place(), rule.because());
    format!("the rule `{}` in {place} forbids {what}{because}", rule.text)
}

/// The refusal to write to an account file.
fn account_refuses(real: &Path) -> Option<String> {
    let account = ACCOUNTS.iter().find(|account| real.starts_with(account))?;
    Some(format!("no tool writes to {account}, in any mode"))
}

fn listed_path(tool: &str, path: ReachedPath<'_>, pattern: &str, what: &str) -> PolicyVerdict {
    // A rule for a single name holds at any depth below the roots. Any other has to say where.
    let is_anywhere = !path.is_outside && !pattern.contains('/');
    let place = (!is_anywhere).then(|| PathPattern::exact(path.real)).flatten();
    let named = place.as_deref().unwrap_or(pattern);
    PolicyVerdict::Ask {
        why: Some(format!("`{pattern}` {what}")),
        remedy: Remedy::Operator(format!(
            "with a rule that names it, such as `permissions.allow = [\"{tool}({named})\"]`, or \
             `--permission-mode bypassPermissions`"
        )),
    }
}

fn outside(tool: &str, path: ReachedPath<'_>) -> PolicyVerdict {
    let (asked, leads_to) = (path.asked.to_owned(), path.real.to_owned());
    let real = path.real.display();
    PolicyVerdict::Ask {
        why: Some(ResolveError::Outside { path: asked, leads_to }.to_string()),
        remedy: Remedy::Operator(format!(
            "with `permissions.additional_directories`, or with a rule that names the place, such as \
             `permissions.allow = [\"{tool}(/{real})\"]`"
        )),
    }
}

/// A rule that allows such calls, as narrow as rules are.
fn narrow_rule(tool: &str, effect: AccessEffect<'_>) -> String {
    match effect {
        AccessEffect::Fetch(page) => format!("{tool}(domain:{})", page.host()),
        AccessEffect::Mcp { server, .. } if !tool.starts_with("mcp__") => format!("mcp__{server}"),
        _ => tool.to_owned(),
    }
}

fn rule_or_mode(rule: &str) -> String {
    format!("`permissions.allow = [\"{rule}\"]` or `--permission-mode bypassPermissions`")
}

fn shared_file(names: u64) -> PolicyVerdict {
    PolicyVerdict::Ask {
        why: Some(format!(
            "the file has {names} hard links: replacing it would part it from the others, and if it \
             can only be written in place, they change too"
        )),
        remedy: Remedy::Operator("with `--permission-mode bypassPermissions`".to_owned()),
    }
}

/// Turns a verdict into the one under an ask rule.
fn with_ask_rule(rule: &RuleOrigin, verdict: PolicyVerdict) -> PolicyVerdict {
    let remedy = format!("by taking `{}` out of {}", rule.text, rule.place());
    asks_anyway(verdict, format!("the rule `{}` says to ask{}", rule.text, rule.because()), &remedy)
}

/// Turns a verdict into the one where rules of the workspace are unknown.
fn with_unreadable_rules(why: &str, verdict: PolicyVerdict) -> PolicyVerdict {
    asks_anyway(verdict, why.to_owned(), "by correcting that file, or removing it")
}

fn asks_anyway(verdict: PolicyVerdict, why: String, remedy: &str) -> PolicyVerdict {
    let remedy = Remedy::Operator(remedy.to_owned());
    let remedy = match verdict {
        PolicyVerdict::Deny(_) => return verdict,
        PolicyVerdict::Ask { remedy: more, .. } => remedy.and(more),
        PolicyVerdict::Allow(_) => remedy,
    };
    PolicyVerdict::Ask { why: Some(why), remedy }
}

/// Turns a verdict into the one where a hook wants a person to decide.
fn with_asking_hook(reason: &str, verdict: PolicyVerdict) -> PolicyVerdict {
    let why = match &verdict {
        PolicyVerdict::Ask { why: Some(more), .. } => format!("{reason}; {more}"),
        _ => reason.to_owned(),
    };
    asks_anyway(verdict, why, "by changing the hook")
}

/// Why nobody answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The mode denies what would ask.
    DontAsk,
    /// There is no channel to a person.
    Nobody,
    /// The time to decide is over.
    TooLate,
}

/// The refusal of a call that needs an approval and gets none, for the model.
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
        NoAnswer::TooLate => "nobody has decided in time",
    };
    format!("{tool} needs an approval{why}, and {nobody}. {remedy}")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::rules::{KnownTool, PermissionSettings};
    use super::*;
    use crate::page_url::TrustedHosts;

    const KNOWN: [KnownTool<'_>; 7] = [
        KnownTool { name: "WebFetch", aliases: &["fetch_url"], access: AccessKind::Fetch },
        KnownTool { name: "WebSearch", aliases: &[], access: AccessKind::WebSearch },
        KnownTool { name: "Task", aliases: &["Agent"], access: AccessKind::Named },
        KnownTool { name: "Enter", aliases: &[], access: AccessKind::Consent },
        KnownTool { name: "Read", aliases: &[], access: AccessKind::Read },
        KnownTool { name: "Write", aliases: &[], access: AccessKind::Edit },
        KnownTool { name: "Bash", aliases: &["shell"], access: AccessKind::Command },
    ];
    type Call = (&'static str, AccessEffect<'static>);

    fn bash(line: &str) -> Call {
        ("Bash", AccessEffect::Command(Box::leak(Box::new(CommandAnalysis::for_test(line)))))
    }

    fn reached(path: &'static str) -> ReachedPath<'static> {
        ReachedPath::for_test(Path::new(path), Path::new(path))
    }

    fn read(path: &'static str) -> Call {
        ("Read", AccessEffect::Read(reached(path)))
    }

    fn write(path: &'static str, names: u64) -> Call {
        ("Write", AccessEffect::Write { path: reached(path), names })
    }

    #[test]
    fn an_agent_and_a_skill_are_judged_by_their_names() {
        let explore = || ("Task", AccessEffect::Named("Explore"));
        let verdict = |mode, lists| judged(mode, SandboxMode::Auto, lists, explore());
        assert_eq!(verdict(Mode::Plan, ""), "allowed");
        assert_eq!(verdict(Mode::Default, "deny Task(Plan)"), "allowed");
        for rule in ["deny Task(Explore)", "deny Agent(Ex*)", "deny Task(*)", "deny Task"] {
            let denied = verdict(Mode::BypassPermissions, rule);
            assert!(denied.contains("forbids Task of Explore"), "{rule}: {denied}");
        }
        let asked = verdict(Mode::BypassPermissions, "ask Task(*plo*e)");
        assert!(asked.starts_with("Task needs an approval"), "{asked}");
    }

    /// Each mode's verdict in a letter: allowed, asks, denied. From tight to wide.
    fn by_each_mode(lists: &str, call: Call) -> String {
        let modes =
            [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions];
        let letter = |mode| match judged(mode, SandboxMode::Auto, lists, call).as_str() {
            "allowed" => 'a',
            verdict if verdict.contains("needs an approval") => '?',
            _ => 'd',
        };
        modes.map(letter).iter().collect()
    }

    fn fetch(url: &str) -> Call {
        let page = PageUrl::parse(url, &TrustedHosts::default()).unwrap();
        ("WebFetch", AccessEffect::Fetch(Box::leak(Box::new(page))))
    }

    fn mcp(is_read_only: bool) -> Call {
        ("mcp__git__push", AccessEffect::Mcp { server: "git", is_read_only })
    }

    #[test]
    fn a_page_is_asked_about_by_its_host() {
        let page = || fetch("https://Docs.Example.com./a?b=c");
        assert_eq!(by_each_mode("", page()), "????a");
        for allow in ["allow WebFetch(domain:docs.example.com)", "allow fetch_url"] {
            assert_eq!(by_each_mode(allow, page()), "aaaaa", "{allow}");
        }
        assert_eq!(by_each_mode("allow WebFetch(domain:*.example.com)", page()), "aaaaa");
        assert_eq!(by_each_mode("allow WebFetch(domain:example.com)", page()), "????a");
        assert_eq!(by_each_mode("deny WebFetch(domain:*.example.com)", page()), "ddddd");
        assert_eq!(by_each_mode("ask WebFetch(domain:docs.example.com)", page()), "?????");
        let search = ("WebSearch", AccessEffect::WebSearch);
        assert_eq!(by_each_mode("", search), "????a");
        assert_eq!(by_each_mode("allow WebSearch", search), "aaaaa");
    }

    #[test]
    fn w32_a_long_query_is_asked_about_although_a_rule_allows_the_host() {
        let page = |length| fetch(&format!("https://example.com/?{}", "q".repeat(length)));
        let allow = "allow WebFetch(domain:example.com)";
        assert_eq!(by_each_mode(allow, page(256)), "aaaaa");
        assert_eq!(by_each_mode(allow, page(257)), "????a");
        let asked = judged(Mode::Default, SandboxMode::Auto, allow, page(257));
        assert!(asked.contains("with `--permission-mode bypassPermissions`"), "{asked}");
    }

    #[test]
    fn the_rule_that_a_question_about_a_page_names_allows_it() {
        for url in ["https://[::1]/", "https://example.com/", "https://127.0.0.1/"] {
            let asked = judged(Mode::Default, SandboxMode::Auto, "", fetch(url));
            let (_, rule) = asked.split_once("permissions.allow = [\"").unwrap();
            let (rule, _) = rule.split_once("\"]").unwrap();
            assert_eq!(by_each_mode(&format!("allow {rule}"), fetch(url)), "aaaaa", "{rule}");
        }
        let denied = judged(
            Mode::Default,
            SandboxMode::Auto,
            "deny WebFetch(domain:a.b)",
            fetch("https://a.b/"),
        );
        assert!(denied.contains("forbids WebFetch of a.b"), "{denied}");
    }

    #[test]
    fn an_mcp_tool_runs_in_plan_mode_only_where_the_operator_says_that_it_reads() {
        assert_eq!(by_each_mode("", mcp(false)), "d???a");
        assert_eq!(by_each_mode("", mcp(true)), "????a");
        for allow in ["allow mcp__git", "allow mcp__git__*", "allow mcp__git__push"] {
            assert_eq!(by_each_mode(allow, mcp(false)), "daaaa", "{allow}");
            assert_eq!(by_each_mode(allow, mcp(true)), "aaaaa", "{allow}");
        }
        for deny in ["deny mcp__*", "deny mcp__git", "deny mcp__g*__push"] {
            assert_eq!(by_each_mode(deny, mcp(true)), "ddddd", "{deny}");
        }
        let resource = ("ReadMcpResource", AccessEffect::Mcp { server: "git", is_read_only: true });
        assert_eq!(by_each_mode("allow mcp__git", resource), "aaaaa");
        assert_eq!(by_each_mode("deny mcp__git", resource), "ddddd");
        let asked = judged(Mode::Default, SandboxMode::Auto, "", resource);
        assert!(asked.contains("permissions.allow = [\"mcp__git\"]"), "{asked}");
    }

    #[test]
    fn consent_is_asked_for_in_every_mode() {
        let consent = || ("Enter", AccessEffect::Consent);
        for mode in [Mode::Plan, Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions] {
            let verdict = judged(mode, SandboxMode::Off, "allow Enter", consent());
            assert!(verdict.starts_with("Enter needs an approval"), "{mode}: {verdict}");
        }
        let denied = judged(Mode::Default, SandboxMode::Auto, "deny Enter", consent());
        assert!(denied.contains("forbids Enter"), "{denied}");
    }

    /// `lists` holds rules such as `allow Write` or `ask Bash`, separated by commas.
    fn judged(mode: Mode, sandbox: SandboxMode, lists: &str, call: Call) -> String {
        confined((mode, sandbox), (None, false), lists, call)
    }

    /// The same where something confines commands.
    fn confined(
        (mode, sandbox): (Mode, SandboxMode),
        (level, auto_allow): (Option<Level>, bool),
        lists: &str,
        call: Call,
    ) -> String {
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
        let confined = Confined { level, why: None };
        let (hooks, unreadable) = (HookOpinion::None, None);
        let policy = Policy {
            mode,
            sandbox,
            auto_allow,
            left_behind: None,
            confined,
            hooks,
            only_reads: None,
            instead: OTHER_MODE.into(),
            rules,
            roots,
            unreadable,
        };
        let verdict = policy.judge(tool, effect);
        match verdict {
            PolicyVerdict::Allow(_) => "allowed".to_owned(),
            PolicyVerdict::Deny(message) => message,
            PolicyVerdict::Ask { why, remedy } => {
                let no_answer =
                    if mode == Mode::DontAsk { NoAnswer::DontAsk } else { NoAnswer::Nobody };
                unanswered(tool, why.as_deref(), &remedy.to_string(), no_answer)
            }
        }
    }

    const MODES: [Mode; 5] =
        [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions];

    fn by_mode(sandbox: SandboxMode, lists: &str, call: Call) -> String {
        MODES.map(|mode| format!("{mode}: {}", judged(mode, sandbox, lists, call))).join("\n")
    }

    #[test]
    fn reading_is_allowed_in_every_mode() {
        for mode in MODES {
            assert_eq!(judged(mode, SandboxMode::Auto, "", read("/ws/a.rs")), "allowed");
        }
    }

    #[test]
    fn writing_without_a_rule() {
        assert_snapshot!(by_mode(SandboxMode::Auto, "", write("/ws/a.rs", 1)), @r#"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval, and the mode dontAsk denies what would ask. The operator can allow it with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        default: Write needs an approval, and approvals are not available here. The operator can allow it with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        acceptEdits: allowed
        bypassPermissions: allowed
        "#);
    }

    #[test]
    fn writing_with_an_allow_rule() {
        assert_snapshot!(by_mode(SandboxMode::Auto, "allow Write", write("/ws/a.rs", 1)), @r"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: allowed
        default: allowed
        acceptEdits: allowed
        bypassPermissions: allowed
        ");
    }

    #[test]
    fn replacing_a_file_with_several_names() {
        assert_snapshot!(by_mode(SandboxMode::Auto, "allow Write", write("/ws/a.rs", 2)), @r"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval (the file has 2 hard links: replacing it would part it from the others, and if it can only be written in place, they change too), and the mode dontAsk denies what would ask. The operator can allow it with `--permission-mode bypassPermissions`
        default: Write needs an approval (the file has 2 hard links: replacing it would part it from the others, and if it can only be written in place, they change too), and approvals are not available here. The operator can allow it with `--permission-mode bypassPermissions`
        acceptEdits: Write needs an approval (the file has 2 hard links: replacing it would part it from the others, and if it can only be written in place, they change too), and approvals are not available here. The operator can allow it with `--permission-mode bypassPermissions`
        bypassPermissions: allowed
        ");
    }

    #[test]
    fn a_command_where_there_is_no_sandbox() {
        assert_snapshot!(by_mode(SandboxMode::Auto, "", bash("make")), @r#"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval (there is no sandbox to run it in), and the mode dontAsk denies what would ask. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user) and `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        default: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user) and `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        acceptEdits: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user) and `permissions.allow = ["Bash"]` or `--permission-mode bypassPermissions`
        bypassPermissions: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        "#);
        assert_snapshot!(by_mode(SandboxMode::Auto, "allow Bash", bash("make")), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval (there is no sandbox to run it in), and the mode dontAsk denies what would ask. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        default: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        acceptEdits: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        bypassPermissions: Bash needs an approval (there is no sandbox to run it in), and approvals are not available here. The operator can allow it with `--sandbox off` (commands then have all rights of the server's user)
        ");
    }

    #[test]
    fn a_command_where_a_sandbox_is_required() {
        assert_snapshot!(by_mode(SandboxMode::Required, "allow Bash", bash("make")), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        default: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        acceptEdits: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        bypassPermissions: Bash runs only in a sandbox here (`--sandbox required`), and there is none
        ");
    }

    #[test]
    fn a_command_in_a_sandbox_is_judged_like_one_without_where_that_is_accepted() {
        for lists in ["", "allow Bash", "ask Bash", "deny Bash", "ask Bash, allow Bash"] {
            for mode in MODES {
                let off = judged(mode, SandboxMode::Off, lists, bash("make"));
                for sandbox in [SandboxMode::Auto, SandboxMode::Required] {
                    for level in [Level::Landlock, Level::Bwrap] {
                        let inside =
                            confined((mode, sandbox), (Some(level), false), lists, bash("make"));
                        assert_eq!(inside, off, "{mode} {level} {lists}");
                    }
                }
            }
        }
    }

    #[test]
    fn only_bubblewrap_replaces_an_approval_and_only_where_the_operator_says_so() {
        let judged = |mode, level, lists| {
            confined((mode, SandboxMode::Auto), (Some(level), true), lists, bash("make"))
        };
        for mode in [Mode::Default, Mode::DontAsk] {
            assert_eq!(judged(mode, Level::Bwrap, ""), "allowed");
            assert!(judged(mode, Level::Landlock, "").contains("needs an approval"));
            assert!(judged(mode, Level::Bwrap, "ask Bash").contains("says to ask"));
            assert!(judged(mode, Level::Bwrap, "deny Bash").contains("forbids"));
        }
        assert!(judged(Mode::Plan, Level::Bwrap, "").contains("not available"));
        let nothing = confined((Mode::Default, SandboxMode::Auto), (None, true), "", bash("make"));
        assert!(nothing.contains("there is no sandbox"), "{nothing}");
    }

    #[test]
    fn why_there_is_no_sandbox_is_said() {
        let rules = Arc::new(Rules::parse(&PermissionSettings::default(), &KNOWN).unwrap());
        let why = Some("bwrap: no bwrap is installed".to_owned());
        let policy = |sandbox| Policy {
            only_reads: None,
            instead: OTHER_MODE.into(),
            mode: Mode::Default,
            sandbox,
            auto_allow: false,
            left_behind: None,
            confined: Confined { level: None, why: why.clone() },
            hooks: HookOpinion::None,
            rules: Arc::clone(&rules),
            roots: Arc::new(PatternRoots { home: "/home/u".into(), roots: vec!["/ws".into()] }),
            unreadable: None,
        };
        let (tool, effect) = bash("make");
        let asked = policy(SandboxMode::Auto).judge(tool, effect);
        let PolicyVerdict::Ask { why: Some(reason), .. } = asked else { panic!("{asked:?}") };
        assert_snapshot!(reason, @"there is no sandbox to run it in: bwrap: no bwrap is installed");
        let refused = policy(SandboxMode::Required).judge(tool, effect);
        let PolicyVerdict::Deny(reason) = refused else { panic!("{refused:?}") };
        assert_snapshot!(reason, @"Bash runs only in a sandbox here (`--sandbox required`), and there is none: bwrap: no bwrap is installed");
    }

    #[test]
    fn a_command_where_the_sandbox_is_off() {
        assert_snapshot!(by_mode(SandboxMode::Off, "", bash("make")), @r#"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval, and the mode dontAsk denies what would ask. The operator can allow it with `permissions.allow = ["Bash(make)"]`
        default: Bash needs an approval, and approvals are not available here. The operator can allow it with `permissions.allow = ["Bash(make)"]`
        acceptEdits: Bash needs an approval, and approvals are not available here. The operator can allow it with `permissions.allow = ["Bash(make)"]`
        bypassPermissions: allowed
        "#);
        assert_snapshot!(by_mode(SandboxMode::Off, "allow shell", bash("make")), @r"
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
            ("read a file of the workspace", SandboxMode::Off, read("/ws/a.rs")),
            ("read a file that may hold secrets", SandboxMode::Off, read("/ws/.env")),
            ("read a protected file", SandboxMode::Off, read("/ws/.git/config")),
            ("edit a file of the workspace", SandboxMode::Off, write("/ws/a.rs", 1)),
            ("edit a file that may hold secrets", SandboxMode::Off, write("/ws/.env", 1)),
            ("edit a protected file", SandboxMode::Off, write("/ws/.git/config", 1)),
            ("edit a file with several hard links", SandboxMode::Off, write("/ws/a.rs", 2)),
            ("read outside the workspace", SandboxMode::Auto, read("/home/u/a.rs")),
            ("edit outside the workspace", SandboxMode::Auto, write("/home/u/a.rs", 1)),
            ("edit outside the workspace, sandbox off", SandboxMode::Off, write("/home/u/a.rs", 1)),
            ("edit `/etc/passwd` and its like", SandboxMode::Off, write("/etc/passwd", 1)),
            ("fetch a page, search the web", SandboxMode::Auto, fetch("https://example.com/")),
            ("call a tool of an MCP server", SandboxMode::Auto, mcp(false)),
            ("call one that the operator marks as reading", SandboxMode::Auto, mcp(true)),
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
        assert_snapshot!(by_mode(SandboxMode::Off, "allow Edit, allow Write(**)", hook()), @r#"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval (`.git` decides what other programs run), and the mode dontAsk denies what would ask. The operator can allow it with a rule that names it, such as `permissions.allow = ["Write(.git)"]`, or `--permission-mode bypassPermissions`
        default: Write needs an approval (`.git` decides what other programs run), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Write(.git)"]`, or `--permission-mode bypassPermissions`
        acceptEdits: Write needs an approval (`.git` decides what other programs run), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Write(.git)"]`, or `--permission-mode bypassPermissions`
        bypassPermissions: allowed
        "#);
        let named = by_mode(SandboxMode::Off, "allow Edit(.git/hooks/**)", hook());
        assert_eq!(named.matches(": allowed").count(), 4, "{named}");
        let read = by_mode(SandboxMode::Off, "", read("/ws/.git/config"));
        assert_eq!(read.matches(": allowed").count(), 5, "{read}");
    }

    #[test]
    fn t5_t7_what_lies_outside_is_asked_about_unless_a_rule_is_written_for_it() {
        let read_there = || read("/home/u/notes/a");
        assert_snapshot!(judged(Mode::Default, SandboxMode::Auto, "allow Read(**), allow Read", read_there()), @r#"Read needs an approval (/home/u/notes/a is outside the workspace), and approvals are not available here. The operator can allow it with `permissions.additional_directories`, or with a rule that names the place, such as `permissions.allow = ["Read(//home/u/notes/a)"]`"#);
        for rule in ["Read(~/notes/**)", "Read(//home/u/**)"] {
            let verdict =
                judged(Mode::DontAsk, SandboxMode::Auto, &format!("allow {rule}"), read_there());
            assert_eq!(verdict, "allowed");
        }
        // A place is no secret.
        let key = read("/home/u/.ssh/id_rsa");
        let verdict = judged(Mode::Default, SandboxMode::Auto, "allow Read(//home/**)", key);
        assert!(verdict.contains("may hold secrets"), "{verdict}");
        let key = read("/home/u/.ssh/id_rsa");
        assert_eq!(
            judged(Mode::Default, SandboxMode::Auto, "allow Read(~/.ssh/id_rsa)", key),
            "allowed"
        );
    }

    #[test]
    fn secrets_of_the_machine_are_asked_about_and_the_rule_that_is_named_allows_them() {
        let shadow = || read("/etc/shadow");
        assert_snapshot!(judged(Mode::Default, SandboxMode::Auto, "allow Read(//etc/**)", shadow()), @r#"Read needs an approval (`etc/shadow*` may hold secrets), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Read(//etc/shadow)"]`, or `--permission-mode bypassPermissions`"#);
        let rule = "allow Read(//etc/shadow)";
        assert_eq!(judged(Mode::DontAsk, SandboxMode::Auto, rule, shadow()), "allowed");
        let copy = || read("/ws/image/etc/shadow");
        let verdict = judged(Mode::Default, SandboxMode::Auto, "", copy());
        assert!(verdict.contains("[\"Read(//ws/image/etc/shadow)\"]"), "{verdict}");
        let rule = "allow Read(//ws/image/etc/shadow)";
        assert_eq!(judged(Mode::DontAsk, SandboxMode::Auto, rule, copy()), "allowed");
    }

    #[test]
    fn a_secret_is_asked_about_for_reading_too_unless_a_rule_names_it() {
        assert_snapshot!(by_mode(SandboxMode::Off, "allow Read", read("/ws/a/.env")), @r#"
        plan: Read needs an approval (`.env` may hold secrets), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Read(.env)"]`, or `--permission-mode bypassPermissions`
        dontAsk: Read needs an approval (`.env` may hold secrets), and the mode dontAsk denies what would ask. The operator can allow it with a rule that names it, such as `permissions.allow = ["Read(.env)"]`, or `--permission-mode bypassPermissions`
        default: Read needs an approval (`.env` may hold secrets), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Read(.env)"]`, or `--permission-mode bypassPermissions`
        acceptEdits: Read needs an approval (`.env` may hold secrets), and approvals are not available here. The operator can allow it with a rule that names it, such as `permissions.allow = ["Read(.env)"]`, or `--permission-mode bypassPermissions`
        bypassPermissions: allowed
        "#);
        let named = by_mode(SandboxMode::Off, "allow Read(.env)", read("/ws/a/.env"));
        assert_eq!(named.matches(": allowed").count(), 5, "{named}");
        let wide =
            by_mode(SandboxMode::Off, "allow Read(**), allow Read(a/**)", read("/ws/a/.env"));
        assert_eq!(wide.matches(": allowed").count(), 1, "{wide}");
    }

    #[test]
    fn deny_and_ask_rules_hold_in_every_mode() {
        assert_snapshot!(by_mode(SandboxMode::Off, "deny shell, allow Bash", bash("make")), @r"
        plan: the rule `shell` in `permissions.deny` forbids Bash
        dontAsk: the rule `shell` in `permissions.deny` forbids Bash
        default: the rule `shell` in `permissions.deny` forbids Bash
        acceptEdits: the rule `shell` in `permissions.deny` forbids Bash
        bypassPermissions: the rule `shell` in `permissions.deny` forbids Bash
        ");
        assert_snapshot!(by_mode(SandboxMode::Off, "ask Bash, allow Bash", bash("make")), @r"
        plan: Bash is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Bash needs an approval (the rule `Bash` says to ask), and the mode dontAsk denies what would ask. The operator can allow it by taking `Bash` out of `permissions.ask`
        default: Bash needs an approval (the rule `Bash` says to ask), and approvals are not available here. The operator can allow it by taking `Bash` out of `permissions.ask`
        acceptEdits: Bash needs an approval (the rule `Bash` says to ask), and approvals are not available here. The operator can allow it by taking `Bash` out of `permissions.ask`
        bypassPermissions: Bash needs an approval (the rule `Bash` says to ask), and approvals are not available here. The operator can allow it by taking `Bash` out of `permissions.ask`
        ");
        assert_snapshot!(by_mode(SandboxMode::Off, "ask Write", write("/ws/a.rs", 1)), @r#"
        plan: Write is not available in the mode plan, which only looks; another mode is chosen with `--permission-mode` or in the request
        dontAsk: Write needs an approval (the rule `Write` says to ask), and the mode dontAsk denies what would ask. The operator can allow it by taking `Write` out of `permissions.ask`, and with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        default: Write needs an approval (the rule `Write` says to ask), and approvals are not available here. The operator can allow it by taking `Write` out of `permissions.ask`, and with `permissions.allow = ["Write"]` or `--permission-mode bypassPermissions`
        acceptEdits: Write needs an approval (the rule `Write` says to ask), and approvals are not available here. The operator can allow it by taking `Write` out of `permissions.ask`
        bypassPermissions: Write needs an approval (the rule `Write` says to ask), and approvals are not available here. The operator can allow it by taking `Write` out of `permissions.ask`
        "#);
    }
}
