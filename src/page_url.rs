//! Parses the URLs of web pages. What is judged, resolved and asked for is always the parsed URL,
//! never the text of the model or of a server.
//!
//! Programs read an unusual spelling of a URL differently. So one that means another host than a
//! reader would take it for is refused.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

pub(crate) use self::trusted_hosts::TrustedHosts;

mod trusted_hosts;

/// The most characters of a URL.
pub(crate) const MAX_CHARS: usize = 2_000;

/// A longer query may carry data out.
const MAX_QUERY_CHARS: usize = 256;

/// Of a host name (RFC 1035), and of each of its labels.
const MAX_HOST_CHARS: usize = 253;
const MAX_LABEL_CHARS: usize = 63;

/// The URL of a page that may be asked for: http or https, without a user, of a host that is
/// spelled as it is meant. Other hosts than trusted ones have https and port 80 or 443.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PageUrl {
    url: Url,
    host: Host<String>,
    is_trusted: bool,
}

/// Why a text is no URL that may be asked for. Never quotes it: an address that a server names
/// may be an inner one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PageUrlError {
    #[error("the URL has more than {MAX_CHARS} characters")]
    TooLong,
    #[error("the URL has control characters")]
    ControlCharacters,
    #[error("only URLs that begin with http:// or https:// and a host can be fetched")]
    Form,
    #[error("a URL with a user or a password is not fetched")]
    UserInfo,
    #[error(
        "the host of the URL is written in an unusual way: give a plain name or address, such as \
         https://example.com/"
    )]
    Host,
    #[error(
        "only ports 80 and 443 can be fetched from, except from hosts that the operator trusts"
    )]
    Port,
}

impl PageUrl {
    /// Parses `text`. http becomes https, except for a trusted host.
    pub(crate) fn parse(text: &str, trusted: &TrustedHosts) -> Result<Self, PageUrlError> {
        let text = text.trim_matches(' ');
        if text.chars().count() > MAX_CHARS {
            return Err(PageUrlError::TooLong);
        }
        if text.contains(char::is_control) {
            return Err(PageUrlError::ControlCharacters);
        }
        let authority = authority(text).ok_or(PageUrlError::Form)?;
        if authority.contains('@') {
            return Err(PageUrlError::UserInfo);
        }
        let url = Url::parse(text).map_err(|_| PageUrlError::Host)?;
        if !is_plain(authority, &url) {
            return Err(PageUrlError::Host);
        }
        Self::from_url(url, trusted)
    }

    /// The URL that `location`, a header of this page's answer, leads to.
    pub(crate) fn join(
        &self,
        location: &str,
        trusted: &TrustedHosts,
    ) -> Result<Self, PageUrlError> {
        if location.starts_with("//") {
            return Self::parse(&format!("{}:{location}", self.url.scheme()), trusted);
        }
        let first_part = location.split(['/', '?', '#']).next().unwrap_or_default();
        if first_part.contains(':') {
            return Self::parse(location, trusted);
        }
        if location.contains(char::is_control) {
            return Err(PageUrlError::ControlCharacters);
        }
        if location.contains('\\') {
            return Err(PageUrlError::Form);
        }
        let joined = self.url.join(location).map_err(|_| PageUrlError::Form)?;
        Self::parse(joined.as_str(), trusted)
    }

    /// Whether `location`, which a page over https has named, leads to http.
    pub(crate) fn is_downgrade(&self, location: &str) -> bool {
        let is_http =
            location.trim_start().get(..5).is_some_and(|s| s.eq_ignore_ascii_case("http:"));
        self.url.scheme() == "https" && is_http
    }

    fn from_url(mut url: Url, trusted: &TrustedHosts) -> Result<Self, PageUrlError> {
        let host = plain_host(&url).ok_or(PageUrlError::Host)?;
        // Without the dot at its end, which rules and caches would take for another host.
        url.set_host(Some(&host.to_string())).map_err(|_| PageUrlError::Host)?;
        let port = url.port_or_known_default().ok_or(PageUrlError::Form)?;
        let is_trusted = trusted.contains(&host, port);
        if !is_trusted {
            if !matches!(port, 80 | 443) {
                return Err(PageUrlError::Port);
            }
            if url.scheme() == "http" {
                url.set_scheme("https").map_err(|()| PageUrlError::Form)?;
            }
        }
        Ok(Self { url, host, is_trusted })
    }

    /// The host in lower case, by IDNA, without a dot at its end. An IPv6 address is in brackets.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The host, as a name or an address.
    pub(crate) fn parsed_host(&self) -> &Host<String> {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().expect("http and https have default ports")
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Whether the operator trusts this host and port.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Whether the query is long enough to carry data out of the conversation.
    pub(crate) fn has_long_query(&self) -> bool {
        self.url.query().is_some_and(|query| query.chars().count() > MAX_QUERY_CHARS)
    }

    /// The URL without its fragment, which no server is told.
    pub(crate) fn without_fragment(&self) -> String {
        let mut url = self.url.clone();
        url.set_fragment(None);
        url.into()
    }

    /// Whether `target` is of the same origin, or of this host over https.
    pub(crate) fn may_lead_to(&self, target: &Self) -> bool {
        let (from, to) = (&self.url, &target.url);
        let is_upgrade = from.scheme() == "http" && to.scheme() == "https";
        let is_same_port = self.port() == target.port();
        let is_same_place = is_same_port && from.scheme() == to.scheme();
        let default_ports = self.port() == 80 && target.port() == 443;
        self.host == target.host
            && (is_same_place || (is_upgrade && (is_same_port || default_ports)))
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}

impl fmt::Debug for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.url.as_str())
    }
}

/// What stands between `http://` or `https://` and the path. `None` where the URL does not begin
/// exactly so, or a parser of another program would see another host.
fn authority(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    (!authority.is_empty() && !authority.contains('\\')).then_some(authority)
}

/// Whether the host that `authority` names is the one that was parsed.
fn is_plain(authority: &str, url: &Url) -> bool {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let written = match authority.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host,
        _ => authority,
    };
    match url.host() {
        Some(Host::Ipv4(parsed)) => written.parse::<Ipv4Addr>() == Ok(parsed),
        Some(Host::Ipv6(parsed)) => {
            let inner = written.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
            inner.and_then(|inner| inner.parse::<Ipv6Addr>().ok()) == Some(parsed)
        }
        Some(Host::Domain(parsed)) => {
            let labels = || written.split('.').zip(parsed.split('.'));
            written.split('.').count() == parsed.split('.').count()
                && labels().all(|(written, parsed)| is_plain_label(written, parsed))
        }
        None => false,
    }
}

/// Whether a part of a name is written as what it was parsed as. IDNA reads a full-width letter or
/// one in a circle as a plain one; such a letter is in no one's name.
fn is_plain_label(written: &str, parsed: &str) -> bool {
    if written.is_ascii() {
        written.eq_ignore_ascii_case(parsed)
    } else {
        !written.contains('%') && parsed.starts_with("xn--")
    }
}

/// The host without a dot at its end, if it is an address or consists of letters, digits and
/// hyphens.
fn plain_host(url: &Url) -> Option<Host<String>> {
    Some(match url.host()? {
        Host::Ipv4(address) => Host::Ipv4(address),
        Host::Ipv6(address) => Host::Ipv6(address),
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            is_host_name(name).then(|| Host::Domain(name.to_owned()))?
        }
    })
}

fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        (1..=MAX_LABEL_CHARS).contains(&label.len())
            && label.chars().all(is_letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= MAX_HOST_CHARS && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests;
