//! Parses a command line into a syntax tree, within limits of length, depth and work.

use std::cell::Cell;
use std::ops::ControlFlow;

use tree_sitter::{LanguageError, Node, ParseOptions, Parser, Tree};

use super::Doubt;

/// Longer lines are asked about. Nobody reads them before approving.
const MAX_CHARACTERS: usize = 10_000;

/// What a person writes nests below ten deep. The walks over the tree recurse.
const MAX_OPEN: usize = 64;
const MAX_DEPTH: usize = 200;

/// Checks a whole line, with its here-documents.
pub(super) fn check_line(line: &str) -> Result<(), Doubt> {
    if line.len() > MAX_CHARACTERS && line.chars().count() > MAX_CHARACTERS {
        return Err(Doubt::Long);
    }
    if line.chars().any(is_treacherous) { Err(Doubt::Characters) } else { Ok(()) }
}

/// Parses a line without its here-documents. `may_go_on` is asked now and then whether there is
/// time left.
pub(super) fn parse_tree(line: &str, may_go_on: &mut dyn FnMut() -> bool) -> Result<Tree, Doubt> {
    check_text(line)?;
    let mut parser = PARSER.take().map_or_else(new_parser, Ok).map_err(|_| Doubt::Syntax)?;
    let mut progress = |_: &_| {
        if may_go_on() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = line.as_bytes();
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut read, None, Some(options));
    // One that was stopped would go on with the old text.
    parser.reset();
    // The grammar's scanner keeps here-documents that had no end for whatever it reads next.
    if !line.contains("<<") {
        PARSER.set(Some(parser));
    }
    let tree = tree.ok_or(Doubt::Slow)?;
    if tree.root_node().has_error() {
        return Err(Doubt::Syntax);
    }
    check_depth(&tree)?;
    Ok(tree)
}

thread_local! {
    /// Making a parser takes longer than parsing a short line.
    static PARSER: Cell<Option<Parser>> = const { Cell::new(None) };
}

fn new_parser() -> Result<Parser, LanguageError> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into())?;
    Ok(parser)
}

fn check_text(line: &str) -> Result<(), Doubt> {
    if line.split('{').skip(1).any(crashes_the_scanner) {
        return Err(Doubt::Characters);
    }
    // Brackets in quotes count too: this only has to keep the parser's work small.
    let mut open = 0_usize;
    for byte in line.bytes() {
        match byte {
            b'(' | b'{' | b'[' => open += 1,
            b')' | b'}' | b']' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > MAX_OPEN {
            return Err(Doubt::Deep);
        }
    }
    Ok(())
}

/// Whether the character after `{` and its digits, as in `{1..9}`, is not ASCII. The grammar's
/// scanner (0.25) looks every character there up in a C table of 256 entries, and most others lie
/// outside the process's memory.
fn crashes_the_scanner(after_brace: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let is_foreign = |text: &str| text.starts_with(|c: char| !c.is_ascii());
    let first = after_brace.trim_start_matches(is_digit);
    let last = first.strip_prefix("..").map(|text| text.trim_start_matches(is_digit));
    is_foreign(first) || last.is_some_and(is_foreign)
}

/// Whether the grammar takes the character for a blank where bash does not, or a person does not
/// see it.
fn is_treacherous(c: char) -> bool {
    let is_blank = c.is_whitespace() && !matches!(c, ' ' | '\t' | '\n');
    is_blank || (c.is_control() && !c.is_ascii_whitespace()) || is_invisible(c)
}

/// Marks of direction, joiners and other characters without a width.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn check_depth(tree: &Tree) -> Result<(), Doubt> {
    let mut cursor = tree.walk();
    loop {
        if cursor.depth() as usize > MAX_DEPTH {
            return Err(Doubt::Deep);
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Ok(());
            }
        }
    }
}

/// All children of a node, with anonymous ones.
pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

/// The outermost nodes inside `node` whose kind is one of `kinds`, in order.
pub(super) fn outermost<'t>(node: Node<'t>, kinds: &[&str]) -> Vec<Node<'t>> {
    let mut found = Vec::new();
    for child in children(node) {
        if kinds.contains(&child.kind()) {
            found.push(child);
        } else {
            found.extend(outermost(child, kinds));
        }
    }
    found
}
