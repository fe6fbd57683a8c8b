//! Writes the commands that run the demo model where LiteLLM cannot be had.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use toml::Value;

use crate::commands::invocation::Invocation;
use crate::config::ConfigInput;
use crate::config::layers::{Setting, Source};

/// Where the demo model listens, unless something else does.
const USUAL_PORT: u16 = 8788;

/// Two commands that start the demo model and, with the flags given to `up`, the server.
pub(super) fn without_litellm(invocation: &Invocation, given: &ConfigInput) -> String {
    commands(invocation, given, free_address())
}

fn commands(invocation: &Invocation, given: &ConfigInput, demo: SocketAddr) -> String {
    let (listen, upstream) = (demo.to_string(), format!("http://{demo}/v1"));
    let demo = invocation.command(["demo-model", "--listen", &listen]);
    let file = given.file.as_ref().map(|path| path.to_string_lossy().into_owned());
    let file = file.map(|path| vec!["--config".to_owned(), path]);
    let flags: Vec<String> =
        file.into_iter().chain(given.flags.iter().map(words)).flatten().collect();
    let serve = ["serve", "--upstream", &upstream].into_iter();
    let serve = invocation.command(serve.chain(flags.iter().map(String::as_str)));
    format!("Without LiteLLM, the demo model alone can answer:\n  {demo} &\n  {serve}")
}

/// The flag as it was typed.
fn words(setting: &Setting) -> Vec<String> {
    let Source::Flag(flag) = setting.source else { return Vec::new() };
    match &setting.value {
        Value::String(text) => vec![flag.to_owned(), text.clone()],
        _ => vec![flag.to_owned()],
    }
}

fn free_address() -> SocketAddr {
    let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.local_addr();
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, USUAL_PORT));
    free(USUAL_PORT).or_else(|_| free(0)).unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_up_are_those_of_the_server() {
        let flag = |name, value: Value| Setting {
            path: "a.key".to_owned(),
            value,
            source: Source::Flag(name),
        };
        let given = ConfigInput {
            file: Some("my.toml".into()),
            flags: vec![flag("--workspace", "my files".into()), flag("--no-auth", false.into())],
            ..ConfigInput::default()
        };
        let invocation = Invocation::new("target/debug/toolhand", None);

        let shown = commands(&invocation, &given, "127.0.0.1:8788".parse().unwrap());

        insta::assert_snapshot!(shown, @r#"
        Without LiteLLM, the demo model alone can answer:
          target/debug/toolhand demo-model --listen 127.0.0.1:8788 &
          target/debug/toolhand serve --upstream http://127.0.0.1:8788/v1 --config my.toml --workspace "my files" --no-auth
        "#);
    }
}
