//! Lists the recognised programs, and which of their words are files.

use super::super::word::{Piece, Word};
use super::Named;
use super::OperandAccess::{self, Read, Write};
use super::arguments::{Arguments, Options};
use super::scripts;

/// What the operands of a program are.
#[derive(Clone, Copy, Debug)]
enum Operands {
    All(OperandAccess),
    /// The current directory where there is none.
    AllOrHere,
    /// The first is a pattern, a script or a mode, unless one of these options gives it.
    AfterFirst(OperandAccess, &'static [&'static str]),
    /// Reads all but the last, and writes the last.
    LastIsTarget,
    /// `mv` changes what it moves as well.
    LastIsTargetOfMove,
    LinkTarget,
    /// Reads the first, and writes the second.
    SecondIsOutput,
    /// `if=`, `of=`
    Settings,
    /// Directories, up to the first word of an expression.
    BeforeExpression,
}

struct Program {
    names: &'static [&'static str],
    options: Options,
    /// Options whose value is a file.
    files: &'static [(&'static str, OperandAccess)],
    recursive: &'static [&'static str],
    operands: Operands,
}

const fn program(
    names: &'static [&'static str],
    short: &'static str,
    long: &'static [&'static str],
    operands: Operands,
) -> Program {
    let options = Options { short, attached: "", long };
    Program { names, options, files: &[], recursive: &[], operands }
}

impl Program {
    const fn files(self, files: &'static [(&'static str, OperandAccess)]) -> Self {
        Self { files, ..self }
    }

    const fn recursive(self, recursive: &'static [&'static str]) -> Self {
        Self { recursive, ..self }
    }
}

/// These names stand for a program that is always recursive.
const ALWAYS: &[&str] = &[""];
const GREP_PATTERN: &[&str] = &["e", "f", "regexp", "file", "files"];

/// The commands of git that show the contents of files.
pub(in crate::permissions::commands) const SHOWING_GIT: [&str; 14] = [
    "annotate",
    "archive",
    "blame",
    "cat-file",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "format-patch",
    "grep",
    "log",
    "show",
    "whatchanged",
];

const SED: Options =
    Options { short: "efl", attached: "i", long: &["expression", "file", "line-length"] };

const PROGRAMS: [Program; 43] = [
    program(&["cat", "realpath"], "", &["relative-to", "relative-base"], Operands::All(Read)),
    program(&["stat"], "c", &["format", "printf", "cached"], Operands::All(Read)),
    program(
        &["ls"],
        "ITw",
        &["block-size", "ignore", "hide", "width", "tabsize", "time-style"],
        Operands::AllOrHere,
    )
    .recursive(&["R", "recursive"]),
    program(
        &["head", "tail"],
        "ncs",
        &["lines", "bytes", "sleep-interval", "pid"],
        Operands::All(Read),
    ),
    program(&["wc"], "", &["files0-from", "total"], Operands::All(Read))
        .files(&[("files0-from", Read)]),
    program(&["nl"], "bdfhilnsvw", &[], Operands::All(Read)),
    program(&["tac"], "s", &["separator"], Operands::All(Read)),
    program(
        &["cut"],
        "bcdf",
        &["bytes", "characters", "delimiter", "fields", "output-delimiter"],
        Operands::All(Read),
    ),
    program(
        &["sort"],
        "kotTS",
        &[
            "key",
            "output",
            "field-separator",
            "temporary-directory",
            "buffer-size",
            "files0-from",
            "random-source",
            "compress-program",
            "batch-size",
            "parallel",
        ],
        Operands::All(Read),
    )
    .files(&[
        ("o", Write),
        ("output", Write),
        ("T", Write),
        ("temporary-directory", Write),
        ("files0-from", Read),
        ("random-source", Read),
    ]),
    program(
        &["uniq"],
        "fswN",
        &["skip-fields", "skip-chars", "check-chars"],
        Operands::SecondIsOutput,
    ),
    program(
        &["grep", "egrep", "fgrep", "zgrep"],
        "ABCDdefm",
        &[
            "after-context",
            "before-context",
            "context",
            "devices",
            "directories",
            "regexp",
            "file",
            "max-count",
            "include",
            "exclude",
            "exclude-from",
            "exclude-dir",
            "label",
            "binary-files",
            "color",
            "colour",
        ],
        Operands::AfterFirst(Read, GREP_PATTERN),
    )
    .files(&[("f", Read), ("file", Read), ("exclude-from", Read)])
    .recursive(&["r", "R", "recursive", "dereference-recursive"]),
    program(
        &["rg"],
        "ABCEMTdefgjmrt",
        &[
            "after-context",
            "before-context",
            "context",
            "encoding",
            "max-columns",
            "type-not",
            "max-depth",
            "regexp",
            "file",
            "glob",
            "iglob",
            "threads",
            "max-count",
            "replace",
            "type",
            "pre",
            "pre-glob",
            "sort",
            "sortr",
            "ignore-file",
            "color",
            "colors",
        ],
        Operands::AfterFirst(Read, GREP_PATTERN),
    )
    .files(&[("f", Read), ("file", Read), ("ignore-file", Read)])
    .recursive(ALWAYS),
    Program {
        names: &["sed"],
        options: SED,
        files: &[],
        recursive: &[],
        operands: Operands::AfterFirst(Read, &["e", "f", "expression", "file"]),
    }
    .files(&[("f", Read), ("file", Read)]),
    program(
        &["awk", "gawk", "mawk", "nawk"],
        "Ffv",
        &["field-separator", "file", "assign", "exec", "include", "source"],
        Operands::AfterFirst(Read, &["f", "file", "exec", "source"]),
    )
    .files(&[("f", Read), ("file", Read), ("exec", Read), ("include", Read)]),
    program(
        &["diff"],
        "CUFILWx",
        &[
            "context",
            "unified",
            "show-function-line",
            "ignore-matching-lines",
            "label",
            "width",
            "exclude",
            "exclude-from",
            "starting-file",
            "from-file",
            "to-file",
        ],
        Operands::All(Read),
    )
    .files(&[("exclude-from", Read), ("from-file", Read), ("to-file", Read)])
    .recursive(&["r", "recursive"]),
    program(&["cmp"], "in", &["ignore-initial", "bytes"], Operands::All(Read)),
    program(
        &["file"],
        "fFmPe",
        &["files-from", "separator", "magic-file", "exclude"],
        Operands::All(Read),
    )
    .files(&[("f", Read), ("files-from", Read), ("m", Read), ("magic-file", Read)]),
    program(&["xxd"], "cglnos", &[], Operands::SecondIsOutput),
    program(
        &["od", "hexdump"],
        "ANjStwefns",
        &["address-radix", "skip-bytes", "read-bytes", "format"],
        Operands::All(Read),
    ),
    program(&["base64", "base32"], "w", &["wrap"], Operands::All(Read)),
    program(&["strings"], "nteTsU", &["bytes", "radix", "encoding", "target"], Operands::All(Read)),
    program(&["cp"], "tS", &["target-directory", "suffix"], Operands::LastIsTarget).recursive(&[
        "r",
        "R",
        "a",
        "recursive",
        "archive",
    ]),
    program(
        &["install"],
        "tSgmo",
        &["target-directory", "suffix", "group", "mode", "owner"],
        Operands::LastIsTarget,
    ),
    program(&["mv"], "tS", &["target-directory", "suffix"], Operands::LastIsTargetOfMove)
        .recursive(ALWAYS),
    program(&["ln"], "tS", &["target-directory", "suffix"], Operands::LinkTarget),
    program(&["rm"], "", &[], Operands::All(Write)).recursive(&["r", "R", "recursive"]),
    program(&["rmdir", "unlink", "shred"], "", &[], Operands::All(Write)),
    program(&["mkdir"], "mZ", &["mode", "context"], Operands::All(Write)),
    program(&["touch"], "drt", &["date", "reference", "time"], Operands::All(Write))
        .files(&[("r", Read), ("reference", Read)]),
    program(&["tee"], "", &[], Operands::All(Write)),
    program(
        &["chmod", "chown", "chgrp"],
        "",
        &["reference", "from"],
        Operands::AfterFirst(Write, &["reference"]),
    )
    .files(&[("reference", Read)])
    .recursive(&["R", "recursive"]),
    program(&["truncate"], "rs", &["reference", "size"], Operands::All(Write))
        .files(&[("r", Read), ("reference", Read)]),
    program(&["dd"], "", &[], Operands::Settings),
    program(&["find"], "", &[], Operands::BeforeExpression),
    program(
        &["fd", "fdfind"],
        "deEtScxX",
        &["max-depth", "extension", "exclude", "type", "size", "color", "exec", "exec-batch"],
        Operands::AfterFirst(Read, &[]),
    ),
    program(&["tree"], "ILPHoT", &["filelimit", "charset", "sort"], Operands::AllOrHere),
    program(
        &["du", "df"],
        "BdtXx",
        &["block-size", "max-depth", "threshold", "exclude", "exclude-from", "type"],
        Operands::All(Read),
    )
    .files(&[("X", Read), ("exclude-from", Read)]),
    program(
        &["jq", "yq"],
        "fLoIp",
        &["from-file", "indent"],
        Operands::AfterFirst(Read, &["f", "from-file"]),
    )
    .files(&[("f", Read), ("from-file", Read)]),
    program(&["less", "more"], "bhjpPtTxyz", &[], Operands::All(Read)),
    program(&["comm", "rev", "readlink"], "", &["output-delimiter"], Operands::All(Read)),
    program(&["join"], "aejovt12", &[], Operands::All(Read)),
    program(
        &["paste", "column", "fold"],
        "dswcEHNoORT",
        &["delimiters", "width", "separator", "output-separator"],
        Operands::All(Read),
    ),
    program(
        &[
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
            "md5sum",
            "b2sum",
            "cksum",
        ],
        "al",
        &["algorithm", "length"],
        Operands::All(Read),
    ),
];

/// Whether it is known which words of the program are files, or that none is.
pub(super) fn is_recognised(name: &str) -> bool {
    let has_none = ["echo", "printf", "cd", "pwd", "true", "false", "test", "["];
    PROGRAMS.iter().any(|program| program.names.contains(&name)) || has_none.contains(&name)
}

/// The words of a command that name files.
pub(super) fn named_files(words: &[Word]) -> Vec<Named> {
    let Some((name, rest)) = words.split_first() else { return Vec::new() };
    let name = name.base_name().unwrap_or_default();
    if name == "git" {
        return shown_by_git(rest);
    }
    let Some(program) = PROGRAMS.iter().find(|program| program.names.contains(&name)) else {
        return Vec::new();
    };
    if matches!(program.operands, Operands::BeforeExpression) {
        let here = Word::plain(".");
        let points = starting_points(rest);
        let points = if points.is_empty() { vec![&here] } else { points };
        return points.into_iter().map(|word| Named::new(word.clone(), Read)).collect();
    }
    let arguments = Arguments::parse(rest, &program.options);
    let is_recursive = program.recursive == ALWAYS || arguments.has(program.recursive);
    let mut named = program.operands_of(&arguments, is_recursive);
    for named in &mut named {
        named.is_recursive = is_recursive;
    }
    for (option, access) in program.files {
        let values = arguments.values(std::slice::from_ref(option)).cloned();
        named.extend(values.map(|word| Named::new(word, *access)));
    }
    let of_scripts = scripts::files_of(name, &arguments, &named);
    named.extend(of_scripts);
    // A single dash is the standard input or output.
    named.retain(|named| !named.word.is("-"));
    named
}

/// The options of sed, and its operands.
pub(in crate::permissions::commands) fn sed_arguments(words: &[Word]) -> Arguments {
    Arguments::parse(words, &SED)
}

/// git shows any file that its operands name, one outside of the repository too. A revision looks
/// the same: no file has its name.
fn shown_by_git(words: &[Word]) -> Vec<Named> {
    let mut named = directory_of_git(words);
    let Some(command) = words.iter().position(|word| SHOWING_GIT.iter().any(|it| word.is(it)))
    else {
        return named;
    };
    let mut paths = Vec::new();
    for word in &words[command + 1..] {
        let text = word.unquoted.as_str();
        let value = text.strip_prefix("-L").or_else(|| text.strip_prefix("--contents="));
        if let Some(value) = value {
            // `-L1,5:a`, `-L:function:a`
            paths.extend(value.rsplit_once(':').map_or(Some(value), |(_, path)| Some(path)));
        } else if !text.starts_with('-') && word.literal().is_some() {
            paths.extend(git_paths(text));
        } else if let Some(path) = last_path(word) {
            paths.push(path);
        }
    }
    let paths = paths.into_iter().filter(|path| !path.is_empty());
    named.extend(paths.map(|path| Named::new(Word::plain(path), Read)));
    named
}

/// The directory that `-C` leads to.
fn directory_of_git(words: &[Word]) -> Vec<Named> {
    let is_option = |word: &Word| word.is("-C");
    let own = words.iter().position(is_option).and_then(|at| words.get(at + 1));
    own.map(|word| Named::new(word.clone(), Read)).into_iter().collect()
}

/// What a word of git may name: `HEAD:a/b` and `:0:a/b` the file `a/b`, `:(icase)A` and `:!a` the
/// files that fit.
fn git_paths(text: &str) -> Vec<&str> {
    let magic = text.strip_prefix(':').map(|rest| match rest.strip_prefix('(') {
        Some(words) => words.split_once(')').map_or(words, |(_, path)| path),
        None => rest.trim_start_matches(['/', '!', '^', ':']),
    });
    let after_colons = text.match_indices(':').map(|(at, _)| &text[at + 1..]);
    // A colon may be a part of the name, too.
    let whole = (!text.starts_with(':')).then_some(text).filter(|text| !text.contains(':'));
    whole.into_iter().chain(magic).chain(after_colons).collect()
}

/// The path behind a revision that is not known: `$revision:a/b`.
fn last_path(word: &Word) -> Option<&str> {
    let Some(Piece::Text(text)) = word.pieces.last() else { return None };
    text.split_once(':').map(|(_, path)| path)
}

impl Program {
    fn operands_of(&self, arguments: &Arguments, is_recursive: bool) -> Vec<Named> {
        let operands = arguments.operands.as_slice();
        let all = |words: &[Word], access| -> Vec<Named> {
            words.iter().map(|word| Named::new(word.clone(), access)).collect()
        };
        match self.operands {
            Operands::AllOrHere if operands.is_empty() => all(&[Word::plain(".")], Read),
            Operands::AllOrHere => all(operands, Read),
            Operands::All(access) => all(operands, access),
            Operands::AfterFirst(access, instead) => {
                let skipped = usize::from(!arguments.has(instead));
                let files = operands.get(skipped..).unwrap_or_default();
                if files.is_empty() && is_recursive {
                    return all(&[Word::plain(".")], access);
                }
                all(files, access)
            }
            Operands::SecondIsOutput => {
                let (first, rest) = operands.split_at(operands.len().min(1));
                [all(first, Read), all(rest, Write)].concat()
            }
            Operands::Settings => operands.iter().filter_map(setting).collect(),
            Operands::BeforeExpression => Vec::new(),
            Operands::LastIsTargetOfMove => {
                [with_target(arguments, Read), with_target(arguments, Write)].concat()
            }
            Operands::LinkTarget if operands.len() == 1 && !arguments.has(&["t"]) => {
                let here = Word::plain(".");
                let link = Named { below: Some(operands[0].clone()), ..Named::new(here, Write) };
                [all(operands, Read), vec![link]].concat()
            }
            Operands::LastIsTarget | Operands::LinkTarget => with_target(arguments, Read),
        }
    }
}

/// The directories that find starts from. What stands behind its first test is no directory.
/// Without one it is the working directory.
pub(in crate::permissions::commands) fn starting_points(words: &[Word]) -> Vec<&Word> {
    let is_own_option = |word: &&Word| ["-H", "-L", "-P"].iter().any(|option| word.is(option));
    let begins_expression = |word: &Word| {
        word.literal().is_some_and(|text| text.starts_with('-') || ["(", "!", ","].contains(&text))
    };
    let words = words.iter().skip_while(is_own_option);
    words.take_while(|word| !begins_expression(word)).collect()
}

/// The sources, and the target: the last operand or the value of `-t`.
fn with_target(arguments: &Arguments, sources: OperandAccess) -> Vec<Named> {
    if arguments.has(&["d", "directory"]) && arguments.values(&["t"]).next().is_none() {
        // `install -d` makes directories. `cp -d` copies links, which this covers too.
        let made = arguments.operands.iter().map(|word| Named::new(word.clone(), Write));
        return made.collect();
    }
    let given = arguments.values(&["t", "target-directory"]).next().cloned();
    let (target, files) = match (given, arguments.operands.split_last()) {
        (Some(target), _) => (target, arguments.operands.as_slice()),
        (None, Some((last, files))) => (last.clone(), files),
        (None, None) => return Vec::new(),
    };
    let mut named: Vec<_> = files.iter().map(|word| Named::new(word.clone(), sources)).collect();
    named.push(Named::new(target.clone(), Write));
    for file in files {
        let below = Some(file.clone());
        named.push(Named { below, ..Named::new(target.clone(), Write) });
    }
    named
}

/// `if=FILE` and `of=FILE` of dd.
fn setting(word: &Word) -> Option<Named> {
    let access = match word.unquoted.split_once('=')?.0 {
        "if" => Read,
        "of" => Write,
        _ => return None,
    };
    let file = word.without_prefix("if=".len()).unwrap_or_else(|| Word::unknown(&word.raw));
    Some(Named::new(file, access))
}
