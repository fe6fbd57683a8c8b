//! Splits the text of one simple command into words and redirects as bash does.
//!
//! The tree says where a command begins and ends, and where the substitutions in it are. It is
//! not asked about words: its grammar differs from bash in quotes, escapes and blanks. What this
//! lexer cannot bring together with the tree is a mismatch, and then the line does not parse.

use std::ops::Range;

use super::ansi_c::ansi_c_text;
use super::heredocs::CutLine;
use super::part::{Redirect, RedirectKind, RedirectTarget};
use super::word::{Piece, Word, is_name};

/// The tree and bash disagree about the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mismatch;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Word(Word),
    Redirect(Redirect),
}

/// The longest first, since bash takes as much as it can.
const OPERATORS: [(&str, RedirectKind); 10] = [
    ("&>>", RedirectKind::Append),
    ("<<<", RedirectKind::Text),
    ("&>", RedirectKind::Write),
    ("<&", RedirectKind::Read),
    ("<>", RedirectKind::ReadWrite),
    (">>", RedirectKind::Append),
    (">&", RedirectKind::Write),
    (">|", RedirectKind::Write),
    ("<", RedirectKind::Read),
    (">", RedirectKind::Write),
];

/// Lexes `range` of the cut text. `nested` holds the outermost expansions and substitutions inside,
/// in order, as the tree has them. Line ends separate words only in `multiline` lists.
pub(super) fn lex(
    cut: &CutLine<'_>,
    range: Range<usize>,
    nested: &[Range<usize>],
    multiline: bool,
) -> Result<Vec<Item>, Mismatch> {
    let mut lexer =
        Lexer { cut, source: &cut.text, at: range.start, end: range.end, nested, multiline };
    let mut items = Vec::new();
    while lexer.skip_blanks()? {
        items.push(lexer.item()?);
    }
    Ok(items)
}

struct Lexer<'a> {
    cut: &'a CutLine<'a>,
    source: &'a str,
    at: usize,
    end: usize,
    nested: &'a [Range<usize>],
    multiline: bool,
}

/// The word that is being read.
#[derive(Default)]
struct Draft {
    pieces: Vec<Piece>,
    /// Unquoted braces, commas and dots, in order.
    braces: String,
}

impl Draft {
    fn push(&mut self, c: char) {
        if let Some(Piece::Text(text)) = self.pieces.last_mut() {
            text.push(c);
        } else {
            self.pieces.push(Piece::Text(c.into()));
        }
    }

    fn push_text(&mut self, text: &str) {
        // An empty text counts too: `''` is a word.
        if let Some(Piece::Text(last)) = self.pieces.last_mut() {
            last.push_str(text);
        } else {
            self.pieces.push(Piece::Text(text.to_owned()));
        }
    }

    fn has_braces(&self) -> bool {
        let Some((_, inside)) = self.braces.split_once('{') else { return false };
        inside
            .rsplit_once('}')
            .is_some_and(|(inside, _)| inside.contains(',') || inside.contains(".."))
    }

    /// The pieces. A `[` that nothing closes is no pattern, but the name of a program.
    fn into_pieces(self) -> Vec<Piece> {
        let closes = |piece: &Piece| matches!(piece, Piece::Text(text) if text.contains(']'));
        if self.pieces.iter().any(closes) {
            return self.pieces;
        }
        let mut text = Self::default();
        for piece in self.pieces {
            match piece {
                Piece::Glob('[') => text.push('['),
                Piece::Text(more) => text.push_text(&more),
                _ => text.pieces.push(piece),
            }
        }
        text.pieces
    }

    /// Whether a `~` here stands at the beginning of a path.
    fn may_begin_path(&self) -> bool {
        match self.pieces.as_slice() {
            [] => true,
            [Piece::Text(text)] => {
                let is_assignment = text.split_once('=').is_some_and(|(name, _)| is_name(name));
                is_assignment && text.ends_with(['=', ':'])
            }
            _ => false,
        }
    }
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.source[self.at..self.end]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Whether there is more than blanks.
    fn skip_blanks(&mut self) -> Result<bool, Mismatch> {
        loop {
            let rest = self.rest();
            if rest.starts_with([' ', '\t']) || (self.multiline && rest.starts_with('\n')) {
                self.at += 1;
            } else if rest.starts_with("\\\n") {
                self.at += 2;
            } else if rest.starts_with('\n') {
                return Err(Mismatch);
            } else {
                return Ok(!rest.is_empty());
            }
        }
    }

    fn item(&mut self) -> Result<Item, Mismatch> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let after = &self.rest()[digits..];
        let is_descriptor = digits > 0 && after.starts_with(['<', '>']);
        let is_process = after.starts_with("<(") || after.starts_with(">(");
        if is_descriptor && is_process {
            return Err(Mismatch);
        }
        if !is_process && (is_descriptor || digits == 0) {
            let found = OPERATORS.iter().find(|(text, _)| after.starts_with(text));
            if let Some((text, kind)) = found {
                let descriptor = self.rest()[..digits].parse().ok();
                self.at += digits;
                if self.cut.replacement_at(self.at).is_some() {
                    return self.document(descriptor).map(Item::Redirect);
                }
                self.at += text.len();
                return self.redirect(*kind, text, descriptor).map(Item::Redirect);
            }
        }
        if self.peek().is_some_and(|c| "|&;()#".contains(c)) {
            return Err(Mismatch);
        }
        self.word().map(Item::Word)
    }

    /// What stands in the place of a here-document.
    fn document(&mut self, descriptor: Option<u32>) -> Result<Redirect, Mismatch> {
        let replacement = self.cut.replacement_at(self.at).ok_or(Mismatch)?;
        self.at += "<".len();
        self.word()?;
        // The expansions in the document end where the scan says, or it is mistaken.
        if self.at != replacement.range.end {
            return Err(Mismatch);
        }
        let target = RedirectTarget::Document(replacement.text.clone());
        Ok(Redirect { kind: RedirectKind::Text, descriptor, target, takes_errors: false })
    }

    fn redirect(
        &mut self,
        kind: RedirectKind,
        operator: &str,
        descriptor: Option<u32>,
    ) -> Result<Redirect, Mismatch> {
        if !self.skip_blanks()? || self.peek().is_some_and(|c| "|&;()".contains(c)) {
            return Err(Mismatch);
        }
        let word = self.word()?;
        let is_duplicate = |text: &str| {
            let digits = text.strip_suffix('-').unwrap_or(text);
            !text.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        // bash (5.2) expands what stands behind `>&` and `<&` a second time: `>&'$(rm x)'`.
        let is_expanded_twice = operator.ends_with('&')
            && word.literal().is_none_or(|text| text.contains(['$', '`', '<', '>']));
        if is_expanded_twice {
            return Err(Mismatch);
        }
        let target = if kind == RedirectKind::Text {
            RedirectTarget::Text
        } else if operator.ends_with('&') && word.literal().is_some_and(is_duplicate) {
            RedirectTarget::Descriptor
        } else if word.is("/dev/null") {
            RedirectTarget::Null
        } else {
            RedirectTarget::File(word)
        };
        let is_of_both = operator.starts_with("&>") || operator == ">&";
        let takes_errors = is_of_both && target != RedirectTarget::Descriptor;
        Ok(Redirect { kind, descriptor, target, takes_errors })
    }

    fn word(&mut self) -> Result<Word, Mismatch> {
        let start = self.at;
        let mut draft = Draft::default();
        while let Some(c) = self.peek() {
            if " \t\n|&;()".contains(c) {
                break;
            }
            if c == '<' || c == '>' {
                let is_process = self.rest()[1..].starts_with('(');
                match (is_process, self.at == start) {
                    (true, true) => self.nested(&mut draft, false)?,
                    (true, false) => return Err(Mismatch),
                    (false, _) => break,
                }
                continue;
            }
            self.unquoted(c, &mut draft)?;
        }
        self.check_end(start)?;
        let raw = self.cut.written(start..self.at);
        let has_braces = draft.has_braces();
        Ok(Word::new(raw, draft.into_pieces(), has_braces))
    }

    /// A word must end where bash ends it, not only where the tree does.
    fn check_end(&self, start: usize) -> Result<(), Mismatch> {
        let next = self.source[self.at..].chars().next();
        let is_descriptor = {
            let raw = self.source[start..self.at].replace("\\\n", "");
            raw.bytes().all(|byte| byte.is_ascii_digit()) || raw.starts_with('{')
        };
        match next {
            Some('<' | '>') if is_descriptor => Err(Mismatch),
            Some(c) if !" \t\n|&;()<>`".contains(c) => Err(Mismatch),
            _ if self.at == start => Err(Mismatch),
            _ => Ok(()),
        }
    }

    fn unquoted(&mut self, c: char, draft: &mut Draft) -> Result<(), Mismatch> {
        match c {
            '\'' => {
                let (text, _) = self.rest()[1..].split_once('\'').ok_or(Mismatch)?;
                draft.push_text(text);
                self.at += text.len() + 2;
            }
            '"' => self.double_quoted(draft)?,
            '\\' => {
                let escaped = self.rest()[1..].chars().next().ok_or(Mismatch)?;
                if escaped != '\n' {
                    draft.push(escaped);
                }
                self.at += 1 + escaped.len_utf8();
            }
            '$' => self.dollar(draft, false)?,
            '`' => self.nested(draft, false)?,
            '~' if draft.may_begin_path() => self.tilde(draft),
            '*' | '?' | '[' => {
                draft.pieces.push(Piece::Glob(c));
                self.at += 1;
            }
            _ => {
                if "{},.".contains(c) {
                    draft.braces.push(c);
                }
                draft.push(c);
                self.at += c.len_utf8();
            }
        }
        self.array(draft)
    }

    /// `NAME=(…)` is one word, whose elements the tree has.
    fn array(&mut self, draft: &mut Draft) -> Result<(), Mismatch> {
        if self.rest().starts_with('(') && self.begins_array(draft) {
            self.nested(draft, false)?;
        }
        Ok(())
    }

    fn begins_array(&self, draft: &Draft) -> bool {
        let [Piece::Text(text)] = draft.pieces.as_slice() else { return false };
        let Some(name) = text.strip_suffix('=') else { return false };
        is_name(name.strip_suffix('+').unwrap_or(name)) && self.nested_here().is_some()
    }

    fn double_quoted(&mut self, draft: &mut Draft) -> Result<(), Mismatch> {
        self.at += 1;
        draft.push_text("");
        loop {
            match self.peek().ok_or(Mismatch)? {
                '"' => break,
                '$' => self.dollar(draft, true)?,
                '`' => self.nested(draft, true)?,
                '\\' => {
                    let escaped = self.rest()[1..].chars().next().ok_or(Mismatch)?;
                    if !"$`\"\\\n".contains(escaped) {
                        draft.push('\\');
                    }
                    if escaped != '\n' {
                        draft.push(escaped);
                    }
                    self.at += 1 + escaped.len_utf8();
                }
                c => {
                    draft.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        self.at += 1;
        Ok(())
    }

    fn dollar(&mut self, draft: &mut Draft, in_quotes: bool) -> Result<(), Mismatch> {
        let rest = &self.rest()[1..];
        match rest.chars().next() {
            Some('(' | '{' | '[') => return self.nested(draft, in_quotes),
            Some('\'') if !in_quotes => {
                let (piece, length) = ansi_c_text(&rest[1..]).ok_or(Mismatch)?;
                match piece {
                    Some(text) => draft.push_text(&text),
                    None => draft.pieces.push(Piece::Unknown(format!("${}", &rest[..length + 2]))),
                }
                self.at += length + "$''".len();
            }
            Some('"') if !in_quotes => {
                self.at += 1;
                self.double_quoted(draft)?;
            }
            Some('`') => return Err(Mismatch),
            Some(c) if c.is_ascii_alphanumeric() || "_*@#?-$!".contains(c) => {
                let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let is_named = c.is_ascii_alphabetic() || c == '_';
                let length = if is_named { rest.bytes().take_while(is_inner).count() } else { 1 };
                draft.pieces.push(Piece::Variable(rest[..length].to_owned()));
                self.at += 1 + length;
            }
            _ => {
                draft.push('$');
                self.at += 1;
            }
        }
        Ok(())
    }

    fn tilde(&mut self, draft: &mut Draft) {
        let rest = self.rest();
        let length = rest.find(|c: char| "/ \t\n|&;()<>:\"'$`\\".contains(c)).unwrap_or(rest.len());
        let is_home = length == 1 && !rest[1..].starts_with(['"', '\'', '$', '`', '\\']);
        let piece = if is_home { Piece::Home } else { Piece::Unknown(rest[..length].to_owned()) };
        draft.pieces.push(piece);
        self.at += length;
    }

    fn nested_here(&self) -> Option<&Range<usize>> {
        let index = self.nested.binary_search_by_key(&self.at, |range| range.start).ok()?;
        Some(&self.nested[index])
    }

    /// Steps over what the tree has as an expansion that begins here.
    fn nested(&mut self, draft: &mut Draft, in_quotes: bool) -> Result<(), Mismatch> {
        let range = self.nested_here().filter(|range| range.end <= self.end).ok_or(Mismatch)?;
        let range = range.clone();
        if let Some(text) = self.cut.literal(&range).filter(|_| in_quotes) {
            draft.push_text(text);
            self.at = range.end;
            return Ok(());
        }
        let written = self.cut.written(range.clone());
        let name = written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        let piece = match name.filter(|name| is_name(name)) {
            Some(name) => Piece::Variable(name.to_owned()),
            None => Piece::Unknown(written.to_owned()),
        };
        self.at = range.end;
        draft.pieces.push(piece);
        Ok(())
    }
}
