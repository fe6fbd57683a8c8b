//! Knows which commands discard what nothing brings back. A sandbox that lets them write the
//! workspace does not hold them, so its being there answers no question about them.

use super::ParsedCommand;
use super::part::Part;
use super::word::Word;

/// A command of git that discards work, with the words that make it do so. No words: always.
struct Discarding(&'static [&'static str], &'static [&'static str]);

const GIT: [Discarding; 10] = [
    Discarding(&["reset"], &["--hard", "--merge", "--keep"]),
    Discarding(&["clean", "restore", "filter-branch", "filter-repo"], &[]),
    Discarding(&["checkout", "switch"], &["-f", "--force", "--discard-changes", "--", "."]),
    Discarding(&["stash"], &["drop", "clear"]),
    Discarding(&["branch"], &["-D", "-d", "--delete"]),
    Discarding(&["tag"], &["-d", "--delete"]),
    Discarding(&["reflog"], &["expire", "delete", "drop"]),
    Discarding(&["push"], &["-f", "--force", "--delete", "--mirror"]),
    Discarding(&["update-ref"], &["-d"]),
    Discarding(&["gc"], &["--prune=now", "--prune=all"]),
];

impl ParsedCommand {
    /// The first part that discards something, as written.
    pub(crate) fn discards(&self) -> Option<&str> {
        self.first_part(discards)
    }
}

fn discards(part: &Part) -> bool {
    let Some((_, arguments)) = part.words.split_first() else { return false };
    match part.program() {
        Some("git") => git_discards(arguments),
        Some("rm") => arguments.iter().any(is_recursive),
        Some("find") => arguments.iter().any(|word| word.is("-delete")),
        Some("shred") => true,
        _ => false,
    }
}

/// The command is looked for among all words: options of git may stand before it.
fn git_discards(arguments: &[Word]) -> bool {
    GIT.iter().any(|Discarding(names, words)| {
        let at = arguments.iter().position(|word| names.iter().any(|name| word.is(name)));
        let Some(at) = at else { return false };
        let behind = &arguments[at + 1..];
        words.is_empty() || behind.iter().any(|word| words.iter().any(|known| word.is(known)))
    })
}

/// Whether an option of rm takes directories with all that is in them.
fn is_recursive(word: &Word) -> bool {
    let text = word.unquoted.as_str();
    match text.strip_prefix("--") {
        Some(long) => !long.is_empty() && "recursive".starts_with(long),
        None => text.starts_with('-') && text.contains(['r', 'R']),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn what_cannot_be_brought_back_is_discarded() {
        for line in [
            "git reset --hard",
            "git -C x reset -q --hard HEAD~1",
            "git clean -fdx",
            "git checkout -- .",
            "git checkout .",
            "git restore a",
            "git stash drop",
            "git branch -D x",
            "git push --force",
            "rm -rf node_modules",
            "rm --rec x",
            "make && rm -R x",
            "sudo rm -fr x",
            "sh -c 'rm -r x'",
            "find . -name x -delete",
            "ls | xargs rm -r",
        ] {
            assert!(parse(line).unwrap().discards().is_some(), "{line}");
        }
        for line in [
            "rm a",
            "rm -f a",
            "git reset HEAD a",
            "git checkout -b x",
            "git stash",
            "git push",
            "git commit -m 'git reset --hard'",
            "find . -name rm",
            "make",
        ] {
            assert!(parse(line).unwrap().discards().is_none(), "{line}");
        }
    }
}
