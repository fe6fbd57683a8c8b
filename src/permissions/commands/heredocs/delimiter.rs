//! Reads the delimiter of a here-document.

use super::super::Doubt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delimiter {
    /// With its quotes removed.
    pub(super) text: String,
    /// Nothing in the body is expanded.
    pub(super) is_quoted: bool,
    /// `<<-`: tabs at the beginning of lines do not count.
    pub(super) strips_tabs: bool,
}

impl Delimiter {
    /// Reads the word at the beginning of `text`, and returns it with its length.
    pub(super) fn read(text: &str, strips_tabs: bool) -> Result<(Self, usize), Doubt> {
        let mut delimiter = Self { text: String::new(), is_quoted: false, strips_tabs };
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            if " \t\n|&;()<>".contains(c) {
                break;
            }
            at += match c {
                '\'' | '"' => delimiter.quoted(&text[at..], c)?,
                '\\' => {
                    let escaped = text[at + 1..].chars().next().filter(|c| is_plain(*c));
                    delimiter.text.push(escaped.ok_or(Doubt::Syntax)?);
                    delimiter.is_quoted = true;
                    2
                }
                c if is_plain(c) => {
                    delimiter.text.push(c);
                    1
                }
                _ => return Err(Doubt::Syntax),
            };
        }
        if delimiter.text.is_empty() { Err(Doubt::Syntax) } else { Ok((delimiter, at)) }
    }

    /// Reads a piece in quotes, and returns its length.
    fn quoted(&mut self, text: &str, quote: char) -> Result<usize, Doubt> {
        let (inner, _) = text[1..].split_once(quote).ok_or(Doubt::Syntax)?;
        let is_special = |c: char| c.is_control() || "$`\\".contains(c);
        if inner.contains(is_special) {
            return Err(Doubt::Syntax);
        }
        self.text.push_str(inner);
        self.is_quoted = true;
        Ok(inner.len() + 2)
    }

    /// Whether it is the same without quotes. In a substitution bash writes the text anew without
    /// them, and reads that.
    pub(super) fn needs_no_quotes(&self) -> bool {
        let is_letter = |c: char| !c.is_ascii() && c.is_alphanumeric();
        self.text.chars().all(|c| is_plain(c) || is_letter(c))
    }

    /// Whether a line ends the body. bash takes more lines for the end where it looks for a `)`.
    pub(super) fn ends(&self, line: &str) -> Result<bool, Doubt> {
        let line = if self.strips_tabs { line.trim_start_matches('\t') } else { line };
        match line.strip_prefix(self.text.as_str()) {
            Some("") => Ok(true),
            Some(rest) if rest.contains(')') => Err(Doubt::Syntax),
            _ => Ok(false),
        }
    }
}

/// The characters of usual delimiters, none of which means anything to bash within a word.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.+:@%/,".contains(c)
}
