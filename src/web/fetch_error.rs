//! Defines why a page is not fetched, in words for the model. They never name an address that was
//! resolved or that a server named.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(
        "the host has an address that is not public; web pages are fetched from public addresses \
         only"
    )]
    NotPublic,
    #[error("the name of the host could not be resolved; check its spelling")]
    HostNotFound,
    #[error("no connection to the host within {}", shown(*.0))]
    ConnectTimeout(Duration),
    #[error("the host could not be connected to")]
    Unreachable,
    #[error("the host has no valid certificate for its name")]
    Certificate,
    #[error("the page did not come whole within {}", shown(*.0))]
    Timeout(Duration),
    #[error("the connection broke before the page had come whole")]
    Broken,
    #[error("the page has more than {} as it is sent, the most that is fetched", bytes(*.0))]
    TooLarge(usize),
    #[error("the page has more than {} when it is decompressed, the most that is read", bytes(*.0))]
    TooLargeDecoded(usize),
    #[error("the page is compressed in a way that is not read")]
    Encoding,
    #[error("the page is damaged: it cannot be decompressed")]
    Damaged,
    #[error("the page is of the type {0}, which is not read; text of every type, HTML and PDF are")]
    Type(String),
    #[error("the page is binary data, not text")]
    Binary,
    #[error("the page redirects to an address that is not fetched")]
    Redirect,
    #[error("the page redirects to a host whose name could not be resolved")]
    RedirectNotFound,
    #[error("the page redirects more than {0} times")]
    Redirects(usize),
    #[error("the page redirects to nowhere (HTTP {0} without a target)")]
    NoTarget(u16),
    #[error("the page could not be read: {0}")]
    Document(String),
    #[error("interrupted")]
    Cancelled,
}

fn shown(time: Duration) -> String {
    if time.subsec_millis() > 0 {
        format!("{} ms", time.as_millis())
    } else {
        format!("{} s", time.as_secs())
    }
}

fn bytes(bytes: usize) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{bytes} bytes")
    }
}
