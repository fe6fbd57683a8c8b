//! Matches the pattern of a `Bash(…)` rule with the text of a command.

use std::borrow::Cow;

use super::word::Word;

/// `npm *`, `git * main`, `* install`. `*` is any text, `\*` a star. ` *` at the end, or `:*`,
/// also stands for no arguments at all: `ls *` is `ls` and `ls -l`, but not `lsof`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BashPattern {
    /// The texts between the stars.
    texts: Vec<String>,
    /// The same without the ` *` at the end, if it ends so.
    without_arguments: Option<Vec<String>>,
    /// Covers a part only as it is written, with nothing that changes what it does.
    is_literal: bool,
    /// Whether it was written with several blanks in a row: these are one, in the command too.
    joins_blanks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BashPatternError {
    #[error("the pattern is empty; write `Bash` for every command")]
    Empty,
    #[error("the pattern ends in a single backslash; write `\\\\` for a backslash")]
    Backslash,
    #[error(
        "`:*` stands for any arguments at the end alone; write ` *` there, or `:\\*` for the \
         characters themselves"
    )]
    InnerColon,
}

impl BashPattern {
    pub(crate) fn parse(written: &str) -> Result<Self, BashPatternError> {
        let written = written.trim();
        let spaced = written.strip_suffix(":*").map(|start| format!("{start} *"));
        let written = spaced.as_deref().unwrap_or(written).trim();
        if written.is_empty() {
            return Err(BashPatternError::Empty);
        }
        if written.contains(":*") {
            return Err(BashPatternError::InnerColon);
        }
        let written = with_single_blanks(written);
        let joins_blanks = matches!(written, Cow::Owned(_));
        let mut texts = vec![String::new()];
        let mut chars = written.chars();
        while let Some(c) = chars.next() {
            let literal = match c {
                '*' => {
                    texts.push(String::new());
                    continue;
                }
                '\\' => match chars.next().ok_or(BashPatternError::Backslash)? {
                    escaped @ ('*' | '\\') => escaped.to_string(),
                    other => format!("\\{other}"),
                },
                c => c.to_string(),
            };
            texts.last_mut().expect("never empty").push_str(&literal);
        }
        // Stars side by side are one.
        let last = texts.len() - 1;
        let mut index = 0;
        texts.retain(|text| {
            let is_inner = index > 0 && index < last;
            index += 1;
            !(is_inner && text.is_empty())
        });
        let without_arguments = match texts.as_slice() {
            [before @ .., last, end] if end.is_empty() && last.ends_with(' ') => {
                let last = last.trim_end_matches(' ').to_owned();
                Some(before.iter().cloned().chain([last]).collect())
            }
            _ => None,
        };
        Ok(Self { texts, without_arguments, is_literal: false, joins_blanks })
    }

    /// Makes it cover a part only as it is written.
    pub(crate) fn make_literal(&mut self) {
        self.is_literal = true;
    }

    /// Whether it covers more than one text.
    pub(super) fn has_star(&self) -> bool {
        self.texts.len() > 1
    }

    pub(super) fn is_literal(&self) -> bool {
        self.is_literal
    }

    /// The pattern that matches `text` and nothing else, as one writes it.
    pub(crate) fn escaped(text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            if matches!(c, '*' | '\\') {
                escaped.push('\\');
            }
            escaped.push(c);
        }
        escaped
    }

    /// Whether a word that is known only when the command runs may make it match: `git $X` for
    /// `git push *`. Asks of a pattern only what stands in front of its first star.
    pub(super) fn may_match(&self, words: &[Word]) -> bool {
        let start = self.texts[0].as_str();
        let is_whole = start.ends_with(' ') || self.texts.len() == 1;
        let mut wanted = start.split_whitespace().peekable();
        for (index, word) in words.iter().enumerate() {
            let Some(next) = wanted.next() else { return false };
            let text = if index == 0 { word.base_name() } else { word.literal() };
            let Some(text) = text else { return true };
            let fits = match wanted.peek() {
                None if !is_whole => text.starts_with(next),
                _ => text == next,
            };
            if !fits {
                return false;
            }
        }
        false
    }

    /// Whether the pattern itself holds the option, or what it begins with: `--output=` of
    /// `--output=F`.
    pub(super) fn names(&self, option: &str) -> bool {
        let words = self.texts.iter().flat_map(|text| text.split_whitespace());
        words.filter(|word| word.len() > 1 && word.starts_with('-')).any(|word| {
            let is_whole = option == word || option.split_once('=').is_some_and(|it| it.0 == word);
            is_whole || (word.ends_with('=') && option.starts_with(word))
        })
    }

    /// Each text between stars is searched for once, from left to right: that is enough, since a
    /// star takes any text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text = text.trim();
        let joined = if self.joins_blanks { with_single_blanks(text) } else { Cow::Borrowed(text) };
        let text: &str = &joined;
        match_texts(&self.texts, text)
            || self.without_arguments.as_ref().is_some_and(|texts| match_texts(texts, text))
    }
}

/// The text with one blank where it has several: a command's words are compared as they are joined
/// by single ones. Where quotes or backslashes may hold blanks together, they stay.
fn with_single_blanks(written: &str) -> Cow<'_, str> {
    if written.contains(['\'', '"', '\\']) || !written.contains("  ") {
        return Cow::Borrowed(written);
    }
    Cow::Owned(written.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
}

fn match_texts(texts: &[String], text: &str) -> bool {
    let [first, rest @ ..] = texts else { return false };
    let Some(mut left) = text.strip_prefix(first.as_str()) else { return false };
    let [inner @ .., last] = rest else { return left.is_empty() };
    for part in inner {
        let Some(at) = left.find(part.as_str()) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matched: &[&str], not_matched: &[&str]) {
        let parsed = BashPattern::parse(pattern).unwrap();
        for text in matched {
            assert!(parsed.matches(text), "{pattern} does not match {text}");
        }
        for text in not_matched {
            assert!(!parsed.matches(text), "{pattern} matches {text}");
        }
    }

    #[test]
    fn a_star_is_any_text_and_everything_else_is_itself() {
        check(
            "npm run build",
            &["npm run build"],
            &["npm run build2", "npm run", "xnpm run build"],
        );
        check(
            "git * main",
            &["git push origin main", "git checkout main"],
            &["git push", "git main x"],
        );
        check("* install", &["npm install", "a b install"], &["npm install x"]);
        check("a?[b]", &["a?[b]"], &["axb"]);
        check("*", &["", "a", "a b"], &[]);
        check("ls*", &["ls", "lsof", "ls -l"], &["als"]);
        check("a*b*c", &["abc", "a-b-c", "abcbc"], &["acb", "ab"]);
        check("aa*aa", &["aaaa", "aa aa"], &["aaa", "aa"]);
    }

    #[test]
    fn a_space_before_the_last_star_is_the_end_of_a_word() {
        check("ls *", &["ls", "ls -l", "ls  x"], &["lsof", "als", "l"]);
        check("npm run:*", &["npm run", "npm run x"], &["npm runx"]);
        check("git * *", &["git a", "git a b"], &["git", "gita"]);
        check("* *", &["a", "a b"], &[]);
    }

    #[test]
    fn an_escaped_star_is_a_star() {
        check(r"ls \*", &["ls *"], &["ls x", "ls"]);
        check(r"a\\*", &[r"a\", r"a\b"], &["ab"]);
        check(r"a\b", &[r"a\b"], &["ab"]);
        assert_eq!(BashPattern::parse(r"a\"), Err(BashPatternError::Backslash));
        assert_eq!(BashPattern::parse("  "), Err(BashPatternError::Empty));
        assert_eq!(BashPattern::parse(":*"), BashPattern::parse("*"));
    }

    #[test]
    fn a_colon_and_a_star_stand_at_the_end_alone() {
        for inner in ["git reset:* --hard", "npm:**", "git:*:*", "a:* b", "git:*x", ":*:*", "a:* *"]
        {
            assert_eq!(BashPattern::parse(inner), Err(BashPatternError::InnerColon), "{inner}");
        }
        check(r"git reset:\* --hard", &["git reset:* --hard"], &["git reset HEAD --hard"]);
        check(
            "docker pull a:b *",
            &["docker pull a:b", "docker pull a:b c"],
            &["docker pull a:bc"],
        );
    }

    #[test]
    fn several_blanks_are_one() {
        check("git  push   *", &["git push", "git push origin", "git  push"], &["git pushx"]);
        check("echo 'a  b'", &["echo 'a  b'"], &["echo 'a b'"]);
    }

    #[test]
    fn what_was_escaped_matches_only_itself() {
        for text in ["ls *", r"a\*b\", "npm run x:*", "rm *"] {
            let pattern = BashPattern::parse(&BashPattern::escaped(text)).unwrap();
            assert!(pattern.matches(text), "{text}");
            assert!(!pattern.matches(&text.replace('*', "x")) || !text.contains('*'), "{text}");
        }
    }
}
