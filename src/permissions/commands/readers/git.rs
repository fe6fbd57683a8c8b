//! Knows which commands of git only read.

use super::super::word::Word;
use super::{Forbidden, Why};

/// What the operands of a command may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operands {
    Any,
    /// They would be the names of something new, unless one of these options lists.
    WithListing(&'static [&'static str]),
    /// The first is one of these words, or there is none where `true`.
    First(&'static [&'static str], bool),
}

use Operands::{Any, First, WithListing};

struct GitCommand {
    names: &'static [&'static str],
    forbidden: Forbidden,
    operands: Operands,
}

/// Options by which commands that show changes write a file, or run a program.
const SHOWING: Forbidden = Forbidden {
    short: "",
    valued: "",
    long: &["output", "ext-diff", "textconv", "show-signature"],
};
const NOTHING: Forbidden = Forbidden { short: "", valued: "", long: &[] };

/// Options by which `branch` and `tag` list.
const LISTING: [&str; 7] =
    ["--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"];

const COMMANDS: [GitCommand; 16] = [
    command(&["log", "diff", "show", "blame", "shortlog"], SHOWING, Any),
    command(&["diff-files", "diff-index", "diff-tree", "range-diff"], SHOWING, Any),
    command(&["status", "rev-parse", "rev-list", "ls-files", "ls-tree"], NOTHING, Any),
    command(&["check-attr", "check-ignore", "cherry", "count-objects", "show-ref"], NOTHING, Any),
    command(&["describe", "merge-base", "name-rev", "for-each-ref"], NOTHING, Any),
    command(
        &["grep"],
        Forbidden { short: "O", valued: "ABCefm", long: &["open-files-in-pager", "textconv"] },
        Any,
    ),
    command(
        &["cat-file"],
        Forbidden { short: "", valued: "", long: &["textconv", "filters"] },
        Any,
    ),
    command(
        &["branch"],
        Forbidden {
            short: "dDmMcCfut",
            valued: "",
            long: &[
                "delete",
                "move",
                "copy",
                "force",
                "set-upstream-to",
                "unset-upstream",
                "track",
                "edit-description",
                "create-reflog",
            ],
        },
        WithListing(&LISTING),
    ),
    command(
        &["tag"],
        Forbidden {
            short: "asufdmFve",
            valued: "n",
            long: &[
                "annotate",
                "sign",
                "local-user",
                "force",
                "delete",
                "message",
                "file",
                "verify",
                "edit",
            ],
        },
        WithListing(&LISTING),
    ),
    command(&["remote"], NOTHING, First(&["get-url"], true)),
    command(&["stash"], SHOWING, First(&["list", "show"], false)),
    command(&["reflog"], SHOWING, First(&["show", "list", "exists"], true)),
    command(&["worktree"], NOTHING, First(&["list"], false)),
    command(&["submodule"], NOTHING, First(&["status", "summary"], true)),
    command(
        &["config"],
        Forbidden {
            short: "e",
            valued: "",
            long: &[
                "add",
                "blob",
                "replace-all",
                "unset",
                "unset-all",
                "edit",
                "rename-section",
                "remove-section",
            ],
        },
        First(&["list", "get"], false),
    ),
    command(&["version"], NOTHING, Any),
];

const fn command(
    names: &'static [&'static str],
    forbidden: Forbidden,
    operands: Operands,
) -> GitCommand {
    GitCommand { names, forbidden, operands }
}

/// Options of `git config` that read.
const READING_CONFIG: [&str; 7] =
    ["--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "--get-color"];

/// Whether git only reads with these words.
pub(in crate::permissions::commands) fn check_git(arguments: &[Word]) -> Result<(), Why> {
    let arguments = after_own_options(arguments);
    let Some((name, arguments)) = arguments.split_first() else {
        return Err("git is not told what to do".to_owned());
    };
    if matches!(name.literal(), Some("--version" | "--help")) && arguments.is_empty() {
        return Ok(());
    }
    let given = name.literal().filter(|given| *given == name.raw).unwrap_or_default();
    let Some(command) = COMMANDS.iter().find(|command| command.names.contains(&given)) else {
        return Err(format!("git {} is not on the list of what only reads", name.unquoted));
    };
    if let Some(option) = command.forbidden.first_in(arguments) {
        return Err(format!("git {given} does more than read with {option}"));
    }
    if given == "config" && has(arguments, &READING_CONFIG) {
        return Ok(());
    }
    if command.accepts_operands(arguments) {
        return Ok(());
    }
    Err(format!("git {given} changes something with these words, or may"))
}

/// The words behind options that choose the directory, or that no pager shows the output.
fn after_own_options(mut arguments: &[Word]) -> &[Word] {
    loop {
        arguments = match arguments {
            [option, rest @ ..] if option.is("--no-pager") || option.is("-P") => rest,
            [option, _, rest @ ..] if option.is("-C") => rest,
            _ => return arguments,
        };
    }
}

fn has(arguments: &[Word], options: &[&str]) -> bool {
    arguments.iter().any(|word| {
        let text = word.unquoted.as_str();
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        options.contains(&name)
    })
}

impl GitCommand {
    fn accepts_operands(&self, arguments: &[Word]) -> bool {
        let mut operands = arguments.iter().filter(|word| !word.unquoted.starts_with('-'));
        let first = operands.next();
        match self.operands {
            Any => true,
            WithListing(options) => first.is_none() || has(arguments, options),
            First(words, or_none) => match first {
                None => or_none,
                Some(first) => first.literal().is_some_and(|first| words.contains(&first)),
            },
        }
    }
}
