//! Lists the programs and flags that only read.

/// A program, and the options that change nothing but its output.
pub(super) struct Reader {
    pub(super) name: &'static str,
    /// Letters without a value.
    pub(super) flags: &'static str,
    /// Letters with a value.
    pub(super) valued: &'static str,
    /// Long options as they must be written. One that ends in `=` takes a value in the same word.
    pub(super) long: &'static [&'static str],
    pub(super) operands: ReaderOperands,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReaderOperands {
    Any,
    /// `-5` counts as an option too.
    AnyWithCount,
    AtMostOne,
    /// Every word is an operand: the program knows no options.
    Text,
}

use ReaderOperands::{Any, AnyWithCount, AtMostOne, Text};

const fn reader(
    name: &'static str,
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    operands: ReaderOperands,
) -> Reader {
    Reader { name, flags, valued, long, operands }
}

pub(super) const READERS: [Reader; 18] = [
    reader(
        "ls",
        "aAbBcCdfFgGhHiIklLmnNopqQrRsStuUvxX1Z",
        "",
        &[
            "--all",
            "--almost-all",
            "--author",
            "--classify",
            "--color",
            "--color=",
            "--directory",
            "--full-time",
            "--group-directories-first",
            "--human-readable",
            "--inode",
            "--recursive",
            "--reverse",
            "--si",
            "--size",
            "--sort=",
            "--time=",
            "--time-style=",
        ],
        Any,
    ),
    reader(
        "cat",
        "AbeEnstTuv",
        "",
        &[
            "--number",
            "--number-nonblank",
            "--show-all",
            "--show-ends",
            "--show-nonprinting",
            "--show-tabs",
            "--squeeze-blank",
        ],
        Any,
    ),
    reader(
        "head",
        "qvz",
        "cn",
        &["--bytes=", "--lines=", "--quiet", "--silent", "--verbose"],
        AnyWithCount,
    ),
    reader(
        "tail",
        "qvz",
        "cn",
        &["--bytes=", "--lines=", "--quiet", "--silent", "--verbose"],
        AnyWithCount,
    ),
    reader(
        "wc",
        "cmlLw",
        "",
        &["--bytes", "--chars", "--lines", "--max-line-length", "--words"],
        Any,
    ),
    reader("pwd", "LP", "", &[], AtMostOne),
    reader("echo", "", "", &[], Text),
    reader("true", "", "", &[], Text),
    reader("false", "", "", &[], Text),
    reader(
        "grep",
        "abcEFGhHiIlLnoPqrRsTvwxyzZ",
        "ABCem",
        &[
            "--after-context=",
            "--before-context=",
            "--color",
            "--color=",
            "--context=",
            "--count",
            "--dereference-recursive",
            "--exclude-dir=",
            "--exclude=",
            "--extended-regexp",
            "--files-with-matches",
            "--files-without-match",
            "--fixed-strings",
            "--ignore-case",
            "--include=",
            "--invert-match",
            "--line-number",
            "--line-regexp",
            "--max-count=",
            "--no-filename",
            "--no-messages",
            "--null",
            "--only-matching",
            "--perl-regexp",
            "--quiet",
            "--recursive",
            "--regexp=",
            "--text",
            "--with-filename",
            "--word-regexp",
        ],
        AnyWithCount,
    ),
    reader(
        "cut",
        "nsz",
        "bcdf",
        &[
            "--bytes=",
            "--characters=",
            "--complement",
            "--delimiter=",
            "--fields=",
            "--only-delimited",
            "--output-delimiter=",
        ],
        Any,
    ),
    reader(
        "tr",
        "cCdst",
        "",
        &["--complement", "--delete", "--squeeze-repeats", "--truncate-set1"],
        Any,
    ),
    reader("nl", "p", "bdfhilnsvw", &[], Any),
    reader(
        "stat",
        "fLt",
        "c",
        &["--dereference", "--file-system", "--format=", "--printf=", "--terse"],
        Any,
    ),
    reader("basename", "az", "s", &["--multiple", "--suffix=", "--zero"], Any),
    reader("dirname", "z", "", &["--zero"], Any),
    reader(
        "realpath",
        "eLmPqsz",
        "",
        &[
            "--canonicalize-existing",
            "--canonicalize-missing",
            "--logical",
            "--no-symlinks",
            "--physical",
            "--quiet",
            "--relative-base=",
            "--relative-to=",
            "--strip",
            "--zero",
        ],
        Any,
    ),
    // Options of cd change what later paths mean.
    reader("cd", "", "", &[], AtMostOne),
];

/// Programs that change the files that they name, and nothing else. `sed` is another one.
pub(super) const EDITORS: [Reader; 6] = [
    reader("mkdir", "pv", "", &["--parents", "--verbose"], Any),
    reader("touch", "acm", "", &["--no-create"], Any),
    reader("rm", "dfrRv", "", &["--force", "--recursive", "--verbose"], Any),
    reader("rmdir", "pv", "", &["--parents", "--verbose"], Any),
    reader("mv", "fnuvT", "", &["--force", "--no-clobber", "--verbose"], Any),
    reader(
        "cp",
        "afnprRuvT",
        "",
        &["--archive", "--force", "--no-clobber", "--recursive", "--verbose"],
        Any,
    ),
];
