//! Writes a string that matches a regular expression.
//!
//! Knows what JSON schemas commonly use: literals, classes, groups, alternatives and
//! repetitions. Looking around and references to groups are not supported.

use std::iter::Peekable;
use std::str::Chars;

/// The longest string that is written.
const MAX_BYTES: usize = 100_000;

/// The deepest nesting of groups.
const MAX_DEPTH: usize = 50;

/// Tried for a class that excludes characters, and for any character.
const COMMON: &str = "demo0123456789abcfghijklnpqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_- .,/:@#";

/// A match in which a repetition without an end is `more` longer than it must be. `None` if the
/// pattern is not supported.
pub(super) fn sample(pattern: &str, more: u64) -> Option<String> {
    let mut parser = Parser { rest: pattern.chars().peekable(), more, depth: 0 };
    let found = parser.alternatives()?;
    parser.rest.next().is_none().then_some(found)
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    more: u64,
    depth: usize,
}

impl Parser<'_> {
    fn takes(&mut self, character: char) -> bool {
        self.rest.next_if_eq(&character).is_some()
    }

    /// The first alternative that a string can match.
    fn alternatives(&mut self) -> Option<String> {
        let first = self.sequence()?;
        while self.takes('|') {
            self.sequence()?;
        }
        Some(first)
    }

    fn sequence(&mut self) -> Option<String> {
        let mut out = String::new();
        while self.rest.peek().is_some_and(|next| !"|)".contains(*next)) {
            let piece = self.piece()?;
            let times = usize::try_from(self.times()?).ok()?;
            if out.len().saturating_add(piece.len().saturating_mul(times)) > MAX_BYTES {
                return None;
            }
            out.push_str(&piece.repeat(times));
        }
        Some(out)
    }

    fn piece(&mut self) -> Option<String> {
        Some(match self.rest.next()? {
            '^' | '$' => String::new(),
            '(' => return self.group(),
            '[' => self.class()?.to_string(),
            '.' => "d".to_owned(),
            '\\' if matches!(self.rest.peek(), Some('b' | 'B')) => {
                self.rest.next();
                String::new()
            }
            '\\' => first_of(&self.escape()?, false)?.to_string(),
            '*' | '+' | '?' => return None,
            character => character.to_string(),
        })
    }

    fn group(&mut self) -> Option<String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH || (self.takes('?') && !self.is_plain_group()) {
            return None;
        }
        let inside = self.alternatives()?;
        self.depth -= 1;
        self.takes(')').then_some(inside)
    }

    /// Skips the `:` or `<name>` of a group that only groups.
    fn is_plain_group(&mut self) -> bool {
        if self.takes(':') {
            return true;
        }
        self.takes('<')
            && !matches!(self.rest.peek(), Some('=' | '!'))
            && self.rest.by_ref().any(|character| character == '>')
    }

    /// How often the piece before is taken.
    fn times(&mut self) -> Option<u64> {
        let times = match self.rest.peek().copied() {
            Some('*') => self.more,
            Some('+') => self.more.saturating_add(1),
            Some('?') => 0,
            Some('{') if self.opens_count() => return self.counted(),
            _ => return Some(1),
        };
        self.rest.next();
        self.takes('?');
        Some(times)
    }

    fn opens_count(&self) -> bool {
        self.rest.clone().nth(1).is_some_and(|next| next.is_ascii_digit())
    }

    fn counted(&mut self) -> Option<u64> {
        self.rest.next();
        let min = self.digits()?;
        let most = match (self.takes(','), self.takes('}')) {
            (false, closed) => return closed.then_some(min).filter(|_| self.lazy()),
            (true, true) => u64::MAX,
            (true, false) => self.digits().filter(|_| self.takes('}'))?,
        };
        self.lazy().then_some(min.saturating_add(self.more).min(most))
    }

    /// Skips the mark of a lazy repetition. Always true.
    fn lazy(&mut self) -> bool {
        self.takes('?');
        true
    }

    fn digits(&mut self) -> Option<u64> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        digits.parse().ok()
    }

    /// A character of a class.
    fn class(&mut self) -> Option<char> {
        let is_negated = self.takes('^');
        let mut ranges = Vec::new();
        loop {
            let item = match self.rest.next()? {
                ']' => break,
                '\\' => self.escape()?,
                character => vec![(character, character)],
            };
            ranges.extend(match item[..] {
                [(from, to)] if from == to && self.continues_range() => {
                    self.rest.next();
                    vec![(from, self.range_end()?)]
                }
                _ => item,
            });
        }
        first_of(&ranges, is_negated)
    }

    /// Whether a `-` follows that is not the last of its class.
    fn continues_range(&self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next() == Some('-') && ahead.next().is_some_and(|next| next != ']')
    }

    fn range_end(&mut self) -> Option<char> {
        match self.rest.next()? {
            '\\' => self.escape()?.first().map(|(from, _)| *from),
            character => Some(character),
        }
    }

    /// The characters that an escape stands for.
    fn escape(&mut self) -> Option<Vec<(char, char)>> {
        let one = |character: char| vec![(character, character)];
        Some(match self.rest.next()? {
            'd' => vec![('0', '9')],
            'w' => vec![('d', 'd'), ('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')],
            's' => one(' '),
            'D' | 'W' | 'S' => return None,
            't' => one('\t'),
            'n' => one('\n'),
            'r' => one('\r'),
            'f' => one('\u{c}'),
            'v' => one('\u{b}'),
            'x' => one(self.hexadecimal(2)?),
            'u' => one(self.hexadecimal(4)?),
            character if character.is_ascii_alphanumeric() => return None,
            character => one(character),
        })
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<char> {
        let digits: String = self.rest.by_ref().take(digits).collect();
        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
    }
}

/// The first character in the ranges, or the first common one that is not.
fn first_of(ranges: &[(char, char)], is_negated: bool) -> Option<char> {
    if !is_negated {
        return ranges.first().map(|(from, _)| *from);
    }
    let is_in = |c: char| ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
    COMMON.chars().find(|character| !is_in(*character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, expected: Option<&str>) {
        assert_eq!(sample(pattern, 0).as_deref(), expected, "{pattern}");
        let schema = serde_json::json!({ "type": "string", "pattern": pattern });
        if let Some(found) = expected {
            let is_valid = jsonschema::is_valid(&schema, &found.into());
            assert!(is_valid, "{pattern} does not match {found}");
        }
    }

    #[test]
    fn matches_what_schemas_use() {
        check("^[a-z]+$", Some("a"));
        check("^\\d{3}-\\d{2,4}$", Some("000-00"));
        check("^(?:red|green)(?<tone>-dark)?$", Some("red"));
        check("^[^\\s@]+@[^\\s@]+\\.[a-z]{2,}$", Some("d@d.aa"));
        check("^[A-Z][\\w.-]*$", Some("A"));
        check("^#[0-9a-fA-F]{6}$", Some("#000000"));
        check("a{2}b+?c*?[-x]\\.", Some("aab-."));
        check("^\\u0041\\x42\\/$", Some("AB/"));
        check("[^a-z]", Some("0"));
        check("", Some(""));
    }

    #[test]
    fn what_is_not_supported_or_no_pattern_is_nothing() {
        for pattern in
            ["(?=a)b", "(?!a)", "(?<=a)b", "(a)\\1", "\\W", "(a", "a)", "[a", "*a", "a{", "\\"]
        {
            let is_literal = pattern == "a{";
            assert_eq!(sample(pattern, 0).is_some(), is_literal, "{pattern}");
        }
        assert_eq!(sample(&"(".repeat(100_000), 0), None);
        assert_eq!(sample("((a{9999}){9999}){9999}", 0), None);
        assert_eq!(sample("a{99999999999999999999}", 0), None);
    }

    #[test]
    fn an_open_repetition_can_be_longer() {
        assert_eq!(sample("^[a-z]+$", 4).as_deref(), Some("aaaaa"));
        assert_eq!(sample("^a{1,3}b{2}$", 9).as_deref(), Some("aaabb"));
    }
}
