//! Collects one simple command: its words, redirects, and what stands inside them.

use std::ops::Range;

use tree_sitter::Node;

use super::super::Doubt;
use super::super::expansions::evaluates;
use super::super::lexer::{Item, Mismatch, lex};
use super::super::part::{Assignment, Part};
use super::super::syntax::{children, outermost};
use super::super::word::{Piece, Word, is_name};
use super::{Collector, Context, MAX_PARTS};

/// What a word may hold that the tree has to explain.
const EXPANSIONS: [&str; 5] =
    ["command_substitution", "process_substitution", "expansion", "arithmetic_expansion", "array"];

/// Words that bash reads as grammar at the beginning of a command.
const RESERVED: [&str; 22] = [
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while", "{", "}",
];

impl From<Mismatch> for Doubt {
    fn from(Mismatch: Mismatch) -> Self {
        Self::Syntax
    }
}

impl Collector<'_> {
    pub(super) fn simple(
        &mut self,
        node: Node<'_>,
        context: Context,
        redirects: &[Node<'_>],
    ) -> Result<Option<usize>, Doubt> {
        let subshells = outermost_subshells(node);
        if let [subshell] = subshells.as_slice() {
            return self.timed_subshell(node, *subshell, context, redirects).map(|()| None);
        }
        let index = self.command(vec![node.byte_range()], context, redirects, &[node])?;
        self.of_nodes.insert(node.id(), index);
        Ok(Some(index))
    }

    /// `time (…)`: the grammar has it as a command with a subshell.
    fn timed_subshell(
        &mut self,
        node: Node<'_>,
        subshell: Node<'_>,
        context: Context,
        redirects: &[Node<'_>],
    ) -> Result<(), Doubt> {
        if self.line[node.start_byte()..subshell.start_byte()].trim() != "time" {
            return Err(Doubt::Syntax);
        }
        self.visit(subshell, Context { after_success_of: None, ..context }, redirects)?;
        Ok(())
    }

    /// Collects one simple command out of the text in `ranges` and its redirects.
    pub(super) fn command(
        &mut self,
        ranges: Vec<Range<usize>>,
        context: Context,
        redirects: &[Node<'_>],
        nodes: &[Node<'_>],
    ) -> Result<usize, Doubt> {
        let inner = Context { after_success_of: None, ..context };
        let mut items = Vec::new();
        for (range, node) in ranges.into_iter().zip(nodes) {
            items.extend(self.words(range, *node, inner, false)?);
        }
        for redirect in redirects {
            items.extend(self.redirect(*redirect, inner)?);
        }
        let first = nodes.first().or(redirects.first()).map_or(0, Node::start_byte);
        let last = redirects.last().or(nodes.last()).map_or(first, Node::end_byte);
        let source = self.cut.written(first..last.max(first)).to_owned();
        let part = Part { source, ..part_of(items)? };
        let index = self.parts.len();
        self.push(part, context)?;
        Ok(index)
    }

    pub(super) fn push(&mut self, part: Part, context: Context) -> Result<(), Doubt> {
        let Context { is_substituted, is_repeated, is_fed, after_success_of } = context;
        self.parts.push(Part { is_substituted, is_repeated, is_fed, after_success_of, ..part });
        if self.parts.len() > MAX_PARTS { Err(Doubt::ManyParts) } else { Ok(()) }
    }

    /// Lexes a range of a node, and visits the substitutions in it.
    pub(super) fn words(
        &mut self,
        range: Range<usize>,
        node: Node<'_>,
        context: Context,
        multiline: bool,
    ) -> Result<Vec<Item>, Doubt> {
        let nested = if EXPANSIONS.contains(&node.kind()) {
            vec![node]
        } else {
            outermost(node, &EXPANSIONS)
        };
        let ranges: Vec<_> = nested.iter().map(Node::byte_range).collect();
        let items = lex(self.cut, range, &ranges, multiline)?;
        for node in nested {
            self.expansion(node, context)?;
        }
        Ok(items)
    }

    fn expansion(&mut self, node: Node<'_>, context: Context) -> Result<(), Doubt> {
        match node.kind() {
            "command_substitution" if self.is_literal(node) => {
                self.literals += 1;
                Ok(())
            }
            "command_substitution" | "process_substitution" => {
                let inside = Context { is_substituted: true, ..context };
                self.each(node, inside)
            }
            "array" => {
                let inner = node.start_byte() + 1..node.end_byte() - 1;
                for child in children(node).into_iter().filter(Node::is_named) {
                    let range = child.byte_range();
                    self.words(range, child, context, true)?;
                }
                // The elements as bash sees them.
                let nested: Vec<_> =
                    outermost(node, &EXPANSIONS).iter().map(Node::byte_range).collect();
                lex(self.cut, inner, &nested, true)?;
                Ok(())
            }
            "arithmetic_expansion" => {
                let inner = &self.text(node)[1..];
                let is_number = inner.chars().all(|c| " ()+-*/%0123456789".contains(c));
                self.evaluated(node, context, !is_number)
            }
            _ => {
                let nested: Vec<_> =
                    outermost(node, &EXPANSIONS).iter().map(Node::byte_range).collect();
                let is_evaluated = evaluates(self.line, node.byte_range(), &nested)?;
                self.evaluated(node, context, is_evaluated)
            }
        }
    }

    fn evaluated(
        &mut self,
        node: Node<'_>,
        context: Context,
        is_evaluation: bool,
    ) -> Result<(), Doubt> {
        for child in children(node) {
            self.substitutions(child, context)?;
        }
        if is_evaluation {
            let source = self.written(node);
            let words = vec![Word::unknown(&source)];
            self.push(Part { source, words, is_evaluation, ..Part::default() }, context)?;
        }
        Ok(())
    }

    fn redirect(&mut self, node: Node<'_>, context: Context) -> Result<Vec<Item>, Doubt> {
        // The scan has missed a here-document.
        if node.kind() == "heredoc_redirect" {
            return Err(Doubt::Syntax);
        }
        self.words(node.byte_range(), node, context, false)
    }

    /// Whether the substitution is `"$(cat <<'E' … E)"`, which the lexer takes for its text.
    fn is_literal(&self, node: Node<'_>) -> bool {
        let is_quoted = node.parent().is_some_and(|parent| parent.kind() == "string");
        is_quoted && self.cut.literal(&node.byte_range()).is_some()
    }

    /// Visits the substitutions in something else than a word.
    pub(super) fn substitutions(&mut self, node: Node<'_>, context: Context) -> Result<(), Doubt> {
        if EXPANSIONS.contains(&node.kind()) {
            return self.expansion(node, context);
        }
        children(node).into_iter().try_for_each(|child| self.substitutions(child, context))
    }
}

fn outermost_subshells(node: Node<'_>) -> Vec<Node<'_>> {
    children(node).into_iter().filter(|child| child.kind() == "subshell").collect()
}

/// Tells leading assignments from words.
fn part_of(items: Vec<Item>) -> Result<Part, Doubt> {
    let mut part = Part::default();
    for item in items {
        match item {
            Item::Redirect(redirect) => part.redirects.push(redirect),
            Item::Word(word) if part.words.is_empty() && is_assignment(&word) => {
                part.assignments.push(assignment(&word));
            }
            Item::Word(word) => part.words.push(word),
        }
    }
    let is_reserved = |word: &Word| RESERVED.contains(&as_tokenized(word).as_str());
    let is_timed = part.words.first().is_some_and(|word| as_tokenized(word) == "time");
    let next = part.words.iter().skip(1).find(|word| !word.raw.starts_with('-'));
    // The grammar has missed a keyword of bash.
    let is_missed = if is_timed {
        next.is_some_and(is_reserved)
    } else {
        part.words.first().is_some_and(is_reserved)
    };
    part.is_evaluation = evaluates_names(&part);
    if is_missed { Err(Doubt::Syntax) } else { Ok(part) }
}

/// Builtins that take words as names of variables. In the subscript of a name, bash expands
/// what is quoted too.
const NAMING: [&str; 15] = [
    "[",
    "declare",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "test",
    "typeset",
    "unset",
    "wait",
];

fn evaluates_names(part: &Part) -> bool {
    // Wrappers may stand before the name: `command read …`.
    let is_naming = |word: &Word| word.base_name().is_some_and(|name| NAMING.contains(&name));
    part.words.iter().any(is_naming) && part.words.iter().any(holds_subscript)
}

/// Whether the text holds a subscript that runs a command when it is evaluated.
pub(super) fn holds_subscript(word: &Word) -> bool {
    word.unquoted.split_once('[').is_some_and(|(_, index)| index.contains(['$', '`']))
}

/// The word as bash sees it when it looks for keywords and assignments: line continuations are
/// gone before.
fn as_tokenized(word: &Word) -> String {
    word.raw.replace("\\\n", "")
}

/// The name must not be quoted, or bash sees a word.
fn is_assignment(word: &Word) -> bool {
    let raw = as_tokenized(word);
    let name = raw.split_once('=').map(|(name, _)| name);
    let name = name.map(|name| name.strip_suffix('+').unwrap_or(name));
    let bare = name.map(|name| name.split_once('[').map_or(name, |(bare, _)| bare));
    bare.is_some_and(is_name)
}

fn assignment(word: &Word) -> Assignment {
    let (name, value) = word.unquoted.split_once('=').unwrap_or((&word.unquoted, ""));
    let values = word.without_prefix(name.len() + "=".len()).into_iter().collect();
    let is_known = word.pieces.iter().all(|piece| matches!(piece, Piece::Text(_)));
    let value = is_known.then(|| value.to_owned());
    Assignment { name: name.to_owned(), value, values, is_loop_variable: false }
}
