//! Matches the names that a hook is for: all, a list of names, or a pattern.

use regex::Regex;
use serde::Deserialize;

/// A longer one is no list of tools, but may take long to compile.
const MAX_CHARS: usize = 1000;

/// Which names a hook is for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct HookMatcher {
    /// As it was written.
    text: String,
    kind: MatcherKind,
}

#[derive(Clone, Debug, Default)]
enum MatcherKind {
    #[default]
    All,
    Names(Vec<String>),
    /// Of the whole name.
    Pattern(Regex),
}

impl HookMatcher {
    /// Whether one of the names (a tool's own and its aliases) is matched.
    pub(super) fn matches(&self, names: &[&str]) -> bool {
        match &self.kind {
            MatcherKind::All => true,
            MatcherKind::Names(known) => names.iter().any(|name| known.iter().any(|it| it == name)),
            MatcherKind::Pattern(pattern) => names.iter().any(|name| pattern.is_match(name)),
        }
    }

    pub(super) fn is_all(&self) -> bool {
        matches!(self.kind, MatcherKind::All)
    }

    /// The text as it was written; `*` for all.
    pub(super) fn text(&self) -> &str {
        if self.is_all() { "*" } else { &self.text }
    }
}

impl TryFrom<String> for HookMatcher {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if MAX_CHARS < text.chars().count() {
            return Err(format!("a matcher has at most {MAX_CHARS} characters"));
        }
        let kind = match text.trim() {
            "" | "*" => MatcherKind::All,
            plain if plain.split('|').all(is_name) => {
                MatcherKind::Names(plain.split('|').map(|name| name.trim().to_owned()).collect())
            }
            pattern => MatcherKind::Pattern(whole(pattern)?),
        };
        Ok(Self { text, kind })
    }
}

/// A name that means nothing but itself.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b' ');
    let text = text.trim();
    !text.is_empty() && text.bytes().all(is_plain)
}

fn whole(pattern: &str) -> Result<Regex, String> {
    let compiled = |pattern: &str| {
        Regex::new(pattern).map_err(|error| {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().trim();
            format!("the matcher {pattern:?} does not compile: {why}")
        })
    };
    // As it stands: the anchors' brackets could close one that is open in it.
    compiled(pattern)?;
    compiled(&format!(r"\A(?:{pattern})\z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, names: &[&str], expected: bool) {
        let matcher = HookMatcher::try_from(text.to_owned()).unwrap();
        assert_eq!(matcher.matches(names), expected, "{text} {names:?}");
    }

    #[test]
    fn an_empty_one_and_a_star_match_everything() {
        for all in ["", "*", "  "] {
            check(all, &["Bash"], true);
        }
    }

    #[test]
    fn plain_names_are_compared_whole_and_by_alias() {
        check("Bash", &["Bash", "shell"], true);
        check("shell", &["Bash", "shell"], true);
        check("Edit|Write", &["Write"], true);
        check("Edit | Write", &["Write"], true);
        check("Bas", &["Bash"], false);
        check("bash", &["Bash"], false);
        check("Edit|Write", &["NotebookEdit"], false);
    }

    #[test]
    fn a_pattern_matches_the_whole_name() {
        check("mcp__.*", &["mcp__git__log"], true);
        check("Not.*|Edit", &["NotebookEdit"], true);
        check("Edit|Wr.te", &["NotebookEdit"], false);
        check("(?i)bash", &["Bash"], true);
        check("^Bash$", &["Bash"], true);
        check("Bas.", &["Bash\nRead"], false);
    }

    #[test]
    fn what_does_not_compile_is_an_error() {
        let error = |text: &str| HookMatcher::try_from(text.to_owned()).unwrap_err();
        assert!(error("Bash(").starts_with("the matcher \"Bash(\" does not compile: "));
        assert!(error("a)|(b").contains("does not compile"));
        assert!(error(&"a".repeat(1001)).contains("at most 1000"));
        assert!(error(".{1000}{1000}{1000}").contains("does not compile"));
    }
}
