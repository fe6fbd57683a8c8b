//! Writes commands of this program so that they work as printed: with the path by which it
//! was started, and with its state directory.

use std::path::Path;

/// How to call the program again.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    program: String,
    /// Where it is not the default.
    state_dir: Option<String>,
}

impl Invocation {
    /// As this process was started. `state_dir` is named unless it is the default.
    pub(crate) fn of_this_process(state_dir: Option<&Path>) -> Self {
        let program = std::env::args_os().next();
        let program = program.map(|program| program.to_string_lossy().into_owned());
        Self::new(program.as_deref().unwrap_or("toolhand"), state_dir)
    }

    pub(crate) fn new(program: &str, state_dir: Option<&Path>) -> Self {
        let state_dir = state_dir.map(|path| path.to_string_lossy().into_owned());
        Self { program: program.to_owned(), state_dir }
    }

    /// A shell command with these arguments.
    pub(crate) fn command<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> String {
        let state_dir = self.state_dir.as_deref();
        let state_dir = state_dir.map(|path| format!("TOOLHAND_STATE_DIR={} ", shell_word(path)));
        let words = arguments.into_iter().flat_map(|word| [" ".to_owned(), shell_word(word)]);
        let program = state_dir.unwrap_or_default() + &shell_word(&self.program);
        program + &words.collect::<String>()
    }
}

/// Quotes text as one word of a shell command.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    // Double quotes read better where nothing in the text has a meaning between them.
    if text.bytes().all(|byte| !b"\"$`\\!".contains(&byte)) {
        return format!("\"{text}\"");
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_program_as_it_was_started_and_another_state_directory() {
        let check = |program, state_dir: Option<&str>, expected: &str| {
            let invocation = Invocation::new(program, state_dir.map(Path::new));
            assert_eq!(invocation.command(["ask", "read README.md"]), expected);
        };
        check("toolhand", None, r#"toolhand ask "read README.md""#);
        check("target/debug/toolhand", None, r#"target/debug/toolhand ask "read README.md""#);
        check(
            "/my programs/toolhand",
            Some("/srv/it's"),
            r#"TOOLHAND_STATE_DIR="/srv/it's" "/my programs/toolhand" ask "read README.md""#,
        );
    }

    #[test]
    fn a_word_means_itself_to_a_shell() {
        for (text, expected) in [
            ("a/b.c", "a/b.c"),
            ("", "\"\""),
            ("it's", "\"it's\""),
            ("$HOME", "'$HOME'"),
            ("say \"it's\"", r#"'say "it'\''s"'"#),
            ("a!b", "'a!b'"),
            ("~", "\"~\""),
        ] {
            assert_eq!(shell_word(text), expected);
        }
    }
}
