//! Knows the variables that no settings file may give to commands, and no `.mcp.json` to its
//! servers.

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

/// Beginnings of variables by which an interpreter runs nothing but what its own command line
/// could name as well.
const OF_INTERPRETERS: [&str; 7] = [
    "PYTHON",
    "NODE_OPTIONS",
    "PERL",
    "RUBY",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
];

/// Whether commands are never given a variable of this name by a settings file.
pub(crate) fn is_forbidden(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    !is_name(&upper) || is_obeyed(&upper) || KEYS.iter().any(|part| upper.contains(part))
}

/// Whether a server whose command stands in the same file is never given a variable of this name.
/// A key is its own there.
pub(crate) fn is_forbidden_to_server(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_of_interpreter = OF_INTERPRETERS.iter().any(|beginning| upper.starts_with(beginning));
    !is_name(&upper) || (is_obeyed(&upper) && !is_of_interpreter)
}

fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a variable makes programs run other code, or is the server's to set.
fn is_obeyed(upper: &str) -> bool {
    NAMES.contains(&upper) || BEGINNINGS.iter().any(|beginning| upper.starts_with(beginning))
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
        for name in ["PATH", "LD_PRELOAD", "GIT_SSH_COMMAND", "TOOLHAND_API_KEY", "A B"] {
            assert!(is_forbidden_to_server(name), "{name}");
        }
        for name in ["GITHUB_TOKEN", "X_API_KEY", "PYTHONUNBUFFERED", "NODE_OPTIONS", "CI"] {
            assert!(!is_forbidden_to_server(name), "{name}");
        }
        for name in ["CI", "RUST_LOG", "FOO", "PROJECT_NAME", "http_proxy"] {
            assert!(!is_forbidden(name), "{name}");
        }
    }
}
