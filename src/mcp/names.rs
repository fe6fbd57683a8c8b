//! Gives each tool of a server the name under which it is advertised: `mcp__{server}__{tool}`.

use std::collections::HashMap;

/// What providers take.
const MAX_NAME: usize = 64;

/// The longest name that a server may give to a tool.
const MAX_OWN_NAME: usize = 128;

/// The longest name of a server, so that a tool's name has room.
const MAX_SERVER_NAME: usize = 32;

/// Hex digits of the hash that stands for what was cut off.
const HASH_DIGITS: usize = 8;

/// What [`is_server_name`] wants, in words.
pub(super) const SERVER_NAME_RULE: &str =
    "a server's name is letters and digits, joined by single `_` or `-`, at most 32";

/// Whether a server may have this name: letters and digits, joined by single `_` or `-`. The first
/// `__` in a tool's name then ends the server's.
pub(crate) fn is_server_name(name: &str) -> bool {
    let parts = || name.split(['_', '-']);
    name.len() <= MAX_SERVER_NAME
        && parts().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// The advertised name of each tool of a server, or why the tool is dropped. Of names that become
/// the same, the one that needed no change stays, else the first.
pub(super) fn advertised(server: &str, own: &[&str]) -> Vec<Result<String, String>> {
    let mut names: Vec<Result<(String, bool), String>> =
        own.iter().map(|name| of_one(server, name)).collect();
    let mut taken: HashMap<String, usize> = HashMap::new();
    for index in 0..names.len() {
        let Ok((name, is_changed)) = names[index].clone() else { continue };
        let Some(&first) = taken.get(&name) else {
            taken.insert(name, index);
            continue;
        };
        let is_first_changed = names[first].as_ref().is_ok_and(|(_, is_changed)| *is_changed);
        let (stays, goes) =
            if is_first_changed && !is_changed { (index, first) } else { (first, index) };
        taken.insert(name, stays);
        names[goes] = Err(format!("its name becomes the same as that of `{}`", own[stays]));
    }
    names.into_iter().map(|name| name.map(|(name, _)| name)).collect()
}

/// Whether both of a server's own names would be advertised under the same one.
pub(super) fn become_the_same(one: &str, other: &str) -> bool {
    one.len() == other.len()
        && one.chars().map(advertised_char).eq(other.chars().map(advertised_char))
}

fn advertised_char(own: char) -> char {
    if own.is_ascii_alphanumeric() || "_-".contains(own) { own } else { '_' }
}

/// The name of one tool, and whether it had to be changed.
fn of_one(server: &str, own: &str) -> Result<(String, bool), String> {
    if own.is_empty() || MAX_OWN_NAME < own.len() {
        return Err(format!("its name is empty or has more than {MAX_OWN_NAME} bytes"));
    }
    if !own.chars().all(|c| c.is_ascii_alphanumeric() || "_-./: ".contains(c)) {
        return Err("its name has other characters than letters, digits and `_ - . / :`".into());
    }
    let plain: String = own.chars().map(advertised_char).collect();
    let mut name = format!("mcp__{server}__{plain}");
    if MAX_NAME < name.len() {
        let hash = blake3::hash(own.as_bytes()).to_hex();
        name.truncate(MAX_NAME - HASH_DIGITS - 1);
        name = format!("{name}_{}", &hash[..HASH_DIGITS]);
    }
    let is_changed = name.strip_prefix(&format!("mcp__{server}__")) != Some(own);
    Ok((name, is_changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(own: &[&str]) -> Vec<Option<String>> {
        advertised("git", own).into_iter().map(Result::ok).collect()
    }

    #[test]
    fn a_servers_name_has_no_double_underscore() {
        for name in ["git", "a", "my-server_2", "A1"] {
            assert!(is_server_name(name), "{name}");
        }
        for name in ["", "_a", "a_", "a__b", "a-_b", "ä", "a b", "a.b", &"x".repeat(33)] {
            assert!(!is_server_name(name), "{name}");
        }
    }

    #[test]
    fn m1_no_name_leaves_the_servers_own_namespace() {
        let found = names(&["Bash", "mcp__other__x", "a.b/c:d e"]);
        let expected = ["mcp__git__Bash", "mcp__git__mcp__other__x", "mcp__git__a_b_c_d_e"];
        assert_eq!(found, expected.map(|name| Some(name.to_owned())));
    }

    #[test]
    fn m1_of_names_that_collide_the_one_that_needed_no_change_stays() {
        assert_eq!(names(&["a.b", "a_b", "a/b"]), [None, Some("mcp__git__a_b".into()), None]);
        assert_eq!(names(&["a.b", "a/b"]), [Some("mcp__git__a_b".into()), None]);
        assert_eq!(names(&["same", "same"]), [Some("mcp__git__same".into()), None]);
    }

    #[test]
    fn m2_a_name_that_no_provider_takes_is_dropped_or_cut() {
        let long = "x".repeat(129);
        assert_eq!(names(&["", "a\nb", "naïve", "a\u{200b}b", &long]), vec![None; 5]);
        let cut = |last: char| format!("{}{last}", "x".repeat(100));
        let found = names(&[&cut('1'), &cut('2')]);
        let found: Vec<_> = found.into_iter().flatten().collect();
        assert!(found.iter().all(|name| name.len() == 64), "{found:?}");
        assert_ne!(found[0], found[1]);
    }
}
