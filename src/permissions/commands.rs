//! Parses a Bash command line, and answers what rules and the policy ask about it.
//!
//! There is one parse and there are three analyses. [`ParsedCommand::is_read_only`] proves that a
//! line changes nothing, by lists of what is known. [`ParsedCommand::reading`] says of more lines
//! that they only read where they are confined to it, by lists of what is harmless to try.
//! [`risks`](ParsedCommand::risks) warns, by lists of what is suspicious, and proves nothing. All of it is pure, and a courtesy: the border
//! is the sandbox.

use std::time::{Duration, Instant};

pub(super) use self::directories::{Place, normalized};
pub(crate) use self::doubt::Doubt;
pub(super) use self::globs::may_mean;
pub(crate) use self::operands::{ChangesBefore, NameChange, Operand, OperandAccess, OperandPath};
pub(crate) use self::pattern::BashPattern;
pub(crate) use self::readers::Reading;
pub(crate) use self::removals::CriticalRemoval;
pub(super) use self::removals::is_critical;
pub(crate) use self::risks::Risk;
pub(crate) use self::summary::{CommandSummary, NamedCommand};

use self::exit_codes::ExitOne;
use self::heredocs::CutLine;
use self::part::{Part, Redirect};
use self::reach::Reached;

mod ansi_c;
mod collect;
mod directories;
mod discards;
mod doubt;
mod evaluating;
mod exit_codes;
mod expansions;
mod fragments;
mod globs;
mod heredocs;
mod hidden;
mod lexer;
mod matching;
mod meanings;
mod networking;
mod operands;
mod part;
mod pattern;
mod plain_read;
mod program_lists;
mod reach;
mod reaching_out;
mod read_only;
mod readers;
mod removals;
mod risks;
mod subcommands;
mod summary;
mod syntax;
#[cfg(test)]
mod tests;
mod usual_words;
mod values;
mod word;
mod wrappers;

/// How long the parser may take. What takes longer was made to take long.
const PARSE_TIME: Duration = Duration::from_millis(50);

/// A command line of which every part is known.
#[derive(Clone, Debug)]
pub(crate) struct ParsedCommand {
    line: String,
    /// In the order of the line. What stands in a substitution comes before the command whose
    /// argument it is.
    parts: Vec<Part>,
    reached: Vec<Reached>,
    /// Holds nothing but plain commands joined by `&&`, `||`, `;` and `|`.
    is_plain: bool,
    /// Why it is more than commands that only read, whatever its parts are.
    beyond_reading: Option<&'static str>,
    /// The parts run one after the other, each once.
    is_ordered: bool,
    /// The names of programs mean what they do outside of the line.
    keeps_meanings: bool,
    /// How many words stand for the output of `cat`.
    literals: usize,
    exit_one: ExitOne,
    /// What deny and ask rules are compared with.
    texts: Vec<String>,
}

/// A command line that is asked about, because not every part of it is known.
#[derive(Clone, Debug)]
pub(crate) struct UnparsedCommand {
    pub(crate) doubt: Doubt,
    line: String,
    fragments: Vec<Part>,
    texts: Vec<String>,
}

/// Parses a command line. Takes at most 50 ms, so it must not run in an async thread.
pub(crate) fn parse(line: &str) -> Result<ParsedCommand, Box<UnparsedCommand>> {
    #[expect(clippy::disallowed_methods, reason = "bounds the parser, which runs no async code")]
    let start = Instant::now();
    parse_within(line, &mut || start.elapsed() < PARSE_TIME)
}

/// As [`parse`], while `may_go_on` says so.
fn parse_within(
    line: &str,
    may_go_on: &mut dyn FnMut() -> bool,
) -> Result<ParsedCommand, Box<UnparsedCommand>> {
    ParsedCommand::new(line, may_go_on).map_err(|doubt| Box::new(UnparsedCommand::new(line, doubt)))
}

/// The parts of a script inside a command line.
fn parse_parts(script: &str) -> Result<Vec<Part>, Doubt> {
    // A script is a piece of the line, whose parts are counted together with it.
    let mut steps = 0;
    syntax::check_line(script)?;
    let cut = CutLine::new(script)?.without_cat();
    let tree = syntax::parse_tree(&cut.text, &mut || {
        steps += 1;
        steps < MAX_SCRIPT_STEPS
    })?;
    Ok(collect::collect(&tree, &cut)?.parts)
}

/// How often the parser may report progress within a script. It does so every hundred steps.
const MAX_SCRIPT_STEPS: usize = 2_000;

impl ParsedCommand {
    fn new(line: &str, may_go_on: &mut dyn FnMut() -> bool) -> Result<Self, Doubt> {
        syntax::check_line(line)?;
        let cut = CutLine::new(line)?;
        let tree = syntax::parse_tree(&cut.text, may_go_on)?;
        let parsed = Self::of_tree(line, &tree, &cut)?;
        if parsed.literals > 0 && !parsed.keeps_meanings {
            return Self::of_tree(line, &tree, &cut.without_cat());
        }
        Ok(parsed)
    }

    fn of_tree(line: &str, tree: &tree_sitter::Tree, cut: &CutLine<'_>) -> Result<Self, Doubt> {
        let collected = collect::collect(tree, cut)?;
        let collect::Collected { parts, is_plain, beyond_reading, is_ordered, .. } = collected;
        let reached = reach::reached(&parts)?;
        let texts = matching::texts(line, reached.iter().map(|reached| &reached.part));
        let keeps_meanings = !collected.defines_function && !meanings::change(&reached);
        let is_decided = exit_codes::has_decisive(&reached);
        let exit_one = if is_decided { ExitOne::Failure } else { collected.exit_one };
        let line = line.to_owned();
        let literals = collected.literals;
        Ok(Self {
            line,
            parts,
            reached,
            is_plain,
            beyond_reading,
            is_ordered,
            keeps_meanings,
            literals,
            exit_one,
            texts,
        })
    }

    /// The first part for which this holds, behind wrappers too, as written.
    fn first_part(&self, is_it: fn(&Part) -> bool) -> Option<&str> {
        let found = self.reached.iter().find(|reached| is_it(&reached.part))?;
        self.parts.get(found.from).map(|part| part.source.trim())
    }

    /// Whether a program's name is known only when the command runs, so that no deny rule can
    /// tell what it is.
    pub(crate) fn has_uncertain_name(&self) -> bool {
        self.reached.iter().any(|reached| reached.part.has_uncertain_name())
    }
}

impl ParsedCommand {
    /// Whether it neither begins with `sleep` nor runs git.
    pub(crate) fn may_go_on_alone(&self) -> bool {
        let waits = self.parts.first().and_then(Part::program) == Some("sleep");
        !waits && !self.runs_git() && !self.has_uncertain_name()
    }
}

impl UnparsedCommand {
    fn new(line: &str, doubt: Doubt) -> Self {
        let fragments = with_reached(fragments::fragments(line));
        let texts = matching::texts(line, fragments.iter());
        Self { doubt, line: line.to_owned(), fragments, texts }
    }
}

/// The fragments and what they may run through wrappers, as far as that is bounded.
fn with_reached(fragments: Vec<Part>) -> Vec<Part> {
    let mut left = MAX_FRAGMENT_BYTES;
    let mut all = Vec::new();
    for fragment in fragments {
        let reached =
            if left > 0 { reach::reached(std::slice::from_ref(&fragment)) } else { Ok(Vec::new()) };
        let parts: Vec<_> = reached.into_iter().flatten().map(|reached| reached.part).collect();
        let bytes: usize =
            parts.iter().flat_map(|part| &part.words).map(|word| word.raw.len()).sum();
        left = left.saturating_sub(bytes);
        all.extend(if parts.is_empty() { vec![fragment] } else { parts });
    }
    all
}

/// What wrappers in a line that does not parse may multiply it to: far more than a line that a
/// person writes.
const MAX_FRAGMENT_BYTES: usize = 1 << 20;
