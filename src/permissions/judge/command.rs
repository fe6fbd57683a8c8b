//! Judges a command line by its parts, by the files that it names, and by the mode.
//!
//! The order is that of every call. A line is allowed only as a whole, and denied by any part.

use std::path::{Path, PathBuf};

use super::{
    AllowedBy, AskedPath, DECIDES, HookOpinion, Policy, PolicyVerdict, account_refuses, denied_by,
    forbids, only_reads, with_ask_rule,
};
use crate::permissions::SandboxMode;
use crate::permissions::commands::Reading;
use crate::permissions::kind::AccessKind;
use crate::permissions::mode::Mode;
use crate::permissions::opened_command::{CommandAnalysis, CommandFile, Exposed, OwnState};
use crate::permissions::path_lists::{PROTECTED, SENSITIVE};
use crate::permissions::reached::ReachedPath;
use crate::permissions::remedy::Remedy;
use crate::permissions::rule_origin::RuleOrigin;
use crate::permissions::rules::RuledCall;
use crate::processes::confinement::Level;

impl Policy {
    pub(super) fn judge_command(&self, tool: &str, command: &CommandAnalysis) -> PolicyVerdict {
        if let Some(refusal) = self.refuses_command(tool, command) {
            return PolicyVerdict::Deny(refusal);
        }
        let verdict = self.judge_command_without_ask_rules(tool, command);
        match self.rule_asking_about(tool, command) {
            Some(rule) => with_ask_rule(rule, verdict),
            None => verdict,
        }
    }

    /// The refusal by a deny rule, or by what no approval allows.
    pub(super) fn refuses_command(&self, tool: &str, command: &CommandAnalysis) -> Option<String> {
        if let Some(rule) = self.rules.denying(self.ruled_command(tool, command)) {
            return Some(if rule.has_specifier() {
                forbids(rule, "this command")
            } else {
                denied_by(rule, tool)
            });
        }
        // What else a command names is not looked at in bypassPermissions.
        let mut risks = command.risks.iter().filter(|_| self.mode != Mode::BypassPermissions);
        if let Some(risk) = risks.find(|risk| risk.kind.is_denied()) {
            return Some(format!("{tool} does not run this: {}", risk.text));
        }
        let refused = command.files.iter().find_map(|file| self.refuses_file(tool, file));
        refused.or_else(|| self.refuses_placed_files(tool, command))
    }

    fn refuses_file(&self, tool: &str, file: &CommandFile) -> Option<String> {
        let named = file.named().display();
        match file.own_state {
            OwnState::Elsewhere => {}
            OwnState::Around => {
                return Some(format!("{named} is in the server's own state directory"));
            }
            OwnState::Below => {
                return Some(format!("the server's own state directory is in {named}"));
            }
        }
        let call = self.ruled_file(tool, file);
        if let Some(rule) = self.rules.denying(call).or(file.denied_by.as_ref()) {
            return Some(denied_by(rule, tool));
        }
        account_refuses(file.leads_to()).filter(|_| file.is_written())
    }

    /// The refusal of a copy that puts files where a rule denies them.
    fn refuses_placed_files(&self, tool: &str, command: &CommandAnalysis) -> Option<String> {
        if !self.rules.restrict_paths() {
            return None;
        }
        command.placed.paths.iter().find_map(|path| {
            let reached = ReachedPath::met(path, false, &self.roots);
            self.rules.denying(self.edit_of(tool, reached)).map(|rule| denied_by(rule, tool))
        })
    }

    fn rule_asking_about(&self, tool: &str, command: &CommandAnalysis) -> Option<&RuleOrigin> {
        let of_files = || {
            let mut files = command.files.iter();
            files.find_map(|file| self.rules.asking(self.ruled_file(tool, file)))
        };
        self.rules.asking(self.ruled_command(tool, command)).or_else(of_files)
    }

    fn judge_command_without_ask_rules(
        &self,
        tool: &str,
        command: &CommandAnalysis,
    ) -> PolicyVerdict {
        let level = self.confined.level;
        let reads = self.reads(tool, command);
        if let Some(agent_type) = self.only_reads.as_ref().filter(|_| reads.is_none()) {
            return PolicyVerdict::Deny(only_reads(agent_type));
        }
        if self.mode == Mode::Plan && reads.is_none() {
            return PolicyVerdict::Deny(self.plan_refuses(tool));
        }
        if level.is_none() && self.sandbox != SandboxMode::Off {
            return self.judge_without_sandbox(tool, command);
        }
        if let Some(removal) = command.removals.first() {
            return critical(&removal.operand, &removal.path.display().to_string());
        }
        if command.outside_sandbox && self.sandbox != SandboxMode::Off {
            return outside_sandbox();
        }
        if self.mode == Mode::BypassPermissions {
            return self.judge_bypassed(tool, command, reads);
        }
        if let Some(question) = self.asks_unless_bypassed_about(tool, command) {
            return question;
        }
        // Whatever lets it run unasked, the file is closed to it again.
        if let Some(why) = command.needs_approval.filter(|_| reads.is_none()) {
            return asks(why.to_owned(), "Instead, leave out what is closed");
        }
        // Landlock cannot protect control files, so it replaces nobody's approval.
        let is_contained = self.auto_allow
            && self.left_behind.is_none()
            && level == Some(Level::Bwrap)
            && unheld(command).is_none()
            && !self.may_write_denied(tool, command);
        let allowed_by = if reads.is_some() {
            reads
        } else if is_contained {
            Some(AllowedBy::Sandbox)
        } else {
            self.accepts_edits_of(tool, command).then_some(AllowedBy::Mode)
        };
        if let Some(allowed_by) = allowed_by {
            return PolicyVerdict::Allow(allowed_by);
        }
        self.judge_by_allow_rules(tool, command)
    }

    /// What lets the command run unasked because it only reads.
    fn reads(&self, tool: &str, command: &CommandAnalysis) -> Option<AllowedBy> {
        // What a rule denies may be in any of them.
        let may_show_denied =
            command.shows_repository() && self.rules.deny_paths(tool, AccessKind::Read);
        if may_show_denied {
            return None;
        }
        let level = self.confined.level.filter(|_| !command.outside_sandbox);
        match (command.reading(), level) {
            (Reading::Proven, _) => Some(AllowedBy::OnlyReads),
            (Reading::Reader, Some(Level::Bwrap)) => Some(AllowedBy::ConfinedToReading),
            // Landlock has no masks, so there must be nothing to mask.
            (Reading::Reader, Some(Level::Landlock)) if command.exposed.is_none() => {
                Some(AllowedBy::ConfinedToReading)
            }
            _ => None,
        }
    }

    /// In the mode that asks about nothing, what reads a repository is confined to reading all the
    /// same, if it would not ask elsewhere: the repository may name programs of its own.
    fn judge_bypassed(
        &self,
        tool: &str,
        command: &CommandAnalysis,
        reads: Option<AllowedBy>,
    ) -> PolicyVerdict {
        if let Some(hides) = self.hides_from_rules(command) {
            return hidden_from_rules(hides);
        }
        let reads = reads.filter(|_| command.runs_git());
        let reads = reads.filter(|_| self.asks_unless_bypassed_about(tool, command).is_none());
        PolicyVerdict::Allow(reads.unwrap_or(AllowedBy::Mode))
    }

    /// The files of the command that it asks about, then those that its output goes to.
    pub(in crate::permissions) fn files_for_rules<'a>(
        &self,
        tool: &str,
        command: &'a CommandAnalysis,
    ) -> [Vec<&'a CommandFile>; 2] {
        let asks = |file: &&CommandFile| self.asks_about_file(tool, file).is_some();
        let (asked, others) = command.files.iter().partition::<Vec<_>, _>(asks);
        let is_output = |file: &&CommandFile| file.is_redirect() && file.is_written();
        [asked, others.into_iter().filter(is_output).collect()]
    }

    /// What is asked about although a mode or a rule for many commands would allow it.
    fn asks_unless_bypassed_about(
        &self,
        tool: &str,
        command: &CommandAnalysis,
    ) -> Option<PolicyVerdict> {
        if let Some(doubt) = command.doubt() {
            return Some(asks(doubt.to_string(), SPLIT));
        }
        if command.has_uncertain_name() && self.rules.restrict_commands() {
            return Some(hidden_from_rules("the name of a program"));
        }
        if self.rules.may_restrict(command) {
            return Some(hidden_from_rules("an argument"));
        }
        let files = || command.files.iter().find_map(|file| self.asks_about_file(tool, file));
        let is_reader = self.reads(tool, command) == Some(AllowedBy::ConfinedToReading);
        let unknown = || {
            // What the sandbox shows a reader is for it, whatever its words turn out to be.
            let unknown = command.unknown.first().filter(|_| !is_reader)?;
            let does = if unknown.is_written() { "writes" } else { "reads" };
            let why = format!(
                "what `{}` {does} by `{}` is known only when it runs",
                unknown.by, unknown.written
            );
            Some(asks(why, "Instead, name the files"))
        };
        let unseen = || command.unseen.as_ref().filter(|_| is_reader).map(|it| reads_unseen(it));
        let asked = files().or_else(|| self.asks_about_placed_files(command)).or_else(unknown);
        asked.or_else(unseen)
    }

    fn asks_about_file(&self, tool: &str, file: &CommandFile) -> Option<PolicyVerdict> {
        let (path, call) = (file.reached(), self.ruled_file(tool, file));
        let word = if file.is_written() { "Edit" } else { "Read" };
        let asked = AskedPath { word, path, call, is_written: file.is_written() };
        self.asks_about_path(&asked).or_else(|| self.asks_about_what_is_below(tool, file))
    }

    /// A search of a whole directory shows what is in it.
    fn asks_about_what_is_below(&self, tool: &str, file: &CommandFile) -> Option<PolicyVerdict> {
        let below = file.below.as_ref()?;
        if file.is_written() {
            return None;
        }
        let shows =
            |path: &&PathBuf| self.hides(tool, path, false) || self.keeps_secret(tool, path);
        let why = if let Some(path) = below.paths.iter().find(shows) {
            format!("`{}` would read {} as well", file.by, path.display())
        } else if below.is_cut {
            let named = file.named().display();
            format!("`{}` would read more of {named} than can be looked at", file.by)
        } else {
            return None;
        };
        Some(asks(why, "Instead, use the tool Grep, which passes over such files"))
    }

    /// Whether the mode accepts edits, and the command does nothing else inside the roots.
    fn accepts_edits_of(&self, tool: &str, command: &CommandAnalysis) -> bool {
        let is_protected = |file: &CommandFile| {
            let below = file.below.iter().flat_map(|below| &below.paths);
            let mut paths = below.map(PathBuf::as_path);
            let is_cut = file.below.as_ref().is_some_and(|below| below.is_cut);
            is_cut
                || paths.any(|path| {
                    let reached = ReachedPath::met(path, false, &self.roots);
                    let lists = [&PROTECTED, &SENSITIVE];
                    lists.iter().any(|list| reached.on(list).is_some())
                        || self.denies_edit(tool, reached)
                })
        };
        self.mode == Mode::AcceptEdits
            && command.is_plain_edit()
            && !command.files.iter().any(|file| file.is_in_new_directory)
            && !command.placed.is_cut
            && !command.files.iter().any(|file| file.is_written() && is_protected(file))
    }

    /// What is in a directory gets a name on a list by being put elsewhere: `cp -r a .github`.
    fn asks_about_placed_files(&self, command: &CommandAnalysis) -> Option<PolicyVerdict> {
        let placed = &command.placed;
        let found = placed.paths.iter().find_map(|path| {
            let reached = ReachedPath::met(path, false, &self.roots);
            let call = self.edit_of("Edit", reached);
            let lists = [(&SENSITIVE, "may hold secrets"), (&PROTECTED, DECIDES)];
            lists.iter().find_map(|(list, what)| {
                let pattern = reached.on(list)?;
                let is_named = self.rules.allows_by_name(call, list);
                (!is_named).then_some((path, pattern, *what))
            })
        });
        if let Some((path, pattern, what)) = found {
            let why = format!("it puts {} there, and `{pattern}` {what}", path.display());
            return Some(asks(why, "Instead, name the files"));
        }
        let may_hide = placed.is_cut && self.rules.restrict_paths();
        may_hide.then(|| asks(MORE_THAN_LOOKED_AT.to_owned(), "Instead, name the files"))
    }

    /// Whether the command may write what a rule denies, though all is mounted read-only that such
    /// rules cover now: something new, or by a program that is not known.
    fn may_write_denied(&self, tool: &str, command: &CommandAnalysis) -> bool {
        if !self.rules.deny_paths(tool, AccessKind::Edit) {
            return false;
        }
        if command.unheld_rule.is_some() {
            return true;
        }
        let denies = |path: &Path, is_directory: bool| {
            self.denies_edit(tool, ReachedPath::met(path, is_directory, &self.roots))
        };
        command.possible_files.iter().any(|path| {
            denies(path, false) || denies(path, true) || denies(&path.join("new"), false)
        })
    }

    fn denies_edit(&self, tool: &str, path: ReachedPath<'_>) -> bool {
        self.rules.denying(self.edit_of(tool, path)).is_some()
    }

    fn edit_of<'a>(&'a self, tool: &'a str, path: ReachedPath<'a>) -> RuledCall<'a> {
        RuledCall { reached: Some(path), ..RuledCall::new(tool, AccessKind::Edit, &self.roots) }
    }

    fn judge_by_allow_rules(&self, tool: &str, command: &CommandAnalysis) -> PolicyVerdict {
        let allows_once = self.hooks == HookOpinion::Allows;
        if allows_once || self.rules.allow_all_calls(tool, AccessKind::Command) {
            return PolicyVerdict::Allow(AllowedBy::Rules);
        }
        if let Some(program) = command.planted() {
            let why = format!("PATH leads to {}, which commands can write", program.display());
            return asks(why, "Instead, name the program by its path");
        }
        if !self.rules.allows(self.ruled_command(tool, command)) {
            let remedy = match command.exact_rules(tool) {
                Some(rules) => format!("with {}", allow_list(&rules)),
                None => format!("with {}", super::rule_or_mode(tool)),
            };
            let unheld_rule = || Some(cannot_be_held(command.unheld_rule.as_deref()?));
            let unheld = || unheld(command).or_else(unheld_rule).filter(|_| self.auto_allow);
            let why = command.exposed.as_ref().map(shown_to_readers).or_else(unheld);
            return PolicyVerdict::Ask { why, remedy: Remedy::Operator(remedy) };
        }
        // A rule for the command says nothing of where its output goes.
        let is_allowed = |file: &&CommandFile| {
            let accepts = self.mode == Mode::AcceptEdits;
            accepts || self.rules.allows(self.ruled_file(tool, file))
        };
        let redirects = command.files.iter().filter(|file| file.is_redirect() && file.is_written());
        match { redirects }.find(|file| !is_allowed(file)) {
            None => PolicyVerdict::Allow(AllowedBy::Rules),
            Some(file) => {
                let named = file.named();
                let below = self.roots.below(named).unwrap_or(named).display();
                let why = format!("it writes {below} by `{}`", file.by);
                let rules = [format!("Edit({below})")];
                let remedy = format!("with {} or the mode acceptEdits", allow_list(&rules));
                PolicyVerdict::Ask { why: Some(why), remedy: Remedy::Operator(remedy) }
            }
        }
    }

    /// The rules that together allow the command.
    pub(in crate::permissions) fn rules_allowing<'a>(
        &'a self,
        tool: &'a str,
        command: &'a CommandAnalysis,
    ) -> Vec<&'a RuleOrigin> {
        self.rules.allowing_parts(self.ruled_command(tool, command))
    }

    /// What of the command rules that deny or ask may not see.
    fn hides_from_rules(&self, command: &CommandAnalysis) -> Option<&'static str> {
        let restricts_commands = self.rules.restrict_commands();
        let hides_files = command.has_more_files() && self.rules.restrict_paths();
        if hides_files || (command.doubt().is_some() && restricts_commands) {
            return Some("a part of the line");
        }
        if command.has_uncertain_name() && restricts_commands {
            return Some("the name of a program");
        }
        if !command.unknown.is_empty() && self.rules.restrict_paths() {
            return Some("a file");
        }
        self.rules.may_restrict(command).then_some("an argument")
    }

    fn ruled_command<'a>(&'a self, tool: &'a str, command: &'a CommandAnalysis) -> RuledCall<'a> {
        let (kind, command) = (AccessKind::Command, Some(command));
        RuledCall { command, ..RuledCall::new(tool, kind, &self.roots) }
    }

    fn ruled_file<'a>(&'a self, tool: &'a str, file: &'a CommandFile) -> RuledCall<'a> {
        let kind = if file.is_written() { AccessKind::Edit } else { AccessKind::Read };
        let reached = Some(file.reached());
        RuledCall { reached, ..RuledCall::new(tool, kind, &self.roots) }
    }

    /// Judges a command that would run without a sandbox. Nothing confines it, so no rule and
    /// no mode can replace a person's approval.
    fn judge_without_sandbox(&self, tool: &str, command: &CommandAnalysis) -> PolicyVerdict {
        let because = self.confined.because();
        if self.sandbox == SandboxMode::Required {
            return PolicyVerdict::Deny(format!(
                "{tool} runs only in a sandbox here (`--sandbox required`), and there is \
                 none{because}"
            ));
        }
        let off = "with `--sandbox off` (commands then have all rights of the server's user)";
        let is_allowed = self.mode == Mode::BypassPermissions
            || self.rules.allows(self.ruled_command(tool, command));
        let also =
            if is_allowed { String::new() } else { format!(" and {}", super::rule_or_mode(tool)) };
        let why = Some(format!("there is no sandbox to run it in{because}"));
        PolicyVerdict::Ask { why, remedy: Remedy::Operator(format!("{off}{also}")) }
    }
}

const MORE_THAN_LOOKED_AT: &str = "it puts more files elsewhere than can be looked at";

/// How a line that is not understood avoids the question.
const SPLIT: &str = "Instead, use several short commands";

fn asks(why: String, instead: &'static str) -> PolicyVerdict {
    PolicyVerdict::Ask { why: Some(why), remedy: Remedy::Instead(instead) }
}

/// Why the sandbox replaces nobody's approval beside a rule.
fn cannot_be_held(rule: &str) -> String {
    format!("no mount can hold `{rule}` for files that are not there yet")
}

/// Asks about a reader from which files cannot be hidden that nobody has looked at.
fn reads_unseen(what: &str) -> PolicyVerdict {
    let why = format!(
        "{what} files that it does not name, and the workspace has more directories than are \
         looked through for secrets"
    );
    asks(why, "Instead, name the files")
}

/// Why a reader is not run unasked where nothing can be hidden from it.
fn shown_to_readers(exposed: &Exposed) -> String {
    match exposed {
        Exposed::File(path) => {
            let path = path.display();
            format!("it may show {path}, which the sandbox here cannot hide from it")
        }
        Exposed::Unseen => {
            let what = "more files in the workspace than can be looked at";
            format!("there are {what}, and the sandbox here cannot hide any from it")
        }
    }
}

/// Why the sandbox answers no question about the command: it does what the sandbox does not hold.
fn unheld(command: &CommandAnalysis) -> Option<String> {
    let discarding = |part| format!("`{part}` discards what the sandbox cannot bring back");
    let reaching = |part| format!("`{part}` is about more than this workspace");
    let discards = command.discards().map(discarding);
    discards.or_else(|| command.reaches_out().map(reaching))
}

fn critical(operand: &str, path: &str) -> PolicyVerdict {
    let why = format!("`{operand}` would remove {path}");
    PolicyVerdict::Ask { why: Some(why), remedy: Remedy::Nothing }
}

fn outside_sandbox() -> PolicyVerdict {
    let instead = "Instead, run it in the sandbox: without `dangerouslyDisableSandbox`";
    asks("it would run outside of the sandbox".to_owned(), instead)
}

fn hidden_from_rules(what: &str) -> PolicyVerdict {
    let why = format!("{what} is known only when it runs, and rules deny or ask about some");
    asks(why, SPLIT)
}

fn allow_list(rules: &[String]) -> String {
    let rules: Vec<String> = rules.iter().map(|rule| format!("{rule:?}")).collect();
    format!("`permissions.allow = [{}]`", rules.join(", "))
}
