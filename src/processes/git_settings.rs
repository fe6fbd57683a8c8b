//! Reads and writes git's settings files, as far as they are needed here. Pure.

/// A value of a settings file. Its section and key are in lower case.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GitValue {
    pub(super) section: String,
    pub(super) key: String,
    pub(super) value: String,
}

/// A part of a line of a settings file.
#[derive(Debug, PartialEq, Eq)]
enum SettingsLine {
    Section(String),
    Value { key: String, value: String },
}

/// The values of a settings file in their order, but for those that git would not read.
pub(super) fn values(text: &str) -> Vec<GitValue> {
    let mut values = Vec::new();
    let mut section = String::new();
    // The value may stand behind the name of its section.
    for part in text.lines().flat_map(parsed) {
        match part {
            SettingsLine::Section(name) => section = name,
            SettingsLine::Value { key, value } => {
                values.push(GitValue { section: section.clone(), key, value });
            }
        }
    }
    values
}

/// Whether a section names further settings, always or under a condition.
pub(super) fn is_include(section: &str) -> bool {
    let is_conditional = |rest: &str| rest.starts_with(|c: char| c == '"' || c.is_whitespace());
    section == "include" || section.strip_prefix("includeif").is_some_and(is_conditional)
}

fn parsed(line: &str) -> Vec<SettingsLine> {
    let line = line.trim_start();
    let mut parts = Vec::new();
    let rest = match line.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((name, rest)) => {
            parts.push(SettingsLine::Section(name.trim().to_ascii_lowercase()));
            rest
        }
        None => line,
    };
    if let Some((key, value)) = rest.split_once('=') {
        let key = key.trim().to_ascii_lowercase();
        parts.extend(unquoted(value).map(|value| SettingsLine::Value { key, value }));
    }
    parts
}

/// The value without quotes and comments. `None` where git would not read it, or reads on in the
/// next line.
fn unquoted(text: &str) -> Option<String> {
    let mut value = String::new();
    // What stands in quotes is not trimmed.
    let mut quoted_until = 0;
    let mut is_quoted = false;
    let mut characters = text.trim_start().chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                is_quoted = !is_quoted;
                quoted_until = value.len();
            }
            '\\' => match characters.next()? {
                escaped @ ('"' | '\\') => value.push(escaped),
                't' => value.push('\t'),
                _ => return None,
            },
            '#' | ';' if !is_quoted => break,
            _ => value.push(character),
        }
    }
    let end = value.trim_end().len().max(quoted_until);
    value.truncate(end);
    let is_plain = !is_quoted && !value.is_empty() && !value.contains(char::is_control);
    is_plain.then_some(value)
}

/// A line of a settings file.
pub(super) fn setting(key: &str, value: &str) -> String {
    format!("\t{key} = {}\n", quoted(value))
}

fn quoted(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_becomes_another_setting() {
        for (value, read) in [
            (r#" "a b " "#, Some("a b ")),
            ("a ", Some("a")),
            ("a ; c", Some("a")),
            (r#""a ; c""#, Some("a ; c")),
            (r#"\"a\\"#, Some(r#""a\"#)),
            (r"a\nb", None),
            (r"a \", None),
            (r#""a"#, None),
            ("", None),
        ] {
            assert_eq!(unquoted(value).as_deref(), read, "{value}");
            if let Some(read) = read {
                assert_eq!(unquoted(&quoted(read)).as_deref(), Some(read), "{value}");
            }
        }
    }
}
