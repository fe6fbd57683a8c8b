//! Compares the commands of lines with those that bash runs.

use std::fs;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::super::super::ParsedCommand;
use super::super::super::parse;
use super::super::super::part::{Part, Redirect, RedirectTarget};
use super::super::super::word::Word;

/// Writes down each command that bash runs, with its words and its input, in a file of its own:
/// those of a pipe run at once.
const PRELUDE: &str = r#"trap wait EXIT
note() { local in=; IFS= read -rd '' -t 2 in; printf '%s\0' "$@" "$in" >"$NOTES/$BASHPID.$SRANDOM"; }
for name in a b evil; do eval "$name() { note $name \"\$@\"; }"; done
cat() { local in=; IFS= read -rd '' -t 2 in; printf '%s\0' cat "$@" "$in" >"$NOTES/$BASHPID.$SRANDOM"; printf %s "$in"; }
command_not_found_handle() { note "$@"; }
unset name
"#;

/// A command that bash has run.
#[derive(Debug)]
struct Run {
    words: Vec<String>,
    input: String,
}

fn runs(line: &str) -> Vec<Run> {
    let directory = tempfile::tempdir().unwrap();
    let notes = directory.path().join("notes");
    fs::create_dir(&notes).unwrap();
    let mut bash = Command::new("/bin/bash");
    bash.args(["--noprofile", "--norc", "-c", &format!("{PRELUDE}{line}\n\n"), "bash"]);
    bash.env_clear().env("PATH", "/nonexistent").env("NOTES", &notes).current_dir(directory.path());
    bash.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    bash.status().unwrap();
    let entries = fs::read_dir(&notes).unwrap();
    entries.map(|entry| run(&fs::read(entry.unwrap().path()).unwrap())).collect()
}

fn run(noted: &[u8]) -> Run {
    let noted = String::from_utf8_lossy(noted);
    let mut words: Vec<String> = noted.split_terminator('\0').map(str::to_owned).collect();
    let input = words.pop().unwrap_or_default();
    Run { words, input }
}

/// Whether the part is the command that bash has run, as far as its words are known.
fn is_part(part: &Part, run: &Run) -> bool {
    let is_timed = part.words.first().is_some_and(|name| name.raw == "time");
    let behind = part.words.iter().skip(1).skip_while(|word| word.as_assignment().is_some());
    let timed: Vec<Word> = behind.cloned().collect();
    are_words(&part.words, run) || (is_timed && are_words(&timed, run))
}

fn are_words(words: &[Word], run: &Run) -> bool {
    let literals: Option<Vec<&str>> = words.iter().map(Word::literal).collect();
    match (literals, words.first()) {
        (Some(literals), _) => literals == run.words,
        (None, Some(name)) => name.literal().is_none_or(|name| name == run.words[0]),
        (None, None) => false,
    }
}

/// What bash has run and the parts do not have, or was given another document.
fn missed(line: &str, parsed: &ParsedCommand) -> Option<Run> {
    runs(line).into_iter().find(|run| {
        let mut parts = parsed.parts.iter().filter(|part| is_part(part, run)).peekable();
        let is_literal = run.words == ["cat"] && parsed.literals > 0;
        if parts.peek().is_none() {
            return !is_literal;
        }
        let is_text = |text: &str| !text.contains(['$', '`', '\\']);
        let fits = |part: &Part| match part.redirects.as_slice() {
            [
                Redirect {
                    descriptor: None | Some(0), target: RedirectTarget::Document(text), ..
                },
            ] => !is_text(text) || *text == run.input,
            _ => true,
        };
        !is_literal && !parts.any(fits)
    })
}

fn check(line: &str) -> Result<(), TestCaseError> {
    let Ok(parsed) = parse(line) else { return Ok(()) };
    let missed = missed(line, &parsed);
    prop_assert!(missed.is_none(), "{:?}: {:?} is none of {:#?}", line, missed, parsed.parts);
    Ok(())
}

fn operator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "<<E", "<<'E'", "<<-E", "<<-'E'", "<< \"E\"", "<<\\E", "<<E''F", "<<- E", "3<<E", "<<<E",
        "<<'E )'",
    ])
}

/// A line of a body, or what ends it, or what seems to.
fn body_line() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "E\n",
        "E\n",
        "E\n",
        "\tE\n",
        "EF\n",
        "E )\n",
        "E)\n",
        " E\n",
        "E \n",
        "E\\\n",
        "\\\n",
        "x\n",
        "evil 1\n",
        "$(evil 2)\n",
        "`evil 3`\n",
        "\\$(evil 4)\n",
        "\"$(evil 5)\"\n",
        "'\n",
        "\"\n",
        ")\n",
        "$(\n",
        "${v:-$(evil 6)}\n",
        "x \\\\\n",
        "\\\\\\\n",
        "$((1<<2))\n",
        "# x\n",
        "\t\tE\n",
        "(\n",
        "}\n",
        "a <<E\n",
        "\n",
        "$\\\n",
        "E; evil 7\n",
        "E\\\n\n",
        "`\n",
        "${\n",
        "Evil)\n",
    ])
}

fn around() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a ",
        "b x",
        "cat ",
        "evil 8",
        " ",
        "\n",
        ";",
        "&&",
        "|",
        "||",
        "&",
        "$(",
        ")",
        "\"",
        "'",
        "`",
        "#",
        "\\",
        "\\\n",
        "((",
        "))",
        "(",
        "{ ",
        "; }",
        "v[",
        "v[1 ",
        "]=1",
        "v=(",
        "<(",
        "$((1",
        "<<",
        "2))",
        "${v",
        "}",
        "$'",
        "\t",
        "if a; then ",
        "fi",
        "case x in x) ",
        ";; esac",
        "\"$(cat <<'E'\nx\nE\n)\"",
        "[[ x ",
        "]]",
        "f() ",
        "time ",
        "! ",
        "v=",
        ">&2",
        "<&0",
    ])
}

fn line() -> impl Strategy<Value = String> {
    let some = |strategy: BoxedStrategy<&'static str>, most| {
        prop::collection::vec(strategy, 0..most).prop_map(|pieces| pieces.concat())
    };
    let document = (
        some(around().boxed(), 4),
        operator(),
        some(prop_oneof![around(), operator()].boxed(), 4),
        prop::bool::weighted(0.95).prop_map(|ends| if ends { "\n" } else { "" }),
        some(body_line().boxed(), 5),
        prop::sample::select(vec!["E\n", "E\n", "E", "\tE\n", "EF\n", ""]),
        some(around().boxed(), 4),
    );
    let written = document.prop_map(|(before, operator, after, end, body, last, then)| {
        format!("a {before}{operator}{after}{end}{body}{last}{then}")
    });
    prop::collection::vec(written, 1..3).prop_map(|all| all.concat())
}

proptest! {
    #[test]
    fn bash_runs_nothing_that_was_not_seen(line in line()) {
        check(&line)?;
    }
}

#[test]
fn bash_reads_the_usual_forms_so() {
    for line in [
        "a <<'E' | b\n$(evil)\nE\nb c",
        "a <<E\n$(b 1) `b 2` \"$(b 3)\" '$(b 4)' \\$(evil)\nE",
        "a <<A <<'B' && b\n1\nA\n$2\nB\nb x",
        "a x \"$(cat <<'E'\nit's $(evil) `evil` \"\n\nE\n)\" && b",
        "a <<-E\n\tx\n\t\tE\nb",
        "a $(b <<E\n1\nE\n) <<F\n2\nF",
        "{ a; b; } <<E\n1\nE",
        "a <<E && \\\nb\nx\nE",
        "a <<E # evil\nx\nE",
        "a <<E\na\\\nE\nevil x\nE",
    ] {
        let parsed = parse(line).unwrap();
        assert!(missed(line, &parsed).is_none(), "{line}: {:?}", missed(line, &parsed));
        assert!(runs(line).len() > 1 || parsed.parts.len() == 1, "{line}");
    }
}
