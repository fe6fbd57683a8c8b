//! Reads scripts of sed, as far as they are plain.
//!
//! What one sed takes for the end of a pattern is to another a character within brackets. So a
//! script counts only where both readings agree.

/// Which commands a script holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::permissions::commands) enum SedScript {
    /// `s` alone.
    Substitutes,
    /// Others as well that touch no file: `p`, `d`, `q`, `y` and their kin.
    TouchesNoFile,
    /// It may read or write further files, or run programs (`w`, `r`, `e`).
    Unknown,
}

impl SedScript {
    pub(in crate::permissions::commands) fn read(script: &str) -> Self {
        let is_gap = |c: char| " \t\n;".contains(c);
        let mut rest = script.trim_matches(is_gap);
        let mut found = Self::Substitutes;
        while !rest.is_empty() {
            let Some(command) = after_addresses(rest) else { return Self::Unknown };
            let Some((kind, after)) = after_command(command) else { return Self::Unknown };
            let after = after.trim_start_matches([' ', '\t']);
            if !after.is_empty() && !after.starts_with([';', '\n']) {
                return Self::Unknown;
            }
            found = found.max(kind);
            rest = after.trim_start_matches(is_gap);
        }
        found
    }
}

/// The text after `3,5`, `$`, `0~3`, `/pattern/I` and `!`.
fn after_addresses(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        let next = rest.trim_start_matches(|c: char| c.is_ascii_digit() || " \t$,~+!".contains(c));
        let Some(pattern) = next.strip_prefix('/') else { return Some(next) };
        rest = after_pattern(pattern, '/')?.trim_start_matches(['I', 'M']);
    }
}

fn after_command(text: &str) -> Option<(SedScript, &str)> {
    let mut chars = text.chars();
    let name = chars.next()?;
    match name {
        'p' | 'd' | 'q' | '=' | 'D' | 'P' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' => {
            Some((SedScript::TouchesNoFile, chars.as_str()))
        }
        's' | 'y' => {
            let delimiter = chars.next().filter(|c| is_delimiter(*c))?;
            let pattern = chars.as_str();
            if name == 'y' {
                let flags = after_text(after_text(pattern, delimiter)?, delimiter)?;
                return Some((SedScript::TouchesNoFile, flags));
            }
            let flags = after_text(after_pattern(pattern, delimiter)?, delimiter)?;
            let is_flag = |c: char| c.is_ascii_digit() || "gpiIM".contains(c);
            Some((SedScript::Substitutes, flags.trim_start_matches(is_flag)))
        }
        _ => None,
    }
}

/// Letters and brackets as delimiters are made to confuse a reader.
fn is_delimiter(c: char) -> bool {
    c.is_ascii_punctuation() && !"\\[];{}".contains(c)
}

/// The text after a pattern, where it ends for who looks at brackets and for who does not.
fn after_pattern(text: &str, delimiter: char) -> Option<&str> {
    let after = after_text(text, delimiter)?;
    let with_brackets = after_bracketed(text, delimiter)?;
    (after.len() == with_brackets.len()).then_some(after)
}

/// The text after the first delimiter that no backslash escapes.
fn after_text(text: &str, delimiter: char) -> Option<&str> {
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '\n' => return None,
            '\\' => _ = chars.next()?,
            c if c == delimiter => return Some(chars.as_str()),
            _ => {}
        }
    }
}

/// The text after the first delimiter that is neither escaped nor within brackets.
fn after_bracketed(text: &str, delimiter: char) -> Option<&str> {
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '\n' => return None,
            '\\' => _ = chars.next()?,
            '[' => chars = after_bracket(chars.as_str())?.chars(),
            c if c == delimiter => return Some(chars.as_str()),
            _ => {}
        }
    }
}

/// The text after a bracket expression of POSIX: `]` is a member in the first place, and within
/// `[:…:]`, `[.….]` and `[=…=]`.
fn after_bracket(text: &str) -> Option<&str> {
    let members = text.strip_prefix('^').unwrap_or(text);
    let mut rest = members.strip_prefix(']').unwrap_or(members);
    loop {
        let mut chars = rest.chars();
        let c = chars.next()?;
        let after = chars.as_str();
        rest = match (c, chars.next()) {
            (']', _) => return Some(after),
            ('\n', _) => return None,
            ('[', Some(kind @ (':' | '.' | '='))) => {
                let end: String = [kind, ']'].iter().collect();
                chars.as_str().split_once(end.as_str())?.1
            }
            _ => after,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: SedScript, scripts: &[&str]) {
        for script in scripts {
            assert_eq!(SedScript::read(script), expected, "{script}");
        }
    }

    #[test]
    fn substitutions_are_plain() {
        let scripts = [
            "s/a/b/",
            "s|a|b|g",
            "s/a/b/g; s/c/d/2",
            "2,5s/a/b/",
            "$s/a/b/I",
            "/x/s/a/b/",
            "/x/I,/y/!s/a/b/",
            "s/w/e/2g",
            "s/[a-z]*/x/",
            "s/[]a]/x/",
            "s/[^]]/x/",
            "s/[[:alpha:]]/x/",
            "s/[[:alpha:]]]/x/",
            "s/[^\\/]*\\//x/",
            "s/a\\/b/c/",
            "s/a/[/",
            "s/[[.].]]/x/",
            "",
        ];
        check(SedScript::Substitutes, &scripts);
    }

    #[test]
    fn others_touch_no_file() {
        let scripts =
            ["p", "1,5p", "$d", "s|a|b|g;p", "/x/d", "/a/,/b/p", "y/ab/cd/", "1!G;h;$!d", "y/[/]/"];
        check(SedScript::TouchesNoFile, &scripts);
    }

    #[test]
    fn others_may_touch_files() {
        let scripts = [
            "1,1wVICTIM",
            "s/.*/touch VICTIM/e",
            "s/a/b/w f",
            "w f",
            "r f",
            "e",
            "1e ls",
            "p;w f",
            "W f",
            "p}w f",
            "s/a/b",
            "s\\a\\b\\",
            "{p}",
            "s/a/b/ge",
            "a\\\nw",
            "p\nw f",
            "F w",
            // Where brackets do not hide the delimiter, a file is written.
            "s/[/]/w f/;w g",
            "s/[/]/w f/",
            "s/[]/]/w f/",
            "s/[^]/]/w f/",
            "s/[[:alpha:]/]/w f/",
            "s/[a/b/;s/]/c/w f",
            "/[/]/w f/p",
            "s/[[.]/]/.]]/w f/",
            "s[a[b[w f",
            "saxbxw f",
            "s]a]b]",
            "s;a;b;w f",
            "\\xaxw f",
            "#n\nw f",
        ];
        check(SedScript::Unknown, &scripts);
    }
}
