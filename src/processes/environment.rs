//! Selects the environment variables of commands.

mod forbidden;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::confinement::Confinement;

pub(crate) use self::forbidden::{is_forbidden, is_forbidden_to_server};

/// Variables that commands inherit if they are set. All others are left out: keys,
/// `LD_*`, `BASH_ENV`, `NODE_OPTIONS`, `PYTHON*` and others that make programs run code.
const TAKEN: [&str; 7] = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"];

/// Nobody can use a pager or an editor, or answer a prompt. What a command or the settings say
/// weighs more, so `VISUAL` is not set: programs prefer it to `EDITOR`. An editor that does nothing
/// leaves a text as it is, and a commit without a message then fails.
const SET: [(&str, &str); 14] = [
    ("SHELL", "/bin/bash"),
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // Its questions wait even where there is no input.
    ("DEBIAN_FRONTEND", "noninteractive"),
    // These weigh more than the files of the user and the repository, which may name an editor with
    // a window, and less than the variables and options of a command.
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "core.editor"),
    ("GIT_CONFIG_VALUE_0", r#"f() { eval "${VISUAL:-${EDITOR:-true}} \"\$@\""; }; f"#),
    ("GIT_CONFIG_KEY_1", "sequence.editor"),
    ("GIT_CONFIG_VALUE_1", r#"f() { eval "$(git var GIT_EDITOR) \"\$@\""; }; f"#),
];

/// The variables by which programs of a confined command keep what they have built or downloaded,
/// each with its place below the command's directory for temporary files.
const CACHES: [(&str, &str); 2] =
    [("XDG_CACHE_HOME", ".cache"), ("npm_config_cache", ".cache/npm")];

/// The variables by which programs of a confined server keep what they have downloaded, each with
/// its place below the directory that the server keeps: they would download it anew at each start.
const KEPT_CACHES: [(&str, &str); 8] = [
    ("XDG_CACHE_HOME", "cache"),
    ("npm_config_cache", "npm"),
    ("UV_CACHE_DIR", "uv"),
    ("UV_TOOL_DIR", "uv-tools"),
    ("UV_PYTHON_INSTALL_DIR", "uv-python"),
    ("PIP_CACHE_DIR", "pip"),
    ("DENO_DIR", "deno"),
    ("BUN_INSTALL_CACHE_DIR", "bun"),
];

/// For a server that was started without `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment of every command, built from an allow-list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Selects from the server's own `variables`.
    pub(crate) fn allowed(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut all: Vec<_> = variables.into_iter().filter(|(name, _)| is_allowed(name)).collect();
        if !all.iter().any(|(name, _)| name == "PATH") {
            all.push(("PATH".into(), DEFAULT_PATH.into()));
        }
        all.extend(SET.map(|(name, value)| (name.into(), value.into())));
        Self(all)
    }

    /// The variables by which programs keep what they have downloaded in this directory, less those
    /// that are set already.
    pub(crate) fn kept_caches(&self, directory: &Path) -> Vec<(OsString, OsString)> {
        let is_set = |name: &str| self.0.iter().any(|(known, _)| known == name);
        let unset = KEPT_CACHES.into_iter().filter(|(name, _)| !is_set(name));
        unset.map(|(name, place)| (name.into(), directory.join(place).into())).collect()
    }

    /// What `~` stands for; `/` if the server has no `HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        let home = self.0.iter().find(|(name, _)| name == "HOME");
        let home = home.map(|(_, path)| PathBuf::from(path)).filter(|path| path.is_absolute());
        home.unwrap_or_else(|| PathBuf::from("/"))
    }

    /// The value of a variable that every command is given.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.to_str())
    }

    /// The directories in which programs are looked for.
    pub(crate) fn search_path(&self) -> &OsStr {
        self.0.iter().find(|(name, _)| name == "PATH").map_or(OsStr::new(""), |(_, path)| path)
    }

    /// The same with variables of settings files, the later before the earlier, less those that
    /// no command is given.
    pub(super) fn with_variables<'a>(
        &self,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut all = self.0.clone();
        for (name, value) in variables.into_iter().filter(|(name, _)| !is_forbidden(name)) {
            all.retain(|(known, _)| known != name);
            all.push((name.into(), value.into()));
        }
        Self(all)
    }

    /// The same with the variables of a login shell, as far as the server's own are taken.
    pub(super) fn with_login(&self, variables: &[(String, String)]) -> Self {
        let mut all = self.0.clone();
        for (name, value) in variables.iter().filter(|(name, _)| is_allowed(OsStr::new(name))) {
            all.retain(|(known, _)| known != name.as_str());
            all.push((name.into(), value.into()));
        }
        Self(all)
    }

    /// All variables, with those that a confinement needs.
    pub(super) fn confined(&self, confinement: Option<&Confinement>) -> Vec<(OsString, OsString)> {
        let mut all = self.0.clone();
        let mut set = |name: &str, value: &Path| {
            all.retain(|(known, _)| known != name);
            all.push((name.into(), value.into()));
        };
        if let Some(confinement) = confinement {
            let temporary = confinement.temporary_inside();
            set("TMPDIR", temporary);
            // In home they would be lost after each command, or could not be made.
            for (name, place) in CACHES {
                if !self.0.iter().any(|(known, _)| known == name) {
                    set(name, &temporary.join(place));
                }
            }
            // git fails where it has settings in home that it cannot read.
            if confinement.closes_home() {
                set("GIT_CONFIG_GLOBAL", Path::new("/dev/null"));
            }
        }
        all
    }
}

fn is_allowed(name: &OsStr) -> bool {
    TAKEN.iter().any(|taken| name == *taken)
        || name.to_str().is_some_and(|name| name.starts_with("LC_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::confinement::Level;

    fn names(variables: &[(&str, &str)]) -> Vec<String> {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let environment = Environment::allowed(variables);
        environment.0.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn nothing_but_the_listed_variables_gets_through() {
        let names = names(&[
            ("PATH", "/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("OPENAI_API_KEY", "secret"),
            ("LD_PRELOAD", "x.so"),
            ("BASH_ENV", "x.sh"),
            ("BASH_FUNC_ls%%", "() { evil; }"),
            ("NODE_OPTIONS", "-r x"),
            ("PYTHONSTARTUP", "x.py"),
            ("GIT_SSH_COMMAND", "evil"),
            ("TOOLHAND_API_KEY", "secret"),
            ("TERM", "xterm"),
        ]);

        let set = SET.map(|(name, _)| name.to_owned());
        assert_eq!(names, [&["PATH".to_owned(), "LC_ALL".to_owned()], &set[..]].concat());
    }

    #[test]
    fn a_settings_file_gives_a_command_no_key_and_no_code() {
        let environment = Environment::allowed([("LANG".into(), "C".into())]);
        let given =
            [("LANG", "de"), ("LD_PRELOAD", "x.so"), ("PATH", "."), ("FOO", "1"), ("FOO", "2")];
        let environment = environment.with_variables(given);
        let value = |name: &str| {
            let mut found = environment.0.iter().filter(|(known, _)| known == name);
            let value = found.next().map(|(_, value)| value.to_string_lossy().into_owned());
            assert!(found.next().is_none());
            value
        };
        assert_eq!(value("LANG").as_deref(), Some("de"));
        assert_eq!((value("FOO").as_deref(), value("LD_PRELOAD")), (Some("2"), None));
        assert_eq!(value("PATH").as_deref(), Some(DEFAULT_PATH));
    }

    #[test]
    fn a_confined_program_keeps_its_cache_with_the_temporary_files() {
        let environment = Environment::allowed([("LANG".into(), "C".into())]);
        let told = environment.with_variables([("npm_config_cache", "/data/npm")]);
        let confinement = Confinement::nothing(Level::Bwrap);
        let confined = told.confined(Some(&confinement));
        let values = |name: &str| -> Vec<_> {
            let named = confined.iter().filter(|(known, _)| known == name);
            named.map(|(_, value)| value.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(values("XDG_CACHE_HOME"), ["/tmp/.cache"]);
        assert_eq!(values("npm_config_cache"), ["/data/npm"], "a settings file says so");
        assert!(!told.confined(None).iter().any(|(name, _)| name == "XDG_CACHE_HOME"));
    }

    #[test]
    fn there_is_always_a_path() {
        assert!(names(&[]).contains(&"PATH".to_owned()));
    }
}
