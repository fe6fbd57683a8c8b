//! Decides which server is asked, and which key it gets.
//!
//! The key in the state directory is for the server that runs on it, and for no other.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use reqwest::Url;

use super::error::{AskError, ErrorKind};
use crate::app::running_server::{self, NotRunning, RunningServer, StartedBy};
use crate::app::state_dir;
use crate::config::environment::Variables;
use crate::config::{self, ConfigInput, file, secrets};
use crate::secret::Secret;

const FORM: &str = "write http://HOST:PORT or https://HOST";

/// The server to ask.
#[derive(Debug)]
pub(super) struct Target {
    /// Ends with `/v1`.
    pub(super) base: Url,
    pub(super) key: Option<Secret>,
    /// The model that it is asked for, if it is known without asking.
    pub(super) model: Option<String>,
}

/// Parses the value of `--server`: with or without `/v1`. The error does not repeat it: it
/// may hold a password.
pub(super) fn base_url(text: &str) -> Result<Url, AskError> {
    let wrong = |reason: &str| Err(AskError::new(ErrorKind::Usage, format!("--server: {reason}")));
    let Ok(url) = text.parse::<Url>() else { return wrong(FORM) };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return wrong(FORM);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("a URL is no place for a key: use --key-file");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return wrong("nothing may follow the path");
    }
    Ok(with_version(url))
}

fn with_version(mut url: Url) -> Url {
    let path = url.path().trim_end_matches('/');
    let path = if path.ends_with("/v1") { path.to_owned() } else { format!("{path}/v1") };
    url.set_path(&path);
    url
}

/// The named server, else the one of the state directory, with the key for it.
pub(super) fn find(
    named: Option<&Url>,
    key_file: Option<&Path>,
    variables: &Variables,
) -> Result<Target, AskError> {
    let given_key = given_key(key_file, variables)?;
    let running = Local::find(variables);
    let Some(named) = named else { return running?.target(given_key) };
    match running {
        Ok(running) if running.is_named(named) => running.target(given_key),
        // Another server gets nothing from the state directory.
        _ => Ok(Target { base: named.clone(), key: given_key, model: None }),
    }
}

/// The key that the user named.
fn given_key(key_file: Option<&Path>, variables: &Variables) -> Result<Option<Secret>, AskError> {
    match key_file {
        Some(path) => file::read_secret(path).map(Some).map_err(setup),
        None => secrets::client_key(variables).map_err(setup),
    }
}

/// The server that runs on our state directory.
struct Local {
    server: RunningServer,
    state_dir: PathBuf,
}

impl Local {
    fn find(variables: &Variables) -> Result<Self, AskError> {
        let given = ConfigInput { variables: variables.clone(), ..ConfigInput::default() };
        let state_dir = config::state_dir(&given).map_err(setup)?;
        match running_server::find(&state_dir) {
            Ok(server) => Ok(Self { server, state_dir }),
            Err(why) => Err(not_running(&why, &state_dir)),
        }
    }

    /// Whether this URL leads to this server and nowhere else. Its paths are not looked at:
    /// whatever listens on the address is this server.
    fn is_named(&self, url: &Url) -> bool {
        let address = self.server.address();
        let host = url.host_str().unwrap_or_default();
        let ip: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        // `localhost` may have two addresses. The one of the server is taken below.
        let is_its_host = match ip {
            Some(ip) => ip == address.ip(),
            None => host == "localhost" && address.ip().is_loopback(),
        };
        url.scheme() == "http" && is_its_host && url.port_or_known_default() == Some(address.port())
    }

    fn target(self, given_key: Option<Secret>) -> Result<Target, AskError> {
        let key = match given_key {
            Some(key) => Some(key),
            None => state_dir::kept_key(&self.state_dir).map_err(setup)?,
        };
        let base = self.server.base_url().parse().expect("an address makes a URL");
        let model = match self.server.started_by {
            StartedBy::Up { model, .. } => Some(model),
            StartedBy::Serve => None,
        };
        Ok(Target { base, key, model })
    }
}

fn not_running(why: &NotRunning, state_dir: &Path) -> AskError {
    let path = running_server::path(state_dir);
    let path = path.display();
    match why {
        NotRunning::Missing | NotRunning::Ended(_) => AskError::new(
            ErrorKind::NoServer,
            format!(
                "no server runs: {path} {why}; start one with `toolhand up`, or name one with \
                 --server or its state directory with TOOLHAND_STATE_DIR"
            ),
        ),
        NotRunning::Unusable(_) => AskError::new(
            ErrorKind::Setup,
            format!("{path} {why}; --server names a server without it"),
        ),
    }
}

fn setup(error: impl std::error::Error) -> AskError {
    AskError::new(ErrorKind::Setup, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn a_server_is_named_with_or_without_v1() {
        let check = |text: &str, expected: &str| {
            let shown = match base_url(text) {
                Ok(url) => url.to_string(),
                Err(error) => error.sentence(),
            };
            assert_eq!(shown, expected, "{text}");
        };
        check("http://127.0.0.1:8787", "http://127.0.0.1:8787/v1");
        check("http://127.0.0.1:8787/", "http://127.0.0.1:8787/v1");
        check("http://127.0.0.1:8787/v1", "http://127.0.0.1:8787/v1");
        check("http://127.0.0.1:8787/v1/", "http://127.0.0.1:8787/v1");
        check("https://example.org/hands", "https://example.org/hands/v1");
        check("https://example.org/hands/v1//", "https://example.org/hands/v1");
        check("127.0.0.1:8787", "--server: write http://HOST:PORT or https://HOST");
        check("localhost:8787", "--server: write http://HOST:PORT or https://HOST");
        check("file:///etc/passwd", "--server: write http://HOST:PORT or https://HOST");
        check("http://:th-1@host", "--server: a URL is no place for a key: use --key-file");
        check("http://host/?key=1", "--server: nothing may follow the path");
    }

    #[test]
    fn only_the_address_itself_names_the_running_server() {
        let check = |address: &str, url: &str, expected: bool| {
            let address: SocketAddr = address.parse().unwrap();
            let server = RunningServer::this_process(address, StartedBy::Serve).unwrap();
            let local = Local { server, state_dir: "/nowhere".into() };
            assert_eq!(local.is_named(&base_url(url).unwrap()), expected, "{url}");
        };
        for url in ["http://127.0.0.1:87", "http://localhost:87/v1", "http://127.1:87"] {
            check("127.0.0.1:87", url, true);
            check("0.0.0.0:87", url, true);
        }
        check("[::1]:87", "http://[::1]:87", true);
        check("127.0.0.1:80", "http://127.0.0.1", true);
        for url in [
            "http://127.0.0.1:88",
            "https://127.0.0.1:87",
            "http://127.0.0.2:87",
            "http://[::1]:87",
            "http://127.0.0.1.example.org:87",
            "http://localhost.example.org:87",
        ] {
            check("127.0.0.1:87", url, false);
        }
        check("192.0.2.1:87", "http://localhost:87", false);
    }
}
