//! Generates the arguments of Glob, and the flags of ripgrep that mean the same.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::tree::NO_VCS_DIRECTORIES;

const PATTERNS: [&str; 30] = [
    "*",
    "**",
    "**/*",
    "*.rs",
    "**/*.rs",
    "*.{rs,md}",
    "**/*.{rs,txt}",
    "a",
    "d",
    "d/*",
    "d/**",
    "d/**/*",
    "d/**/a",
    "d/e/*.rs",
    "*/a",
    "*/*",
    "**/e/*",
    "**/d/**",
    "?",
    "[ab]*",
    "[!a]",
    ".*",
    ".dot",
    "{a,d/*}",
    "{a,b}.rs",
    "a b/*",
    "[",
    "{a",
    r"\[a",
    "*\u{e4}*",
];

const DIRECTORIES: [&str; 4] = ["d", "d/e", "build", ".h"];

#[derive(Clone, Debug)]
pub(super) struct GlobQuery {
    pattern: &'static str,
    respects_ignores: bool,
    /// Where ignore files leave out the directory, ours alone disregards them. So they count only
    /// where the whole tree is searched.
    path: Option<&'static str>,
}

pub(super) fn query() -> impl Strategy<Value = GlobQuery> {
    let path = option::weighted(0.3, select(DIRECTORIES.as_slice()));
    (select(PATTERNS.as_slice()), any::<bool>(), path).prop_map(|(pattern, respects, path)| {
        GlobQuery { pattern, respects_ignores: respects && path.is_none(), path }
    })
}

impl GlobQuery {
    pub(super) fn arguments(&self) -> Value {
        json!({
            "pattern": self.pattern,
            "path": self.path,
            "respect_gitignore": self.respects_ignores,
        })
    }

    /// Whether the pattern has no wildcards, so that it finds ignored files of this name too.
    pub(super) fn names_files(&self) -> bool {
        !self.pattern.contains(['*', '?', '[', ']', '{', '}', '\\'])
    }

    /// The directory that the pattern begins with. Ignore files that leave it out do not count.
    pub(super) fn directory(&self) -> Option<&'static str> {
        let (directory, _) = self.pattern.split_once(['*', '?', '[', '{'])?;
        directory.rsplit_once('/').map(|(directory, _)| directory)
    }

    /// Lists what matches the pattern.
    pub(super) fn matching(&self) -> Vec<String> {
        // Globs with a slash are relative to where ripgrep runs.
        let directory = self.path.map_or(String::new(), |path| format!("/{path}/"));
        let glob = match self.path {
            Some(_) if self.pattern.contains('/') => format!("{directory}{}", self.pattern),
            Some(_) => format!("{directory}**/{}", self.pattern),
            None => self.pattern.to_owned(),
        };
        let globs = std::iter::once(glob.as_str()).chain(NO_VCS_DIRECTORIES);
        let globs = globs.map(|glob| format!("--glob={glob}"));
        ["--files", "--no-ignore"].map(str::to_owned).into_iter().chain(globs).collect()
    }

    /// Lists what no ignore file leaves out.
    pub(super) fn kept(&self) -> Vec<String> {
        let mut flags = vec!["--files".to_owned(), "--sort=path".to_owned()];
        if !self.respects_ignores {
            flags.push("--no-ignore".to_owned());
        }
        flags.extend(NO_VCS_DIRECTORIES.map(|glob| format!("--glob={glob}")));
        flags.extend(self.path.map(str::to_owned));
        flags
    }
}
