//! Keeps the first entries of a sorted list while they arrive in any order.

use std::collections::BTreeMap;

/// Bytes that are held at most. No answer may be as long.
const MAX_BYTES: usize = 8 << 20;

/// Holds the entries with the smallest keys, up to a number of lines, and drops the rest.
#[derive(Debug)]
pub(crate) struct TopEntries<K> {
    entries: BTreeMap<K, Entry>,
    lines_wanted: usize,
    lines: usize,
    bytes: usize,
    /// The smallest key that was dropped. Entries from here on are not taken any more, or the
    /// list would have a gap.
    cutoff: Option<K>,
    /// The key of an entry that is not whole. Nothing is taken behind it.
    cut: Option<K>,
}

/// Text that ends with a newline.
#[derive(Debug)]
struct Entry {
    text: Vec<u8>,
    lines: usize,
}

impl<K: Ord + Clone> TopEntries<K> {
    pub(crate) fn new(lines_wanted: usize) -> Self {
        let (entries, cutoff, cut) = (BTreeMap::new(), None, None);
        Self { entries, lines_wanted, lines: 0, bytes: 0, cutoff, cut }
    }

    /// Whether an entry with this key would be dropped at once.
    pub(crate) fn is_closed_to(&self, key: &K) -> bool {
        if self.cutoff.as_ref().is_some_and(|cutoff| key >= cutoff) {
            return true;
        }
        if self.cut.as_ref().is_some_and(|cut| key > cut) {
            return true;
        }
        let is_full = self.lines >= self.lines_wanted || self.bytes > MAX_BYTES;
        is_full && self.entries.last_key_value().is_none_or(|(last, _)| key > last)
    }

    #[expect(clippy::naive_bytecount, reason = "what is held is short")]
    pub(crate) fn insert(&mut self, key: K, text: Vec<u8>) {
        if self.is_closed_to(&key) {
            return;
        }
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        self.lines += lines;
        self.bytes += text.len();
        self.entries.insert(key, Entry { text, lines });
        self.forget_the_end();
    }

    /// Inserts the beginning of an entry that was too long.
    pub(crate) fn insert_cut(&mut self, key: K, text: Vec<u8>) {
        if self.is_closed_to(&key) {
            return;
        }
        self.insert(key.clone(), text);
        while let Some((last, _)) = self.entries.last_key_value()
            && *last > key
        {
            self.pop_last();
        }
        self.cut = Some(key);
    }

    /// The number of lines held. It may exceed the number wanted.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Whether entries were dropped, or cut, because of their size.
    pub(crate) fn overflowed(&self) -> bool {
        (self.cutoff.is_some() || self.cut.is_some()) && self.lines < self.lines_wanted
    }

    /// The texts in the order of their keys.
    pub(crate) fn into_texts(self) -> impl Iterator<Item = Vec<u8>> {
        self.into_entries().map(|(_, text)| text)
    }

    /// The keys in their order, each with its text.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (K, Vec<u8>)> {
        self.entries.into_iter().map(|(key, entry)| (key, entry.text))
    }

    fn forget_the_end(&mut self) {
        while let Some((_, last)) = self.entries.last_key_value() {
            let is_spare = self.lines - last.lines >= self.lines_wanted;
            if !is_spare && (self.bytes <= MAX_BYTES || self.entries.len() == 1) {
                return;
            }
            self.cutoff = self.pop_last();
        }
    }

    fn pop_last(&mut self) -> Option<K> {
        let (key, entry) = self.entries.pop_last()?;
        self.lines -= entry.lines;
        self.bytes -= entry.text.len();
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(page: TopEntries<u32>) -> Vec<u8> {
        page.into_texts().flatten().collect()
    }

    proptest! {
        #[test]
        fn holds_what_sorting_everything_would_show(
            keys in proptest::collection::hash_set(0_u32..100, 0..40),
            wanted in 0_usize..20,
        ) {
            let mut page = TopEntries::new(wanted);
            for key in &keys {
                let text = format!("{key}\n").repeat((*key as usize % 3) + 1);
                page.insert(*key, text.into_bytes());
            }
            let mut sorted: Vec<u32> = keys.into_iter().collect();
            sorted.sort_unstable();
            let all: Vec<String> =
                sorted.iter().map(|key| format!("{key}\n").repeat((*key as usize % 3) + 1)).collect();

            let held = String::from_utf8(texts(page)).unwrap();

            let first = |text: &str| text.lines().take(wanted).map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(first(&held), first(&all.concat()));
        }
    }

    #[test]
    fn leaves_no_gap_when_bytes_run_out() {
        let mut page = TopEntries::new(usize::MAX);
        page.insert(1, b"a\n".to_vec());
        page.insert(5, vec![b'\n'; MAX_BYTES]);
        page.insert(7, b"z\n".to_vec());
        page.insert(2, b"b\n".to_vec());
        assert!(page.overflowed());
        assert_eq!(texts(page), b"a\nb\n");
    }
}
