//! Knows which files a script of sed or awk may touch beside the operands.

use super::super::word::{Piece, Word};
use super::Named;
use super::OperandAccess::{Read, Write};
use super::arguments::Arguments;
use super::sed_script::SedScript;

/// What the scripts name, or could name. `named` are the files of the operands.
pub(super) fn files_of(name: &str, arguments: &Arguments, named: &[Named]) -> Vec<Named> {
    match name {
        "sed" => sed(arguments, named),
        "awk" | "gawk" | "mawk" | "nawk" => awk(arguments),
        _ => Vec::new(),
    }
}

fn sed(arguments: &Arguments, named: &[Named]) -> Vec<Named> {
    let mut files = Vec::new();
    if arguments.has(&["i", "in-place"]) {
        let edited = named.iter().map(|file| Named::new(file.word.clone(), Write));
        files.extend(edited);
        for suffix in suffixes(arguments) {
            files.extend(named.iter().map(|file| Named::new(backup(&file.word, suffix), Write)));
        }
    }
    let scripts = scripts(arguments, &["e", "expression"]);
    let reads_file = arguments.values(&["f", "file"]).next().is_some();
    let is_plain = |script: &str| SedScript::read(script) != SedScript::Unknown;
    if reads_file || !scripts.iter().all(|script| script.literal().is_some_and(is_plain)) {
        files.push(Named::new(Word::unknown("(files of the sed script)"), Write));
    }
    files
}

/// The endings of the copies that `sed -i` keeps.
fn suffixes(arguments: &Arguments) -> impl Iterator<Item = &Word> {
    let in_place = arguments.options.iter().filter(|option| {
        let is_long = option.name.len() > 1 && "in-place".starts_with(&option.name);
        is_long || option.name == "i"
    });
    in_place.filter_map(|option| option.value.as_ref()).filter(|word| !word.unquoted.is_empty())
}

/// The copy of a file. With a `*` or a `/` the suffix names it in other ways.
fn backup(file: &Word, suffix: &Word) -> Word {
    match (file.literal(), suffix.literal()) {
        (Some(file), Some(suffix)) if !suffix.contains(['*', '/']) => {
            let name = format!("{file}{suffix}");
            Word::new(&name, vec![Piece::Text(name.clone())], false)
        }
        _ => Word::unknown(&format!("{}{}", file.unquoted, suffix.unquoted)),
    }
}

fn awk(arguments: &Arguments) -> Vec<Named> {
    // awk writes with `>` and `|`, reads with `getline`, and runs with `system`.
    let is_plain = |text: &str| {
        !text.contains(['>', '|', '@']) && !text.contains("getline") && !text.contains("system")
    };
    let reads_file = arguments.values(&["f", "file", "exec", "include"]).next().is_some();
    let scripts = scripts(arguments, &["source"]);
    if !reads_file && scripts.iter().all(|script| script.literal().is_some_and(is_plain)) {
        return Vec::new();
    }
    let unknown = || Word::unknown("(files of the awk script)");
    vec![Named::new(unknown(), Read), Named::new(unknown(), Write)]
}

/// The scripts that options give, else the first operand.
fn scripts(arguments: &Arguments, options: &[&str]) -> Vec<Word> {
    let given: Vec<_> = arguments.values(options).cloned().collect();
    let is_given = !given.is_empty() || arguments.has(&["f", "file"]);
    if is_given { given } else { arguments.operands.first().cloned().into_iter().collect() }
}
