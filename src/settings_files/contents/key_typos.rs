//! Finds keys that were meant as rules or hooks and have a typo: other unknown keys are other
//! programs' business, but a deny rule under a name that nobody reads must not pass in silence.

use serde_json::{Map, Value};
use strsim::damerau_levenshtein;

/// The keys whose loss would switch something off, at the top of the file.
const AT_TOP: [&str; 4] = ["permissions", "hooks", "allowed_tools", "disabled_tools"];

/// The keys in `permissions` whose loss would switch something off.
const IN_PERMISSIONS: [&str; 6] =
    ["allow", "ask", "deny", "allowed_tools", "disabled_tools", "additionalDirectories"];

/// Other words for denying, which are no typos.
const WORDS_FOR_DENY: [&str; 9] = [
    "blacklist",
    "block",
    "blocked",
    "denied",
    "denylist",
    "disallow",
    "disallowed",
    "forbid",
    "forbidden",
];

/// The longest distance at which one word is taken for another.
const MAX_DISTANCE: usize = 2;

/// Where a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Top,
    Permissions,
}

/// A key with a typo, and what to tell its author.
#[derive(Debug)]
pub(super) struct KeyTypo {
    pub(super) key: String,
    pub(super) reason: String,
}

/// Refuses members that nobody reads and whose names are nearly those of rules or hooks.
pub(super) fn check(unread: &Map<String, Value>, level: Level) -> Result<(), KeyTypo> {
    for key in unread.keys() {
        if let Some(reason) = typo(key, level) {
            return Err(KeyTypo { key: key.clone(), reason });
        }
    }
    Ok(())
}

fn typo(key: &str, level: Level) -> Option<String> {
    let plain = plain(key);
    if level == Level::Top && ["allow", "ask", "deny"].contains(&plain.as_str()) {
        return Some(format!("move {key:?} into \"permissions\""));
    }
    let (place, known): (&str, &[&str]) = match level {
        Level::Top => ("", &AT_TOP),
        Level::Permissions => (" in permissions", &IN_PERMISSIONS),
    };
    let is_word_for_deny = level == Level::Permissions && WORDS_FOR_DENY.contains(&plain.as_str());
    let meant = if is_word_for_deny {
        Some("deny")
    } else {
        known.iter().copied().find(|it| is_near(&plain, it, level))
    };
    meant.map(|meant| format!("unknown key {key:?}{place}; did you mean {meant:?}?"))
}

/// Short words differ by little, so less is let through for them: `tools` is no `hooks`.
fn is_near(plain_key: &str, known: &str, level: Level) -> bool {
    let known = plain(known);
    let most = match (known.len(), level) {
        (..=3, _) | (..=5, Level::Top) => 1,
        _ => MAX_DISTANCE,
    };
    damerau_levenshtein(plain_key, &known) <= most
}

/// The key without what differs between the ways to join words.
fn plain(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_told_with_the_word_that_is_meant() {
        for (level, key, meant) in [
            (Level::Top, "permission", "did you mean \"permissions\"?"),
            (Level::Top, "Permissions", "did you mean \"permissions\"?"),
            (Level::Top, "permisions", "did you mean \"permissions\"?"),
            (Level::Top, "hook", "did you mean \"hooks\"?"),
            (Level::Top, "disabled-tools", "did you mean \"disabled_tools\"?"),
            (Level::Top, "Deny", "into \"permissions\""),
            (Level::Top, "ask", "into \"permissions\""),
            (Level::Permissions, "Deny", "did you mean \"deny\"?"),
            (Level::Permissions, "denny", "did you mean \"deny\"?"),
            (Level::Permissions, "denyed", "did you mean \"deny\"?"),
            (Level::Permissions, "deny_", "did you mean \"deny\"?"),
            (Level::Permissions, "denied", "did you mean \"deny\"?"),
            (Level::Permissions, "disallowed", "did you mean \"deny\"?"),
            (Level::Permissions, "asks", "did you mean \"ask\"?"),
            (Level::Permissions, "disableTools", "did you mean \"disabled_tools\"?"),
        ] {
            let found = typo(key, level).unwrap_or_default();
            assert!(found.ends_with(meant), "{key}: {found}");
        }
    }

    #[test]
    fn the_keys_of_other_programs_are_no_typos() {
        for key in [
            "$schema",
            "model",
            "env",
            "sandbox",
            "theme",
            "apiKeyHelper",
            "statusLine",
            "outputStyle",
            "enabledPlugins",
            "disableAllHooks",
            "allowManagedHooksOnly",
            "includeCoAuthoredBy",
            "cleanupPeriodDays",
            "mcpServers",
            "attribution",
            "tips",
            "tools",
        ] {
            assert_eq!(typo(key, Level::Top), None, "{key}");
        }
        for key in ["defaultMode", "disableBypassPermissionsMode", "disableAutoMode", "$comment"] {
            assert_eq!(typo(key, Level::Permissions), None, "{key}");
        }
    }
}
