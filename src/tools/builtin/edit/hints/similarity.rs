//! Measures how similar two lines are, by the pairs of neighbouring bytes they share (the
//! Sørensen–Dice coefficient). Ignores white space. Takes linear time, so that a whole file
//! can be compared.

use std::collections::HashSet;

/// The number of different pairs of bytes.
const PAIRS: usize = 1 << 16;

/// Shorter words are too common to tell lines apart.
const MIN_WORD_BYTES: usize = 2;

/// One line, prepared for comparison with many.
pub(super) struct Pattern<'a> {
    /// How often each pair of bytes occurs in the line.
    counts: Box<[u16]>,
    pairs: usize,
    words: HashSet<&'a [u8]>,
    /// Pairs matched in the current comparison. Their counts are restored after it.
    used: Vec<usize>,
}

impl<'a> Pattern<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        let mut counts = vec![0; PAIRS].into_boxed_slice();
        let mut pairs = 0;
        for pair in pairs_of(line) {
            counts[pair] += 1;
            pairs += 1;
        }
        Self { counts, pairs, words: words_of(line).collect(), used: Vec::new() }
    }

    /// From 0 (nothing in common) to 1.
    pub(super) fn similarity(&mut self, line: &[u8]) -> f64 {
        let mut theirs = 0;
        for pair in pairs_of(line) {
            theirs += 1;
            if self.counts[pair] > 0 {
                self.counts[pair] -= 1;
                self.used.push(pair);
            }
        }
        let shared = self.used.len();
        for pair in self.used.drain(..) {
            self.counts[pair] += 1;
        }
        if shared == 0 { 0.0 } else { ratio(2 * shared, self.pairs + theirs) }
    }

    pub(super) fn shares_word(&self, line: &[u8]) -> bool {
        words_of(line).any(|word| self.words.contains(word))
    }
}

#[expect(clippy::cast_precision_loss, reason = "lines are short")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

fn pairs_of(line: &[u8]) -> impl Iterator<Item = usize> {
    let mut bytes = line.iter().filter(|byte| !byte.is_ascii_whitespace());
    let mut before = bytes.next();
    std::iter::from_fn(move || {
        let (first, second) = (before?, bytes.next()?);
        before = Some(second);
        Some(usize::from(*first) << 8 | usize::from(*second))
    })
}

pub(super) fn has_word(line: &str) -> bool {
    words_of(line.as_bytes()).next().is_some()
}

/// Splits a line into words of letters, digits, underscores and non-ASCII characters.
fn words_of(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_' && byte.is_ascii())
        .filter(|word| word.len() >= MIN_WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_how_alike_lines_are() {
        let mut pattern = Pattern::new(b"let a = 1;");
        assert!((pattern.similarity(b"let a=1;") - 1.0).abs() < f64::EPSILON);
        assert!((pattern.similarity(b"let b = 1;") - 8.0 / 12.0).abs() < f64::EPSILON);
        assert!(pattern.similarity(b"") == 0.0 && pattern.similarity(b"xyz") == 0.0);
        assert!(pattern.shares_word(b"(let)") && !pattern.shares_word(b"letter a 1"));
    }
}
