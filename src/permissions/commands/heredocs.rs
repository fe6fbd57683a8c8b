//! Checks that a here-document ends where bash ends it.

use tree_sitter::Node;

use super::Doubt;
use super::syntax::children;

/// `redirect` is a node of the kind `heredoc_redirect`.
pub(super) fn check_heredoc(redirect: Node<'_>, line: &str) -> Result<(), Doubt> {
    let all = children(redirect);
    let find = |kind: &str| all.iter().find(|node| node.kind() == kind).ok_or(Doubt::Syntax);
    let (start, body, end) = (find("heredoc_start")?, find("heredoc_body")?, find("heredoc_end")?);
    let raw = &line[start.byte_range()];
    let is_quoted = raw.contains(['\'', '"', '\\']);
    let delimiter = delimiter(raw).ok_or(Doubt::Syntax)?;
    let strips_tabs = all.iter().any(|node| node.kind() == "<<-");

    let line_end = start.end_byte() + line[start.end_byte()..].find('\n').ok_or(Doubt::Syntax)?;
    // What follows on the first line must not reach over its end: bash would look for the body
    // elsewhere. The line's own end is a token of the tree.
    let head = all.iter().filter(|node| node.start_byte() < body.start_byte().max(line_end));
    let is_head = |node: &&Node<'_>| !["heredoc_body", "heredoc_end", "\n"].contains(&node.kind());
    if head.filter(is_head).any(|node| node.end_byte() > line_end) {
        return Err(Doubt::Syntax);
    }
    // Two documents on one line follow one another. The grammar does not always see it.
    if line[..line_end].rsplit('\n').next().is_some_and(|first| first.matches("<<").count() > 1) {
        return Err(Doubt::Syntax);
    }
    let mut at = line_end + 1;
    for text in line.get(at..).unwrap_or_default().split('\n') {
        let stripped = if strips_tabs { text.trim_start_matches('\t') } else { text };
        if stripped == delimiter {
            let is_end = end.end_byte() == at + text.len();
            return if is_end { Ok(()) } else { Err(Doubt::Syntax) };
        }
        // bash joins the lines before it looks for the end.
        if !is_quoted && text.ends_with('\\') {
            return Err(Doubt::Syntax);
        }
        at += text.len() + 1;
    }
    Err(Doubt::Syntax)
}

/// The delimiter without its quotes, if it is a plain word.
fn delimiter(raw: &str) -> Option<&str> {
    let inner = raw.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let inner = inner.or(raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')));
    let plain = inner.or(raw.strip_prefix('\\')).unwrap_or(raw);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (!plain.is_empty() && plain.chars().all(is_plain)).then_some(plain)
}
