//! Holds the parsed URL of a web page: the value that is judged, shown to a person and fetched.

use std::fmt;

use url::Url;

/// A query of more characters may carry data out, to a host that is allowed to be read.
const MAX_PLAIN_QUERY: usize = 256;

/// An `http` or `https` URL with a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageUrl(Url);

impl PageUrl {
    /// `None`: it has no host. The rules of pages are the web service's.
    pub(crate) fn from_url(url: Url) -> Option<Self> {
        url.has_host().then_some(Self(url))
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// In lower case, in its ASCII form, without a dot at the end. An IPv6 address is in brackets.
    pub(crate) fn host(&self) -> &str {
        let host = self.0.host_str().unwrap_or_default();
        host.strip_suffix('.').unwrap_or(host)
    }

    /// Whether the query could carry data out.
    pub(crate) fn has_long_query(&self) -> bool {
        self.0.query().is_some_and(|query| query.chars().count() > MAX_PLAIN_QUERY)
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}
