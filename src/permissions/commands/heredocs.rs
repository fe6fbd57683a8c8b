//! Cuts here-documents out of a command line before it is parsed.
//!
//! The grammar knows few of the forms in which they are written, so it never sees one. A scan finds
//! the operators and the ends of the bodies as bash does, and leaves a redirect to a file in the
//! place of each: `<''` for a body that is text, `<"$(b)"` for one in which `$(b)` is expanded. The
//! lexer has to meet that redirect at that place, or the line does not parse. So a scan that is
//! mistaken about an operator hides nothing. Whatever is unusual is a doubt.

use std::ops::Range;

use self::document::HereDocument;
use self::scan::scan;
use super::Doubt;

mod body;
mod delimiter;
mod document;
mod expansions;
mod scan;

/// A redirect that stands for a here-document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    /// From `<` to the end of its word, in the cut text.
    pub(super) range: Range<usize>,
    /// The text of the document, as far as nothing is expanded in it.
    pub(super) text: String,
    /// Nothing is expanded in the document.
    is_text: bool,
    /// Where the line goes on that has the operator, in the cut text.
    line_end: usize,
}

/// A stretch of the cut text that is a copy of a stretch of the line.
#[derive(Clone, Copy, Debug)]
struct Copied {
    at: usize,
    from: usize,
    length: usize,
}

/// A command line without its here-documents.
#[derive(Clone, Debug)]
pub(super) struct CutLine<'a> {
    line: &'a str,
    pub(super) text: String,
    /// In the order of the text.
    pub(super) replacements: Vec<Replacement>,
    copied: Vec<Copied>,
    /// Whether `"$(cat <<'E' … E)"` is taken for its text: `cat` is the program of that name.
    knows_cat: bool,
}

impl<'a> CutLine<'a> {
    pub(super) fn new(line: &'a str) -> Result<Self, Doubt> {
        let documents = if line.contains("<<") { scan(line)? } else { Vec::new() };
        let mut cut = Self {
            line,
            text: String::with_capacity(line.len()),
            replacements: Vec::new(),
            copied: Vec::new(),
            knows_cat: true,
        };
        // The bodies follow one another in the order in which their operators do, but an operator
        // may stand between the body of another and its own.
        let mut edits: Vec<(Range<usize>, Option<&HereDocument>)> = Vec::new();
        for document in &documents {
            edits.push((document.operator.clone(), Some(document)));
            edits.push((document.lines.clone(), None));
        }
        edits.sort_by_key(|(range, _)| range.start);
        let mut from = 0;
        for (range, document) in edits {
            cut.copy(from..range.start);
            from = range.end;
            match document {
                Some(document) => cut.replace(document)?,
                None => cut.end_first_line(),
            }
        }
        cut.copy(from..line.len());
        Ok(cut)
    }

    /// The same, where another program or function may have the name `cat`.
    pub(super) fn without_cat(self) -> Self {
        Self { knows_cat: false, ..self }
    }

    fn copy(&mut self, range: Range<usize>) {
        let at = self.text.len();
        self.text.push_str(&self.line[range.clone()]);
        self.copied.push(Copied { at, from: range.start, length: range.len() });
    }

    fn replace(&mut self, document: &HereDocument) -> Result<(), Doubt> {
        let start = self.text.len();
        let HereDocument { lines, delimiter, text, .. } = document;
        let body = &self.line[lines.clone()];
        let expanded =
            if delimiter.is_quoted { Vec::new() } else { expansions::expansions(body, delimiter)? };
        let is_text = delimiter.is_quoted || expansions::is_text(text);
        let quote = if expanded.is_empty() { '\'' } else { '"' };
        self.text.push('<');
        self.text.push(quote);
        for range in expanded {
            // Nothing between them: the grammar does not read every blank there.
            self.copy(lines.start + range.start..lines.start + range.end);
        }
        self.text.push(quote);
        let range = start..self.text.len();
        let text = text.clone();
        self.replacements.push(Replacement { range, text, is_text, line_end: usize::MAX });
        Ok(())
    }

    /// Notes where the first line of the documents ends whose bodies have just been left out.
    fn end_first_line(&mut self) {
        let line_end = self.text.len();
        let open = self.replacements.iter_mut().filter(|it| it.line_end == usize::MAX);
        for replacement in open {
            replacement.line_end = line_end;
        }
    }

    /// What is written in the line where the cut text has this range.
    pub(super) fn written(&self, range: Range<usize>) -> &'a str {
        if self.replacements.is_empty() {
            return &self.line[range];
        }
        let after = |it: &&Copied| it.at <= range.start && range.start < it.at + it.length;
        let before = |it: &&Copied| it.at < range.end && range.end <= it.at + it.length;
        let start = match self.copied.iter().find(after) {
            Some(copied) => copied.from + (range.start - copied.at),
            // It begins with a replacement, or where the text ends.
            None => self.next_from(range.start),
        };
        let end = match self.copied.iter().rfind(before) {
            Some(copied) => copied.from + (range.end - copied.at),
            None => self.end_before(range.end),
        };
        &self.line[start..end.max(start)]
    }

    /// The place in the line of the operator whose replacement holds this place of the cut text.
    fn next_from(&self, at: usize) -> usize {
        let before = self.copied.iter().rfind(|it| it.at + it.length <= at);
        before.map_or(0, |it| it.from + it.length)
    }

    /// The place in the line where the operator ends whose replacement holds this place.
    fn end_before(&self, at: usize) -> usize {
        let after = self.copied.iter().find(|it| at <= it.at);
        after.map_or(self.line.len(), |it| it.from)
    }

    /// The replacement that begins at this place of the cut text.
    pub(super) fn replacement_at(&self, at: usize) -> Option<&Replacement> {
        self.replacements.iter().find(|it| it.range.start == at)
    }

    /// Whether the first line of a here-document ends within this stretch of the cut text, which
    /// begins behind the operator. bash reads the body at the next end of a line outside of it.
    pub(super) fn holds_first_line_end(&self, range: &Range<usize>) -> bool {
        self.replacements.iter().any(|it| {
            it.range.end <= range.start && range.start < it.line_end && it.line_end <= range.end
        })
    }

    /// The text of `$(cat <<'E' … E)` at this range of the cut text.
    pub(super) fn literal(&self, range: &Range<usize>) -> Option<&str> {
        if !self.knows_cat || self.replacements.is_empty() {
            return None;
        }
        let inner = range.start + "$(".len()..range.end.checked_sub(")".len())?;
        let is_inside = |it: &&Replacement| {
            inner.start <= it.range.start && it.range.end <= inner.end && it.is_text
        };
        let replacement = self.replacements.iter().find(is_inside)?;
        let before = self.text.get(inner.start..replacement.range.start)?;
        let after = self.text.get(replacement.range.end..inner.end)?;
        // On a line of its own `cat` is a command before the document, and prints its own input.
        let is_cat = before.trim_start().trim_end_matches([' ', '\t']) == "cat";
        let is_alone = is_cat && after.trim().is_empty();
        // bash takes the line ends at the end of a substitution away.
        is_alone.then(|| replacement.text.trim_end_matches('\n'))
    }
}

#[cfg(test)]
mod tests;
