//! Knows which files a script of sed or awk may touch beside the operands.

use super::super::word::Word;
use super::Named;
use super::OperandAccess::{Read, Write};
use super::arguments::Arguments;

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
    }
    let scripts = scripts(arguments, &["e", "expression"]);
    let reads_file = arguments.values(&["f", "file"]).next().is_some();
    if reads_file || !scripts.iter().all(|script| script.literal().is_some_and(is_plain_sed)) {
        files.push(Named::new(Word::unknown("(files of the sed script)"), Write));
    }
    files
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

/// Whether every command of the script is `p`, `d`, `q`, `=` or a plain `s` or `y`: those touch no
/// file. Others may (`w`, `r`, `e`).
pub(super) fn is_plain_sed(script: &str) -> bool {
    let mut rest = script.trim_matches(|c: char| " \t\n;".contains(c));
    while !rest.is_empty() {
        let Some(after) = after_command(after_address(rest)) else { return false };
        let trimmed = after.trim_start_matches([' ', '\t']);
        if !trimmed.is_empty() && !trimmed.starts_with([';', '\n']) {
            return false;
        }
        rest = trimmed.trim_start_matches([' ', '\t', ';', '\n']);
    }
    true
}

/// The text after `3,5`, `$` or `/pattern/`.
fn after_address(text: &str) -> &str {
    let mut rest = text;
    loop {
        let next = rest.trim_start_matches(|c: char| c.is_ascii_digit() || " $,~+!".contains(c));
        let Some(pattern) = next.strip_prefix('/') else { return next };
        match after_delimiter(pattern, '/') {
            Some(after) => rest = after,
            None => return next,
        }
    }
}

fn after_command(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    match chars.next()? {
        'p' | 'd' | 'q' | '=' | 'D' | 'P' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' => {
            Some(chars.as_str())
        }
        kind @ ('s' | 'y') => {
            let delimiter =
                chars.next().filter(|c| !c.is_alphanumeric() && !"\\\n".contains(*c))?;
            let pattern = after_delimiter(chars.as_str(), delimiter)?;
            let flags = after_delimiter(pattern, delimiter)?;
            let known = |c: char| kind == 's' && (c.is_ascii_digit() || "gpiI".contains(c));
            Some(flags.trim_start_matches(known))
        }
        _ => None,
    }
}

fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            // Not every sed ends the pattern at a delimiter within a class.
            '[' => {
                let (class, after) = chars.as_str().split_once(']')?;
                if class.contains([delimiter, '\\', '\n']) {
                    return None;
                }
                chars = after.chars();
            }
            '\n' => return None,
            '\\' => {
                chars.next()?;
            }
            c if c == delimiter => return Some(chars.as_str()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scripts_touch_no_file() {
        for script in [
            "p",
            "1,5p",
            "$d",
            "s/a/b/",
            "s|a|b|g;p",
            "/x/d",
            "/a/,/b/p",
            "y/ab/cd/",
            "s/w/e/2g",
            "1!G;h;$!d",
            "s/[a-z]*/x/",
        ] {
            assert!(is_plain_sed(script), "{script}");
        }
    }

    #[test]
    fn others_may() {
        for script in [
            "1,1wVICTIM",
            "s/.*/touch VICTIM/e",
            "s/a/b/w f",
            "w f",
            "r f",
            "e",
            "1e ls",
            "p;w f",
            "s/[/]/w f/;w g",
            "W f",
            "p}w f",
            "s/a/b",
            "s\\a\\b\\",
            "{p}",
            "s/a/b/ge",
            "a\\\nw",
            "p\nw f",
            "F w",
        ] {
            assert!(!is_plain_sed(script), "{script}");
        }
    }
}
