//! Tells the options of a program from its operands, as `getopt` does.

use super::super::word::Word;

/// Which options of a program take a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Letters.
    pub(super) short: &'static str,
    /// Letters whose value, if they have one, is the rest of the word: `-i.bak`.
    pub(super) attached: &'static str,
    /// Long names, without the dashes. They may be abbreviated.
    pub(super) long: &'static [&'static str],
}

#[derive(Debug, Default)]
pub(in crate::permissions::commands) struct Arguments {
    pub(in crate::permissions::commands) options: Vec<GivenOption>,
    pub(in crate::permissions::commands) operands: Vec<Word>,
}

#[derive(Debug)]
pub(in crate::permissions::commands) struct GivenOption {
    /// `r` or `recursive`, the long ones in full if they take a value.
    pub(in crate::permissions::commands) name: String,
    pub(in crate::permissions::commands) value: Option<Word>,
}

impl Arguments {
    pub(super) fn parse(words: &[Word], known: &Options) -> Self {
        let mut arguments = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.unquoted.as_str();
            if word.is("--") {
                arguments.operands.extend(words.cloned());
                break;
            }
            if let Some(long) = text.strip_prefix("--") {
                arguments.long(long, word, &mut words, known);
            } else if text.starts_with('-') && text.len() > 1 {
                arguments.short(word, &mut words, known);
            } else {
                arguments.operands.push(word.clone());
            }
        }
        arguments
    }

    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|option| {
            let is_abbreviated =
                |name: &&str| option.name.len() > 1 && name.starts_with(&option.name);
            names.iter().any(|name| *name == option.name || is_abbreviated(name))
        })
    }

    /// The values of the options with these names.
    pub(in crate::permissions::commands) fn values<'a>(
        &'a self,
        names: &'a [&str],
    ) -> impl Iterator<Item = &'a Word> {
        let is_asked = |option: &&GivenOption| names.contains(&option.name.as_str());
        self.options.iter().filter(is_asked).filter_map(|option| option.value.as_ref())
    }

    fn long<'w>(
        &mut self,
        long: &str,
        word: &Word,
        words: &mut impl Iterator<Item = &'w Word>,
        known: &Options,
    ) {
        let (given, joined) = long.split_once('=').map_or((long, None), |(name, _)| {
            (name, word.without_prefix("--".len() + name.len() + "=".len()))
        });
        let full = known.long.iter().find(|name| !given.is_empty() && name.starts_with(given));
        let value = match (joined, full) {
            (None, Some(_)) => words.next().cloned(),
            (joined, _) => joined,
        };
        let name = full.map_or(given, |name| name).to_owned();
        self.options.push(GivenOption { name, value });
    }

    fn short<'w>(
        &mut self,
        word: &Word,
        words: &mut impl Iterator<Item = &'w Word>,
        known: &Options,
    ) {
        let letters = word.unquoted.char_indices().skip(1);
        for (at, letter) in letters {
            let name = letter.to_string();
            let is_attached = known.attached.contains(letter);
            if !is_attached && !known.short.contains(letter) {
                self.options.push(GivenOption { name, value: None });
                continue;
            }
            let end = at + letter.len_utf8();
            let is_last = end == word.unquoted.len();
            let value = if is_last && is_attached {
                None
            } else if is_last {
                words.next().cloned()
            } else {
                word.without_prefix(end).or_else(|| Some(Word::unknown(&word.raw)))
            };
            self.options.push(GivenOption { name, value });
            break;
        }
    }
}
