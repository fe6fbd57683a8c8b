//! Asks the patterns of `Bash(…)` rules about a command line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::directories::{Directories, Place, directories};
use super::evaluating::exceeds;
use super::part::{Assignment, Part, Redirect, RedirectKind, RedirectTarget, joined};
use super::pattern::BashPattern;
use super::reach;
use super::risks::signs;
use super::word::Word;
use super::wrappers::unwrapped;
use super::{ParsedCommand, UnparsedCommand};

/// Variables that change how a program prints, but not what it runs.
const HARMLESS: [&str; 14] = [
    "LANG",
    "TZ",
    "TERM",
    "COLUMNS",
    "NO_COLOR",
    "FORCE_COLOR",
    "CI",
    "NODE_ENV",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "GOOS",
    "GOARCH",
    "CGO_ENABLED",
    "PYTHONUNBUFFERED",
];

/// The texts that deny and ask rules are compared with: the line itself, and each part as
/// written, with its quotes removed, and by the program's bare name.
pub(super) fn texts<'a>(line: &str, parts: impl Iterator<Item = &'a Part>) -> Vec<String> {
    let mut texts = BTreeSet::from([line.trim().to_owned()]);
    for part in parts {
        let bare = part.program().map(|program| {
            let name = Word::plain(program);
            let rest = part.words[1..].iter().cloned();
            let words: Vec<_> = std::iter::once(name).chain(rest).collect();
            joined(&words, |word| &word.unquoted)
        });
        texts.extend([part.source.clone(), part.text(), part.unquoted()]);
        texts.extend(bare);
    }
    texts.remove("");
    texts.into_iter().collect()
}

impl ParsedCommand {
    /// Whether a deny or an ask rule holds: any part matches, through all wrappers, or the line
    /// itself does.
    pub(crate) fn is_matched_by(&self, pattern: &BashPattern) -> bool {
        self.texts.iter().any(|text| pattern.matches(text))
    }

    /// Whether allow rules let the line run: every part matches one of them, or is proven to only
    /// read. The files that it reads are judged as [`operands`](Self::operands), and redirects are not
    /// looked at, they are judged as [`operands`](Self::operands).
    pub(crate) fn is_allowed_by(&self, patterns: &[&BashPattern]) -> bool {
        if self.is_allowed_by_rules(patterns) {
            return true;
        }
        let with_star = patterns.iter().filter(|pattern| pattern.has_star());
        let open: Vec<&BashPattern> = with_star.copied().collect();
        let mut is_by_rule = false;
        let mut is_by_proof = false;
        for part in &self.parts {
            if part.is_allowed_by(patterns) {
                // A rule without a star is for one command alone, and programs such as `ssh` and
                // `psql` run what they read.
                let is_fed = part.is_fed || part.reads_substitution();
                let is_exact = || !part.is_proven_to_read() && !part.is_allowed_by(&open);
                if is_fed && is_by_proof && is_exact() {
                    return false;
                }
                is_by_rule |= !part.words.is_empty();
            } else if part.is_proven_to_read() {
                is_by_proof = true;
            } else {
                return false;
            }
        }
        is_by_rule && self.believes_proofs()
    }

    /// The same where nothing is taken for proven.
    pub(crate) fn is_allowed_by_rules(&self, patterns: &[&BashPattern]) -> bool {
        self.parts.iter().all(|part| part.is_allowed_by(patterns))
    }

    /// Whether a part may run in a directory for which this does not hold.
    pub(crate) fn may_leave(&self, place: &Place<'_>, holds: impl Fn(&Path) -> bool) -> bool {
        let all = directories(&self.reached, place);
        let leaves = |one: &Directories| one.or_unknown || !one.known.iter().all(|it| holds(it));
        self.changes_directory() && all.iter().any(leaves)
    }

    /// The directory of the line, and those that its parts may run in, as far as it tells.
    pub(crate) fn known_directories(&self, place: &Place<'_>) -> Vec<PathBuf> {
        let mut known = vec![place.directory.to_owned()];
        known.extend(directories(&self.reached, place).into_iter().flat_map(|one| one.known));
        known
    }

    /// Whether a part that only reads does so beside the others: names mean what they do elsewhere,
    /// and what it prints is no program of a part behind it.
    fn believes_proofs(&self) -> bool {
        let is_stdin = |redirect: &Redirect| {
            redirect.kind == RedirectKind::Text && matches!(redirect.descriptor, None | Some(0))
        };
        let runs_pipe = |part: &Part| part.runs_its_input() && !part.redirects.iter().any(is_stdin);
        self.keeps_meanings && !self.parts.iter().any(runs_pipe)
    }
}

impl ParsedCommand {
    /// Whether a part may turn out to match when it runs.
    pub(crate) fn may_be_matched_by(&self, pattern: &BashPattern) -> bool {
        let parts = self.reached.iter().map(|reached| &reached.part);
        let has_uncertain = |part: &&Part| part.words.iter().any(|word| word.literal().is_none());
        parts.filter(has_uncertain).any(|part| pattern.may_match(&part.words))
    }

    /// The names of the programs that rules are compared with, those behind wrappers too.
    pub(crate) fn programs_for_rules(&self) -> Vec<String> {
        let mut names = Vec::new();
        for part in &self.parts {
            let mut words = Some(part.words.clone());
            while let Some(inner) = words {
                names.extend(inner.first().and_then(Word::literal).map(str::to_owned));
                words = unwrapped(&inner);
            }
        }
        names.retain(|name| !name.is_empty() && !name.contains('/'));
        names
    }

    /// The patterns that allow exactly this line, one for each part, at most five; `None` if no
    /// pattern can allow it.
    pub(crate) fn exact_patterns(&self) -> Option<Vec<String>> {
        // A rule holds for any input.
        if self.parts.iter().any(|part| part.has_text_input() && !part.only_prints_input()) {
            return None;
        }
        let texts: BTreeSet<String> = self.parts.iter().map(Part::text).collect();
        let written = || texts.iter().filter(|text| !text.is_empty());
        let patterns: Vec<String> = written().map(|text| BashPattern::escaped(text)).collect();
        let parsed: Result<Vec<_>, _> =
            patterns.iter().map(|pattern| BashPattern::parse(pattern)).collect();
        let parsed = parsed.ok()?;
        let is_enough = patterns.len() <= MAX_EXACT && !patterns.is_empty();
        let allows = is_enough && self.is_allowed_by(&parsed.iter().collect::<Vec<_>>());
        allows.then_some(patterns)
    }
}

/// More rules than this for one line are no longer read by who approves them.
const MAX_EXACT: usize = 5;

impl UnparsedCommand {
    /// As [`ParsedCommand::is_matched_by`], over everything that could be a part.
    pub(crate) fn is_matched_by(&self, pattern: &BashPattern) -> bool {
        self.texts.iter().any(|text| pattern.matches(text))
    }
}

impl Part {
    pub(crate) fn is_allowed_by(&self, patterns: &[&BashPattern]) -> bool {
        let (literal, patterns): (Vec<&BashPattern>, Vec<&BashPattern>) =
            patterns.iter().partition(|pattern| pattern.is_literal());
        if literal.into_iter().any(|pattern| self.is_literally(pattern)) {
            return true;
        }
        if self.is_evaluation || !self.assignments.iter().all(is_harmless) {
            return false;
        }
        if self.words.is_empty() {
            return true;
        }
        let matches = |words: &[Word]| {
            let texts = [joined(words, |word| &word.raw), joined(words, |word| &word.unquoted)];
            let is_known = !words[0].is_uncertain_name();
            is_known
                && patterns.iter().any(|pattern| {
                    texts.iter().any(|text| pattern.matches(text)) && !exceeds(words, pattern)
                })
        };
        let mut words = self.words.clone();
        loop {
            if matches(&words) {
                return true;
            }
            match unwrapped(&words) {
                Some(inner) => words = inner,
                None => return false,
            }
        }
    }
}

impl Part {
    /// Whether the part is what the pattern says, and nothing beside its words decides what it
    /// does: no variable, no expansion, no input.
    fn is_literally(&self, pattern: &BashPattern) -> bool {
        let is_input = |redirect: &Redirect| {
            matches!(
                redirect.kind,
                RedirectKind::Read | RedirectKind::ReadWrite | RedirectKind::Text
            )
        };
        let has_more = self.is_evaluation
            || !self.assignments.is_empty()
            || self.redirects.iter().any(is_input)
            || self.words.iter().any(|word| word.literal().is_none());
        let is_known = !pattern.has_star() || self.has_usual_words();
        !has_more && is_known && pattern.matches(&self.text()) && !self.runs_its_input()
    }

    /// Whether its input is what another command prints, by `< <(…)`.
    fn reads_substitution(&self) -> bool {
        let is_unknown = |target: &RedirectTarget| match target {
            RedirectTarget::File(word) => word.literal().is_none(),
            _ => false,
        };
        let mut inputs = self.redirects.iter().filter(|it| it.kind == RedirectKind::Read);
        inputs.any(|redirect| is_unknown(&redirect.target))
    }

    /// Whether a pipe to it could make it do anything.
    fn runs_its_input(&self) -> bool {
        match reach::reached(std::slice::from_ref(self)) {
            Ok(reached) => reached.iter().any(|reached| runs_its_input(&reached.part)),
            Err(_) => true,
        }
    }
}

fn runs_its_input(part: &Part) -> bool {
    let Some(program) = part.program() else { return false };
    if matches!(program, "xargs" | "parallel") {
        return true;
    }
    let is_shell = signs::SHELLS.contains(&program);
    let is_interpreter = signs::INTERPRETERS.contains(&program) || program.starts_with("python3.");
    let mut arguments = part.words[1..].iter().filter_map(Word::literal);
    let names_input = |argument: &str| {
        let is_flag_s = || argument.starts_with('-') && argument.contains('s');
        matches!(argument, "-" | "/dev/stdin" | "/dev/fd/0") || (is_shell && is_flag_s())
    };
    let has_script = arguments.clone().any(|argument| !argument.starts_with('-'));
    (is_shell || is_interpreter) && (!has_script || arguments.any(names_input))
}

/// Whether allow rules may look past the assignment.
pub(super) fn is_harmless(assignment: &Assignment) -> bool {
    let name = assignment.name.as_str();
    if assignment.is_loop_variable {
        // Programs read lower-case names from their environment in one case alone.
        return !name.bytes().any(|byte| byte.is_ascii_uppercase()) && !name.ends_with("_proxy");
    }
    let is_named = HARMLESS.contains(&name) || name.starts_with("LC_");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,:=@+- ".contains(c);
    is_named && assignment.value.as_ref().is_some_and(|value| value.chars().all(is_plain))
}
