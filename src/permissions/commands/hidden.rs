//! Checks that the tree shows every substitution that stands in the text.
//!
//! The grammar takes some text as one token where bash looks inside: `${x#$(rm y)}` is a pattern
//! to it. So every `$(`, `${`, `` ` ``, `<(` and `>(` that is not quoted must begin a node.

use std::collections::HashSet;

use tree_sitter::Node;

use super::Doubt;
use super::syntax::children;

#[derive(Default)]
struct Seen {
    begins: HashSet<usize>,
    /// The backticks that the tree has.
    backticks: HashSet<usize>,
    /// Where nothing is expanded.
    opaque: Vec<(usize, usize)>,
    /// Where `<(` and `>(` are text.
    quoted: Vec<(usize, usize)>,
}

pub(super) fn check_hidden(root: Node<'_>, line: &str) -> Result<(), Doubt> {
    let mut seen = Seen::default();
    seen.note(root, line)?;
    let bytes = line.as_bytes();
    let (mut opaque, mut quoted) = (seen.opaque.iter().peekable(), seen.quoted.iter().peekable());
    let mut at = 0;
    while at < bytes.len() {
        if opaque.next_if(|(start, _)| *start == at).is_some_and(|(_, end)| {
            at = *end;
            true
        }) {
            continue;
        }
        while opaque.next_if(|(start, _)| *start < at).is_some() {}
        while quoted.next_if(|(_, end)| *end <= at).is_some() {}
        let is_quoted = quoted.peek().is_some_and(|(start, _)| *start <= at);
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        let is_seen = match bytes[at] {
            b'\\' => {
                at += 2;
                continue;
            }
            // Joined lines make `$(` of it.
            b'$' if line[at + 1..].starts_with("\\\n") => false,
            b'`' => seen.backticks.contains(&at),
            b'$' if matches!(next, b'(' | b'{' | b'[') => seen.begins.contains(&at),
            b'<' | b'>' if next == b'(' && !is_quoted => seen.begins.contains(&at),
            _ => true,
        };
        if !is_seen {
            return Err(Doubt::Syntax);
        }
        at += 1;
    }
    Ok(())
}

impl Seen {
    fn note(&mut self, node: Node<'_>, line: &str) -> Result<(), Doubt> {
        let (start, end) = (node.start_byte(), node.end_byte());
        match node.kind() {
            "command_substitution" if line[start..].starts_with('`') => {
                // bash takes the text up to the next backtick, whatever is quoted in it, and
                // removes backslashes before it parses.
                if line[start + 1..end - 1].contains(['`', '\\']) {
                    return Err(Doubt::Syntax);
                }
                self.begins.insert(start);
                self.backticks.extend([start, end - 1]);
            }
            "command_substitution"
            | "process_substitution"
            | "expansion"
            | "arithmetic_expansion" => {
                self.begins.insert(start);
            }
            "raw_string" | "ansi_c_string" | "comment" => self.opaque.push((start, end)),
            "string_content" => self.quoted.push((start, end)),
            _ => {}
        }
        children(node).into_iter().try_for_each(|child| self.note(child, line))
    }
}
