//! Finds the last brace of a JSON object in one look at each byte.

/// Where in an object the bytes so far end. Judges nothing: a parser does, once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scanner {
    depth: u32,
    in_string: bool,
    after_backslash: bool,
}

impl Scanner {
    /// Goes on over `text`; the position behind the bracket that closes the first
    /// one. The first byte ever must be that bracket.
    pub(super) fn scan(&mut self, text: &[u8]) -> Option<usize> {
        for (at, &byte) in text.iter().enumerate() {
            if self.in_string {
                self.within_string(byte);
            } else if self.outside(byte) {
                return Some(at + 1);
            }
        }
        None
    }

    fn within_string(&mut self, byte: u8) {
        if self.after_backslash {
            self.after_backslash = false;
        } else {
            self.after_backslash = byte == b'\\';
            self.in_string = byte != b'"';
        }
    }

    /// Whether this byte closes the outermost bracket.
    fn outside(&mut self, byte: u8) -> bool {
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_last_brace_however_the_text_is_cut() {
        for (text, end) in [
            ("{}", Some(2)),
            (r#"{"a":{"b":[1,{}]}} x"#, Some(18)),
            (r#"{"a":"}\"]\\"}{"#, Some(14)),
            (r#"{"a":"ä}"}"#, Some(11)),
            (r#"{"a":"}"#, None),
            ("{[}", None),
        ] {
            for cut in 0..=text.len() {
                let (one, two) = text.as_bytes().split_at(cut);
                let mut scanner = Scanner::default();
                let found = scanner.scan(one).or_else(|| scanner.scan(two).map(|at| at + cut));
                assert_eq!(found, end, "{text} cut at {cut}");
            }
        }
    }
}
