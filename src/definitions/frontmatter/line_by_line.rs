//! Reads a frontmatter that is no YAML, as it was meant: line by line, for the keys that are known.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::keys::{ValueKind, kind_of};
use super::{NameList, names_in, parsed};

/// Keys of other programs. They end the value before them, and theirs is ignored. Any other word
/// with a colon may begin a line of a description, such as `user:` in an example.
const OTHERS: [&str; 32] = [
    "agent",
    "alwaysApply",
    "author",
    "background",
    "category",
    "color",
    "compatibility",
    "context",
    "created",
    "effort",
    "globs",
    "hooks",
    "icon",
    "id",
    "initialPrompt",
    "isolation",
    "keywords",
    "license",
    "maturity",
    "mcpServers",
    "memory",
    "metadata",
    "mode",
    "paths",
    "priority",
    "shell",
    "skills",
    "tags",
    "temperature",
    "title",
    "version",
    "when_to_use",
];

/// A key with the lines of its value.
struct Entry<'a> {
    /// Counts from zero.
    line: usize,
    key: &'a str,
    /// What stands behind the key, and the lines that follow it.
    value: Vec<&'a str>,
}

/// The known keys and their values, as JSON. Of a key that stands there twice the last one counts,
/// as it does to most readers of YAML. The error names the line behind the one with `---`.
pub(super) fn read(frontmatter: &str) -> Result<Map<String, Value>, (usize, String)> {
    let mut values = Map::new();
    for entry in entries(frontmatter) {
        let Some(kind) = kind_of(entry.key) else { continue };
        // Of these, nothing means what it means to leave the key out.
        if matches!(kind, ValueKind::Number | ValueKind::Flag) && entry.text().is_empty() {
            values.shift_remove(entry.key);
            continue;
        }
        let value = entry.read(kind);
        let value = value.ok_or_else(|| {
            let reason = format!("`{}` takes {}", entry.key, kind.expected());
            (entry.line + 1, reason)
        })?;
        values.insert(entry.key.to_owned(), value);
    }
    Ok(values)
}

/// Where a frontmatter ends that no line ends: in front of the first heading, or of an empty line
/// with text behind it. `None`: there is no text, it has no keys, or one that is read stands further
/// on, where it could narrow what the file allows.
pub(super) fn open_end(text: &str) -> Option<usize> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_key = |line: &&str| key_of(line).is_some() && !line.starts_with(char::is_whitespace);
    let is_empty = |line: &str| line.trim().is_empty();
    let ends = |at: usize| {
        let behind = lines[at..].iter().find(|line| !is_empty(line));
        lines[at].starts_with('#') || is_empty(lines[at]) && !behind.is_some_and(is_key)
    };
    let end = (0..lines.len()).find(|at| ends(*at))?;
    let (frontmatter, behind) = lines.split_at(end);
    let is_read = |line: &&str| key_of(line).is_some_and(|(key, _)| kind_of(key).is_some());
    let begins_with_key = frontmatter.iter().find(|line| !is_empty(line)).is_some_and(is_key);
    let has_text = behind.iter().any(|line| !is_empty(line));
    if !has_text || !begins_with_key || behind.iter().any(is_read) {
        return None;
    }
    Some(frontmatter.iter().map(|line| line.len()).sum())
}

/// The keys, of which none stands further in than the first one.
fn entries(frontmatter: &str) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut indentation = None;
    for (line, text) in frontmatter.lines().enumerate() {
        let indented = text.len() - text.trim_start().len();
        let is_further_in = indentation.is_some_and(|first| indented > first);
        match key_of(text).filter(|_| !is_further_in) {
            Some((key, value)) => {
                indentation.get_or_insert(indented);
                entries.push(Entry { line, key, value: vec![value] });
            }
            None => {
                if let Some(entry) = entries.last_mut() {
                    entry.value.push(text);
                }
            }
        }
    }
    entries
}

/// A key that is known here or to others, and what stands behind it.
fn key_of(line: &str) -> Option<(&str, &str)> {
    // The second is how keyboards for Chinese write a colon.
    let (key, value) = line.split_once([':', '：'])?;
    let key = key.trim().trim_matches(['"', '\'']);
    let is_key = kind_of(key).is_some() || OTHERS.contains(&key);
    is_key.then_some((key, value))
}

impl Entry<'_> {
    fn read(&self, kind: ValueKind) -> Option<Value> {
        match kind {
            ValueKind::Text => {
                let text = self.as_yaml::<String>().unwrap_or_else(|| self.text());
                Some(Value::String(text))
            }
            ValueKind::Names => {
                let names =
                    self.as_yaml::<NameList>().map_or_else(|| self.names(), NameList::names);
                Some(names.iter().map(|name| name.trim()).collect())
            }
            ValueKind::Number => {
                let number = self.as_yaml::<u32>().or_else(|| self.text().trim().parse().ok());
                number.map(Value::from)
            }
            ValueKind::Flag => {
                let flag = self.as_yaml::<bool>().or_else(|| flag_of(&self.text()));
                flag.map(Value::from)
            }
        }
    }

    /// The value, if these lines alone are YAML.
    fn as_yaml<T: DeserializeOwned>(&self) -> Option<T> {
        let yaml = format!("value:{}", self.value.join("\n"));
        let mut read: HashMap<String, T> = parsed(&yaml).ok()?;
        read.remove("value")
    }

    /// The value as it is written, without quotes around it.
    fn text(&self) -> String {
        let [first, further @ ..] = &self.value[..] else { return String::new() };
        // A sign of YAML for a text of several lines.
        let is_sign = |c: char| matches!(c, '|' | '>' | '-' | '+') || c.is_ascii_digit();
        let is_block =
            first.trim_start().starts_with(['|', '>']) && first.trim().chars().all(is_sign);
        let lines = if is_block { further } else { &self.value[..] };
        let text = lines.join("\n");
        let text = text.trim();
        let unquoted = ['"', '\''].into_iter().find_map(|quote| {
            let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
            Some(inner.to_owned())
        });
        unquoted.unwrap_or_else(|| text.to_owned())
    }

    /// The names, whatever stands around them. What is none stays, and is refused as such where
    /// names are checked: to leave it out could mean more names, not fewer.
    fn names(&self) -> Vec<String> {
        let text = self.text();
        let items = text.lines().map(|line| line.trim().trim_start_matches("- "));
        names_in(&items.collect::<Vec<_>>().join(","))
    }
}

/// Yes or no, in the words that YAML had for them before.
fn flag_of(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(frontmatter: &str, expected: &str) {
        let values = read(frontmatter).unwrap();
        assert_eq!(Value::Object(values).to_string(), expected, "{frontmatter}");
    }

    #[test]
    fn outside_38_a_colon_in_a_text_is_text() {
        check(
            "name: review\ndescription: Reviews. Triggers on: review, check",
            r#"{"name":"review","description":"Reviews. Triggers on: review, check"}"#,
        );
    }

    #[test]
    fn outside_40_signs_of_yaml_are_text() {
        for (written, text) in [
            ("@mentions are handled", "@mentions are handled"),
            ("*every* file", "*every* file"),
            ("'It's fine'", "It's fine"),
            ("\"He says \"no\" to it\"", "He says \"no\" to it"),
            ("`code` first", "`code` first"),
            ("%done", "%done"),
            ("[WIP] reviews", "[WIP] reviews"),
            ("{{x}} templates", "{{x}} templates"),
            ("|\n  Two: lines\n  here", "Two: lines\nhere\n"),
            ("plain # with a comment", "plain"),
        ] {
            let values = read(&format!("description: {written}\nname: 'a': b")).unwrap();
            assert_eq!(values["description"], text, "{written}");
            assert_eq!(values["name"], "'a': b");
        }
        check("name: a\nname: b", r#"{"name":"b"}"#);
        check("  name: a\n  description: b: c", r#"{"name":"a","description":"b: c"}"#);
    }

    #[test]
    fn outside_41_lines_of_an_example_belong_to_the_description() {
        let frontmatter = "name: a\ndescription: Use it.\nExamples:\n<example>\nContext: C.\n\
                           user: \"Do it\"\nassistant: \"Yes: now\"\n</example>\nmodel: haiku\ncolor: red";
        let values = read(frontmatter).unwrap();
        let description = values["description"].as_str().unwrap();
        assert!(
            description.starts_with("Use it.\nExamples:") && description.ends_with("</example>")
        );
        assert_eq!(values["model"], "haiku");
    }

    #[test]
    fn outside_40_flags_and_numbers_are_read_in_other_words() {
        for (written, meant) in [
            ("yes", "true"),
            ("'true'", "true"),
            ("On", "true"),
            ("No", "false"),
            ("\"false\" # c", "false"),
        ] {
            let text = format!("description: a: b\nuser-invocable: {written}");
            check(&text, &format!(r#"{{"description":"a: b","user-invocable":{meant}}}"#));
        }
        check("description: a: b\nmaxTurns: '10'", r#"{"description":"a: b","maxTurns":10}"#);
        check("description: a: b\nuser-invocable:\nmaxTurns:\n", r#"{"description":"a: b"}"#);
    }

    #[test]
    fn outside_40_other_colons_and_tabs_are_read() {
        check(
            "name：review\ndescription：查看代码: 全部",
            r#"{"name":"review","description":"查看代码: 全部"}"#,
        );
        check(
            "name:\treview\n\tdescription: in\ndescription:\tTabs: two",
            r#"{"name":"review\n\tdescription: in","description":"Tabs: two"}"#,
        );
    }

    #[test]
    fn outside_51_brackets_in_a_hint_are_text() {
        check(
            "argument-hint: [--strict] [--json]\ndescription: D.",
            r#"{"argument-hint":"[--strict] [--json]","description":"D."}"#,
        );
    }

    #[test]
    fn g4_lists_and_flags_never_come_to_mean_more() {
        let names = |written: &str| {
            let values = read(&format!("description: a: b\ntools: {written}")).unwrap();
            values["tools"].to_string()
        };
        assert_eq!(names("Read, Grep"), r#"["Read","Grep"]"#);
        assert_eq!(names("[Read, \"Grep\""), r#"["[Read","Grep"]"#);
        assert_eq!(names("@Read, *"), r#"["@Read","*"]"#);
        assert_eq!(names("\n  - Read\n  - *x"), r#"["Read","*x"]"#);
        assert_eq!(names("\n  - Read\n  - Grep"), r#"["Read","Grep"]"#);
        assert_eq!(names(""), "[]");
        let fault = read("description: a: b\nuser-invocable: perhaps").unwrap_err();
        assert_eq!(fault, (2, "`user-invocable` takes true or false".to_owned()));
        assert!(read("maxTurns: many").is_err());
    }
}
