//! Proves that a line only reads: every program and every flag of it is on a list.

use super::ParsedCommand;
use super::operands::{GivenOption, SHOWING_GIT, SedScript, sed_arguments};
use super::part::{Part, Redirect, RedirectTarget};
use super::readers::check_git;
use super::word::Word;
use super::wrappers::unwrapped;

use self::readers::ReaderOperands::{AnyWithCount, AtMostOne, Text};
use self::readers::{EDITORS, READERS, Reader};

mod readers;

/// Programs that bash runs itself, wherever PATH leads.
const BUILTINS: [&str; 5] = ["cd", "echo", "false", "pwd", "true"];

impl ParsedCommand {
    /// Whether the line is proven to change nothing. The files that it reads are for the caller
    /// to judge, and whether PATH leads its [`programs`](Self::programs) to where they should be.
    pub(crate) fn is_read_only(&self) -> bool {
        let is_one_line = !self.line.contains(['\n', '\t']);
        self.is_plain && is_one_line && !self.parts.is_empty() && self.parts.iter().all(is_reader)
    }

    /// Whether the line may show files that it does not name: those of a repository, of today
    /// and of before.
    pub(crate) fn shows_repository(&self) -> bool {
        let shows = |part: &Part| {
            let is_git = part.words.first().is_some_and(|word| word.raw == "git");
            is_git && part.words.iter().any(|word| SHOWING_GIT.contains(&word.unquoted.as_str()))
        };
        self.parts.iter().any(shows)
    }

    /// A part, as written, that reads files of which it names only the directory, or another file
    /// that lists them.
    pub(crate) fn searching(&self) -> Option<&str> {
        let searches = |part: &Part| {
            let has = |texts: &[&str]| {
                part.words.iter().any(|word| texts.contains(&word.unquoted.as_str()))
            };
            let begins = |text| part.words.iter().any(|word| word.unquoted.starts_with(text));
            match part.program() {
                Some("git") => has(&["grep", "diff"]),
                Some("wc" | "sort" | "du") => begins("--files0-from"),
                Some("file") => begins("-f") || begins("--files-from"),
                _ => false,
            }
        };
        let mut parts = self.reached.iter().map(|reached| &reached.part);
        parts.find(|part| searches(part)).map(|part| part.source.as_str())
    }

    /// Whether a part leads to another directory.
    pub(crate) fn changes_directory(&self) -> bool {
        let changes = |part: &Part| matches!(part.program(), Some("cd" | "pushd" | "popd"));
        self.parts.iter().any(changes)
    }

    /// Whether the line does nothing but read, and change the files that it names.
    pub(crate) fn is_plain_edit(&self) -> bool {
        let is_one_line = !self.line.contains(['\n', '\t']);
        let does_that = |part: &Part| is_reader(part) || is_editor(part);
        self.is_plain && is_one_line && self.parts.iter().all(does_that)
    }

    /// The names of the programs that the parts run, through wrappers too, but for builtins of
    /// bash.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        let parts = self.reached.iter().map(|reached| &reached.part);
        let names = parts.filter_map(|part| part.words.first()?.literal());
        let cat = (self.literals > 0).then_some("cat");
        names.filter(|name| !BUILTINS.contains(name)).chain(cat)
    }
}

impl Part {
    /// Whether the part changes nothing, in whatever line it stands, if its names mean what they do
    /// elsewhere. It may be silenced, and be given a text.
    pub(super) fn is_proven_to_read(&self) -> bool {
        let is_harmless = |redirect: &Redirect| {
            let target = &redirect.target;
            !matches!(target, RedirectTarget::File(_) | RedirectTarget::Text)
        };
        let has_more = !self.assignments.is_empty() || self.is_evaluation;
        let Some((name, arguments)) = self.words.split_first() else { return false };
        let are_plain = arguments.iter().all(|word| is_plain_or_status(&word.raw));
        let reader = READERS.iter().find(|reader| reader.name == name.raw);
        !has_more
            && self.redirects.iter().all(is_harmless)
            && are_plain
            && reader.is_some_and(|reader| reader.accepts(arguments))
    }

    /// Whether what it is given as text is shown, compared or counted, and never obeyed.
    pub(super) fn only_prints_input(&self) -> bool {
        let mut words = self.words.clone();
        while let Some(inner) = unwrapped(&words) {
            words = inner;
        }
        let name = words.first().and_then(Word::literal);
        name.is_some_and(|name| PRINTERS_OF_INPUT.contains(&name))
    }
}

/// Programs that do nothing with their input but show or count it, or keep it in a file that they
/// name.
const PRINTERS_OF_INPUT: [&str; 14] = [
    "cat", "cut", "diff", "egrep", "fgrep", "grep", "head", "nl", "sort", "tail", "tee", "tr",
    "uniq", "wc",
];

/// As [`is_plain_argument`], where exit codes may stand in the word too.
fn is_plain_or_status(raw: &str) -> bool {
    let mut plain = raw.to_owned();
    for status in STATUSES {
        plain = plain.replace(status, "0");
    }
    is_plain_argument(&plain)
}

/// The expansions that give numbers.
const STATUSES: [&str; 5] =
    ["${PIPESTATUS[0]}", "${PIPESTATUS[1]}", "${PIPESTATUS[2]}", "${?}", "$?"];

impl Part {
    /// Whether it only tells something, wherever it stands: a warning about it would tell nobody
    /// anything. It proves nothing, as the values of variables are not looked at.
    pub(super) fn only_tells(&self) -> bool {
        let has_more = !self.assignments.is_empty() || !self.redirects.is_empty();
        let Some((name, arguments)) = self.words.split_first() else { return false };
        if has_more || self.is_evaluation {
            return false;
        }
        let name = name.raw.as_str();
        let is_program = |reader: &&Reader| reader.name == name;
        let reader = READERS.iter().find(is_program);
        TELLERS.contains(&name)
            || reader.is_some_and(|reader| reader.accepts(arguments))
            || (name == "git" && check_git(arguments).is_ok())
    }
}

/// Programs that only print, but for words such as `date -s` and `printf -v`. What is told of a
/// substitution depends on this, and no verdict does.
const TELLERS: [&str; 9] =
    ["date", "expr", "id", "nproc", "printf", "seq", "uname", "which", "whoami"];

fn is_reader(part: &Part) -> bool {
    let Some((name, arguments)) = plain_words(part) else { return false };
    let reader = READERS.iter().find(|reader| reader.name == name);
    reader.is_some_and(|reader| reader.accepts(arguments))
}

fn is_editor(part: &Part) -> bool {
    let Some((name, arguments)) = plain_words(part) else { return false };
    if name == "sed" {
        return is_plain_sed(arguments);
    }
    let editor = EDITORS.iter().find(|editor| editor.name == name);
    editor.is_some_and(|editor| editor.accepts(arguments))
}

/// Whether sed does nothing but substitute in the files that it names, and keep copies of them.
fn is_plain_sed(arguments: &[Word]) -> bool {
    let arguments = sed_arguments(arguments);
    if !arguments.options.iter().all(is_plain_sed_option) {
        return false;
    }
    let mut scripts: Vec<&Word> = arguments.values(&SED_SCRIPTS).collect();
    if scripts.is_empty() {
        scripts.extend(arguments.operands.first());
    }
    let substitutes = |script: &&Word| SedScript::read(&script.unquoted) == SedScript::Substitutes;
    !scripts.is_empty() && scripts.iter().all(substitutes)
}

const SED_SCRIPTS: [&str; 2] = ["e", "expression"];

/// What follows these is the ending of copies, which are files of their own.
const SED_IN_PLACE: [&str; 2] = ["i", "in-place"];

const SED_FLAGS: [&str; 13] = [
    "E",
    "n",
    "r",
    "s",
    "u",
    "z",
    "null-data",
    "posix",
    "quiet",
    "regexp-extended",
    "sandbox",
    "separate",
    "silent",
];

fn is_plain_sed_option(option: &GivenOption) -> bool {
    let name = option.name.as_str();
    let is_flag = SED_FLAGS.contains(&name) && option.value.is_none();
    is_flag || SED_SCRIPTS.contains(&name) || SED_IN_PLACE.contains(&name)
}

/// The program and its arguments, if nothing in them is expanded and nothing stands beside them.
fn plain_words(part: &Part) -> Option<(&str, &[Word])> {
    let has_more = !part.assignments.is_empty() || !part.redirects.is_empty();
    if has_more || part.is_substituted || part.is_evaluation || part.is_repeated {
        return None;
    }
    let (name, arguments) = part.words.split_first()?;
    // The name as written: quotes in it are a disguise.
    let are_plain = arguments.iter().all(|word| is_plain_argument(&word.raw));
    are_plain.then_some((name.raw.as_str(), arguments))
}

impl Reader {
    fn accepts(&self, arguments: &[Word]) -> bool {
        if self.operands == Text {
            return true;
        }
        let mut operands = 0;
        let mut words = arguments.iter().map(|word| word.unquoted.as_str());
        while let Some(word) = words.next() {
            if word == "--" {
                operands += words.count();
                break;
            }
            if !word.starts_with('-') || word == "-" {
                operands += 1;
            } else if !self.accepts_option(word, &mut words) {
                return false;
            }
        }
        // `cd -` leads nobody knows where.
        let may_be_many = self.operands != AtMostOne;
        may_be_many || (operands <= 1 && !arguments.iter().any(|word| word.unquoted == "-"))
    }

    fn accepts_option<'w>(&self, word: &str, words: &mut impl Iterator<Item = &'w str>) -> bool {
        if word.starts_with("--") {
            let exact = |known: &&str| match known.strip_suffix('=') {
                Some(_) => word.starts_with(*known),
                None => word == *known,
            };
            return self.long.iter().any(exact);
        }
        let letters = &word[1..];
        if self.operands == AnyWithCount && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return true;
        }
        for (at, letter) in letters.char_indices() {
            if self.valued.contains(letter) {
                // The value is the rest of the word, or the next one.
                let is_last = at + letter.len_utf8() == letters.len();
                return !is_last || words.next().is_some();
            }
            if !self.flags.contains(letter) {
                return false;
            }
        }
        true
    }
}

/// Whether the argument is a plain word, or text in quotes in which nothing is expanded.
fn is_plain_argument(raw: &str) -> bool {
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\'' => match after.split_once('\'') {
                Some((_, after)) => after,
                None => return false,
            },
            '"' => match after.split_once('"') {
                Some((text, after)) if !text.contains(['$', '`', '\\']) => after,
                _ => return false,
            },
            c if c.is_alphanumeric() || "-_./:,=+@%".contains(c) => after,
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[track_caller]
    fn check(line: &str, expected: bool) {
        let parsed = parse(line);
        let proven = parsed.is_ok_and(|parsed| parsed.is_read_only());
        assert_eq!(proven, expected, "{line}");
    }

    #[test]
    fn what_only_reads_is_proven() {
        for line in [
            "ls",
            "ls -la --color=auto src",
            "head -5 a",
            "tail -n5 a",
            "grep -3 x a",
            "grep -e x -- -f",
            "grep --include=*.rs x a'*'",
            "cat 'a b' \"c d\"",
            "cd src && cat a",
            "echo 'a; b' \"c | d\"",
            "cut -d, -f1 a",
            "cat ä.txt",
            "stat -c %s a",
            "tr a b",
            "cat a | head -n 1 | wc -l || echo x; pwd",
        ] {
            let line = line.replace("--include=*.rs", "'--include=*.rs'");
            check(&line, true);
        }
    }

    #[test]
    fn flags_that_are_not_listed_are_not_proven() {
        for line in [
            "tail -f a",
            "tail -qf 5",
            "tail --follow a",
            "grep -f p a",
            "grep --file=p a",
            "grep -rf p",
            "grep -D read x",
            "ls --hyperlink=x",
            "cat --help=x",
            "wc --files0-from=a",
            "cd -",
            "cd -P x",
            "cd a b",
            "pwd -x",
            "nl --help",
            "grep --fil p a",
            "head -n",
        ] {
            check(line, false);
        }
    }

    #[test]
    fn other_shapes_are_not_proven() {
        for line in [
            "",
            "X=1 ls",
            "ls > a",
            "ls 2>&1",
            "ls 2>/dev/null",
            "ls &",
            "ls | (cat)",
            "ls *",
            "ls ~",
            "ls $x",
            "ls {a,b}",
            "ls \\a",
            "ls #x",
            "ls\nls",
            "! ls",
            "{ ls; }",
            "time ls",
            "/bin/ls",
            "'ls'",
            "l\\s",
            "\"ls\"",
            "ls ^a",
            "ls !a",
            "cat <<< a",
            "if true; then ls; fi",
            "ls a\tb",
            "echo \"a\\\"b\"",
            "git status",
            "find .",
            "env",
            "sort a",
            "date",
            "ls |& cat",
            "(ls)",
            "ls $'a'",
            "ls $\"a\"",
            "ls [a]",
        ] {
            check(line, false);
        }
    }

    #[test]
    fn names_the_programs_that_path_must_lead_to() {
        let parsed = parse("cd a && ls | grep x; echo y").unwrap();
        assert_eq!(parsed.programs().collect::<Vec<_>>(), ["ls", "grep"]);
    }
}
