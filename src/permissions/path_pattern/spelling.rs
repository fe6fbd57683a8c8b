//! Refuses spellings that would never match what their author means: a deny rule must not fail
//! open because of a slip.

use super::PatternError;

/// Whether the character may stand behind a backslash: everything but letters and digits, which
/// need none.
fn may_be_escaped(c: char) -> bool {
    !c.is_alphanumeric()
}

/// Checks how a pattern begins, before its anchor is read.
pub(super) fn check_beginning(pattern: &str) -> Result<(), PatternError> {
    if pattern.starts_with(char::is_whitespace) {
        return Err(PatternError::Blank);
    }
    if pattern.starts_with('$') {
        return Err(PatternError::Variable);
    }
    let mut letters = pattern.chars();
    let is_drive = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.next() == Some(':')
        && letters.next().is_some_and(|c| matches!(c, '/' | '\\'));
    if is_drive || pattern.contains("://") {
        return Err(PatternError::Foreign);
    }
    Ok(())
}

/// Checks the pattern behind its anchor.
pub(super) fn check(written: &str) -> Result<(), PatternError> {
    check_names(written)?;
    let mut letters = written.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped) if may_be_escaped(escaped) => {}
                _ => return Err(PatternError::Backslash),
            },
            '[' => {
                let rest = letters.as_str();
                let length = class_length(rest)?;
                letters = rest[length..].chars();
            }
            '{' if letters.as_str().starts_with('}') => return Err(PatternError::NoAlternative),
            _ => {}
        }
    }
    Ok(())
}

/// Refuses an empty name and `.`: no path has one in it when it is judged.
fn check_names(written: &str) -> Result<(), PatternError> {
    let written = written.trim_start_matches('/');
    let names = written.strip_suffix('/').unwrap_or(written);
    let is_odd = |name: &str| name.is_empty() || name == ".";
    if names.split('/').any(is_odd) { Err(PatternError::Name) } else { Ok(()) }
}

/// The bytes up to and with the bracket that closes a class. A bracket right behind the opening
/// one, or behind its `!`, is a member.
fn class_length(rest: &str) -> Result<usize, PatternError> {
    let members = rest.strip_prefix(['!', '^']).unwrap_or(rest);
    let first = members.chars().next().ok_or(PatternError::UnclosedClass)?;
    let others = &members[first.len_utf8()..];
    let end = others.find(']').ok_or(PatternError::UnclosedClass)?;
    let length = rest.len() - others.len() + end + 1;
    let class = &rest[..length];
    if class.contains(['/', '\\']) || class.contains("[:") {
        return Err(PatternError::Class);
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_all(patterns: &[&str], expected: &Result<(), PatternError>) {
        for pattern in patterns {
            let found = check_beginning(pattern).and_then(|()| check(pattern));
            assert_eq!(found, *expected, "{pattern}");
        }
    }

    #[test]
    fn what_is_closed_and_plain_passes() {
        check_all(
            &[
                "src/[a-z]*.rs",
                "[]a]",
                "[!]a]b",
                "[^a-]",
                r"a\[b",
                r"a\\b",
                r"a\ ",
                r"\!x",
                "{a,b}/**",
                "a/b/",
                "**/*.pem",
                "a:b",
                "a$b",
                "src/**.rs",
                "…/é",
            ],
            &Ok(()),
        );
    }

    #[test]
    fn what_is_never_closed_is_an_error() {
        check_all(
            &["src/[a", "[", "[]", "[!]", "a[^", "[a/b", "x/[[a"],
            &Err(PatternError::UnclosedClass),
        );
        check_all(&["src/{}", "{}"], &Err(PatternError::NoAlternative));
        check_all(&["[a/b]", "[[:alpha:]]", r"[\w]", r"[\]]"], &Err(PatternError::Class));
    }

    #[test]
    fn what_no_path_on_this_system_can_be_is_an_error() {
        check_all(&[r"a\", r"src\main.rs", r"a\1", r"\"], &Err(PatternError::Backslash));
        check_all(
            &[r"C:\Users", "c:/x", "file:///etc/x", "https://a/b"],
            &Err(PatternError::Foreign),
        );
        check_all(&["a//b", "a/./b", ".", "a/.", "a//"], &Err(PatternError::Name));
        check_all(&["$HOME/x", "${HOME}/x"], &Err(PatternError::Variable));
        check_all(&[" a", "\ta"], &Err(PatternError::Blank));
    }
}
