//! Prints, once `up` is ready, its base URL and two commands to try.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::json;

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
    pub(super) model: &'a str,
    /// The question in the printed examples.
    pub(super) request: &'a str,
    /// One line for each variable that would enable more models.
    pub(super) left_out: &'a [String],
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
        writeln!(f, "\ntoolhand is up.\n")?;
        writeln!(f, "  base URL  {}", self.base())?;
        match self.access {
            Access::File(path) => writeln!(f, "  key       in {}", path.display())?,
            Access::Variable => writeln!(f, "  key       the one in TOOLHAND_API_KEY")?,
            Access::Open => writeln!(f, "  key       none is asked for")?,
        }
        for line in self.left_out {
            writeln!(f, "  left out  {line}")?;
        }
        writeln!(f, "\nTry it with curl:\n\n  {}", self.curl())?;
        writeln!(f, "\nor with the OpenAI SDK (pip install openai):\n\n  {}\n", self.sdk())
    }
}

impl Greeting<'_> {
    fn base(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        format!("http://{address}/v1")
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

/// Quotes text as one word of a shell command.
fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(access: Access<'_>) -> String {
        let left_out = ["sonnet, opus: set ANTHROPIC_API_KEY".to_owned()];
        let greeting = Greeting {
            address: SocketAddr::from(([127, 0, 0, 1], 8787)),
            access,
            model: "demo",
            request: "read README.md",
            left_out: &left_out,
        };
        greeting.to_string()
    }

    #[test]
    fn says_where_it_is_and_what_to_type() {
        let path = Path::new("/home/me/.local/share/toolhand/api-key");

        insta::assert_snapshot!(greeting(Access::File(path)), @r#"

        toolhand is up.

          base URL  http://127.0.0.1:8787/v1
          key       in /home/me/.local/share/toolhand/api-key
          left out  sonnet, opus: set ANTHROPIC_API_KEY

        Try it with curl:

          curl -sS http://127.0.0.1:8787/v1/chat/completions -H "Authorization: Bearer $(cat /home/me/.local/share/toolhand/api-key)" -H 'Content-Type: application/json' -d '{"model":"demo","messages":[{"role":"user","content":"read README.md"}]}'

        or with the OpenAI SDK (pip install openai):

          python3 -c 'from openai import OpenAI; client = OpenAI(base_url="http://127.0.0.1:8787/v1", api_key=open("/home/me/.local/share/toolhand/api-key").read().strip()); print(client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "read README.md"}]).choices[0].message.content)'
        "#);
    }

    #[test]
    fn the_key_is_taken_from_where_it_is() {
        let spaced = greeting(Access::File(Path::new("/it's mine/api-key")));

        assert!(spaced.contains(r"$(cat '/it'\''s mine/api-key')"), "{spaced}");
        assert!(greeting(Access::Variable).contains("Bearer $TOOLHAND_API_KEY\""));
        assert!(!greeting(Access::Open).contains("Authorization"));
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
