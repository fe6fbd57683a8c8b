//! Checks the words in backticks: commands, flags, packages and settings exist.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::LazyLock;

use super::blocks::Block;

const MAKEFILE: &str = include_str!("../../Makefile");
const EXAMPLE: &str = include_str!("../../toolhand.example.toml");
const NODE_PACKAGES: &str = include_str!("../sdk/package.json");
const PYTHON_PACKAGES: &str =
    concat!(include_str!("../sdk/requirements.txt"), include_str!("../mcp/requirements.txt"));

const COMMANDS: [&str; 11] = [
    "up",
    "ask",
    "chat",
    "serve",
    "demo-model",
    "tools",
    "key",
    "check",
    "trust",
    "untrust",
    "mcp",
];

/// What `--help` says of each command.
static HELP: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    let help = |command: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_toolhand"));
        let output = program.args(command).arg("--help").output().expect("the binary");
        String::from_utf8(output.stdout).expect("text")
    };
    let with_parts = |command| match command {
        "key" => ["add", "list", "revoke"].map(|part| help(&[command, part])).concat(),
        _ => help(&[command]),
    };
    COMMANDS.iter().map(|command| (*command, with_parts(command))).collect()
});

/// Every key of the example configuration, by its path.
static KEYS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut section = String::new();
    let mut keys = BTreeSet::new();
    for line in EXAMPLE.lines().map(|line| line.trim_start_matches('#')) {
        if let Some(name) = line.strip_prefix('[') {
            name.trim_matches(['[', ']']).clone_into(&mut section);
            keys.insert(section.clone());
            section.push('.');
        } else if let Some((key, _)) = line.split_once(" = ")
            && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        {
            keys.insert(section.clone() + key);
        }
    }
    keys
});

/// The words of a document that name something which does not exist.
pub(super) fn faults(document: &str, markdown: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut is_fenced = false;
    for (at, line) in markdown.lines().enumerate() {
        is_fenced ^= line.trim_start().starts_with("```");
        let spans = line.split('`').skip(1).step_by(2).filter(|_| !is_fenced);
        let found = spans.filter_map(|span| Some(format!("`{span}`: {}", fault(span)?)));
        faults.extend(found.map(|fault| format!("{document}:{}: {fault}", at + 1)));
    }
    faults
}

/// Why the words of one pair of backticks are wrong.
fn fault(span: &str) -> Option<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    match words[..] {
        ["make", target, ..] => {
            (!MAKEFILE.lines().any(|line| line.starts_with(&format!("{target}:"))))
                .then(|| "no such target".to_owned())
        }
        ["toolhand", command, ref rest @ ..] if !command.starts_with('-') => {
            of_command(command, rest)
        }
        ["npm" | "pip", "install", ref packages @ ..] => unpinned(words[0], packages),
        [flag, ..] if flag.starts_with("--") && flag.len() > 2 => {
            let is_known = HELP.iter().any(|(_, help)| has_flag(help, flag));
            (!is_known && !is_of_another_program(flag)).then(|| "no command has it".to_owned())
        }
        [key] if looks_like_a_key(key) && !KEYS.contains(key) => Some("no such key".to_owned()),
        _ => None,
    }
}

fn of_command(command: &str, rest: &[&str]) -> Option<String> {
    let Some((_, help)) = HELP.iter().find(|(known, _)| *known == command) else {
        return Some("no such command".to_owned());
    };
    let flags = rest.iter().map(|word| word.trim_matches(['[', ']']));
    let unknown = flags.filter(|word| word.starts_with('-') && *word != "-");
    unknown.filter(|flag| !has_flag(help, flag)).map(|flag| format!("no flag {flag}")).next()
}

fn has_flag(help: &str, flag: &str) -> bool {
    let name = flag.split('=').next().unwrap_or(flag);
    help.split(|character: char| character.is_whitespace() || ",[]".contains(character))
        .any(|word| word == name)
}

/// Flags of other programs that the documents explain.
fn is_of_another_program(flag: &str) -> bool {
    ["--root"].contains(&flag)
}

/// A path of two names or more, of which the first is a section of the configuration.
fn looks_like_a_key(span: &str) -> bool {
    let Some((section, key)) = span.split_once('.') else { return false };
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_.".contains(&byte));
    let is_section = KEYS.iter().any(|known| known.starts_with(&format!("{section}.")));
    is_section && !key.is_empty() && is_name(key) && !["toml", "rs", "json"].contains(&key)
}

/// Checks the commands of a block that installs packages.
pub(super) fn packages_are_pinned(block: &Block) {
    for line in block.text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words.get(1), Some(&"install"), "{}", block.place());
        assert_eq!(unpinned(words[0], &words[2..]), None, "{}", block.place());
    }
}

/// The package that the test environment has not.
fn unpinned(manager: &str, packages: &[&str]) -> Option<String> {
    let is_pinned = |package: &str| match manager {
        "npm" => NODE_PACKAGES.contains(&format!("\"{package}\": \"")),
        _ => PYTHON_PACKAGES.lines().any(|line| line.starts_with(&format!("{package}=="))),
    };
    let missing = packages.iter().find(|package| !is_pinned(package));
    missing.map(|package| format!("the test environment has no {package}"))
}
