//! Splits a definition's file into its YAML frontmatter and its text, and reads the former.

mod keys;
mod line_by_line;

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny};
use serde_saphyr::{DuplicateKeyPolicy, Error, Options, alias_limits, budget, options};

use self::keys::{ValueKind, kind_of};
use crate::text::{self, first_chars, shown_line};

/// Many times what a frontmatter needs. Larger ones, and those whose aliases unfold to more, are
/// refused before they take time or memory.
const MAX_NODES: usize = 4000;
const MAX_DEPTH: usize = 16;
const MAX_BYTES: usize = 64 << 10;
const MAX_ANCHORS: usize = 16;

const NO_END: &str = "its frontmatter has no end: a second line `---` is missing";

/// A file's two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// Without the lines around it; `None` if the file has none.
    frontmatter: Option<&'a str>,
    /// The lines up to the one with `---`.
    lines_before: usize,
    /// What follows it, without empty lines around it.
    pub(super) text: &'a str,
    /// No line ends the frontmatter.
    is_open: bool,
}

/// What a frontmatter says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadFrontmatter<T> {
    pub(super) values: T,
    /// Why it had to be read line by line, with the number of a line.
    pub(super) remark: Option<String>,
}

/// The file without hidden characters, and with line feeds between its lines.
pub(super) fn readable(file: &str) -> Cow<'_, str> {
    let shown = text::without_hidden(file);
    if shown.contains('\r') && !shown.contains('\n') {
        return Cow::Owned(shown.replace('\r', "\n"));
    }
    shown
}

/// The error follows the name of the file.
pub(super) fn split(file: &str) -> Result<Parts<'_>, String> {
    let begun = file.trim_start();
    let lines_before = file[..file.len() - begun.len()].matches('\n').count() + 1;
    let (first, rest) = begun.split_once('\n').unwrap_or((begun, ""));
    if first.trim_end() != "---" {
        let text = file.trim();
        return Ok(Parts { frontmatter: None, lines_before: 0, text, is_open: false });
    }
    // One that is indented may stand in a text of several lines.
    let end = fence(rest, |line| is_fence(line.trim_end()))
        .or_else(|| fence(rest, |line| is_fence(line.trim())));
    let is_open = end.is_none();
    let end = end.or_else(|| line_by_line::open_end(rest).map(|end| end..end));
    let end = end.ok_or(NO_END)?;
    let (frontmatter, text) = (Some(&rest[..end.start]), rest[end.end..].trim());
    Ok(Parts { frontmatter, lines_before, text, is_open })
}

/// The first line that ends a frontmatter.
fn fence(text: &str, is_end: impl Fn(&str) -> bool) -> Option<Range<usize>> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        if is_end(line) {
            return Some(start..end);
        }
        start = end;
    }
    None
}

/// `---`, with more dashes, or the end of a document of YAML.
fn is_fence(line: &str) -> bool {
    line == "..." || (3 <= line.len() && line.chars().all(|c| c == '-'))
}

impl Parts<'_> {
    /// Reads the frontmatter; the default if there is none. One that is no YAML, or holds another
    /// kind of value than it may, is read line by line. The error follows the name of the file.
    pub(super) fn read<T: DeserializeOwned + Default>(&self) -> Result<ReadFrontmatter<T>, String> {
        let Some(yaml) = self.frontmatter.filter(|yaml| !yaml.trim().is_empty()) else {
            return Ok(ReadFrontmatter { values: T::default(), remark: None });
        };
        if yaml.len() > MAX_BYTES {
            return Err(format!("its frontmatter is larger than {MAX_BYTES} bytes"));
        }
        let error = match parsed(yaml) {
            Ok(values) => return Ok(ReadFrontmatter { values, remark: self.remark(None) }),
            Err(error) => error,
        };
        let line = error.location().map_or(1, |location| location.line());
        let line = usize::try_from(line).unwrap_or(usize::MAX);
        let located = |line: usize, fault: &str| {
            format!("line {}: {fault}", line.saturating_add(self.lines_before))
        };
        let fault = located(line, &fault(yaml, &error, line));
        if is_too_much(&error) {
            return Err(fault);
        }
        let by_lines = line_by_line::read(yaml);
        let by_lines = by_lines.map_err(|(line, fault)| located(line, &fault))?;
        let values = serde_json::from_value(by_lines.into()).map_err(|_| fault.clone())?;
        let remark = self.remark(Some(format!("{fault}; it was read line by line")));
        Ok(ReadFrontmatter { values, remark })
    }

    /// A remark, with that on a frontmatter without an end.
    fn remark(&self, other: Option<String>) -> Option<String> {
        let open = self.is_open.then(|| format!("{NO_END}; it was read up to the first paragraph"));
        let remarks: Vec<String> = [open, other].into_iter().flatten().collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }

    /// Whether the file has a frontmatter.
    pub(super) fn has_frontmatter(&self) -> bool {
        self.frontmatter.is_some()
    }
}

/// What is wrong, and what to write instead.
fn fault(yaml: &str, error: &Error, line: usize) -> String {
    let key = key_at(yaml, line);
    if matches!(error.without_snippet(), Error::DuplicateMappingKey { .. }) {
        return format!("{key} stands there twice; keep one");
    }
    if is_too_much(error) {
        return "it nests or repeats more than a frontmatter may; make it simpler".to_owned();
    }
    if parses::<Mapping>(yaml) {
        return format!("{key} takes {}", takes(&key));
    }
    if parses::<IgnoredAny>(yaml) {
        return "lines such as `description: …` are expected here, each a key with its value"
            .to_owned();
    }
    "it is not YAML; put a text in quotes that has a colon and a blank, or begins with a sign such \
     as [ { * & @ %"
        .to_owned()
}

/// Whether the frontmatter would take more time or memory than it may.
fn is_too_much(error: &Error) -> bool {
    matches!(
        error.without_snippet(),
        Error::Budget { .. }
            | Error::AliasReplayCounterOverflow { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. }
    )
}

/// Keys with any values.
#[derive(Deserialize)]
struct Mapping {}

fn parsed<T: DeserializeOwned>(yaml: &str) -> Result<T, Error> {
    serde_saphyr::from_str_with_options(yaml, strict())
}

fn parses<T: DeserializeOwned>(yaml: &str) -> bool {
    parsed::<T>(yaml).is_ok()
}

/// The key whose value this line belongs to.
fn key_at(yaml: &str, line: usize) -> String {
    let key = |line: &str| {
        let (key, _) = line.split_once(':')?;
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        (!key.is_empty() && key.chars().all(is_key)).then(|| format!("`{}`", first_chars(key, 40)))
    };
    let lines: Vec<&str> = yaml.lines().take(line).collect();
    let found = lines.into_iter().rev().find_map(key);
    found.unwrap_or_else(|| "this key".to_owned())
}

/// What the value of a key is.
fn takes(key: &str) -> &'static str {
    let kind = kind_of(key.trim_matches('`'));
    kind.map_or("a value of another kind", ValueKind::expected)
}

fn strict() -> Options {
    options! {
        budget: budget! {
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_anchors: MAX_ANCHORS,
            max_aliases: MAX_ANCHORS,
            max_total_scalar_bytes: 2 * MAX_BYTES,
            max_documents: 1,
        },
        alias_limits: alias_limits! { max_total_replayed_events: MAX_NODES },
        duplicate_keys: DuplicateKeyPolicy::Error,
        with_snippet: false,
    }
}

/// A list of names: a YAML list, or a text with commas. One without a value is empty, because
/// to leave it out would mean more names, not fewer.
pub(super) fn names<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<String>>, D::Error> {
    let names = NameList::deserialize(input)?.names();
    // YAML can write characters that the file itself has not.
    Ok(Some(names.iter().map(|name| shown_line(name)).collect()))
}

/// A list of names as it is written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a list of names")]
enum NameList {
    List(Vec<String>),
    Text(String),
    Empty(()),
}

impl NameList {
    fn names(self) -> Vec<String> {
        match self {
            Self::List(names) => names.iter().flat_map(|names| names_in(names)).collect(),
            Self::Text(text) => names_in(&text),
            Self::Empty(()) => Vec::new(),
        }
    }
}

/// The names in a text: what stands in no parentheses between commas, semicolons and blanks. The
/// whole may stand in brackets, and each name in quotes.
fn names_in(text: &str) -> Vec<String> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let (mut parts, mut part, mut depth) = (Vec::new(), String::new(), 0_usize);
    for c in inner.unwrap_or(text).chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 && (matches!(c, ',' | ';') || c.is_whitespace()) => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    parts.push(part);
    let unquoted = parts.iter().map(|part| part.trim_matches(['"', '\'']));
    unquoted.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Read {
        name: Option<String>,
        #[serde(default, deserialize_with = "names")]
        tools: Option<Vec<String>>,
    }

    fn read(yaml: &str) -> Result<Read, String> {
        Ok(read_whole(yaml)?.values)
    }

    fn read_whole(yaml: &str) -> Result<ReadFrontmatter<Read>, String> {
        split(&format!("---\n{yaml}\n---\n")).unwrap().read()
    }

    fn tools(yaml: &str) -> Option<Vec<String>> {
        read(yaml).unwrap().tools
    }

    #[test]
    fn a_file_has_a_frontmatter_or_none() {
        let parts = |file| split(file).map(|parts| (parts.frontmatter, parts.text));
        assert_eq!(parts("---\na: 1\n---\n\nBody\n"), Ok((Some("a: 1\n"), "Body")));
        assert_eq!(parts("---\r\na: 1\r\n---\r\nBody"), Ok((Some("a: 1\r\n"), "Body")));
        assert_eq!(parts("---\n---"), Ok((Some(""), "")));
        assert_eq!(parts("Body\n---\nmore"), Ok((None, "Body\n---\nmore")));
        assert_eq!(parts(""), Ok((None, "")));
        assert_eq!(parts("\n \n---\na: 1\n---\nBody"), Ok((Some("a: 1\n"), "Body")));
        assert!(parts("---\na: 1\n").unwrap_err().contains("has no end"));
        assert_eq!(parts("---\na: 1\n-----\nBody"), Ok((Some("a: 1\n"), "Body")));
        assert_eq!(parts("---\na: 1\n...\nBody"), Ok((Some("a: 1\n"), "Body")));
        assert_eq!(parts("---\na: 1\n --- \nBody"), Ok((Some("a: 1\n"), "Body")));
        let inner = "---\na: |\n  b\n  ---\n  c\n---\nBody";
        assert_eq!(parts(inner), Ok((Some("a: |\n  b\n  ---\n  c\n"), "Body")));
        assert_eq!(readable("---\rname: a\r---\rBody"), "---\nname: a\n---\nBody");
        assert_eq!(readable("a\r\nb"), "a\r\nb");
    }

    #[test]
    fn outside_40_a_frontmatter_without_an_end_is_read_up_to_the_text() {
        let parts = |file| split(file).map(|parts| (parts.frontmatter, parts.text));
        assert_eq!(
            parts("---\nname: a\ntools: Read\n\nBody\n"),
            Ok((Some("name: a\ntools: Read\n"), "Body"))
        );
        assert_eq!(
            parts("---\nname: a\n\ndescription: b\n# Title\nBody: c"),
            Ok((Some("name: a\n\ndescription: b\n"), "# Title\nBody: c"))
        );
        // What narrows could be further on.
        for file in [
            "---\nname: a\n\nText.\n\ntools: Read\n",
            "---\nText\n\nname: a\n",
            "---\n",
            "---\nname: a\n\n",
        ] {
            assert_eq!(parts(file), Err(NO_END.to_owned()), "{file}");
        }
        let read: ReadFrontmatter<Read> = split("---\nname: a\n\nBody").unwrap().read().unwrap();
        assert_eq!(read.values.name.as_deref(), Some("a"));
        insta::assert_snapshot!(read.remark.unwrap(), @"its frontmatter has no end: a second line `---` is missing; it was read up to the first paragraph");
    }

    #[test]
    fn g2_characters_that_yaml_unescapes_are_not_shown() {
        assert_eq!(shown_line("Does\u{202e}\u{e0063}\u{1b}[31m\n it."), "Does[31m it.");
        let written = tools(r#"tools: ["Re\u200bad"]"#);
        assert_eq!(written, Some(vec!["Read".to_owned()]));
    }

    #[test]
    fn names_are_a_list_or_a_text_with_commas() {
        let names = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(
            tools("tools: Read, Bash(git *, x) ,Glob"),
            names(&["Read", "Bash(git *, x)", "Glob"])
        );
        assert_eq!(tools("tools: [Read, mcp__a]"), names(&["Read", "mcp__a"]));
        assert_eq!(tools("tools:\n  - Read\n"), names(&["Read"]));
        assert_eq!((tools("name: a"), tools("tools: []")), (None, names(&[])));
        assert_eq!((tools("tools:"), tools("tools: \"\"")), (names(&[]), names(&[])));
        assert_eq!(tools("tools: {a: b}"), names(&["{a:", "b}"]));
        for written in [
            "tools: Read Grep",
            "tools: Read; Grep",
            "tools: \"[Read, 'Grep']\"",
            "tools: '[\"Read\",\"Grep\"]'",
            "tools: [\"Read, Grep\"]",
            "tools: |\n  Read\n  Grep",
            "tools: >\n  Read,\n  Grep\n",
        ] {
            assert_eq!(tools(written), names(&["Read", "Grep"]), "{written}");
        }
        assert_eq!(tools("tools: Bash(git *) Read"), names(&["Bash(git *)", "Read"]));
    }

    #[test]
    fn g4_what_unfolds_or_nests_without_end_is_refused() {
        let bomb = (0..9).fold("a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, at| {
            let [this, next] = [at, at + 1].map(|at| char::from(b'a' + at));
            let aliases = vec![format!("*{this}"); 9].join(",");
            format!("{text}{next}: &{next} [{aliases}]\n")
        });
        assert!(read(&bomb).is_err());
        // Of what is read line by line, nothing unfolds.
        for nested in [format!("x: {}", "[".repeat(30_000)), "- ".repeat(20_000)] {
            assert!(read(&nested).is_ok_and(|read| read == Read::default()));
        }
        let deep: String = (0..200).flat_map(|at| [" ".repeat(at), "a:\n".to_owned()]).collect();
        assert!(read(&deep).is_err());
        assert!(read(&format!("x: \"{}\"", "a".repeat(MAX_BYTES))).unwrap_err().contains("larger"));
    }

    #[test]
    fn a_fault_is_one_line_with_its_number_and_what_to_write() {
        let fault = |yaml: &str| read(yaml).unwrap_err();
        let remark = |yaml: &str| read_whole(yaml).unwrap().remark.unwrap();
        insta::assert_snapshot!(remark("name: a\nname: b"), @"line 3: `name` stands there twice; keep one; it was read line by line");
        let not_yaml = "it is not YAML; put a text in quotes that has a colon and a blank, or \
                        begins with a sign such as [ { * & @ %; it was read line by line";
        for (yaml, line) in [("name: a: b", 2), ("name: a\ntools: @b", 3), ("name: [a", 2)] {
            assert_eq!(remark(yaml), format!("line {line}: {not_yaml}"), "{yaml}");
        }
        for yaml in ["- a", "only words"] {
            let remark = remark(yaml);
            assert!(
                remark.starts_with("line 2: lines such as `description: …` are expected here"),
                "{remark}"
            );
        }
        insta::assert_snapshot!(remark("tools:\n  - Read\nname:\n  - a"), @"line 5: `name` takes a text; it was read line by line");
        let after_blank_lines = split("\n\n---\nname: a: b\n---\n").unwrap().read::<Read>();
        assert!(after_blank_lines.unwrap().remark.unwrap().starts_with("line 4: "));
        let deep: String = (0..200).flat_map(|at| [" ".repeat(at), "a:\n".to_owned()]).collect();
        let deep = fault(&deep);
        insta::assert_snapshot!(deep, @"line 18: it nests or repeats more than a frontmatter may; make it simpler");
        assert!(read("a: 1\n--- \nb: 2").is_ok(), "the text begins there");
        assert_eq!(read("name: 5\nfurther: [1]").unwrap().name.as_deref(), Some("5"));
    }
}
