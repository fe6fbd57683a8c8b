//! Reads a person's own settings of git: the name under which the person commits, for the git of
//! commands in bubblewrap, where home is empty and git commits nothing without a name; and the files
//! that these settings name, which may lie in a workspace.

use std::fs;
use std::path::{Path, PathBuf};

use super::git_settings::{GitValue, is_include, setting, values};
use super::plain_file;

/// The most that is read of one settings file.
const MAX_SETTINGS: u64 = 256 << 10;

/// How many files may include each other. Git itself allows ten.
const MAX_DEPTH: usize = 10;

/// Where a person's settings are, below home, the first to count last.
const OF_PERSON: [&str; 2] = [".config/git/config", ".gitconfig"];

/// Where those of all persons of a machine are.
const OF_MACHINE: &str = "/etc/gitconfig";

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
        let mut add = |value: GitValue, _: &Path| match (&*value.section, &*value.key) {
            ("user", "name") => identity.name = Some(value.value),
            ("user", "email") => identity.email = Some(value.value),
            _ => {}
        };
        for path in OF_PERSON {
            walk(&home.join(path), home, Includes::Unconditional, MAX_DEPTH, &mut add);
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
}

/// Which included files are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Includes {
    Unconditional,
    /// Those that count under some condition as well.
    All,
}

/// Paths that a person's settings of git name for every repository: of hooks and of attributes, and
/// the files of these settings themselves. A relative one counts from the top of each worktree.
pub(super) fn named_by_person(home: &Path) -> Vec<PathBuf> {
    let mut named = Vec::new();
    let mut files = Vec::new();
    let mut add = |value: GitValue, file: &Path| {
        files.push(file.to_owned());
        if value.section == "core" && ["hookspath", "attributesfile"].contains(&&*value.key) {
            named.push(below_home(&value.value, home));
        }
    };
    let of_person = OF_PERSON.map(|path| home.join(path));
    for path in of_person.iter().map(PathBuf::as_path).chain([Path::new(OF_MACHINE)]) {
        walk(path, home, Includes::All, MAX_DEPTH, &mut add);
    }
    named.extend(files);
    named.sort();
    named.dedup();
    named
}

/// Calls `each` with the values of a settings file and of those that it includes, where git reads
/// them. A later value counts instead of an earlier one.
fn walk(
    path: &Path,
    home: &Path,
    includes: Includes,
    depth: usize,
    each: &mut impl FnMut(GitValue, &Path),
) {
    let Some((path, text)) = read(path) else { return };
    for value in values(&text) {
        let is_include = value.key == "path"
            && match includes {
                Includes::Unconditional => value.section == "include",
                Includes::All => is_include(&value.section),
            };
        if is_include && 0 < depth {
            let further = path.parent().unwrap_or(home).join(below_home(&value.value, home));
            walk(&further, home, includes, depth - 1, each);
        }
        each(value, &path);
    }
}

/// A path of the settings, with `~` for home.
fn below_home(value: &str, home: &Path) -> PathBuf {
    match value.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => PathBuf::from(value),
    }
}

/// Its real path and its text.
fn read(path: &Path) -> Option<(PathBuf, String)> {
    // Many people keep their settings elsewhere, and a link to them in home.
    let path = fs::canonicalize(path).ok()?;
    let text = String::from_utf8(plain_file::read(&path, MAX_SETTINGS).ok()?).ok()?;
    Some((path, text))
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
    fn g9_paths_that_a_person_s_settings_name_are_found_in_included_files_too() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().canonicalize().unwrap().join(name);
        for (name, text) in [
            (
                ".gitconfig",
                "[core]\nhooksPath = .githooks\n[includeIf \"gitdir:~/w/\"]\npath = d/e\n",
            ),
            ("d/e", "[core]\nattributesFile = ~/w/attributes\n[include]\npath = f\n"),
            ("d/f", "[core]\nhooksPath = /w/hooks\n[user]\nname = x\n"),
        ] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        }
        let mut named = named_by_person(&path(""));
        named.retain(|path| path != Path::new(OF_MACHINE));
        let expected =
            [".githooks".into(), "/w/hooks".into(), path(".gitconfig"), path("d/e"), path("d/f")];
        let mut expected = Vec::from(expected);
        expected.push(path("").join("w/attributes"));
        expected.sort();
        assert_eq!(named, expected);
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
