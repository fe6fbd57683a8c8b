//! Matches names with patterns, in which `*` stands for any text.

/// Whether the pattern, in which each `*` stands for any text, covers the name.
pub(super) fn matches_name(pattern: &str, name: &str) -> bool {
    // Of a command with any arguments, or of all in a folder.
    if pattern.strip_suffix(":*").is_some_and(|whole| matches_name(whole, name)) {
        return true;
    }
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = name.split_once(part) else { return false };
        name = after;
    }
    name.ends_with(last)
}
