//! Tells whether a pattern of the shell can mean a name.

/// Whether the pattern can mean the name. Stars take any text, one after the other.
pub(in crate::permissions) fn may_mean(pattern: &str, name: &str) -> bool {
    let pattern = without_classes(pattern);
    let (mut pattern_at, mut name_at) = (0, 0);
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let mut star: Option<(usize, usize)> = None;
    while name_at < name.len() {
        match pattern.get(pattern_at) {
            Some('*') => {
                star = Some((pattern_at, name_at));
                pattern_at += 1;
            }
            Some(c) if *c == '?' || *c == name[name_at] => {
                pattern_at += 1;
                name_at += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    pattern_at = at + 1;
                    name_at = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[pattern_at..].iter().all(|c| *c == '*')
}

/// A class of characters, `[a-z]`, may be any text here.
fn without_classes(pattern: &str) -> String {
    let mut widened = String::new();
    let mut rest = pattern;
    while let Some((before, class)) = rest.split_once('[') {
        widened.push_str(before);
        widened.push('*');
        rest = class.split_once(']').map_or("", |(_, after)| after);
    }
    widened.push_str(rest);
    widened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_the_names_that_the_shell_would_find() {
        for (pattern, name) in [
            ("*", "a"),
            ("a*", "a"),
            ("a*c", "abc"),
            ("?", "a"),
            ("[ab]c", "ac"),
            ("*a*b", "xaxab"),
            ("e*", "environ"),
            ("**", "x"),
            ("[", "x"),
        ] {
            assert!(may_mean(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a*c", "ab"), ("?", "ab"), ("", "a"), ("ab", "a"), ("*b", "ba")] {
            assert!(!may_mean(pattern, name), "{pattern} {name}");
        }
    }
}
