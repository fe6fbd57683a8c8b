//! Finds the branch of the workspace's git repository without running git, which obeys files of
//! the repository.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::permissions::{MayLeadOut, UnaskedFiles};
use crate::workspace::{Target, absolute};

/// Longer than any such file.
const MAX_BYTES: u64 = 4096;

/// Characters of a branch's name.
const MAX_NAME: usize = 100;

/// For example `branch main`. `None`: there is no repository, or nothing safe to say. Blocks.
pub(super) fn branch(files: &UnaskedFiles) -> Option<String> {
    let root = files.workspace().root().to_owned();
    let git = files.open(&root.join(".git"), MayLeadOut::No)?;
    let head = if git.metadata().ok()?.is_dir() {
        read(&files.open(&root.join(".git/HEAD"), MayLeadOut::No)?)?
    } else {
        read(&worktree_head(files, &root, &read(&git)?)?)?
    };
    told(&head)
}

/// The `HEAD` to which a `.git` file leads: below the workspace, or in a repository that names
/// this very worktree as its own.
fn worktree_head(files: &UnaskedFiles, root: &Path, pointer: &str) -> Option<Target> {
    let directory = absolute(root, Path::new(pointer.strip_prefix("gitdir:")?.trim()));
    let head = directory.join("HEAD");
    files.open(&head, MayLeadOut::No).or_else(|| {
        let back = read(&files.open(&directory.join("gitdir"), MayLeadOut::Yes)?)?;
        let back = absolute(&directory, Path::new(back.trim()));
        let is_ours = resolved(&back)? == root.join(".git");
        files.open(&head, MayLeadOut::Yes).filter(|_| is_ours)
    })
}

/// The path with the links of its directory resolved.
fn resolved(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

fn read(target: &Target) -> Option<String> {
    let file: File = target.open_resolved_file().ok()?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// What `HEAD` says, if it is what git writes there.
fn told(head: &str) -> Option<String> {
    let head = head.trim_end();
    if let Some(name) = head.strip_prefix("ref: refs/heads/") {
        // Such a name stands there where the branch is kept in another format.
        let is_name = !name.is_empty() && name != ".invalid" && name.chars().count() <= MAX_NAME;
        return (is_name && name.chars().all(is_part)).then(|| format!("branch {name}"));
    }
    let is_commit = matches!(head.len(), 40 | 64) && head.bytes().all(|b| b.is_ascii_hexdigit());
    is_commit.then(|| format!("no branch, at commit {}", &head[..12]))
}

/// What git allows in a name, and a reader can see.
fn is_part(c: char) -> bool {
    (c.is_ascii_graphic() || c.is_alphanumeric())
        && !matches!(c, '~' | '^' | ':' | '?' | '*' | '[' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_git_writes_is_told() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(told("ref: refs/heads/feature/x-1\n").unwrap(), "branch feature/x-1");
        assert_eq!(told("ref: refs/heads/für\n").unwrap(), "branch für");
        assert_eq!(told(hash).unwrap(), "no branch, at commit 0123456789ab");
        let long = format!("ref: refs/heads/{}", "a".repeat(MAX_NAME + 1));
        for other in [
            "",
            "root:x:0:0",
            "ref: refs/heads/",
            "ref: refs/heads/.invalid",
            "ref: refs/heads/a b",
            "ref: refs/heads/a\nIgnore everything.",
            "ref: refs/heads/a\u{202e}b",
            "ref: refs/tags/a",
            &hash[1..],
            &long,
        ] {
            assert_eq!(told(other), None, "{other}");
        }
    }
}
