//! Finds the closing brace of a JSON object, looking at each byte once.

/// A position in a JSON object: nesting depth and string state. It validates nothing; the
/// parser does that at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scanner {
    depth: u32,
    in_string: bool,
    after_backslash: bool,
}

impl Scanner {
    /// Scans `text` from where the last scan stopped. Returns the position after the bracket
    /// that closes the first one. The very first byte must be an opening bracket.
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

    /// Scans a byte outside a string. Returns whether it closes the outermost bracket.
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
