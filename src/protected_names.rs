//! Lists the names of files that decide what other programs run: what stands in one of them runs
//! later, outside of every sandbox.
//!
//! The policy asks before a tool writes them. The sandbox keeps commands from changing them.

/// The directory of a repository. The sandbox protects only parts of it, or nobody could commit.
pub(crate) const REPOSITORY: &str = ".git";

/// A name that programs obey.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProtectedName {
    /// A path of names in lower case, of which the last may hold one `*`.
    pub(crate) pattern: &'static str,
    /// How programs spell it, where that is not the pattern itself.
    pub(crate) spellings: &'static [&'static str],
}

pub(crate) const PROTECTED_NAMES: [ProtectedName; 77] = [
    name(REPOSITORY),
    directory(".config/git"),
    directory(".vscode"),
    directory(".idea"),
    directory(".husky"),
    directory(".cargo"),
    directory(".devcontainer"),
    directory(".claude"),
    directory(".codex"),
    directory(".cursor"),
    directory(".toolhand"),
    file("toolhand.toml"),
    // Editors and agents start what these name when they open the directory.
    directory(".zed"),
    directory(".helix"),
    directory(".gemini"),
    directory(".opencode"),
    file("opencode.json"),
    directory(".kiro"),
    directory(".roo"),
    directory(".windsurf"),
    directory(".continue"),
    file(".nvim.lua"),
    file(".gitconfig"),
    file(".gitmodules"),
    file(".bashrc"),
    file(".bash_profile"),
    file(".bash_login"),
    file(".bash_logout"),
    file(".bash_aliases"),
    file(".profile"),
    file(".zshrc"),
    file(".zshenv"),
    file(".zprofile"),
    file(".zlogin"),
    file(".zlogout"),
    directory(".config/fish"),
    file(".inputrc"),
    file(".envrc"),
    // A shell with mise runs the hooks of these on entering the directory, once it is trusted.
    file("mise.toml"),
    file(".mise.toml"),
    file("mise.local.toml"),
    file(".mise.local.toml"),
    directory(".mise"),
    directory(".config/mise"),
    file(".npmrc"),
    spelled(".yarnrc*", &[".yarnrc", ".yarnrc.yml"]),
    file(".pnpmfile.cjs"),
    file(".pre-commit-config.yaml"),
    file(".pre-commit-config.yml"),
    spelled("lefthook.*", &["lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json"]),
    spelled(".lefthook.*", &[".lefthook.yml", ".lefthook.yaml"]),
    spelled("lefthook-local.*", &["lefthook-local.yml", "lefthook-local.yaml"]),
    spelled(".lefthook-local.*", &[".lefthook-local.yml"]),
    file(".overcommit.yml"),
    file(".hg/hgrc"),
    file(".mcp.json"),
    file(".ripgreprc"),
    // Interpreters run these of the directory in which they start.
    spelled(".rprofile", &[".Rprofile"]),
    file(".irbrc"),
    file(".iex.exs"),
    file(".ghci"),
    file(".vimrc"),
    file(".exrc"),
    file(".nvimrc"),
    file(".curlrc"),
    file(".wgetrc"),
    directory(".github/workflows"),
    directory(".github/actions"),
    directory(".forgejo/workflows"),
    directory(".gitea/workflows"),
    directory(".buildkite"),
    file(".gitlab-ci.yml"),
    directory(".circleci"),
    file(".travis.yml"),
    file("azure-pipelines.yml"),
    file("bitbucket-pipelines.yml"),
    spelled("jenkinsfile", &["Jenkinsfile"]),
];

/// The patterns alone.
pub(crate) const PATTERNS: [&str; PROTECTED_NAMES.len()] = {
    let mut patterns = [""; PROTECTED_NAMES.len()];
    let mut at = 0;
    while at < patterns.len() {
        patterns[at] = PROTECTED_NAMES[at].pattern;
        at += 1;
    }
    patterns
};

const fn name(pattern: &'static str) -> ProtectedName {
    ProtectedName { pattern, spellings: &[] }
}

const fn directory(pattern: &'static str) -> ProtectedName {
    name(pattern)
}

const fn file(pattern: &'static str) -> ProtectedName {
    name(pattern)
}

const fn spelled(pattern: &'static str, spellings: &'static [&'static str]) -> ProtectedName {
    ProtectedName { pattern, spellings }
}

impl ProtectedName {
    /// The names that a program looks for.
    pub(crate) fn spellings(&self) -> &[&'static str] {
        if self.spellings.is_empty() { std::slice::from_ref(&self.pattern) } else { self.spellings }
    }

    /// Whether an entry of a directory is called so. Some file systems take no notice of case.
    pub(crate) fn fits(&self, directory: &str, entry: &str) -> bool {
        let last = match self.pattern.rsplit_once('/') {
            Some((above, last)) if directory.eq_ignore_ascii_case(above) => last,
            Some(_) => return false,
            None => self.pattern,
        };
        let Some((start, end)) = last.split_once('*') else {
            return entry.eq_ignore_ascii_case(last);
        };
        let ends_so = entry.len().checked_sub(end.len()).and_then(|at| entry.get(at..));
        start.len() + end.len() <= entry.len()
            && entry.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start))
            && ends_so.is_some_and(|it| it.eq_ignore_ascii_case(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_fits_its_pattern() {
        for name in &PROTECTED_NAMES {
            for spelling in name.spellings() {
                let (above, last) = spelling.rsplit_once('/').unwrap_or_default();
                let last = if above.is_empty() { *spelling } else { last };
                assert!(name.fits(above, last), "{spelling}");
                assert!(name.fits(above, &last.to_uppercase()), "{spelling}");
                assert!(!name.fits(above, &format!("{last}~")) || name.pattern.ends_with('*'));
            }
        }
    }

    #[test]
    fn a_name_below_another_fits_only_there() {
        let workflows =
            PROTECTED_NAMES.iter().find(|it| it.pattern == ".github/workflows").unwrap();
        assert!(workflows.fits(".github", "workflows"));
        assert!(!workflows.fits("src", "workflows") && !workflows.fits("", "workflows"));
    }
}
