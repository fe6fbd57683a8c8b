//! Makes the short codes by which a reply names an ask.

use std::collections::HashSet;

use crate::ids::ApprovalId;

/// Consonants that nobody takes for another letter or a digit. Without vowels no code is a
/// word, such as `deny`.
const LETTERS: &[u8; 16] = b"BCDFGHJKMNPRTWXZ";

const LENGTH: usize = 4;

/// A code for each of the ids. No two are the same.
pub(crate) fn codes(ids: &[ApprovalId]) -> Vec<String> {
    let mut used = HashSet::new();
    let unused = |id| {
        let candidates = (0_u32..).map(move |attempt| code(id, attempt));
        candidates.into_iter().find(|code| used.insert(code.clone())).unwrap_or_default()
    };
    ids.iter().map(unused).collect()
}

/// Whether the word can be a code of some ask.
pub(crate) fn is_code(word: &str) -> bool {
    word.len() == LENGTH && word.bytes().all(|byte| LETTERS.contains(&byte.to_ascii_uppercase()))
}

fn code(id: &ApprovalId, attempt: u32) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("toolhand code of an ask");
    hasher.update(&attempt.to_le_bytes()).update(id.as_str().as_bytes());
    let hash = hasher.finalize();
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    hash.as_bytes()[..LENGTH].iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_depend_on_nothing_but_the_ids() {
        let ids: Vec<_> = (0..2000).map(|_| ApprovalId::random()).collect();
        let all = codes(&ids);
        assert_eq!(all, codes(&ids));
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), ids.len());
        assert!(["", "deny", "KXR", "KXRTB", "KXR1"].iter().all(|word| !is_code(word)));
        for code in &all {
            assert!(is_code(code) && is_code(&code.to_lowercase()), "{code}");
        }
    }
}
