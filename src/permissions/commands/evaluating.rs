//! Knows what an allow rule with a star must not cover although its text fits: words that bash
//! evaluates once more, and options of git that write a file or run a program.
//!
//! Whoever allows `printf *` or `git log *` means what these print.

use super::pattern::BashPattern;
use super::risks::signs::steers_programs;
use super::word::{Piece, Word, is_name};

/// Builtins whose words are names of variables. A name may have a subscript, which is evaluated
/// and may run commands.
const NAMING: [&str; 11] = [
    "declare",
    "export",
    "getopts",
    "local",
    "mapfile",
    "read",
    "readarray",
    "readonly",
    "typeset",
    "unset",
    "wait",
];

/// Options of these with a letter that makes later values names or arithmetic, or runs a text.
const EVALUATING_LETTERS: &str = "inCF";

/// Operators of `test` for two operands, which evaluate neither.
const COMPARING: [&str; 16] = [
    "-ef", "-eq", "-ge", "-gt", "-le", "-lt", "-ne", "-nt", "-ot", "=", "==", "!=", "<", ">", "-a",
    "-o",
];

/// Long options of git that write a file, run a program or lead to other configuration.
const WRITING_OR_RUNNING: [&str; 19] = [
    "cc-cmd",
    "config",
    "config-env",
    "exec",
    "exec-path",
    "export-marks",
    "ext-diff",
    "extcmd",
    "git-dir",
    "header-cmd",
    "open-files-in-pager",
    "output",
    "output-directory",
    "receive-pack",
    "sendmail-cmd",
    "smtp-server",
    "template",
    "to-cmd",
    "upload-pack",
];

/// Long options of git that begin one of those, and are options of their own.
const OWN_OPTIONS: [&str; 2] = ["cc", "to"];

/// Short options of subcommands that do so.
const SHORT: [(&str, char); 8] = [
    ("archive", 'o'),
    ("clone", 'c'),
    ("clone", 'u'),
    ("difftool", 'x'),
    ("format-patch", 'o'),
    ("grep", 'O'),
    ("ls-remote", 'u'),
    ("rebase", 'x'),
];

/// Subcommands with such options, to which a word that is not known could be one.
const WITH_OPTIONS: [&str; 22] = [
    "archive",
    "blame",
    "clone",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fast-export",
    "fetch",
    "format-patch",
    "grep",
    "init",
    "log",
    "ls-remote",
    "pull",
    "push",
    "range-diff",
    "rebase",
    "send-email",
    "show",
    "whatchanged",
];

/// Whether a rule with a star does not cover the words, although its text fits.
pub(super) fn exceeds(words: &[Word], pattern: &BashPattern) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    if !pattern.has_star() {
        return false;
    }
    match name.base_name() {
        Some("printf") => names_variable_of_printf(arguments),
        Some("test") => !is_plain_test(arguments),
        Some("[") => !is_plain_test(arguments.split_last().map_or(arguments, |(_, rest)| rest)),
        Some("let") => !arguments.iter().all(is_arithmetic_of_numbers),
        Some("compgen") => true,
        Some(name) if NAMING.contains(&name) => !are_plain_names(name, arguments),
        Some("git") => git_option_beyond(arguments, pattern),
        _ => name.raw == "[[" && arguments.iter().any(evaluates_inside),
    }
}

/// `printf -v NAME`; a first word that is not known may be `-v`.
fn names_variable_of_printf(arguments: &[Word]) -> bool {
    let Some(first) = arguments.first() else { return false };
    match first.literal() {
        Some(text) => text.starts_with("-v"),
        None => may_begin_option(first),
    }
}

/// Whether the word may begin with a dash when the line runs.
fn may_begin_option(word: &Word) -> bool {
    match word.pieces.first() {
        Some(Piece::Text(text)) if !text.is_empty() => text.starts_with('-') || word.has_braces,
        Some(Piece::Home) => false,
        _ => true,
    }
}

/// Whether the words are one comparison, or one test of a file or a text. `-v` and `-R` take the
/// name of a variable.
fn is_plain_test(words: &[Word]) -> bool {
    let words = match words.split_first() {
        Some((first, rest)) if first.is("!") => rest,
        _ => words,
    };
    // Unquoted, one word may become several.
    let is_one = |word: &Word| word.literal().is_some() || word.raw.starts_with('"');
    if !words.iter().all(is_one) {
        return false;
    }
    match words {
        [] | [_] => true,
        [operator, _] => operator.literal().is_some_and(|it| !["-v", "-R"].contains(&it)),
        [_, operator, _] => operator.literal().is_some_and(|it| COMPARING.contains(&it)),
        _ => words.iter().all(|word| word.literal().is_some_and(|it| !["-v", "-R"].contains(&it))),
    }
}

/// `x=1+2`: a name would be evaluated again.
fn is_arithmetic_of_numbers(word: &Word) -> bool {
    let Some(text) = word.literal() else { return false };
    let value = text.split_once('=').filter(|(name, _)| is_name(name)).map_or(text, |it| it.1);
    value.chars().all(|c| c.is_ascii_digit() || "+-*/%()<>=!&|^~ ".contains(c))
}

/// Whether nothing is given but options that do not evaluate, names without subscripts, and
/// values of variables that steer no program.
fn are_plain_names(builtin: &str, arguments: &[Word]) -> bool {
    let declares = matches!(builtin, "declare" | "export" | "local" | "readonly" | "typeset");
    arguments.iter().all(|word| {
        if declares && let Some((name, _)) = word.as_assignment() {
            return is_name(name) && !steers_programs(name);
        }
        let Some(text) = word.literal() else { return false };
        match text.strip_prefix(['-', '+']) {
            Some(letters) => !letters.contains(|c| EVALUATING_LETTERS.contains(c)),
            None => !text.contains('['),
        }
    })
}

/// Whether `[[ … ]]` takes a text as arithmetic or as a name.
fn evaluates_inside(word: &Word) -> bool {
    const OPERATORS: [&str; 8] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];
    word.unquoted.split_whitespace().any(|text| OPERATORS.contains(&text))
}

/// Whether git gets an option that writes or runs, which the rule does not name.
fn git_option_beyond(arguments: &[Word], pattern: &BashPattern) -> bool {
    let at = subcommand_of_git(arguments);
    let (before, after) = arguments.split_at(at);
    let is_configuration = |word: &Word| word.unquoted.starts_with("-c");
    if before.iter().any(|word| is_configuration(word) && !pattern.names(&word.unquoted)) {
        return true;
    }
    let subcommand = after.first().map_or("", |word| word.unquoted.as_str());
    let options = after.iter().skip(1).take_while(|word| !word.is("--"));
    before.iter().chain(options).any(|word| {
        let is_beyond = match word.literal() {
            Some(text) => is_writing_or_running(subcommand, text),
            None => WITH_OPTIONS.contains(&subcommand) && may_begin_option(word),
        };
        is_beyond && !pattern.names(&word.unquoted)
    })
}

/// Where the subcommand stands.
fn subcommand_of_git(arguments: &[Word]) -> usize {
    let valued = ["-C", "-c", "--work-tree", "--namespace", "--git-dir", "--exec-path"];
    let mut at = 0;
    while let Some(word) = arguments.get(at).filter(|word| word.unquoted.starts_with('-')) {
        at += if valued.iter().any(|it| word.is(it)) { 2 } else { 1 };
    }
    at.min(arguments.len())
}

fn is_writing_or_running(subcommand: &str, option: &str) -> bool {
    if let Some(long) = option.strip_prefix("--") {
        let name = long.split_once('=').map_or(long, |(name, _)| name);
        // An abbreviation is the option, too.
        let is_one = WRITING_OR_RUNNING.iter().any(|known| known.starts_with(name));
        return name.len() > 1 && is_one && !OWN_OPTIONS.contains(&name);
    }
    let Some(letters) = option.strip_prefix('-') else { return false };
    SHORT.iter().any(|(name, letter)| *name == subcommand && letters.contains(*letter))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[track_caller]
    fn check(rule: &str, covered: &[&str], exceeding: &[&str]) {
        let pattern = BashPattern::parse(rule).unwrap();
        for line in covered {
            assert!(parse(line).unwrap().is_allowed_by(&[&pattern]), "{rule}: {line}");
        }
        for line in exceeding {
            let is_allowed = parse(line).is_ok_and(|parsed| parsed.is_allowed_by(&[&pattern]));
            assert!(!is_allowed, "{rule}: {line}");
        }
    }

    #[test]
    fn g11_a_rule_for_a_builtin_does_not_cover_what_it_evaluates_again() {
        check(
            "printf *",
            &["printf '%s\\n' \"$x\"", "printf -- -v", "printf x -v", "printf '%d' 5"],
            &[
                "printf -v x y",
                "printf -v \"$x\" y",
                "printf -vx y",
                "printf '-v' x y",
                "printf $x",
                "printf \"$x\" y",
                "printf -v x 'a[%s]' '$(cmd)'; printf -v \"$x\" y",
                "command printf -v x y",
                "printf {-v,x,y}",
            ],
        );
        for (rule, end) in [("test *", ""), ("[ *", " ]")] {
            let start = rule.trim_end_matches('*');
            let line = |inside: &str| format!("{start}{inside}{end}");
            let covered =
                ["-f a", "\"$x\" = y", "! -d \"$x\"", "a -nt b", "-n \"$x\"", "\"$x\" -eq 5"];
            for inside in covered {
                check(rule, &[&line(inside)], &[]);
            }
            for inside in
                ["-v x", "-v \"$x\"", "\"$x\" \"$y\"", "$x", "-R x", "! -v x", "a = b -o -v x"]
            {
                check(rule, &[], &[&line(inside)]);
            }
        }
        check("[[ *", &["[[ -f a ]]", "[[ $x == y ]]"], &["[[ $x -eq 1 ]]", "[[ -v $x ]]"]);
        check("let *", &["let x=1+2"], &["let x=y", "let \"x=$y\"", "let x=a[0]"]);
        check("read *", &["read -r x"], &["read \"$x\"", "read 'a[0]'", "read $x"]);
        check(
            "declare *",
            &["declare x=y", "declare -r x=\"$y\""],
            &["declare -i x=y", "declare -n x=y", "declare \"$x\"", "declare 'a[0]=y'"],
        );
        check("export *", &["export FOO=bar"], &["export PATH=./bin", "export LD_PRELOAD=./x"]);
        check("unset *", &["unset x"], &["unset \"$x\"", "unset 'a[0]'"]);
        check("mapfile *", &["mapfile x"], &["mapfile -C ./run x"]);
        check("compgen *", &[], &["compgen -W '$(id)'"]);
        check("* x", &[], &["printf -v x", "((y)) x"]);
        check("printf -v *", &[], &["printf -v \"$x\" y"]);
    }

    #[test]
    fn g11_a_rule_for_git_covers_no_option_that_writes_or_runs() {
        check(
            "git log *",
            &["git log -5 --oneline", "git log --stat -- --output=x", "git log v1..v2", "git log"],
            &[
                "git log --output=F",
                "git log --output F",
                "git log --outp=F",
                "git log '--output=F'",
                "git log -p --ext-diff",
                "git log --ext",
                "git log $x",
                "git log \"$x\"",
                "git log *",
                "git log $(echo --output=F)",
                "for x in --output=F; do git log $x; done",
                "timeout 5 git log --output=F",
            ],
        );
        check(
            "git *",
            &[
                "git status",
                "git -C x log",
                "git add *.rs",
                "git commit -c HEAD",
                "git push -u a b",
            ],
            &[
                "git -c core.pager=x log",
                "git -ccore.pager=x log",
                "git --exec-path=x log",
                "git --git-dir=x log",
                "git --config-env=a=b log",
                "git -C x diff --output=F",
                "git -C x grep -Ox y",
                "git grep -nOx y",
                "git grep --open-files-in-pager=x y",
                "git archive -o F HEAD",
                "git archive --output=F HEAD",
                "git format-patch -o d HEAD",
                "git format-patch --output-directory=d HEAD",
                "git rebase -x make HEAD",
                "git rebase --exec make HEAD",
                "git push --receive-pack=x a",
                "git fetch --upload-pack x a",
                "git clone -c core.fsmonitor=x a",
                "git init --template=x",
                "git difftool -x y",
                "git show --output=F",
                "git diff --output=F",
            ],
        );
        check("git * main", &["git push origin main"], &["git -c core.pager=x main"]);
        // Whoever writes the option means it.
        check("git log --output=*", &["git log --output=F"], &["git log --ext-diff --output=F"]);
        check("git -c *", &["git -c a=b log"], &["git -c a=b log --output=F"]);
        check("git log --output=F", &["git log --output=F"], &[]);
    }
}
