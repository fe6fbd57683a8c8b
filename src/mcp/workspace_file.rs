//! Reads the servers of a workspace's `.mcp.json`, which its repository brings. Starts nothing.

use std::collections::BTreeMap;

use reqwest::header::HeaderName;

use super::configured::{address, behind_scheme, is_name_of_key};
use super::names::{SERVER_NAME_RULE, is_server_name};
use super::owner::{McpOwner, TrustedFile};
use super::settings::{McpCommand, McpServerSettings, McpSettings, McpTransport};
use super::written_server::{WrittenServer, WrittenTransport, servers_in};
use crate::processes::is_forbidden_to_server;
use crate::secret::Secret;

/// Each is a process or a connection.
const MAX_SERVERS: usize = 32;

/// What all values of the file may be together once variables are put in.
const MAX_VALUE_BYTES: usize = 1 << 20;

/// A server as the file names it.
#[derive(Debug)]
pub(crate) struct WorkspaceServer {
    /// Any text.
    pub(crate) name: String,
    /// Why it cannot be started, for people.
    pub(crate) transport: Result<McpTransport, String>,
    /// The keys that stand in the file: what the server says of them is told to nobody.
    secrets: Vec<Secret>,
    /// Whether the file does not disable it.
    pub(crate) is_enabled: bool,
}

/// The servers of the file, by name. `variable` are those that every command is given. An error
/// is about the whole file, and follows its name.
pub(crate) fn servers_of(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<WorkspaceServer>, String> {
    let written = servers_in(text)?;
    let count = written.len();
    if MAX_SERVERS < count {
        return Err(format!("names {count} servers; {MAX_SERVERS} are the most"));
    }
    let mut values = Values { variable, left: MAX_VALUE_BYTES };
    let servers = written.into_iter().map(|(name, written)| {
        let written = WrittenServer::of(&written);
        let is_enabled = written.as_ref().is_ok_and(|written| !written.is_disabled);
        let transport = match written {
            _ if !is_server_name(&name) => Err(SERVER_NAME_RULE.to_owned()),
            written => written.and_then(|written| transport(written, &mut values)),
        };
        let secrets = transport.as_ref().map(secrets_of).unwrap_or_default();
        WorkspaceServer { name, transport, secrets, is_enabled }
    });
    Ok(servers.collect())
}

/// The values whose names say that they are keys.
fn secrets_of(transport: &McpTransport) -> Vec<Secret> {
    match transport {
        McpTransport::Stdio(command) => {
            let keys = command.variables.iter().filter(|(name, _)| is_name_of_key(name));
            keys.map(|(_, value)| value.clone()).collect()
        }
        McpTransport::Http { headers, .. } => {
            let keys = headers.iter().filter(|(name, _)| is_name_of_key(name.as_str()));
            keys.flat_map(|(_, value)| [Some(value.clone()), behind_scheme(value)])
                .flatten()
                .collect()
        }
        McpTransport::Unavailable(_) => Vec::new(),
    }
}

impl McpSettings {
    /// Adds the servers of the workspace. One of the operator's with the same name counts instead.
    pub(crate) fn add_workspace(&mut self, servers: Vec<WorkspaceServer>, file: &TrustedFile) {
        for WorkspaceServer { name, transport, secrets, is_enabled } in servers {
            if !is_server_name(&name) || self.servers.iter().any(|known| known.name == name) {
                continue;
            }
            let transport = transport.unwrap_or_else(McpTransport::Unavailable);
            self.servers.push(McpServerSettings {
                enabled: is_enabled,
                secrets,
                owner: McpOwner::Workspace(file.clone()),
                ..McpServerSettings::new(name, transport)
            });
        }
        self.servers.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

fn transport(written: WrittenServer, values: &mut Values<'_>) -> Result<McpTransport, String> {
    use WrittenTransport::{Http, Sse, Stdio};
    let WrittenServer { transport, command, args, env, cwd, url, headers, .. } = written;
    match (transport, command, url) {
        (Some(Sse), ..) => {
            Err("its transport `sse` is no longer supported: use `http` (streamable HTTP)".into())
        }
        (None | Some(Stdio), Some(command), None) => {
            let mut command = stdio(&command, &args, env, values)?;
            let directory = cwd.map(|cwd| values.put_in(&cwd)).transpose()?;
            command.directory = directory.map(Into::into);
            Ok(McpTransport::Stdio(command))
        }
        (None | Some(Http), None, Some(url)) => http(&url, headers, values),
        (_, Some(_), Some(_)) => Err("it has `command` and `url`".into()),
        (Some(Stdio), ..) => Err("it has no `command`".into()),
        (Some(Http), ..) => Err("it has no `url`".into()),
        (None, ..) => Err("it has neither `command` nor `url`".into()),
    }
}

fn stdio(
    command: &str,
    args: &[String],
    env: BTreeMap<String, String>,
    values: &mut Values<'_>,
) -> Result<McpCommand, String> {
    let program = values.put_in(command)?;
    if program.is_empty() {
        return Err("its `command` is empty".into());
    }
    let arguments = args.iter().map(|argument| values.put_in(argument));
    let arguments = arguments.collect::<Result<_, _>>()?;
    if let Some(name) = env.keys().find(|name| is_forbidden_to_server(name)) {
        let name = crate::text::quoted_name(name);
        return Err(format!("env.{name}: no program is given such a variable"));
    }
    let variables = env.into_iter().map(|(name, value)| {
        let value = values.put_in(&value)?;
        Ok((name, Secret::new(value)))
    });
    let variables = variables.collect::<Result<_, String>>()?;
    Ok(McpCommand { program: program.into(), arguments, variables, directory: None, network: true })
}

fn http(
    url: &str,
    headers: BTreeMap<String, String>,
    values: &mut Values<'_>,
) -> Result<McpTransport, String> {
    let url = address(&values.put_in(url)?)?;
    let headers = headers.into_iter().map(|(name, value)| {
        let header = HeaderName::from_bytes(name.as_bytes());
        let header = header.map_err(|_| "`headers` holds a name that is none of a header")?;
        Ok((header, Secret::new(values.put_in(&value)?)))
    });
    Ok(McpTransport::Http { url, headers: headers.collect::<Result<_, String>>()? })
}

/// Puts variables into values, within what is left.
struct Values<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    left: usize,
}

impl Values<'_> {
    /// `${VAR}`, `${env:VAR}` and `{env:VAR}`, and `${VAR:-default}` for one that may be missing.
    fn put_in(&mut self, written: &str) -> Result<String, String> {
        let (mut text, mut rest) = (String::new(), written);
        while let Some((before, after)) = split_at_reference(rest) {
            let (reference, behind) =
                after.split_once('}').ok_or("a value has `${` without `}`")?;
            let (name, default) = match reference.split_once(":-") {
                Some((name, default)) => (name, Some(default.to_owned())),
                None => (reference, None),
            };
            let name = name.strip_prefix("env:").unwrap_or(name);
            let value = (self.variable)(name).or(default).ok_or_else(|| {
                let name = crate::text::quoted_name(name);
                format!("no command is given the variable {name}, which it needs")
            })?;
            self.add(&mut text, before)?;
            self.add(&mut text, &value)?;
            rest = behind;
        }
        self.add(&mut text, rest)?;
        Ok(text)
    }

    fn add(&mut self, to: &mut String, piece: &str) -> Result<(), String> {
        if piece.contains('\0') {
            return Err("a value has a character that no program can be given".into());
        }
        let left = self.left.checked_sub(piece.len());
        self.left = left.ok_or("the values of its variables are too long")?;
        to.push_str(piece);
        Ok(())
    }
}

/// What stands before and behind the beginning of a reference to a variable.
fn split_at_reference(text: &str) -> Option<(&str, &str)> {
    let beginnings = ["${", "{env:"].into_iter();
    let found = beginnings.filter_map(|beginning| Some((text.find(beginning)?, beginning.len())));
    let (start, length) = found.min()?;
    Some((&text[..start], &text[start + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str) -> Option<String> {
        (name == "HOME").then(|| "/home/me".to_owned())
    }

    fn shown(text: &str) -> String {
        let servers = match servers_of(text, &given) {
            Ok(servers) => servers,
            Err(error) => return error,
        };
        let line = |server: &WorkspaceServer| match &server.transport {
            Ok(McpTransport::Stdio(command)) => {
                format!("{}: {} {:?}", server.name, command.program.display(), command.arguments)
            }
            Ok(McpTransport::Http { url, .. }) => format!("{}: {url}", server.name),
            Ok(McpTransport::Unavailable(why)) | Err(why) => format!("{}: {why}", server.name),
        };
        servers.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn both_transports_are_read_and_variables_are_those_of_commands() {
        let text = r#"{"mcpServers": {
            "a": {"command": "${HOME}/a", "args": ["${X:-1 2}", "$HOME", "${HOME:-x}!"],
                  "env": {"MODE": "${HOME}"}, "autoApprove": ["*"]},
            "b": {"type": "http", "url": "https://x.org/${HOME:-}", "headers": {"x-a": "1"}},
            "c": {"command": "c", "args": ["${OPENAI_API_KEY}"]},
            "d": {"command": "d", "args": ["{env:HOME}/x", "${env:HOME}", "{env}", "{env:NONE}"]}
        }, "inputs": []}"#;
        insta::assert_snapshot!(shown(text), @r#"
        a: /home/me/a ["1 2", "$HOME", "/home/me!"]
        b: https://x.org//home/me
        c: no command is given the variable OPENAI_API_KEY, which it needs
        d: no command is given the variable NONE, which it needs
        "#);
    }

    #[test]
    fn outside_18_keys_may_stand_in_the_file_and_are_told_to_nobody() {
        let text = r#"{"mcpServers": {
            "a": {"command": "a", "cwd": "${workspaceFolder}/x", "env": {"GITHUB_TOKEN": "ghp_0123456789",
                  "PYTHONUNBUFFERED": 1, "REGION": "europe"}},
            "b": {"type": "streamableHttp", "url": "https://x.org",
                  "headers": {"Authorization": "Bearer sk-0123", "X-Region": "europe"}}
        }}"#;
        let folder = |name: &str| (name == "workspaceFolder").then(|| "/w".to_owned());
        let servers = servers_of(text, &folder).unwrap();
        let secrets = |server: &WorkspaceServer| {
            let secrets = server.secrets.iter();
            secrets.map(|secret| secret.expose().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(secrets(&servers[0]), ["ghp_0123456789"]);
        assert_eq!(secrets(&servers[1]), ["Bearer sk-0123", "sk-0123"]);
        let Ok(McpTransport::Stdio(command)) = &servers[0].transport else { panic!() };
        assert_eq!(command.directory.as_deref(), Some(std::path::Path::new("/w/x")));
        assert_eq!(command.variables.len(), 3);
    }

    #[test]
    fn m12_a_server_at_fault_says_why_and_leaves_the_others() {
        let text = r#"{"mcpServers": {
            "a__b": {"command": "x"}, "b": {"type": "sse", "url": "https://x.org"},
            "c": {"type": "ws", "url": "wss://x.org"}, "d": {}, "e": {"command": "x", "url": "y"},
            "f": {"url": "file:///etc/passwd"}, "g": {"command": "x", "env": {"LD_PRELOAD": "y"}},
            "h": {"command": "x", "args": "y"}, "i": {"command": "x\u0000"}, "j": {"command": "${X"},
            "k": {"url": "https://x.org", "headers": {"a b": ""}}, "l": {"command": "fine"}, "m": 5
        }}"#;
        insta::assert_snapshot!(shown(text), @r#"
        a__b: a server's name is letters and digits, joined by single `_` or `-`, at most 32
        b: its transport `sse` is no longer supported: use `http` (streamable HTTP)
        c: its type `ws` is none of stdio and http
        d: it has neither `command` nor `url`
        e: it has `command` and `url`
        f: `url` is no http or https address
        g: env.LD_PRELOAD: no program is given such a variable
        h: `args` is no list
        i: a value has a character that no program can be given
        j: a value has `${` without `}`
        k: `headers` holds a name that is none of a header
        l: fine []
        m: it is no object
        "#);
    }

    #[test]
    fn m12_a_file_is_bounded() {
        let error = |text: &str| servers_of(text, &given).map(|_| ()).unwrap_err();
        assert!(error(&format!("{{\"mcpServers\": {}", "[".repeat(100_000))).contains("line 1"));
        let nested = format!("{{\"mcpServers\": {{\"a\": {}", "{\"a\":".repeat(100_000));
        assert!(error(&nested).contains("recursion limit"));
        let many: Vec<_> = (0..33).map(|n| format!("\"s{n}\": {{}}")).collect();
        let many = format!("{{\"mcpServers\": {{{}}}}}", many.join(","));
        assert_eq!(error(&many), "names 33 servers; 32 are the most");
        let long = |_: &str| Some("x".repeat(100_000));
        let text =
            format!("{{\"mcpServers\": {{\"a\": {{\"command\": \"{}\"}}}}}}", "${A}".repeat(1_000));
        let servers = servers_of(&text, &long).unwrap();
        assert!(servers[0].transport.as_ref().unwrap_err().contains("too long"));
    }
}
