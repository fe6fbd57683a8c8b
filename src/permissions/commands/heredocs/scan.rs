//! Finds the here-documents of a command line, as bash does when it reads the line.

use std::ops::Range;

use super::super::Doubt;
use super::body;
use super::delimiter::Delimiter;
use super::document::HereDocument;

/// What a person writes nests below ten deep.
const MAX_DEPTH: usize = 32;

/// The here-documents of a line, in the order of their operators.
pub(super) fn scan(line: &str) -> Result<Vec<HereDocument>, Doubt> {
    let mut scan = Scan { line, at: 0, depth: 0, documents: Vec::new() };
    scan.commands(Ending::Text)?;
    let mut documents = scan.documents;
    documents.sort_by_key(|document| document.operator.start);
    Ok(documents)
}

/// Where an expansion ends that begins at `start` in the text of a here-document. A here-document
/// in one is a doubt.
pub(super) fn skip_expansion(text: &str, start: usize) -> Result<usize, Doubt> {
    let mut scan = Scan { line: text, at: start, depth: 0, documents: Vec::new() };
    match text.as_bytes().get(start) {
        Some(b'`') => scan.backticks()?,
        _ => scan.dollar(true)?,
    }
    if scan.documents.is_empty() { Ok(scan.at) } else { Err(Doubt::Syntax) }
}

/// What ends a list of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Text,
    /// `)`, of a substitution.
    Parenthesis,
}

/// What an open parenthesis begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parenthesis {
    /// Commands.
    Subshell,
    /// Arithmetic, the elements of an array, a pattern: `<<` is no operator there, or may be none.
    Other,
}

/// An operator whose body has not begun.
struct Pending {
    operator: Range<usize>,
    delimiter: Delimiter,
}

struct Scan<'a> {
    line: &'a str,
    at: usize,
    depth: usize,
    documents: Vec<HereDocument>,
}

/// A list of commands that is being read.
struct List {
    pending: Vec<Pending>,
    open: Vec<Parenthesis>,
    /// Where the word began that is being read. `None`: between words.
    word: Option<usize>,
}

impl Scan<'_> {
    fn peek(&self, offset: usize) -> Option<u8> {
        self.line.as_bytes().get(self.at + offset).copied()
    }

    /// Whether the scan is within an expansion.
    fn is_substituted(&self) -> bool {
        self.depth > 1
    }

    fn enter(&mut self) -> Result<(), Doubt> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Doubt::Deep) } else { Ok(()) }
    }

    /// Reads commands up to their end, and the documents among them.
    fn commands(&mut self, ending: Ending) -> Result<(), Doubt> {
        self.enter()?;
        let mut list = List { pending: Vec::new(), open: Vec::new(), word: None };
        while let Some(byte) = self.peek(0) {
            if byte == b')' && list.open.is_empty() && ending == Ending::Parenthesis {
                self.at += 1;
                self.depth -= 1;
                return if list.pending.is_empty() { Ok(()) } else { Err(Doubt::Syntax) };
            }
            self.command_byte(byte, &mut list)?;
        }
        self.depth -= 1;
        let is_closed = ending == Ending::Text && list.pending.is_empty();
        if is_closed { Ok(()) } else { Err(Doubt::Syntax) }
    }

    fn command_byte(&mut self, byte: u8, list: &mut List) -> Result<(), Doubt> {
        let start = self.at;
        match byte {
            b' ' | b'\t' | b';' | b'&' | b'|' => {
                self.at += 1;
                list.word = None;
                return Ok(());
            }
            b'\n' => return self.line_end(list),
            b'#' if list.word.is_none() => {
                let rest = &self.line[start..];
                self.at += rest.find('\n').unwrap_or(rest.len());
                return Ok(());
            }
            b'(' | b')' => {
                self.parenthesis(byte, list);
                return Ok(());
            }
            b'<' | b'>' => return self.angle(list),
            b'[' => self.bracket(list.word)?,
            // A line that goes on in the next one.
            b'\\' if self.peek(1) == Some(b'\n') => {
                self.at += 2;
                return Ok(());
            }
            _ => self.word_byte(byte)?,
        }
        list.word.get_or_insert(start);
        self.check_first_line(start, list)
    }

    /// bash would look for the body behind what reaches over the end of the line.
    fn check_first_line(&self, start: usize, list: &List) -> Result<(), Doubt> {
        let reaches_over = self.line.as_bytes()[start..self.at].contains(&b'\n');
        if reaches_over && !list.pending.is_empty() { Err(Doubt::Syntax) } else { Ok(()) }
    }

    /// Steps over a character of a word, or all that a quote or an expansion holds.
    fn word_byte(&mut self, byte: u8) -> Result<(), Doubt> {
        match byte {
            b'\\' => {
                let escaped = self.line[self.at + 1..].chars().next().ok_or(Doubt::Syntax)?;
                self.at += 1 + escaped.len_utf8();
            }
            b'\'' => self.skip_to("'")?,
            b'"' => self.double_quoted()?,
            b'`' => self.backticks()?,
            b'$' => self.dollar(false)?,
            _ => self.at += 1,
        }
        Ok(())
    }

    /// Steps over the character here, and all up to the next `end`.
    fn skip_to(&mut self, end: &str) -> Result<(), Doubt> {
        let length = self.line[self.at + 1..].find(end).ok_or(Doubt::Syntax)?;
        self.at += 1 + length + end.len();
        Ok(())
    }

    /// bash takes the text up to the next backtick, whatever is quoted in it, and reads it anew.
    fn backticks(&mut self) -> Result<(), Doubt> {
        let start = self.at;
        self.skip_to("`")?;
        let inner = &self.line[start + 1..self.at - 1];
        let is_plain = !inner.contains(['\\', '"']) && !inner.contains("<<");
        if is_plain { Ok(()) } else { Err(Doubt::Syntax) }
    }

    fn double_quoted(&mut self) -> Result<(), Doubt> {
        self.at += 1;
        loop {
            match self.peek(0).ok_or(Doubt::Syntax)? {
                b'"' => break,
                b'\\' => {
                    let escaped = self.line[self.at + 1..].chars().next().ok_or(Doubt::Syntax)?;
                    self.at += 1 + escaped.len_utf8();
                }
                b'`' => self.backticks()?,
                b'$' => self.dollar(true)?,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Steps over what begins with `$`.
    fn dollar(&mut self, in_quotes: bool) -> Result<(), Doubt> {
        match (self.peek(1), self.peek(2)) {
            (Some(b'('), Some(b'(')) => self.arithmetic(),
            (Some(b'('), _) => {
                self.at += 2;
                self.commands(Ending::Parenthesis)
            }
            (Some(b'{'), _) => self.braced(),
            (Some(b'\''), _) if !in_quotes => self.ansi_c(),
            // Arithmetic of old, and lines that join to an expansion.
            (Some(b'['), _) | (Some(b'\\'), Some(b'\n')) => Err(Doubt::Syntax),
            _ => {
                self.at += 1;
                Ok(())
            }
        }
    }

    /// `$((…))` without quotes or substitutions. `<<` is a shift in it.
    fn arithmetic(&mut self) -> Result<(), Doubt> {
        let start = self.at;
        let mut open = 0_usize;
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'(' => open += 1,
                b')' => open -= 1,
                b'\'' | b'"' | b'`' | b'\\' | b'#' | b'\n' | b';' => return Err(Doubt::Syntax),
                b'$' if self.peek(1) == Some(b'(') => return Err(Doubt::Syntax),
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                let is_whole = self.line[start..self.at].ends_with("))");
                return if is_whole { Ok(()) } else { Err(Doubt::Syntax) };
            }
        }
        Err(Doubt::Syntax)
    }

    /// `${…}`.
    fn braced(&mut self) -> Result<(), Doubt> {
        self.enter()?;
        self.at += 2;
        loop {
            match self.peek(0).ok_or(Doubt::Syntax)? {
                b'}' => break,
                b'\'' | b'"' | b'`' | b'\\' | b'{' | b'<' => return Err(Doubt::Syntax),
                b'$' => self.dollar(true)?,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(())
    }

    /// `$'…'`, in which a backslash escapes a quote.
    fn ansi_c(&mut self) -> Result<(), Doubt> {
        self.at += 2;
        loop {
            match self.peek(0).ok_or(Doubt::Syntax)? {
                b'\'' => break,
                b'\\' => {
                    let escaped = self.line[self.at + 1..].chars().next().ok_or(Doubt::Syntax)?;
                    self.at += 1 + escaped.len_utf8();
                }
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    /// A subscript may hold blanks and operators: `a[1 << 2]=3`.
    fn bracket(&mut self, word: Option<usize>) -> Result<(), Doubt> {
        let before = word.map_or("", |start| &self.line[start..self.at]);
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_subscript = !before.is_empty() && before.bytes().all(is_inner);
        if is_subscript {
            let rest = &self.line[self.at..];
            let end = rest.find(|c: char| "] \t\n<>;&|()".contains(c));
            if !end.is_some_and(|end| rest[end..].starts_with(']')) {
                return Err(Doubt::Syntax);
            }
        }
        self.at += 1;
        Ok(())
    }

    fn parenthesis(&mut self, byte: u8, list: &mut List) {
        self.at += 1;
        if byte == b')' {
            // What nothing has opened ends a pattern of `case`.
            list.open.pop();
            list.word = None;
            return;
        }
        let is_function = list.word.is_some() && self.peek(0) == Some(b')');
        let is_double = self.peek(0) == Some(b'(');
        let is_command = (list.word.is_none() && !is_double) || is_function;
        list.open.push(if is_command { Parenthesis::Subshell } else { Parenthesis::Other });
        list.word = None;
    }

    /// `<` and `>` with what belongs to them.
    fn angle(&mut self, list: &mut List) -> Result<(), Doubt> {
        let start = self.at;
        let rest = &self.line[start..];
        list.word = None;
        if rest.starts_with("<(") || rest.starts_with(">(") {
            self.at += 2;
            self.commands(Ending::Parenthesis)?;
            list.word = Some(start);
            return self.check_first_line(start, list);
        }
        if rest.starts_with("<<<") {
            self.at += 3;
            return if rest.starts_with("<<<<") { Err(Doubt::Syntax) } else { Ok(()) };
        }
        if !rest.starts_with("<<") {
            self.at += 1;
            return Ok(());
        }
        if list.open.contains(&Parenthesis::Other) {
            return Err(Doubt::Syntax);
        }
        let strips_tabs = rest.starts_with("<<-");
        self.at += if strips_tabs { 3 } else { 2 };
        while matches!(self.peek(0), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        let (delimiter, length) = Delimiter::read(&self.line[self.at..], strips_tabs)?;
        if self.is_substituted() && !delimiter.needs_no_quotes() {
            return Err(Doubt::Syntax);
        }
        self.at += length;
        list.pending.push(Pending { operator: start..self.at, delimiter });
        Ok(())
    }

    /// The end of a line, behind which the bodies of its documents follow one another.
    fn line_end(&mut self, list: &mut List) -> Result<(), Doubt> {
        self.at += 1;
        list.word = None;
        if list.pending.is_empty() {
            return Ok(());
        }
        if list.open.contains(&Parenthesis::Other) {
            return Err(Doubt::Syntax);
        }
        for Pending { operator, delimiter } in std::mem::take(&mut list.pending) {
            let found = body::find(self.line, self.at, &delimiter)?;
            self.at = found.lines.end;
            let (lines, text) = (found.lines, found.text);
            self.documents.push(HereDocument { operator, lines, delimiter, text });
        }
        Ok(())
    }
}
