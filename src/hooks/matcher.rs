//! Matches the names that a hook is for: all, a list of names, or a pattern.
//!
//! The syntax is that of the public protocol, whose patterns are JavaScript's. A matcher that could
//! be read and would never match is an error: a hook that was to deny something must not fail open.

use fancy_regex::{Regex, RegexBuilder};
use serde::Deserialize;

/// A longer one is no list of tools, but may take long to compile.
const MAX_CHARS: usize = 1000;

/// The steps that a pattern with look-around may take over one name. A name has some dozen letters;
/// a pattern that needs more steps is nested without end.
const MAX_STEPS: usize = 100_000;

/// The most memory of one compiled part of a pattern: hundreds of times what names need.
const MAX_COMPILED_BYTES: usize = 1 << 20;

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
    /// A regular expression that is looked for anywhere in the name.
    Pattern(Regex),
}

impl HookMatcher {
    /// Whether one of the names is matched: a tool's own, which is the first, and its aliases.
    pub(super) fn matches(&self, names: &[&str]) -> bool {
        match &self.kind {
            MatcherKind::All => true,
            MatcherKind::Names(known) => names.iter().any(|name| known.iter().any(|it| it == name)),
            // A pattern is about the tool's own name: `^(?!Bash)` would else find an alias of Bash.
            // One that runs into its limit may be one that matches, so the hook runs.
            MatcherKind::Pattern(pattern) => {
                names.first().is_some_and(|name| pattern.is_match(*name).unwrap_or(true))
            }
        }
    }

    pub(super) fn is_all(&self) -> bool {
        matches!(self.kind, MatcherKind::All)
    }

    /// The listed names; none for all and for a pattern.
    pub(super) fn names(&self) -> &[String] {
        match &self.kind {
            MatcherKind::Names(names) => names,
            MatcherKind::All | MatcherKind::Pattern(_) => &[],
        }
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
            list if list.chars().all(is_of_a_list) => MatcherKind::Names(names(list)?),
            pattern => MatcherKind::Pattern(compiled(pattern)?),
        };
        Ok(Self { text, kind })
    }
}

/// Whether a name or a list of names may have this character.
fn is_of_a_list(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '|' | ',') || c.is_whitespace()
}

/// The names of a list. Nothing between two separators is no name.
fn names(list: &str) -> Result<Vec<String>, String> {
    let parts = list.split(['|', ',']).map(str::trim);
    let names: Vec<String> = parts.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if names.is_empty() {
        return Err(format!("the matcher {list:?} names nothing; write * for everything"));
    }
    if let Some(name) = names.iter().find(|name| name.contains(char::is_whitespace)) {
        return Err(format!(
            "the matcher {list:?}: {name:?} is no tool's name; put | or a comma between names"
        ));
    }
    Ok(names)
}

fn compiled(pattern: &str) -> Result<Regex, String> {
    if has_list_separator(pattern) {
        return Err(format!(
            "the matcher {pattern:?} is read as a regular expression, and no tool's name has a \
             comma or a blank; use | between alternatives"
        ));
    }
    if let Some(c) = foreign_to_names(pattern) {
        return Err(format!("the matcher {pattern:?}: no tool's name has {c:?}; remove it"));
    }
    let compiled = RegexBuilder::new(pattern)
        .backtrack_limit(MAX_STEPS)
        .delegate_size_limit(MAX_COMPILED_BYTES)
        .build();
    compiled.map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim();
        format!("the matcher {pattern:?} does not compile: {why}")
    })
}

/// A character that is in no name and means nothing in a pattern. Most of them come from the form
/// of other rules: `Bash(git:*)`, `/Bash/i`, `"Bash"`.
fn foreign_to_names(pattern: &str) -> Option<char> {
    const GROUPS: [&str; 5] = ["(?:", "(?=", "(?!", "(?<=", "(?<!"];
    let mut rest = pattern.to_owned();
    for group in GROUPS {
        rest = rest.replace(group, "");
    }
    rest.chars().find(|c| !c.is_ascii() || ":;&/!\"'`".contains(*c))
}

/// Whether the pattern wants a comma or a blank in a name. Those of `{1,2}` and in classes mean
/// something else.
fn has_list_separator(pattern: &str) -> bool {
    let mut is_in_class = false;
    let mut is_in_braces = false;
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '[' => is_in_class = true,
            ']' => is_in_class = false,
            '{' => is_in_braces = !is_in_class,
            '}' => is_in_braces = false,
            ',' if !is_in_class && !is_in_braces => return true,
            blank if blank.is_whitespace() && !is_in_class => return true,
            _ => {}
        }
    }
    false
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
        for all in ["", "*", "  ", " * "] {
            check(all, &["Bash"], true);
        }
    }

    #[test]
    fn plain_names_are_compared_whole_and_by_alias() {
        check("Bash", &["Bash", "shell"], true);
        check("shell", &["Bash", "shell"], true);
        for list in ["Edit|Write", "Edit | Write", "Edit, Write", "Edit,Write", "Edit,\tWrite|Read"]
        {
            check(list, &["Edit"], true);
            check(list, &["Write", "write_file"], true);
            check(list, &["NotebookEdit"], false);
            check(list, &["Bash"], false);
        }
        for list in ["Edit,", "|Edit", "Edit||Write", " Edit ,, "] {
            check(list, &["Edit"], true);
            check(list, &["Bash"], false);
        }
        check("Bas", &["Bash"], false);
        check("bash", &["Bash"], false);
        check("mcp__git", &["mcp__git__log"], false);
    }

    #[test]
    fn a_pattern_is_found_anywhere_in_the_name() {
        check("mcp__.*", &["mcp__git__log"], true);
        check("Not.*|Edit", &["NotebookEdit"], true);
        check("^Notebook", &["NotebookEdit"], true);
        check("^Notebook", &["MyNotebook"], false);
        check("Ba.", &["Bash"], true);
        check("Edit$", &["NotebookEdit"], true);
        check("Edit$", &["Edited"], false);
        check("^Bash$", &["Bash"], true);
        check("^Bash$", &["Bash\n"], false);
        check("(?i)bash", &["Bash"], true);
        check("ook[A-Z]", &["NotebookEdit"], true);
        check("o{2}k", &["NotebookEdit"], true);
        check("^(Edit|Write)$", &["Write"], true);
    }

    #[test]
    fn patterns_look_around() {
        check("^(?!mcp__).*$", &["Bash"], true);
        check("^(?!Bash).*$", &["Bash", "shell"], false);
        check("^(?!mcp__).*$", &["mcp__git__log"], false);
        check("(?<!Notebook)Edit", &["Edit"], true);
        check("(?<!Notebook)Edit", &["NotebookEdit"], false);
        check("^mcp__(?!git__)", &["mcp__fs__read"], true);
        check("(?=.*delete)^mcp__", &["mcp__db__delete_row"], true);
        check(r"^(?<a>\w)\k<a>", &["aab"], true);
    }

    #[test]
    fn a_pattern_that_takes_too_long_counts_as_matching() {
        let endless = "^(?!x)(?:(?:a|aa|a(?=a))+)+$(?<=b)";
        check(endless, &["a".repeat(60).as_str()], true);
        check(endless, &["x"], false);
        // Without look-around it is linear, and so is known.
        check("^(a+)+$", &[("a".repeat(60) + "b").as_str()], false);
    }

    #[test]
    fn what_does_not_compile_is_an_error() {
        let error = |text: &str| HookMatcher::try_from(text.to_owned()).unwrap_err();
        assert!(error("Bash(").starts_with("the matcher \"Bash(\" does not compile: "));
        assert!(error("a)|(b").contains("does not compile"));
        assert!(error("*Edit").contains("does not compile"));
        assert!(error("[z-a]").contains("does not compile"));
        assert!(error("(?!").contains("does not compile"));
        assert!(error(&"a".repeat(1001)).contains("at most 1000"));
        assert!(error("(?:a{1000}){1000}").contains("does not compile"));
        assert!(error("(?=a)(?:a{1000}){1000}b").contains("does not compile"));
    }

    #[test]
    fn what_could_never_match_is_an_error() {
        let error = |text: &str| HookMatcher::try_from(text.to_owned()).unwrap_err();
        assert!(error("Edit Write").contains("is no tool's name"));
        assert!(error(" , | ").contains("names nothing"));
        assert!(error("Edit, mcp__.*").contains("use | between"));
        assert!(error("^Edit, ^Write").contains("use | between"));
        assert!(error("mcp__.* Bash").contains("use | between"));
        for slip in ["Bash(git:*)", "/Bash/i", "Edit;Bash", "!Edit", "\u{201c}Bash\u{201d}"] {
            assert!(error(slip).contains("no tool's name has"), "{slip}");
        }
        for fine in
            ["^(?!mcp__).*$", "(?:Edit|Bash)", "a{1,2}", "[, ]x|Edit", r"\,|Edit.", "mcp__.*|Bash"]
        {
            assert!(HookMatcher::try_from(fine.to_owned()).is_ok(), "{fine}");
        }
    }

    #[test]
    fn deep_patterns_are_an_error_or_quick() {
        for piece in ["(", "(?=", "(?:", "((a|", "[", "(?<!", "a{9}"] {
            let open = piece.repeat(999 / piece.len());
            let closed = format!("{}a{}", piece.repeat(100), ")".repeat(100));
            for pattern in [open, closed] {
                if let Ok(matcher) = HookMatcher::try_from(pattern) {
                    matcher.matches(&["Bash"]);
                }
            }
        }
    }
}
