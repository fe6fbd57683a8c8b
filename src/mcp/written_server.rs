//! Reads one server of a `.mcp.json`, in the spellings that other programs write.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A server as the file has it, before variables are put in.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenServer {
    pub(super) transport: Option<WrittenTransport>,
    pub(super) command: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: Option<String>,
    pub(super) url: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) is_disabled: bool,
}

/// How the file says that a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenTransport {
    Stdio,
    Http,
    /// The old one.
    Sse,
}

/// The servers of a file, by name. Programs differ in what they call them, and some have nothing
/// else in the file. The error follows the name of the file.
pub(super) fn servers_in(text: &str) -> Result<BTreeMap<String, Value>, String> {
    let file: Value = match serde_json::from_str(text) {
        Ok(file) => file,
        // Editors take comments in their files.
        Err(error) => {
            serde_json::from_str(&without_comments(text)).map_err(|_| error.to_string())?
        }
    };
    let Value::Object(file) = file else {
        return Err("is no object".to_owned());
    };
    for place in ["mcpServers", "servers", "mcp_servers", "context_servers", "mcp"] {
        match file.get(place) {
            // A server may bear that name in a file without one of these.
            Some(Value::Object(servers)) if !is_server(servers) => {
                return Ok(by_name(within(place, servers)));
            }
            Some(Value::Object(_)) | None => {}
            Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::Array(servers)) => {
                return named_in(servers).ok_or_else(|| format!("`{place}` is no object"));
            }
            Some(_) => return Err(format!("`{place}` is no object")),
        }
    }
    let servers = file.iter().filter(|(_, server)| server.as_object().is_some_and(is_server));
    Ok(by_name(servers))
}

/// The servers of this place. Some have them one level deeper in it.
fn within<'a>(place: &str, written: &'a Map<String, Value>) -> &'a Map<String, Value> {
    match written.get("servers") {
        Some(Value::Object(inner)) if place == "mcp" && !is_server(inner) => inner,
        _ => written,
    }
}

/// The servers of a list, in which each says its own name. `None`: one does not.
fn named_in(servers: &[Value]) -> Option<BTreeMap<String, Value>> {
    let named = |server: &Value| Some((server["name"].as_str()?.to_owned(), server.clone()));
    if servers.is_empty() { None } else { servers.iter().map(named).collect() }
}

fn by_name<'a>(
    servers: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> BTreeMap<String, Value> {
    servers.into_iter().map(|(name, server)| (name.clone(), server.clone())).collect()
}

/// The members that programs write the address of a server in.
const ADDRESSES: [&str; 4] = ["url", "serverUrl", "httpUrl", "server_url"];

fn is_server(members: &Map<String, Value>) -> bool {
    let has = |name: &&str| members.get(*name).is_some_and(|it| it.is_string() || it.is_array());
    // One program writes an object for the program and its arguments.
    let has_program = members.get("command").is_some_and(|command| command["path"].is_string());
    has_program || has(&"command") || ADDRESSES.iter().any(has)
}

impl WrittenServer {
    /// The error says what is wrong with it.
    pub(super) fn of(written: &Value) -> Result<Self, String> {
        let Value::Object(written) = written else { return Err("it is no object".to_owned()) };
        let mut server = Self::default();
        for (member, value) in written {
            // Null is what some programs write for nothing.
            if !value.is_null() {
                server.take(member, value)?;
            }
        }
        server.drop_empty();
        server.split_command();
        Ok(server)
    }

    /// Other programs keep further members, which mean nothing here.
    fn take(&mut self, member: &str, value: &Value) -> Result<(), String> {
        match member {
            "transport" | "command" if value.is_object() => {
                for (inner, value) in value.as_object().into_iter().flatten() {
                    // The program of a command that is written in parts.
                    let inner = if inner == "path" { "command" } else { inner };
                    self.take(inner, value)?;
                }
            }
            _ if value.is_null() => {}
            "type" | "transport" | "transportType" => self.transport = Some(transport(value)?),
            "command" => self.take_command(value)?,
            "args" | "arguments" => self.args.extend(words(member, value)?),
            "env" | "environment" => self.env.extend(pairs(member, value)?),
            "cwd" | "workingDirectory" => self.cwd = Some(word(member, value)?),
            address if ADDRESSES.contains(&address) => self.url = Some(word(member, value)?),
            "headers" | "http_headers" => self.headers.extend(pairs(member, value)?),
            "disabled" => self.is_disabled |= flag(value) == Some(true),
            "enabled" | "isActive" | "active" => self.is_disabled |= flag(value) == Some(false),
            _ => {}
        }
        Ok(())
    }

    /// Some write the arguments behind the program.
    fn take_command(&mut self, value: &Value) -> Result<(), String> {
        let Value::Array(_) = value else {
            self.command = Some(word("command", value)?);
            return Ok(());
        };
        self.take_words(words("command", value)?);
        Ok(())
    }

    /// Some programs write all members, and an empty text in those that do not apply.
    fn drop_empty(&mut self) {
        let is_empty = |it: &Option<String>| it.as_ref().is_some_and(|text| text.trim().is_empty());
        if is_empty(&self.url) && self.command.is_some() {
            self.url = None;
        }
        if is_empty(&self.command) && self.url.is_some() {
            self.command = None;
        }
        if is_empty(&self.cwd) {
            self.cwd = None;
        }
    }

    /// A whole command line in the place of the program. A path may have blanks in it.
    fn split_command(&mut self) {
        let Some(line) = &self.command else { return };
        let is_path = line.starts_with(['/', '.', '~', '$']);
        let has_quotes = line.contains(['"', '\'', '\\']);
        if self.args.is_empty() && !is_path && !has_quotes {
            self.take_words(line.split_whitespace().map(str::to_owned).collect());
        }
    }

    fn take_words(&mut self, words: Vec<String>) {
        let mut words = words.into_iter();
        self.command = words.next();
        let behind: Vec<String> = words.collect();
        self.args.splice(0..0, behind);
    }
}

fn transport(value: &Value) -> Result<WrittenTransport, String> {
    let written = word("type", value)?;
    let letters = written.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    match name.as_str() {
        "stdio" | "local" | "command" => Ok(WrittenTransport::Stdio),
        "http" | "https" | "streamablehttp" | "httpstreamable" | "streamable" | "httpstream"
        | "remote" => Ok(WrittenTransport::Http),
        "sse" => Ok(WrittenTransport::Sse),
        _ => {
            let written = crate::text::quoted_name(&written);
            Err(format!("its type `{written}` is none of stdio and http"))
        }
    }
}

/// A text, or a value that is written without quotes.
fn word(member: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err(format!("`{member}` is no text")),
    }
}

fn words(member: &str, value: &Value) -> Result<Vec<String>, String> {
    let Value::Array(values) = value else { return Err(format!("`{member}` is no list")) };
    let given = values.iter().filter(|value| !value.is_null());
    given.map(|value| word(&format!("{member}[]"), value)).collect()
}

/// Texts by their names. Languages without objects of their own write an empty one as a list.
fn pairs(member: &str, value: &Value) -> Result<BTreeMap<String, String>, String> {
    match value {
        Value::Array(values) if values.is_empty() => Ok(BTreeMap::new()),
        Value::Object(values) => {
            let given = values.iter().filter(|(_, value)| !value.is_null());
            let name = |name: &str| format!("{member}.{}", crate::text::quoted_name(name));
            given.map(|(own, value)| Ok((own.clone(), word(&name(own), value)?))).collect()
        }
        Value::Array(values) => {
            let pairs: Option<_> = values.iter().map(pair).collect();
            pairs.ok_or_else(|| format!("`{member}` is no object"))
        }
        _ => Err(format!("`{member}` is no object")),
    }
}

/// A name and its value, of a list of such: an object, `NAME=value` or `Name: value`.
fn pair(written: &Value) -> Option<(String, String)> {
    if let Some(text) = written.as_str() {
        let (name, value) = text.split_once(['=', ':'])?;
        return Some((name.trim().to_owned(), value.trim().to_owned()));
    }
    let name = written["name"].as_str().or_else(|| written["key"].as_str())?;
    Some((name.to_owned(), word("value", &written["value"]).ok()?))
}

fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// The text without comments, and without commas in front of what closes a list or an object.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (piece, is_kept) = match next {
            '"' => (text_in_quotes(rest), true),
            '/' if rest.starts_with("//") => (up_to(rest, "\n"), false),
            '/' if rest.starts_with("/*") => (2 + up_to(&rest[2..], "*/"), false),
            '}' | ']' => {
                let before = kept.trim_end().trim_end_matches(',').len();
                kept.truncate(before);
                (1, true)
            }
            other => (other.len_utf8(), true),
        };
        if is_kept {
            kept.push_str(&rest[..piece]);
        }
        rest = &rest[piece..];
    }
    kept
}

/// The length of what reaches up to the end of this mark.
fn up_to(text: &str, mark: &str) -> usize {
    text.find(mark).map_or(text.len(), |start| start + mark.len())
}

/// The length of a text in quotes, with its quotes.
fn text_in_quotes(text: &str) -> usize {
    let mut is_escaped = true;
    for (place, letter) in text.char_indices() {
        match letter {
            '"' if !is_escaped => return place + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(text: &str) -> Vec<String> {
        servers_in(text).unwrap().into_keys().collect()
    }

    #[test]
    fn outside_18_the_servers_stand_under_several_names_or_alone() {
        for text in [
            r#"{"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {}}}"#,
            r#"{"servers": {"a": {"url": "x"}}, "inputs": []}"#,
            r#"{"mcp": {"a": {"type": "local", "command": ["x"]}}}"#,
            r#"{"mcp": {"servers": {"a": {"command": "x"}}}}"#,
            r#"{"a": {"command": "x"}, "$schema": "y"}"#,
            r#"{"a": {"server_url": "x"}}"#,
            r#"{"mcpServers": [{"name": "a", "command": "x"}]}"#,
            r#"{"context_servers": {"a": {"source": "custom", "command": {"path": "x"}}}}"#,
            r#"{"a": {"command": {"path": "x", "args": []}}}"#,
            "{ // mine\n\"servers\": {/* one */ \"a\": {\"command\": \"//x\", \"args\": [1,],},},\n}",
        ] {
            assert_eq!(names(text), ["a"], "{text}");
        }
        assert_eq!(names(r#"{"mcp": {"command": "x"}}"#), ["mcp"]);
        assert_eq!(names(r#"{"mcpServers": null}"#), [""; 0]);
        assert!(servers_in(r#"{"mcpServers": []}"#).is_err());
        assert!(servers_in("{\"a\": 1 /* }").unwrap_err().contains("line 1"));
    }

    #[test]
    fn outside_18_a_server_is_read_in_each_spelling() {
        let read = |written: Value| WrittenServer::of(&written).unwrap();
        let server = read(json!({
            "type": "STDIO", "command": ["npx", "-y", 5], "args": ["x", null, true],
            "env": { "PORT": 3000, "DEBUG": true, "NONE": null, "RATIO": 0.5 }, "headers": [],
            "disabled": "false", "enabled": true, "cwd": null, "autoApprove": ["*"],
        }));
        assert_eq!(server.command.as_deref(), Some("npx"));
        assert_eq!(server.args, ["-y", "5", "x", "true"]);
        let env: Vec<_> =
            server.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(env, ["DEBUG=true", "PORT=3000", "RATIO=0.5"]);
        assert!(!server.is_disabled);
        assert!(read(json!({ "disabled": true })).is_disabled);
        assert!(read(json!({ "isActive": false })).is_disabled);
        assert_eq!(read(json!({ "env": null, "args": null })), WrittenServer::default());
        for name in ["http", "streamableHttp", "streamable_http", "streamable-http", "remote"] {
            let server = read(json!({ "type": name, "serverUrl": "https://x.org" }));
            assert_eq!(server.transport, Some(WrittenTransport::Http), "{name}");
            assert_eq!(server.url.as_deref(), Some("https://x.org"));
        }
        let server = read(json!({ "command": "npx -y @scope/server" }));
        assert_eq!((server.command.as_deref(), server.args.len()), (Some("npx"), 2));
        let server = read(json!({ "command": "/my programs/server" }));
        assert_eq!(server.command.as_deref(), Some("/my programs/server"));
        let server =
            read(json!({ "command": { "path": "npx", "args": ["-y"], "env": { "A": 1 } } }));
        assert_eq!((server.command.as_deref(), server.args.join(" ")), (Some("npx"), "-y".into()));
        assert_eq!(server.env["A"], "1");
        let server = read(json!({ "transport": { "type": "http", "url": "https://x.org" } }));
        assert_eq!(server.transport, Some(WrittenTransport::Http));
        assert_eq!(server.url.as_deref(), Some("https://x.org"));
        let server = read(json!({ "command": "", "url": "https://x.org", "args": [], "cwd": "",
            "headers": ["X-A: b:c", { "name": "X-D", "value": 5 }] }));
        assert_eq!((server.command, server.cwd), (None, None));
        assert_eq!((server.headers["X-A"].as_str(), server.headers["X-D"].as_str()), ("b:c", "5"));
        let server = read(json!({ "command": "x", "url": "", "env": ["A=b=c", "D="] }));
        assert_eq!(
            (server.url, server.env["A"].as_str(), server.env["D"].as_str()),
            (None, "b=c", "")
        );
        let why = |written: Value| WrittenServer::of(&written).unwrap_err();
        assert_eq!(why(json!({ "env": { "A": [] } })), "`env.A` is no text");
        assert_eq!(why(json!({ "args": "x" })), "`args` is no list");
        assert_eq!(why(json!({ "env": ["A"] })), "`env` is no object");
    }
}
