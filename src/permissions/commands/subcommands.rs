//! Finds rules of the form `PROGRAM SUBCOMMAND *` for the parts of a command line.
//!
//! Such a rule allows the usual further words (`usual_words`). A subcommand is on the list only if
//! it reads, records, or builds and tests the project, whose own code then runs. Not on the list:
//!
//! - shells, interpreters and wrappers, whose every word may be a command;
//! - `run`, `exec`, `x`, `tool`, `generate` and `install`, `add` and `get` with the name of a
//!   package: they run what the words name;
//! - of git what takes a program (`fetch --upload-pack`, `push --receive-pack`, `rebase --exec`,
//!   `bisect run`, `submodule foreach`, `grep -O`, `config`), writes a file anywhere
//!   (`diff --output`), discards work (`reset`, `clean`, `checkout`, `switch`, `restore`,
//!   `stash`, `branch`, `mv -f`), runs a strategy's program (`merge -s`), or copies hooks (`init --template`);
//! - make, just, ant, gradle, maven and their kin, whose further words are further targets;
//! - `docker run`, `exec` and `build`, and kubectl, which reach beyond the project.

use std::collections::BTreeSet;

use super::ParsedCommand;
use super::part::Part;
use super::pattern::BashPattern;
use super::word::Word;

/// A longer word would push the rest of the rule out of sight.
const MAX_WORD: usize = 40;

const SUBCOMMANDS: [(&str, &[&str]); 14] = [
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "metadata", "test", "tree"]),
    ("docker", &["images", "logs", "ps", "version"]),
    ("dotnet", &["build", "format", "restore", "test"]),
    ("flutter", &["analyze", "test"]),
    ("git", &["add", "blame", "commit", "status"]),
    ("go", &["build", "fmt", "list", "test"]),
    ("npm", &["ci", "ls", "outdated", "t", "test"]),
    ("pip", &["check", "freeze", "list", "show"]),
    ("pip3", &["check", "freeze", "list", "show"]),
    ("pnpm", &["ls", "outdated", "t", "test"]),
    ("poetry", &["build", "check", "lock", "show"]),
    ("swift", &["build", "test"]),
    ("uv", &["lock", "sync", "tree"]),
    ("yarn", &["outdated", "test"]),
];

/// `PROGRAM run NAME`: of these the name of the script belongs to the rule.
const SCRIPT_RUNNERS: [&str; 3] = ["npm", "pnpm", "yarn"];

impl ParsedCommand {
    /// A pattern for each part, in order and each once; `None` if a part has none.
    pub(crate) fn subcommand_patterns(&self) -> Option<Vec<String>> {
        let patterns = self.parts.iter().map(subcommand_pattern);
        let patterns = patterns.collect::<Option<BTreeSet<String>>>()?;
        Some(patterns.into_iter().collect())
    }

    /// The words behind the programs, without their quotes.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &str> {
        let words = self.parts.iter().flat_map(|part| part.words.iter().skip(1));
        words.map(|word| word.unquoted.as_str())
    }
}

fn subcommand_pattern(part: &Part) -> Option<String> {
    let words: Vec<&str> = part.words.iter().map_while(plain).collect();
    let named = named_words(&words)?;
    if !part.has_usual_words() {
        return None;
    }
    Some(format!("{} *", BashPattern::escaped(&words[..named].join(" "))))
}

/// How many words name the program and its subcommand, if both are on the list.
pub(super) fn named_words(words: &[&str]) -> Option<usize> {
    match words {
        [program, "run", script, ..]
            if SCRIPT_RUNNERS.contains(program) && !script.starts_with('-') =>
        {
            Some(3)
        }
        [program, subcommand, ..] if is_listed(program, subcommand) => Some(2),
        _ => None,
    }
}

fn is_listed(program: &str, subcommand: &str) -> bool {
    let of_program = SUBCOMMANDS.iter().find(|(name, _)| *name == program);
    of_program.is_some_and(|(_, subcommands)| subcommands.contains(&subcommand))
}

/// The text of a word that is written as it is, and short enough to be read in a rule.
fn plain(word: &Word) -> Option<&str> {
    let text = word.literal()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let is_short = (1..=MAX_WORD).contains(&text.len());
    (word.raw == text && is_short && text.chars().all(is_plain)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let patterns = parse(line).expect("a line that parses").subcommand_patterns();
        let patterns = patterns.map_or("none".to_owned(), |patterns| patterns.join(", "));
        assert_eq!(patterns, expected, "{line}");
    }

    #[test]
    fn a_part_has_a_rule_by_its_program_and_its_subcommand() {
        check("npm test", "npm test *");
        check("npm test -- --watch && cargo build --release", "cargo build *, npm test *");
        check("git add a b; git add c; git commit -m 'x *'", "git add *, git commit *");
        check("npm run build -- --fast", "npm run build *");
    }

    #[test]
    fn what_could_run_anything_has_none() {
        for line in [
            "bash test",
            "sh test.sh",
            "python test",
            "python3 -m pytest",
            "node test",
            "env test",
            "sudo npm test",
            "timeout 5 npm test",
            "xargs npm test",
            "find . -name x",
            "ssh host",
            "npx jest",
            "npm exec jest",
            "npm run",
            "npm run --silent build",
            "npm install left-pad",
            "npm --prefix x test",
            "cargo run",
            "cargo +nightly test",
            "cargo install x",
            "go run .",
            "go generate ./...",
            "git -c alias.x=y commit",
            "git push origin main",
            "git fetch",
            "git diff --output=x",
            "git reset --hard",
            "git rebase -x y",
            "git config a b",
            "make test",
            "docker run x",
            "kubectl get pods",
            "uv run x",
            "pip install x",
            "./npm test",
            "/usr/bin/npm test",
            "\"npm\" test",
            "npm te\\st",
            "npm $X",
            "$X test",
            "npm",
            "npm test; rm -r x",
            "npm test | tail -5",
            "npm run 'a b'",
            "npm run a*",
            "x=1",
            "> a",
        ] {
            check(line, "none");
        }
    }
}
