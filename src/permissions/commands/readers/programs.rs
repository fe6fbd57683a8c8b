//! Lists the programs that only read, with the options by which they do more.

use super::super::word::Word;
use super::packages;
use super::{Forbidden, Why};

/// A check of the arguments of a program.
#[derive(Clone, Copy)]
enum Check {
    /// It reads, whatever its words are.
    Anything,
    /// Not with one of these options.
    Without(Forbidden),
    /// Not with one of these words.
    WithoutWords(&'static [&'static str]),
    /// It would run or set what it is given as an operand.
    OptionsAlone,
    Words(fn(&[Word]) -> Result<(), Why>),
}

use Check::{Anything, OptionsAlone, Without, WithoutWords, Words};

struct ReadingProgram {
    names: &'static [&'static str],
    check: Check,
}

const fn program(names: &'static [&'static str], check: Check) -> ReadingProgram {
    ReadingProgram { names, check }
}

const fn options(
    short: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
) -> Check {
    Without(Forbidden { short, valued, long })
}

/// Builtins of bash come first. Files that a program of the list writes when it is given a word
/// for it (`sort -o`, `uniq IN OUT`, a script of sed) are known to the list of operands.
const PROGRAMS: &[ReadingProgram] = &[
    program(&["cd", "echo", "false", "pwd", "true", ":", "type", "exit", "break"], Anything),
    program(&["continue", "test", "[", "[["], Anything),
    program(&["printf"], options("v", "", &[])),
    program(&["command"], Words(looks_up)),
    program(&["read"], Words(reads_plain_names)),
    program(&["set"], Words(sets_options)),
    program(&["ls", "cat", "head", "tail", "wc", "cut", "tr", "nl", "stat"], Anything),
    program(&["basename", "dirname", "realpath", "readlink"], Anything),
    program(&["grep", "egrep", "fgrep"], Anything),
    program(
        &["find"],
        WithoutWords(&[
            "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf",
            "-fls",
        ]),
    ),
    program(&["fd", "fdfind"], options("xX", "eEtdSoc", &["exec", "exec-batch"])),
    program(&["rg"], options("", "", &["pre", "hostname-bin"])),
    program(&["sed"], options("i", "efl", &["in-place"])),
    program(
        &["awk", "gawk", "mawk", "nawk"],
        options(
            "iloODpEf",
            "Fv",
            &[
                "include",
                "load",
                "pretty-print",
                "debug",
                "profile",
                "exec",
                "file",
                "dump-variables",
            ],
        ),
    ),
    program(&["sort"], options("", "kStT", &["compress-program"])),
    program(&["uniq", "diff", "cmp", "comm", "join", "paste", "column", "fold"], Anything),
    program(&["rev", "tac", "du", "df", "jq", "xxd", "od", "strings"], Anything),
    program(&["file"], options("C", "eFfmP", &["compile"])),
    program(&["yq"], options("is", "oIp", &["inplace", "in-place", "split-exp"])),
    program(&["base64", "sha1sum", "sha224sum", "sha256sum", "sha384sum"], Anything),
    program(&["sha512sum", "md5sum", "b2sum", "cksum"], Anything),
    program(&["which", "uname", "id", "whoami", "nproc", "printenv", "seq", "expr"], Anything),
    program(&["date"], Words(shows_date)),
    program(&["hostname", "env"], OptionsAlone),
    program(&["tree"], options("oR", "ILPH", &["output"])),
    program(&["less", "more"], Words(pages)),
    program(&["cargo"], Words(packages::cargo)),
    program(&["npm"], Words(packages::npm)),
    program(&["pip", "pip3"], Words(packages::pip)),
    program(&["go"], Words(packages::go)),
];

/// Words by which any program says what it is.
const SELF_DESCRIPTIONS: [&str; 3] = ["--version", "-V", "--help"];

/// Programs with a command `version`. To others it is the name of a file, a target or a script.
const WITH_VERSION: [&str; 18] = [
    "argocd",
    "buf",
    "cargo",
    "consul",
    "docker",
    "gh",
    "git",
    "go",
    "helm",
    "hugo",
    "kind",
    "kubectl",
    "minikube",
    "npm",
    "openssl",
    "podman",
    "terraform",
    "tofu",
];

/// Builtins that run, or change, what their words name.
const RUNNING_BUILTINS: [&str; 8] =
    [".", "builtin", "coproc", "enable", "eval", "exec", "source", "trap"];

pub(super) fn check(name: &str, arguments: &[Word]) -> Result<(), Why> {
    if describes_itself(name, arguments) {
        return Ok(());
    }
    let known = PROGRAMS.iter().find(|program| program.names.contains(&name));
    let Some(program) = known else {
        return Err(format!("{name} is not on the list of programs that only read"));
    };
    let refused = |text: &str| Err(format!("{name} does more than read with {text}"));
    match program.check {
        Anything => Ok(()),
        Without(forbidden) => forbidden.first_in(arguments).map_or(Ok(()), refused),
        WithoutWords(words) => {
            let mut texts = arguments.iter().map(|word| word.unquoted.as_str());
            texts.find(|text| words.contains(text)).map_or(Ok(()), refused)
        }
        OptionsAlone => {
            let mut texts = arguments.iter().map(|word| word.unquoted.as_str());
            // `env -S` splits a text into a command, `hostname -F` reads a name to set.
            let is_more = |text: &&str| !text.starts_with('-') || text.contains(['S', 'F', 'C']);
            texts.find(is_more).map_or(Ok(()), refused)
        }
        Words(check) => check(arguments),
    }
}

/// Whether the shell looks for the name on PATH.
fn is_found_by_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

fn describes_itself(name: &str, arguments: &[Word]) -> bool {
    let [word] = arguments else { return false };
    if !is_found_by_name(name) || RUNNING_BUILTINS.contains(&name) {
        return false;
    }
    let says = word.literal().unwrap_or_default();
    SELF_DESCRIPTIONS.contains(&says) || (says == "version" && WITH_VERSION.contains(&name))
}

/// `command -v NAME`: without the option it runs a program, and is a wrapper.
fn looks_up(arguments: &[Word]) -> Result<(), Why> {
    let looks = arguments.first().is_some_and(|word| word.is("-v") || word.is("-V"));
    if looks { Ok(()) } else { Err("command runs what its words name".to_owned()) }
}

fn reads_plain_names(arguments: &[Word]) -> Result<(), Why> {
    let is_plain = |word: &Word| {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        word.literal().is_some_and(|text| text.chars().all(is_name))
    };
    let is_all_plain = arguments.iter().all(is_plain);
    if is_all_plain { Ok(()) } else { Err("read sets variables that programs may obey".to_owned()) }
}

fn sets_options(arguments: &[Word]) -> Result<(), Why> {
    let is_option =
        |word: &Word| word.is("pipefail") || word.literal().is_some_and(|it| it.starts_with('-'));
    let are_options = arguments.iter().all(is_option);
    if are_options { Ok(()) } else { Err("set changes the arguments of the shell".to_owned()) }
}

/// An operand without `+` is a date to set.
fn shows_date(arguments: &[Word]) -> Result<(), Why> {
    const SETTING: Forbidden = Forbidden { short: "s", valued: "dfIr", long: &["set"] };
    let mut follows_value = false;
    for word in arguments {
        let text = word.unquoted.as_str();
        let is_operand = !text.starts_with(['-', '+']) && !follows_value;
        if is_operand {
            return Err(format!("date would set {text}"));
        }
        follows_value = matches!(text, "-d" | "-r" | "-f" | "--date" | "--reference" | "--file");
    }
    match SETTING.first_in(arguments) {
        Some(option) => Err(format!("date sets the time with {option}")),
        None => Ok(()),
    }
}

/// A pager copies its input to a file with `-o`, and runs commands that begin with `+`.
fn pages(arguments: &[Word]) -> Result<(), Why> {
    const LOGGING: Forbidden = Forbidden {
        short: "oOkK",
        valued: "bhjpPtTxyz",
        long: &["log-file", "LOG-FILE", "lesskey"],
    };
    let runs = arguments.iter().find(|word| word.unquoted.starts_with('+'));
    let found = runs.map(|word| word.unquoted.as_str()).or_else(|| LOGGING.first_in(arguments));
    found.map_or(Ok(()), |text| Err(format!("a pager does more than show with {text}")))
}
