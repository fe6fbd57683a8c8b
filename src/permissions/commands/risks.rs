//! Warns of what is suspicious in a command line. It proves nothing: a line without risks is not
//! a safe line.

use super::operands::{Operand, OperandAccess, OperandPath};
use super::part::{Part, RedirectTarget};
use super::syntax::is_invisible;
use super::word::Word;
use super::{ParsedCommand, Place, Redirect, UnparsedCommand};

use self::signs::{
    EVALUATORS, INTERPRETERS, NETWORK, NETWORK_GIT, PRIVILEGE, SHELLS, TAMPERING, configures,
    discards, is_disguised, names_environment, sets_user, steers_programs,
};

pub(super) mod signs;
#[cfg(test)]
mod tests;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Risk {
    pub(crate) kind: RiskKind,
    pub(crate) severity: Severity,
    /// What the person who approves should know.
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RiskKind {
    Substitution,
    Obfuscation,
    SensitiveRedirect,
    Network,
    Privilege,
    Tampering,
    CodeExecution,
    /// Denied in every mode but `bypassPermissions`.
    ProcessEnvironment,
    /// Denied in every mode but `bypassPermissions`.
    ControlCharacters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

impl RiskKind {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 9] = [
        Self::Substitution,
        Self::Obfuscation,
        Self::SensitiveRedirect,
        Self::Network,
        Self::Privilege,
        Self::Tampering,
        Self::CodeExecution,
        Self::ProcessEnvironment,
        Self::ControlCharacters,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Substitution => "substitution",
            Self::Obfuscation => "obfuscation",
            Self::SensitiveRedirect => "sensitive_redirect",
            Self::Network => "network",
            Self::Privilege => "privilege",
            Self::Tampering => "tampering",
            Self::CodeExecution => "code_execution",
            Self::ProcessEnvironment => "process_environment",
            Self::ControlCharacters => "control_characters",
        }
    }

    pub(crate) fn is_denied(self) -> bool {
        matches!(self, Self::ProcessEnvironment | Self::ControlCharacters)
    }
}

impl Severity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl Risk {
    /// What a command is that nothing confines although a sandbox holds.
    pub(crate) fn outside_sandbox() -> Self {
        let text = "it runs outside of the sandbox, with all rights of the server's user".into();
        Self { kind: RiskKind::Privilege, severity: Severity::Critical, text }
    }
}

impl ParsedCommand {
    /// The risks of the line, the gravest first. `is_sensitive` says whether writing to a path
    /// by a redirect is one.
    pub(crate) fn risks(
        &self,
        place: &Place<'_>,
        is_sensitive: &dyn Fn(&OperandPath) -> bool,
    ) -> Vec<Risk> {
        let mut found = Found::default();
        found.look_at_text(&self.line);
        let reached = || self.reached.iter().map(|reached| &reached.part);
        reached().for_each(|part| found.look_at_part(part));
        found.look_at_pipes(reached());
        for operand in self.operands(place) {
            found.look_at_operand(&operand, is_sensitive);
        }
        found.sorted()
    }
}

impl UnparsedCommand {
    /// The risks that its text shows.
    pub(crate) fn risks(&self) -> Vec<Risk> {
        let mut found = Found::default();
        found.look_at_text(&self.line);
        self.fragments.iter().for_each(|part| found.look_at_part(part));
        found.look_at_pipes(self.fragments.iter());
        found.sorted()
    }
}

/// The risks so far, one of a kind and text.
#[derive(Default)]
struct Found(Vec<Risk>);

impl Found {
    fn add(&mut self, kind: RiskKind, severity: Severity, text: impl Into<String>) {
        let risk = Risk { kind, severity, text: text.into() };
        if !self.0.contains(&risk) {
            self.0.push(risk);
        }
    }

    fn sorted(mut self) -> Vec<Risk> {
        self.0.sort_by_key(|risk| (std::cmp::Reverse(risk.severity), risk.kind));
        self.0
    }

    fn look_at_text(&mut self, line: &str) {
        if line.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            let text = "it holds control characters, which a screen does not show";
            self.add(RiskKind::ControlCharacters, Severity::Critical, text);
        }
        let is_blank = |c: char| c.is_whitespace() && !c.is_ascii();
        if line.chars().any(|c| is_invisible(c) || is_blank(c)) {
            let text = "it holds invisible characters or blanks that are none to the shell";
            self.add(RiskKind::Obfuscation, Severity::High, text);
        }
        if names_environment(line) {
            self.add_environment();
        }
        if ["/dev/tcp/", "/dev/udp/"].iter().any(|device| line.contains(device)) {
            self.add(
                RiskKind::Network,
                Severity::High,
                "it opens a connection by the shell itself",
            );
        }
    }

    fn add_environment(&mut self) {
        let text = "it reads the environment of a process, where secrets may be";
        self.add(RiskKind::ProcessEnvironment, Severity::Critical, text);
    }

    fn look_at_part(&mut self, part: &Part) {
        if part.is_substituted && !part.only_tells() {
            let text = "a command in a substitution runs before the one that it is part of";
            self.add(RiskKind::Substitution, Severity::Medium, text);
        }
        for assignment in part.assignments.iter().filter(|one| steers_programs(&one.name)) {
            let text = format!("setting {} can make other programs run", assignment.name);
            self.add(RiskKind::CodeExecution, Severity::High, text);
        }
        if part.is_evaluation {
            let text = "it evaluates text as arithmetic or as names, which can run commands";
            self.add(RiskKind::CodeExecution, Severity::Medium, text);
        }
        let Some(name) = part.words.first() else { return };
        self.look_at_name(name, part);
        if let Some(program) = name.base_name() {
            self.look_at_program(program, &part.words[1..]);
        }
    }

    fn look_at_name(&mut self, name: &Word, part: &Part) {
        if !part.is_evaluation && name.is_uncertain_name() && name.raw != "[[" {
            let text = format!("what `{}` runs is known only when it runs", shown(&name.raw));
            self.add(RiskKind::Obfuscation, Severity::High, text);
        } else if is_disguised(name) {
            let text = format!("the program's name is disguised: `{}`", shown(&name.raw));
            self.add(RiskKind::Obfuscation, Severity::High, text);
        }
    }

    fn look_at_program(&mut self, program: &str, arguments: &[Word]) {
        let has = |text: &str| arguments.iter().any(|word| word.unquoted == text);
        let first = || arguments.iter().find(|word| !word.unquoted.starts_with('-'));
        let is_first =
            |names: &[&str]| first().is_some_and(|word| names.contains(&word.unquoted.as_str()));
        let has_flag = |letters: &[char]| {
            arguments.iter().any(|word| {
                let text = word.unquoted.as_str();
                text.starts_with('-') && !text.starts_with("--") && text.contains(letters)
            })
        };
        if NETWORK.contains(&program) || (program == "git" && is_first(&NETWORK_GIT)) {
            let text = format!("`{program}` reaches for the network");
            self.add(RiskKind::Network, Severity::Medium, text);
        }
        if PRIVILEGE.contains(&program) {
            let text = format!("`{program}` gives more rights");
            self.add(RiskKind::Privilege, Severity::High, text);
        }
        if program == "chmod" && arguments.iter().any(|word| sets_user(&word.unquoted)) {
            let text = "it makes a program run with its owner's rights";
            self.add(RiskKind::Privilege, Severity::High, text);
        }
        if TAMPERING.contains(&program) || program.starts_with("mkfs") {
            let text = format!("`{program}` changes the system or other processes");
            self.add(RiskKind::Tampering, Severity::High, text);
        }
        if program == "rm" && (has_flag(&['r', 'R']) || has("--recursive")) {
            self.add(RiskKind::Tampering, Severity::Medium, "it removes whole directories");
        }
        if program == "find" && has("-delete") {
            self.add(RiskKind::Tampering, Severity::Medium, "it removes what it finds");
        }
        if program == "git" && discards(arguments) {
            self.add(RiskKind::Tampering, Severity::Medium, "it discards changes or history");
        }
        if program == "git" && configures(arguments) {
            let text = "git's configuration can run programs";
            self.add(RiskKind::CodeExecution, Severity::High, text);
        }
        if matches!(program, "history" | "unset") && has_flag(&['c', 'w', 'd']) {
            self.add(RiskKind::Tampering, Severity::Low, "it changes what was recorded");
        }
        self.look_at_code(program, arguments);
    }

    fn look_at_code(&mut self, program: &str, arguments: &[Word]) {
        let is_interpreter = INTERPRETERS.contains(&program) || program.starts_with("python3.");
        if SHELLS.contains(&program) || is_interpreter {
            let text = format!("`{program}` runs code that these rules do not see");
            self.add(RiskKind::CodeExecution, Severity::Medium, text);
        }
        if EVALUATORS.contains(&program) {
            let is_known = arguments.iter().all(|word| word.literal().is_some());
            let severity = if is_known { Severity::Medium } else { Severity::High };
            let text = format!("`{program}` runs text as commands, or changes what a name runs");
            self.add(RiskKind::CodeExecution, severity, text);
        }
        let executes =
            |word: &Word| matches!(word.unquoted.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
        if matches!(program, "xargs" | "parallel")
            || (program == "find" && arguments.iter().any(executes))
        {
            let text = format!("`{program}` runs a command on names that are not known");
            self.add(RiskKind::CodeExecution, Severity::Medium, text);
        }
    }

    /// What comes from the network or out of an encoding, and goes to a shell.
    fn look_at_pipes<'a>(&mut self, parts: impl Iterator<Item = &'a Part>) {
        let mut comes_from = None;
        for part in parts {
            let Some(program) = part.program() else { continue };
            let runs_input = SHELLS.contains(&program) || INTERPRETERS.contains(&program);
            if let Some((kind, source)) = comes_from.filter(|_| runs_input) {
                let text = format!("`{program}` may run what `{source}` puts out");
                self.add(kind, Severity::Critical, text);
            }
            comes_from = match program {
                "base64" | "base32" | "xxd" | "openssl" | "rev" | "gunzip" | "zcat" => {
                    Some((RiskKind::Obfuscation, program))
                }
                _ if NETWORK.contains(&program) => Some((RiskKind::CodeExecution, program)),
                _ => comes_from,
            };
            let is_device = |redirect: &Redirect| {
                matches!(&redirect.target, RedirectTarget::File(word)
                    if word.unquoted.starts_with("/dev/sd") || word.unquoted.starts_with("/dev/nvme"))
            };
            if part.redirects.iter().any(is_device) {
                self.add(RiskKind::Tampering, Severity::Critical, "it writes to a disk itself");
            }
        }
    }

    fn look_at_operand(&mut self, operand: &Operand, is_sensitive: &dyn Fn(&OperandPath) -> bool) {
        let path = match &operand.path {
            OperandPath::Known(path) | OperandPath::Relative(path) => {
                path.to_string_lossy().into_owned()
            }
            OperandPath::Pattern(text) | OperandPath::Unknown(text) => text.clone(),
        };
        if names_environment(&path) {
            self.add_environment();
        }
        let is_redirect = operand.by.starts_with(['<', '>']);
        if is_redirect && operand.access == OperandAccess::Write && is_sensitive(&operand.path) {
            let text = format!("it writes to `{}`", shown(&path));
            self.add(RiskKind::SensitiveRedirect, Severity::High, text);
        }
        if operand.access == OperandAccess::Write && path.starts_with("/dev/") && operand.by == "dd"
        {
            self.add(RiskKind::Tampering, Severity::Critical, "it writes to a device itself");
        }
    }
}

/// At most forty characters, for a sentence.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if text.chars().count() > 40 {
        shown.push('…');
    }
    shown
}
