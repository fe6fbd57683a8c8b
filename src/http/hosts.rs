//! Refuses requests to foreign hosts and from foreign pages, by `Host`, `Origin` and
//! `Sec-Fetch-Site` (`docs/threats.md`, H6 to H13, H15).
//!
//! A page in any browser can reach a loopback port. These checks run before the key is
//! looked at, and stop the page even after DNS rebinding.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{ALLOW, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::de::{Deserialize, Deserializer, Error as _};

use crate::errors::{ApiError, ErrorCode};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The methods that the routes take.
const METHODS: HeaderValue = HeaderValue::from_static("GET,HEAD,POST,DELETE");

/// The port of a `Host` that names none.
const DEFAULT_PORT: u16 = 80;

/// A name or address with a port: the value of `Host`, or an entry of
/// `server.allowed_hosts`, where a missing port means any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    /// In lower case. An IPv6 address in its short form and in brackets.
    host: String,
    port: Option<u16>,
}

/// The hosts that this server answers for.
#[derive(Clone, Debug)]
pub(crate) struct AllowedHosts {
    port: u16,
    own: Vec<String>,
    further: Vec<Authority>,
}

/// An exact origin such as `https://chat.example.com`, `http://localhost:3000` or, of a desktop
/// program, `app://obsidian.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin(String);

/// What requests are checked against.
#[derive(Clone, Debug)]
pub(crate) struct HostPolicy {
    pub(crate) hosts: AllowedHosts,
    /// `cors.allow_origins`.
    pub(crate) origins: Vec<Origin>,
}

/// Whether a cross-site request without an origin may load a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForeignPages {
    Refused,
    /// A status page may link to `/health`.
    Allowed,
}

impl AllowedHosts {
    /// Loopback names and the bound address, each with the bound port, and the operator's
    /// additions. An unspecified address such as `0.0.0.0` is not included: no client has
    /// it as a host.
    pub(crate) fn new(bound: SocketAddr, further: Vec<Authority>) -> Self {
        let mut own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec();
        if !bound.ip().is_unspecified() {
            own.push(host_of(bound.ip()));
        }
        Self { port: bound.port(), own, further }
    }

    /// `http://localhost:8787` as the client wrote it in its `Host`. `None` for a name of the
    /// operator: a proxy may stand before the server, and speak TLS.
    pub(crate) fn own_url(&self, headers: &HeaderMap) -> Option<String> {
        let Authority { host, port } = headers.get(HOST)?.to_str().ok()?.parse().ok()?;
        let port = port.unwrap_or(DEFAULT_PORT);
        let is_own = port == self.port && self.own.contains(&host);
        is_own.then(|| format!("http://{host}:{port}"))
    }

    fn allows(&self, asked: &Authority) -> bool {
        let port = asked.port.unwrap_or(DEFAULT_PORT);
        let is_own = port == self.port && self.own.contains(&asked.host);
        is_own
            || self.further.iter().any(|allowed| {
                allowed.host == asked.host && allowed.port.is_none_or(|allowed| allowed == port)
            })
    }
}

fn host_of(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

impl FromStr for Authority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid =
            || format!("{text:?} is no host: write \"name\", \"name:port\" or \"[::1]:port\"");
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (text, None),
        };
        // Only the shortest spelling counts: `08787` is refused.
        let is_port = |port: &&str| {
            !port.starts_with('0') && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
        };
        let port = port.map(|port| Some(port).filter(is_port)?.parse::<u16>().ok());
        if port == Some(None) {
            return Err(invalid());
        }
        let host = normal_host(host).ok_or_else(invalid)?;
        Ok(Self { host, port: port.flatten() })
    }
}

fn normal_host(host: &str) -> Option<String> {
    if let Some(address) = host.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return Some(format!("[{address}]"));
    }
    // A dot at the end makes a name absolute. It is the same name.
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_name_byte)).then(|| host.to_ascii_lowercase())
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let exact = text.split_once("://").and_then(|(scheme, host)| {
            match scheme.to_ascii_lowercase().as_str() {
                "http" | "https" => {
                    Authority::from_str(host).ok().map(|_| text.to_ascii_lowercase())
                }
                // Browsers keep the letters of such a host as they are.
                scheme if is_programs(scheme) && is_programs_host(host) => {
                    Some(format!("{scheme}://{host}"))
                }
                _ => None,
            }
        });
        exact.map(Self).ok_or_else(|| {
            format!(
                "{text:?} is no origin: write scheme, host and port and nothing more, like \
                 \"https://chat.example.com\", \"http://localhost:3000\" or \"app://obsidian.md\""
            )
        })
    }
}

/// Whether a scheme can be that of a program's own pages, such as `app`, `tauri`, `capacitor` or
/// `chrome-extension`. Pages of the others have no origin of their own, and many share one.
fn is_programs(scheme: &str) -> bool {
    const NO_ORIGIN: [&str; 9] =
        ["file", "data", "blob", "about", "javascript", "null", "filesystem", "ws", "wss"];
    let is_scheme_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(is_scheme_byte)
        && !NO_ORIGIN.contains(&scheme)
}

/// Whether a text can be the host, with its port, of a program's pages. Some are no names:
/// Electron programs write `app://-` and `app://.`.
fn is_programs_host(host: &str) -> bool {
    let (name, port) =
        host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_port = |port: &str| !port.starts_with('0') && port.parse::<u16>().is_ok();
    !name.is_empty() && name.bytes().all(is_name_byte) && port.is_none_or(is_port)
}

impl Origin {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Authority {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Checks the routes that need a key.
pub(crate) async fn check(
    State(policy): State<Arc<HostPolicy>>,
    request: Request,
    next: Next,
) -> Response {
    match judge(&policy, ForeignPages::Refused, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => refusal(error),
    }
}

/// Checks the open routes.
pub(crate) async fn check_open(
    State(policy): State<Arc<HostPolicy>>,
    request: Request,
    next: Next,
) -> Response {
    match judge(&policy, ForeignPages::Allowed, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => refusal(error),
    }
}

fn refusal(error: ApiError) -> Response {
    let names_methods = error.code == ErrorCode::MethodNotAllowed;
    let mut response = error.into_response();
    if names_methods {
        response.headers_mut().insert(ALLOW, METHODS);
    }
    response
}

fn judge(policy: &HostPolicy, pages: ForeignPages, request: &Request) -> Result<(), ApiError> {
    check_host(&policy.hosts, request.headers())?;
    if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
        return Err(ApiError::new(
            ErrorCode::MethodNotAllowed,
            format!("{} is not supported.", request.method()),
        ));
    }
    check_target(&policy.hosts, request.uri())?;
    check_origin(&policy.origins, request.headers(), pages)
}

fn check_host(hosts: &AllowedHosts, headers: &HeaderMap) -> Result<(), ApiError> {
    let mut sent = headers.get_all(HOST).iter();
    let authority = match (sent.next(), sent.next()) {
        (Some(host), None) => host.to_str().ok().and_then(|host| host.parse().ok()),
        _ => None,
    };
    let authority: Authority = authority.ok_or_else(|| {
        ApiError::new(ErrorCode::HostMissing, "The request needs exactly one valid Host header.")
    })?;
    if hosts.allows(&authority) { Ok(()) } else { Err(foreign_host()) }
}

/// A request line may have a whole URL; then its authority is checked too.
fn check_target(hosts: &AllowedHosts, target: &Uri) -> Result<(), ApiError> {
    let Some(authority) = target.authority() else { return Ok(()) };
    let is_ours = authority.as_str().parse().is_ok_and(|authority| hosts.allows(&authority));
    let is_web = matches!(target.scheme_str(), None | Some("http" | "https"));
    if is_ours && is_web { Ok(()) } else { Err(foreign_host()) }
}

fn foreign_host() -> ApiError {
    ApiError::new(
        ErrorCode::HostNotAllowed,
        "This server does not answer to that host name. Its operator can add the name to \
         server.allowed_hosts.",
    )
}

fn check_origin(
    origins: &[Origin],
    headers: &HeaderMap,
    pages: ForeignPages,
) -> Result<(), ApiError> {
    let foreign = |message| Err(ApiError::new(ErrorCode::OriginNotAllowed, message));
    let mut sent = headers.get_all(ORIGIN).iter().peekable();
    if sent.peek().is_some() {
        let is_allowed = sent.all(|sent| origins.iter().any(|allowed| allowed.0 == *sent));
        return if is_allowed {
            Ok(())
        } else {
            foreign(
                "Requests from pages of this origin are not allowed. The operator can add it to \
                 cors.allow_origins.",
            )
        };
    }
    let is_own_page =
        headers.get_all(SEC_FETCH_SITE).iter().all(|site| site == "same-origin" || site == "none");
    if is_own_page || pages == ForeignPages::Allowed {
        Ok(())
    } else {
        foreign("Requests from foreign pages are refused.")
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn ask(uri: &str, headers: &[(&str, &str)]) -> u16 {
        let hosts = AllowedHosts::new(
            "127.0.0.1:8787".parse().unwrap(),
            vec!["host.docker.internal:9000".parse().unwrap(), "chat.lan".parse().unwrap()],
        );
        let policy = HostPolicy { hosts, origins: vec!["https://good.com".parse().unwrap()] };
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        let judged = judge(&policy, ForeignPages::Refused, &request);
        judged.map_or_else(|error| error.code.status(), |()| 200)
    }

    #[track_caller]
    fn check_host(host: &str, expected: u16) {
        assert_eq!(ask("/v1/models", &[("host", host)]), expected, "{host}");
    }

    #[test]
    fn our_names_are_allowed_with_our_port() {
        for host in ["LOCALHOST:8787", "[::1]:8787", "127.0.0.1:8787", "[0:0:0:0:0:0:0:1]:8787"] {
            check_host(host, 200);
        }
        for host in ["localhost.:8787", "LocalHost.:8787", "127.0.0.1.:8787"] {
            check_host(host, 200);
        }
        for host in ["localhost:8788", "localhost", "localhost.", "localhost.:8788", "[::1]"] {
            check_host(host, 403);
        }
    }

    #[test]
    fn names_of_the_operator_are_allowed() {
        check_host("host.docker.internal:9000", 200);
        check_host("host.docker.internal:8787", 403);
        check_host("chat.lan", 200);
        check_host("Chat.LAN:1234", 200);
        check_host("chat.lan.", 200);
    }

    #[test]
    fn other_names_are_refused() {
        for host in [
            "evil.com",
            "0.0.0.0:8787",
            "localhost.evil.com:8787",
            "127.0.0.1.nip.io:8787",
            "localhost..:8787",
            ".localhost:8787",
            "evil.com.:8787",
            "localhost.evil.com.:8787",
            "2130706433:8787",
        ] {
            check_host(host, 403);
        }
    }

    #[test]
    fn a_host_that_is_none_is_invalid() {
        for host in [
            "localhost/?a#",
            "127.0.0.1@evil",
            "",
            ":8787",
            "localhost:",
            "localhost:+1",
            "localhost:08787",
            "localhost:65536",
            "localhost:8787 ",
            "localhost:８７８７",
            "[::1",
            "a:b:c",
            ".",
            ".:8787",
            "[::1].:8787",
        ] {
            check_host(host, 400);
        }
        assert_eq!(ask("/v1/models", &[]), 400);
        assert_eq!(
            ask("/v1/models", &[("host", "localhost:8787"), ("host", "localhost:8787")]),
            400
        );
    }

    #[test]
    fn a_whole_url_must_be_ours_too() {
        let ours = ("host", "localhost:8787");
        assert_eq!(ask("http://evil/", &[ours]), 403);
        assert_eq!(ask("http://u@localhost:8787/", &[ours]), 403);
        assert_eq!(ask("ftp://localhost:8787/", &[ours]), 403);
        assert_eq!(ask("http://localhost:8787/", &[ours]), 200);
    }

    #[track_caller]
    fn check_page(headers: &[(&str, &str)], expected: u16) {
        let headers = [&[("host", "localhost:8787")], headers].concat();
        assert_eq!(ask("/v1/models", &headers), expected, "{headers:?}");
    }

    #[test]
    fn only_exact_origins_are_allowed() {
        check_page(&[("origin", "https://good.com")], 200);
        for origin in [
            "https://evil.com",
            "null",
            "http://good.com",
            "https://good.com:444",
            "https://good.com.evil.com",
            "http://localhost:3000.evil.com",
            "http://localhost:8787",
        ] {
            check_page(&[("origin", origin)], 403);
        }
        check_page(&[("origin", "https://good.com"), ("origin", "https://evil.com")], 403);
    }

    #[test]
    fn a_foreign_page_without_an_origin_is_refused() {
        check_page(&[("sec-fetch-site", "cross-site")], 403);
        check_page(&[("sec-fetch-site", "same-site")], 403);
        check_page(&[("sec-fetch-site", "none")], 200);
        check_page(&[("sec-fetch-site", "same-origin")], 200);
        check_page(&[("sec-fetch-site", "cross-site"), ("origin", "https://good.com")], 200);
    }

    #[test]
    fn origins_in_settings_are_exact() {
        assert!("https://chat.example.com".parse::<Origin>().is_ok());
        assert!("http://localhost:3000".parse::<Origin>().is_ok());
        for wrong in [
            "*",
            "null",
            "https://a.b/",
            "https://*.b",
            "chat.example.com",
            "file://x",
            "file://",
            "app://",
            "app://a/b",
            "chrome-extension://*",
            "app:x",
            "://x",
            "app://a:b",
            "data://x",
            "1a://x",
        ] {
            assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn wire_52_origins_of_programs_can_be_listed() {
        for origin in [
            "app://obsidian.md",
            "app://-",
            "app://.",
            "capacitor://localhost",
            "ionic://localhost",
            "tauri://localhost",
            "http://tauri.localhost",
            "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
            "moz-extension://0a1b2c3d-0a1b-4c3d-8e9f-001122334455",
            "safari-web-extension://0A1B2C3D-0A1B-4C3D-8E9F-001122334455",
            "vscode-file://vscode-app",
            "vscode-webview://1abc",
        ] {
            assert_eq!(origin.parse::<Origin>().unwrap().as_str(), origin);
        }
        assert_eq!("APP://Obsidian.md".parse::<Origin>().unwrap().as_str(), "app://Obsidian.md");
    }
}
