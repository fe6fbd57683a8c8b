//! Finds the name under which a person commits, for the git of commands in bubblewrap: home is
//! empty there, and without a name git commits nothing.

use std::fs;
use std::path::{Path, PathBuf};

use super::plain_file;

/// The most that is read of one settings file.
const MAX_SETTINGS: u64 = 256 << 10;

/// How many files may include each other. Git itself allows ten.
const MAX_DEPTH: usize = 10;

/// A name and an address, as a person's settings of git have them. Nothing else of those settings
/// reaches a command: they can name programs, and hold tokens.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GitIdentity {
    name: Option<String>,
    email: Option<String>,
}

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

impl GitIdentity {
    /// Reads the settings of the person whose home this is. Conditional includes do not count.
    pub(super) fn of_person(home: &Path) -> Self {
        let mut identity = Self::default();
        for path in [".config/git/config", ".gitconfig"] {
            identity.add_file(&home.join(path), home, MAX_DEPTH);
        }
        identity
    }

    /// The settings file that says this and nothing else; `None` if nothing is known.
    pub(super) fn settings(&self) -> Option<String> {
        let values = [("name", &self.name), ("email", &self.email)];
        let mut text = String::new();
        for (key, value) in values {
            if let Some(value) = value {
                text.push_str(&setting(key, value));
            }
        }
        (!text.is_empty()).then(|| format!("[user]\n{text}"))
    }

    /// Adds what a file says. A later value counts instead of an earlier one.
    fn add_file(&mut self, path: &Path, home: &Path, depth: usize) {
        let Some(text) = read(path) else { return };
        for GitValue { section, key, value } in values(&text) {
            match (section.as_str(), key.as_str()) {
                ("user", "name") => self.name = Some(value),
                ("user", "email") => self.email = Some(value),
                ("include", "path") if depth > 0 => {
                    let included = included(&value, path, home);
                    self.add_file(&included, home, depth - 1);
                }
                _ => {}
            }
        }
    }
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

/// Where an included file is: below home, or relative to the file that names it.
fn included(value: &str, from: &Path, home: &Path) -> PathBuf {
    match value.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => from.parent().unwrap_or(home).join(value),
    }
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
fn setting(key: &str, value: &str) -> String {
    format!("\t{key} = {}\n", quoted(value))
}

fn quoted(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

fn read(path: &Path) -> Option<String> {
    // Many people keep their settings elsewhere, and a link to them in home.
    let path = fs::canonicalize(path).ok()?;
    String::from_utf8(plain_file::read(&path, MAX_SETTINGS).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    fn settings(files: &[(&str, &str)]) -> Option<String> {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        GitIdentity::of_person(home.path()).settings()
    }

    #[test]
    fn a_name_and_an_address_are_taken_and_nothing_else() {
        let text = "[core]\n\tpager = evil\n[User]\n\tName = Ada \"L.\" # her\n\temail=a@b.example\n\
            \tsigningkey = secret\n[credential]\n\thelper = evil\n[alias]\n\tname = !evil\n";
        insta::assert_snapshot!(settings(&[(".gitconfig", text)]).unwrap(), @r#"
        [user]
        	name = "Ada L."
        	email = "a@b.example"
        "#);
        assert_eq!(settings(&[(".gitconfig", "[core]\n\teditor = vi\n")]), None);
        assert_eq!(settings(&[]), None);
    }

    #[test]
    fn a_later_file_and_an_included_one_count_as_git_counts_them() {
        let told = settings(&[
            (".config/git/config", "[user]\nname = first\nemail = first@x\n"),
            (".gitconfig", "[user] name = second\n[include]\npath = own\n[include] path = ~/d/e\n"),
            ("own", "[user]\nname = third\n"),
            ("d/e", "[user]\nemail = fourth@x\n"),
        ]);
        assert_eq!(told.unwrap(), "[user]\n\tname = \"third\"\n\temail = \"fourth@x\"\n");
    }

    #[test]
    fn files_that_include_each_other_come_to_an_end() {
        let told = settings(&[
            (".gitconfig", "[user]\nname = first\n[include]\npath = own\n"),
            ("own", "[include]\npath = .gitconfig\n"),
        ]);
        assert_eq!(told.unwrap(), "[user]\n\tname = \"first\"\n");
    }

    #[test]
    fn a_link_is_followed_and_a_pipe_keeps_nobody_waiting() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::write(path("dotfile"), "[user]\nname = Ada\n").unwrap();
        std::os::unix::fs::symlink("dotfile", path(".gitconfig")).unwrap();
        fs::create_dir_all(path(".config/git")).unwrap();
        mkfifoat(CWD, path(".config/git/config"), Mode::RUSR | Mode::WUSR).unwrap();
        let told = || GitIdentity::of_person(home.path()).settings();
        assert_eq!(told().unwrap(), "[user]\n\tname = \"Ada\"\n");
        fs::remove_file(path("dotfile")).unwrap();
        mkfifoat(CWD, path("dotfile"), Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(told(), None);
    }

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
