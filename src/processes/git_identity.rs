//! Finds the name under which a person commits, for the git of commands in bubblewrap: home is
//! empty there, and without a name git commits nothing.

use std::fs;
use std::path::{Path, PathBuf};

use super::git_settings::{GitValue, setting, values};
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

/// Where an included file is: below home, or relative to the file that names it.
fn included(value: &str, from: &Path, home: &Path) -> PathBuf {
    match value.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => from.parent().unwrap_or(home).join(value),
    }
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
}
