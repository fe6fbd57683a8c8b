//! Knows which commands of package managers only read what is installed or declared.

use super::super::word::Word;
use super::{Forbidden, Why};

/// Commands with the options by which they do more.
struct Commands {
    program: &'static str,
    names: &'static [&'static str],
    forbidden: Forbidden,
}

const CARGO: Commands = Commands {
    program: "cargo",
    names: &["tree", "metadata", "locate-project"],
    forbidden: Forbidden { short: "Z", valued: "", long: &["config"] },
};
const NPM: Commands = Commands {
    program: "npm",
    names: &["ls", "list", "la", "ll", "view", "info", "show", "root", "prefix"],
    forbidden: Forbidden {
        short: "",
        valued: "",
        long: &["script-shell", "node-options", "logs-dir"],
    },
};
const PIP: Commands = Commands {
    program: "pip",
    names: &["list", "show", "freeze"],
    forbidden: Forbidden {
        short: "",
        valued: "",
        long: &["log", "log-file", "python", "cache-dir"],
    },
};

pub(super) fn cargo(arguments: &[Word]) -> Result<(), Why> {
    CARGO.check(arguments)
}

pub(super) fn npm(arguments: &[Word]) -> Result<(), Why> {
    NPM.check(arguments)
}

pub(super) fn pip(arguments: &[Word]) -> Result<(), Why> {
    PIP.check(arguments)
}

/// Options of go are whole words, with one dash or two.
pub(super) fn go(arguments: &[Word]) -> Result<(), Why> {
    const READING: [&str; 3] = ["list", "env", "version"];
    const FORBIDDEN: [&str; 6] = ["w", "u", "toolexec", "exec", "export", "compiled"];
    let command = first(arguments, "go")?;
    if !READING.contains(&command) {
        return Err(format!("go {command} does more than read"));
    }
    let is_forbidden = |word: &&Word| {
        let option = word.unquoted.strip_prefix('-');
        let name = option.map(|option| option.strip_prefix('-').unwrap_or(option));
        let name = name.map(|name| name.split_once('=').map_or(name, |(name, _)| name));
        // `go list -u` asks the network, which is not there.
        let is_update = command == "list" && name == Some("u");
        name.is_some_and(|name| FORBIDDEN.contains(&name)) && !is_update
    };
    match arguments[1..].iter().find(is_forbidden) {
        Some(word) => Err(format!("go {command} does more than read with {}", word.unquoted)),
        None => Ok(()),
    }
}

impl Commands {
    fn check(&self, arguments: &[Word]) -> Result<(), Why> {
        let command = first(arguments, self.program)?;
        let program = self.program;
        if !self.names.contains(&command) {
            return Err(format!("{program} {command} does more than read"));
        }
        match self.forbidden.first_in(arguments) {
            Some(option) => Err(format!("{program} {command} does more than read with {option}")),
            None => Ok(()),
        }
    }
}

/// The command of the program, which stands before everything else.
fn first<'w>(arguments: &'w [Word], program: &str) -> Result<&'w str, Why> {
    let command = arguments.first().and_then(Word::literal);
    command.ok_or_else(|| format!("{program} is not told by a plain word what to do"))
}
