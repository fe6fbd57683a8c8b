//! Knows the variables that no settings file may give to commands.

/// They make programs run other code, or are the server's to set.
const NAMES: [&str; 26] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "SHELL",
    "TERM",
    "PAGER",
    "ENV",
    "IFS",
    "PS4",
    "CDPATH",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "NODE_OPTIONS",
    "PERL5OPT",
    "PERL5LIB",
    "PERLLIB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "GCONV_PATH",
    "CLAUDE_PROJECT_DIR",
];

const BEGINNINGS: [&str; 8] =
    ["LD_", "DYLD_", "BASH_", "GIT_", "PYTHON", "TOOLHAND_", "LITELLM_", "GLIBC_"];

/// Parts of names that hold keys. No key is given to a command.
const KEYS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// Whether commands are never given a variable of this name by a settings file.
pub(crate) fn is_forbidden(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_name = upper.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    !is_name
        || NAMES.contains(&upper.as_str())
        || BEGINNINGS.iter().any(|beginning| upper.starts_with(beginning))
        || KEYS.iter().any(|part| upper.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_runs_code_or_holds_a_key_is_forbidden() {
        for name in [
            "PATH",
            "LD_PRELOAD",
            "ld_preload",
            "BASH_ENV",
            "BASH_FUNC_ls%%",
            "GIT_SSH_COMMAND",
            "NODE_OPTIONS",
            "PYTHONSTARTUP",
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "TOOLHAND_API_KEY",
            "A B",
        ] {
            assert!(is_forbidden(name), "{name}");
        }
        for name in ["CI", "RUST_LOG", "FOO", "PROJECT_NAME", "http_proxy"] {
            assert!(!is_forbidden(name), "{name}");
        }
    }
}
