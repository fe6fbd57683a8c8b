//! Tells whether the words behind `PROGRAM SUBCOMMAND` leave a command what these two say.
//!
//! A rule `PROGRAM SUBCOMMAND *` that a person chose in a question is held to this. An option may
//! name another program (`npm test --script-shell=x`), another project (`go test -C x`) or a file to
//! write (`go build -o x`), so only options that are known do no such thing pass. What is behind
//! `--` belongs to the tests or the script that the project runs anyway.

use std::path::{Component, Path};

use super::part::Part;
use super::subcommands::named_words;
use crate::permissions::path_lists::{PROTECTED, SENSITIVE};

/// The options of some programs that pass.
struct UsualOptions {
    programs: &'static [&'static str],
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options whose value is the next word, or stands behind `=`.
    valued: &'static [&'static str],
    /// Whether the words behind `--` are those of a test or a script.
    passes_words_on: bool,
}

const USUAL_OPTIONS: [UsualOptions; 7] = [
    UsualOptions {
        programs: &["cargo"],
        flags: &[
            "--all",
            "--all-features",
            "--all-targets",
            "--benches",
            "--bins",
            "--check",
            "--doc",
            "--examples",
            "--frozen",
            "--lib",
            "--locked",
            "--no-default-features",
            "--no-deps",
            "--no-fail-fast",
            "--no-run",
            "--offline",
            "--quiet",
            "--release",
            "--tests",
            "--verbose",
            "--workspace",
            "-q",
            "-r",
            "-v",
            "-vv",
        ],
        valued: &[
            "--bench",
            "--bin",
            "--color",
            "--example",
            "--exclude",
            "--features",
            "--jobs",
            "--message-format",
            "--package",
            "--profile",
            "--test",
            "-F",
            "-j",
            "-p",
        ],
        passes_words_on: true,
    },
    UsualOptions {
        programs: &["git"],
        flags: &[
            "--all",
            "--branch",
            "--dry-run",
            "--porcelain",
            "--quiet",
            "--short",
            "--signoff",
            "--update",
            "--verbose",
            "-A",
            "-a",
            "-b",
            "-q",
            "-s",
            "-sb",
            "-u",
            "-v",
        ],
        valued: &["--message", "-am", "-L", "-m"],
        passes_words_on: false,
    },
    UsualOptions {
        programs: &["go"],
        flags: &["-benchmem", "-cover", "-json", "-m", "-race", "-short", "-v"],
        valued: &["-bench", "-count", "-p", "-run", "-tags", "-timeout"],
        passes_words_on: false,
    },
    UsualOptions {
        programs: &["npm", "pnpm", "yarn"],
        flags: &[
            "--all",
            "--coverage",
            "--if-present",
            "--json",
            "--long",
            "--no-audit",
            "--no-fund",
            "--prod",
            "--silent",
            "--watch",
            "-s",
        ],
        valued: &["--depth", "--filter", "--workspace", "-w"],
        passes_words_on: true,
    },
    UsualOptions {
        programs: &["pip", "pip3", "poetry", "uv"],
        flags: &[
            "--all-extras",
            "--dev",
            "--frozen",
            "--locked",
            "--outdated",
            "--quiet",
            "--verbose",
            "-q",
            "-v",
        ],
        valued: &["--extra", "--format", "--group"],
        passes_words_on: false,
    },
    UsualOptions {
        programs: &["docker"],
        flags: &["--all", "--follow", "--quiet", "--timestamps", "-a", "-f", "-q", "-t"],
        valued: &["--filter", "--format", "--since", "--tail", "-n"],
        passes_words_on: false,
    },
    UsualOptions {
        programs: &["dotnet", "flutter", "swift"],
        flags: &["--coverage", "--no-build", "--no-restore", "--quiet", "--verbose", "-v"],
        valued: &["--configuration", "--filter", "-c"],
        passes_words_on: false,
    },
];

impl Part {
    /// Whether each word behind the subcommand is a usual option, the value of one, or the name of
    /// something below the directory that asks by itself for nothing.
    pub(super) fn has_usual_words(&self) -> bool {
        let words: Option<Vec<&str>> = self.words.iter().map(|word| word.literal()).collect();
        let Some(words) = words else { return false };
        let Some(named) = named_words(&words) else { return false };
        let options = USUAL_OPTIONS.iter().find(|options| options.programs.contains(&words[0]));
        let Some(options) = options else { return false };
        options.pass(&words[named..])
    }
}

impl UsualOptions {
    fn pass(&self, words: &[&str]) -> bool {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if *word == "--" && self.passes_words_on {
                return true;
            }
            if *word == "--" {
                continue;
            }
            if !word.starts_with('-') {
                if !is_plain_operand(word) {
                    return false;
                }
                continue;
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (*word, None),
            };
            if self.valued.contains(&name) {
                if value.is_none() {
                    words.next();
                }
                continue;
            }
            if value.is_some() || !self.flags.contains(&name) {
                return false;
            }
        }
        true
    }
}

/// Whether the word names nothing outside of the directory, and no file that asks by itself.
fn is_plain_operand(word: &str) -> bool {
    let path = Path::new(word);
    let stays_below =
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    // Magic of git's paths, such as `:(icase).env`, hides the name.
    let is_written_out = !word.starts_with(['~', ':']) && !word.contains(['*', '?', '[']);
    let is_listed = [&SENSITIVE, &PROTECTED].iter().any(|list| list.covering(path).is_some());
    stays_below && is_written_out && !is_listed
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[track_caller]
    fn check(line: &str, expected: bool) {
        let parsed = parse(line).expect("a line that parses");
        assert_eq!(parsed.parts[0].has_usual_words(), expected, "{line}");
    }

    #[test]
    fn usual_options_and_names_below_the_directory_pass() {
        for line in [
            "npm test",
            "npm test -- --watch --script-shell=x",
            "npm run build -- --fast",
            "cargo build --release --features a",
            "cargo test parses -- --nocapture",
            "cargo test -p core --locked",
            "git commit -m 'see ../x and .env' --quiet",
            "git commit -am x",
            "git add src/a.rs ./b",
            "git status -sb",
            "go test ./... -run=TestX -count 1",
            "pip list --format=json",
        ] {
            check(line, true);
        }
    }

    #[test]
    fn words_that_turn_the_command_into_something_else_do_not() {
        for line in [
            "npm test --script-shell=./evil",
            "npm test --node-options=--require=/tmp/x.js",
            "npm test --prefix /tmp/evil",
            "pnpm test -C /tmp",
            "cargo build --config build.rustc-wrapper=./evil",
            "cargo test --manifest-path ../x/Cargo.toml",
            "cargo build --target-dir /tmp/zz",
            "go test -exec ./evil",
            "go build -o .git/hooks/pre-commit",
            "go test -toolexec=./evil",
            "pip list --python ./evil",
            "pip list --log .git/config",
            "dotnet build /tmp/evil",
            "dotnet build -p:X=y",
            "git commit -F .env",
            "git commit --amend",
            "git commit --no-verify",
            "git commit -n",
            "git add .env",
            "git add ../x",
            "git add /etc/passwd",
            "git add ':(icase).ENV'",
            "git add .github/workflows/ci.yml",
            "git add *",
            "make test",
        ] {
            check(line, false);
        }
    }
}
