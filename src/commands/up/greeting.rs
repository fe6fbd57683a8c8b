//! Prints, once `up` is ready, its base URL, its key and commands to try.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::json;

use crate::app::running_server;
use crate::commands::invocation::{Invocation, shell_word};
use crate::commands::style::Style;
use crate::text::shown_line;

/// The client key of the chain.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access<'a> {
    /// In this file.
    File(&'a Path),
    /// In the environment.
    Variable,
    /// None is needed.
    Open,
}

impl<'a> Access<'a> {
    pub(super) fn from_key_path(key_path: Option<&'a Path>, is_open: bool) -> Self {
        match key_path {
            _ if is_open => Self::Open,
            Some(path) => Self::File(path),
            None => Self::Variable,
        }
    }
}

#[derive(Debug)]
pub(super) struct Greeting<'a> {
    pub(super) address: SocketAddr,
    pub(super) access: Access<'a>,
    /// The model that the examples ask, and `ask` where none is named.
    pub(super) model: &'a str,
    /// The names of all models.
    pub(super) models: &'a [String],
    /// The question in the printed examples.
    pub(super) request: &'a str,
    /// The variables that would enable more models, each with the models.
    pub(super) left_out: &'a [String],
    pub(super) invocation: &'a Invocation,
    pub(super) style: Style,
}

/// A request that the demo model can answer in this workspace.
pub(super) fn request(workspace: &Path) -> String {
    let readme = ["README.md", "README", "Cargo.toml", "package.json", "pyproject.toml"]
        .into_iter()
        .find(|name| workspace.join(name).is_file());
    match readme {
        Some(name) => format!("read {name}"),
        None if is_empty(workspace) => "what can you do?".to_owned(),
        None => "list *".to_owned(),
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none())
}

impl fmt::Display for Greeting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let style = self.style;
        writeln!(f, "\n  base URL  {}", style.strong(&self.base()))?;
        writeln!(f, "  key       {}", style.strong(&self.key()))?;
        if !self.models.is_empty() {
            writeln!(f, "  models    {}", self.listed_models())?;
        }
        if !self.left_out.is_empty() {
            writeln!(f, "  left out  {}", style.faint(&self.left_out.join("; ")))?;
        }
        let ask = self.invocation.command(["ask", self.request]);
        writeln!(f, "\nAsk it:\n\n  {}", style.command(&ask))?;
        let chat = self.invocation.command(["chat"]);
        writeln!(f, "\nor talk with it:\n\n  {}", style.command(&chat))?;
        writeln!(f, "\nor with curl:\n\n  {}", style.command(&self.curl()))?;
        let sdk = style.command(&self.sdk());
        writeln!(f, "\nor with the OpenAI SDK (pip install openai):\n\n  {sdk}\n")
    }
}

impl Greeting<'_> {
    fn base(&self) -> String {
        running_server::base_url(self.address)
    }

    /// The names of the models, the one that is asked first.
    fn listed_models(&self) -> String {
        /// An operator's configuration may have hundreds.
        const MAX_NAMES: usize = 12;
        let others: Vec<&String> = self.models.iter().filter(|name| *name != self.model).collect();
        let mut listed = self.style.strong(self.model);
        if !others.is_empty() {
            listed.push_str(" (asked where none is named)");
        }
        for name in others.iter().take(MAX_NAMES) {
            listed.push_str(", ");
            listed.push_str(&shown_line(name));
        }
        match others.len().saturating_sub(MAX_NAMES) {
            0 => listed,
            more => format!("{listed} and {more} more"),
        }
    }

    fn key(&self) -> String {
        match self.access {
            Access::File(path) => format!("in {}", path.display()),
            Access::Variable => "the one in TOOLHAND_API_KEY".to_owned(),
            Access::Open => "none is asked for".to_owned(),
        }
    }

    fn curl(&self) -> String {
        let key = match self.access {
            Access::File(path) => {
                format!(
                    " -H \"Authorization: Bearer $(cat {})\"",
                    shell_word(&path.to_string_lossy())
                )
            }
            Access::Variable => " -H \"Authorization: Bearer $TOOLHAND_API_KEY\"".to_owned(),
            Access::Open => String::new(),
        };
        let body = json!({
            "model": self.model,
            "messages": [{ "role": "user", "content": self.request }],
        });
        format!(
            "curl -sS {}/chat/completions{key} -H 'Content-Type: application/json' -d {}",
            self.base(),
            shell_word(&body.to_string())
        )
    }

    fn sdk(&self) -> String {
        let key = match self.access {
            // A JSON string is a valid Python string too.
            Access::File(path) => format!("open({}).read().strip()", json!(path.to_string_lossy())),
            Access::Variable => "__import__(\"os\").environ[\"TOOLHAND_API_KEY\"]".to_owned(),
            Access::Open => "\"none\"".to_owned(),
        };
        let program = format!(
            "from openai import OpenAI; client = OpenAI(base_url={}, api_key={key}); \
             print(client.chat.completions.create(model={}, messages=[{{\"role\": \"user\", \
             \"content\": {}}}]).choices[0].message.content)",
            json!(self.base()),
            json!(self.model),
            json!(self.request)
        );
        format!("python3 -c {}", shell_word(&program))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(access: Access<'_>) -> String {
        with_style(access, Style::PLAIN)
    }

    fn with_style(access: Access<'_>, style: Style) -> String {
        let left_out = ["sonnet, opus: set ANTHROPIC_API_KEY", "gpt-5.6: set OPENAI_API_KEY"]
            .map(str::to_owned);
        let greeting = Greeting {
            address: SocketAddr::from(([127, 0, 0, 1], 8787)),
            access,
            model: "sonnet",
            models: &["demo", "sonnet", "gpt-5.6"].map(str::to_owned),
            request: "read README.md",
            left_out: &left_out,
            invocation: &Invocation::new("target/debug/toolhand", None),
            style,
        };
        greeting.to_string()
    }

    #[test]
    fn says_where_it_is_and_what_to_type() {
        let path = Path::new("/home/me/.local/share/toolhand/api-key");

        insta::assert_snapshot!(greeting(Access::File(path)), @r#"

          base URL  http://127.0.0.1:8787/v1
          key       in /home/me/.local/share/toolhand/api-key
          models    sonnet (asked where none is named), demo, gpt-5.6
          left out  sonnet, opus: set ANTHROPIC_API_KEY; gpt-5.6: set OPENAI_API_KEY

        Ask it:

          target/debug/toolhand ask "read README.md"

        or talk with it:

          target/debug/toolhand chat

        or with curl:

          curl -sS http://127.0.0.1:8787/v1/chat/completions -H "Authorization: Bearer $(cat /home/me/.local/share/toolhand/api-key)" -H 'Content-Type: application/json' -d '{"model":"sonnet","messages":[{"role":"user","content":"read README.md"}]}'

        or with the OpenAI SDK (pip install openai):

          python3 -c 'from openai import OpenAI; client = OpenAI(base_url="http://127.0.0.1:8787/v1", api_key=open("/home/me/.local/share/toolhand/api-key").read().strip()); print(client.chat.completions.create(model="sonnet", messages=[{"role": "user", "content": "read README.md"}]).choices[0].message.content)'
        "#);
    }

    #[test]
    fn the_key_is_taken_from_where_it_is() {
        let spaced = greeting(Access::File(Path::new("/it's mine/api-key")));

        assert!(spaced.contains(r#"$(cat "/it's mine/api-key")"#), "{spaced}");
        assert!(greeting(Access::Variable).contains("Bearer $TOOLHAND_API_KEY\""));
        assert!(!greeting(Access::Open).contains("Authorization"));
    }

    #[test]
    fn colours_stand_around_what_is_looked_for_and_change_no_word() {
        let coloured = with_style(Access::Open, Style::COLOURED);
        assert!(coloured.contains("\x1b[1mhttp://127.0.0.1:8787/v1\x1b[0m"), "{coloured}");
        let pieces = coloured.split('\x1b').enumerate().map(|(number, piece)| match number {
            0 => piece,
            _ => piece.split_once('m').expect("a whole sequence").1,
        });
        assert_eq!(pieces.collect::<String>(), greeting(Access::Open));
    }

    #[test]
    fn the_example_asks_for_something_that_is_there() {
        let workspace = tempfile::tempdir().unwrap();
        assert_eq!(request(workspace.path()), "what can you do?");
        fs::write(workspace.path().join("notes"), "").unwrap();
        assert_eq!(request(workspace.path()), "list *");
        fs::write(workspace.path().join("README.md"), "").unwrap();
        assert_eq!(request(workspace.path()), "read README.md");
    }
}
