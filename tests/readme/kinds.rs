//! Says what a block of a document is, and so what is done with it.

use super::blocks::Block;
use super::exceptions::{self, Check};

/// What is done with a block.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Commands, of which the last one runs on: a server.
    Service,
    /// A web server that runs beside it, in a terminal of its own.
    Beside,
    Shell,
    Python,
    Node,
    /// The body of a chat completion, which is sent.
    Request,
    /// A configuration file, which is loaded.
    Settings,
    /// A part of LiteLLM's configuration, which ours has too.
    Litellm,
    /// What the block before it prints.
    Output,
    /// Not run: the table of exceptions says why.
    Exception(Check),
}

/// The programs that serve until they are stopped.
const SERVICES: [&str; 4] = ["make up", "toolhand up", "toolhand serve", "toolhand demo-model"];

const WEB_SERVER: &str = "python3 -m http.server";

impl Kind {
    pub(super) fn from_block(block: &Block, before: Option<&Self>) -> Result<Self, String> {
        if let Some(check) = exceptions::check_of(block) {
            return Ok(Self::Exception(check));
        }
        Ok(match block.language.as_str() {
            "sh" if is_service(last_command(&block.text).1) => Self::Service,
            "sh" if block.text.starts_with(WEB_SERVER) => Self::Beside,
            "sh" => Self::Shell,
            "python" => Self::Python,
            "js" => Self::Node,
            "json" => Self::Request,
            "toml" => Self::Settings,
            "yaml" => Self::Litellm,
            "text" if before.is_some_and(Self::prints) => Self::Output,
            "text" => return Err(format!("{}: the block before it prints nothing", block.place())),
            other => return Err(format!("{}: nothing runs a block of {other:?}", block.place())),
        })
    }

    /// Whether somebody must run it, so that the document counts as tested.
    pub(super) fn is_run(&self) -> bool {
        !matches!(self, Self::Exception(_))
    }

    fn prints(&self) -> bool {
        matches!(self, Self::Service | Self::Shell | Self::Python | Self::Node | Self::Request)
    }
}

/// Splits commands into the last one, with its continued lines, and those before it.
pub(super) fn last_command(text: &str) -> (&str, &str) {
    let text = text.trim_end();
    let mut from = text.rfind('\n').map_or(0, |end| end + 1);
    while from > 0 && text[..from].trim_end().ends_with('\\') {
        from = text[..from - 1].rfind('\n').map_or(0, |end| end + 1);
    }
    text.split_at(from)
}

/// Whether a command, behind the variables that are set for it, is a server.
fn is_service(command: &str) -> bool {
    let words = command.split_whitespace();
    let words: Vec<&str> = words.skip_while(|word| word.contains('=')).collect();
    SERVICES.iter().any(|service| words.join(" ").starts_with(service))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_be_the_last_command() {
        let text = "cd x\nKEY=1 make up \\\n  ARGS=a\n";
        assert_eq!(last_command(text), ("cd x\n", "KEY=1 make up \\\n  ARGS=a"));
        assert!(is_service(last_command(text).1));
        assert!(is_service("A=b toolhand serve"));
        assert!(!is_service("toolhand ask \"make up\""));
    }
}
