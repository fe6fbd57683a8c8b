//! Reads `${…}`: whether the tree can be believed about it, and whether it evaluates more than
//! the value of a variable.

use std::ops::Range;

use super::Doubt;

/// `true` if the expansion takes text as arithmetic or as the name of a variable: text such as
/// `a[$(rm x)]` then runs a command. `nested` holds the outermost expansions in it.
pub(super) fn evaluates(
    line: &str,
    expansion: Range<usize>,
    nested: &[Range<usize>],
) -> Result<bool, Doubt> {
    let written = &line[expansion.clone()];
    let has_shape = written.starts_with("${") && written.ends_with('}') && written.len() > 3;
    if !has_shape {
        return Err(Doubt::Syntax);
    }
    let mut plain = String::new();
    let mut at = expansion.start + 2;
    for inner in nested {
        plain.push_str(line.get(at..inner.start).ok_or(Doubt::Syntax)?);
        // Not a character that an operator has.
        plain.push('§');
        at = inner.end;
    }
    plain.push_str(line.get(at..expansion.end - 1).ok_or(Doubt::Syntax)?);
    // In quotes and escapes the grammar may see another end than bash.
    if plain.contains(['\'', '"', '\\', '`', '{', '}', '\n', '<', '>']) {
        return Err(Doubt::Syntax);
    }
    Ok(evaluates_more(&plain))
}

fn evaluates_more(inner: &str) -> bool {
    if inner.starts_with('!') {
        return true;
    }
    let body = if inner.len() > 1 { inner.strip_prefix('#').unwrap_or(inner) } else { inner };
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = body.find(|c| !is_inner(c)).unwrap_or(body.len());
    // `${@}`, `${#}`, `${?…}` have one character as their name.
    let name = if name == 0 { body.chars().next().map_or(0, char::len_utf8) } else { name };
    let mut rest = &body[name..];
    if let Some(subscript) = rest.strip_prefix('[') {
        let Some((index, after)) = subscript.split_once(']') else { return true };
        let is_plain = matches!(index, "@" | "*") || index.bytes().all(|b| b.is_ascii_digit());
        if !is_plain {
            return true;
        }
        rest = after;
    }
    if rest.starts_with('@') {
        return true;
    }
    let Some(after_colon) = rest.strip_prefix(':') else { return false };
    let is_number = |c: char| c.is_ascii_digit() || c == ':' || c == ' ';
    !after_colon.starts_with(['-', '=', '+', '?']) && !after_colon.chars().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, expected: Result<bool, Doubt>) {
        assert_eq!(evaluates(written, 0..written.len(), &[]), expected, "{written}");
    }

    #[test]
    fn values_are_not_evaluated() {
        for written in [
            "${x}", "${x:-y}", "${#x}", "${x%.c}", "${x/a/b}", "${x^^}", "${x:1:2}", "${a[@]}",
            "${a[0]}", "${1}", "${@}", "${#}", "${x:=y}", "${x##*/}",
        ] {
            check(written, Ok(false));
        }
    }

    #[test]
    fn names_and_arithmetic_are() {
        for written in ["${!x}", "${x:y}", "${a[i]}", "${x@P}", "${x: -y}", "${x:1:n}"] {
            check(written, Ok(true));
        }
    }

    #[test]
    fn quotes_inside_are_not_believed() {
        for written in ["${x:-'}'}", "${x/\\}/a}", "${x:-\"a\"}", "${}"] {
            check(written, Err(Doubt::Syntax));
        }
    }
}
