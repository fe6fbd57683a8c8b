//! Finds what is expanded in the body of a here-document.

use std::ops::Range;

use super::super::Doubt;
use super::delimiter::Delimiter;
use super::scan::skip_expansion;

/// Whether nothing in the text of a body is expanded, though its delimiter is not quoted.
pub(super) fn is_text(text: &str) -> bool {
    !text.contains(['$', '`', '\\'])
}

/// The places of the expansions in a body whose delimiter is not quoted, but for those of plain variables.
pub(super) fn expansions(body: &str, delimiter: &Delimiter) -> Result<Vec<Range<usize>>, Doubt> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = body[at..].find(['$', '`', '\\']) {
        at += offset;
        let next = body[at + 1..].chars().next();
        at = match (body.as_bytes()[at], next) {
            (b'\\', Some(escaped)) => at + 1 + escaped.len_utf8(),
            (b'$', Some('(' | '{' | '[')) | (b'`', _) => {
                let end = skip_expansion(body, at)?;
                let written = &body[at..end];
                // bash has looked for the end of the document in these lines, tabs and all.
                if written.contains('\n') && (delimiter.strips_tabs || written.contains("\\\n")) {
                    return Err(Doubt::Syntax);
                }
                found.push(at..end);
                end
            }
            // Joined lines make `$(` of it.
            (b'$', Some('\\')) => return Err(Doubt::Syntax),
            _ => at + 1,
        };
    }
    Ok(found)
}
