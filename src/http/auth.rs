//! Checks the key of each request, and slows down peers that guess (`docs/threats.md`, H1
//! to H4).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tokio::time::Instant;

use super::admission::Admission;
pub(crate) use super::client_key::Key;
use super::client_key::{ClientKey, hash};
use super::peer::Peer;
use crate::errors::{ApiError, ErrorCode};
use crate::sync;

/// How long a wrong key counts for `limits.wrong_keys_per_minute`.
const WINDOW: Duration = Duration::from_secs(60);

/// Above this number of peers, those whose window is over are removed.
const MAX_PEERS: usize = 1024;

/// `[auth]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuthSettings {
    /// `false` is `--no-auth`; allowed only on a loopback address.
    pub(crate) required: bool,
}

impl Default for AuthSettings {
    fn default() -> Self {
        Self { required: true }
    }
}

/// The accepted keys, if one is required.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    #[cfg(test)]
    Required(Vec<Key>),
    /// Keys that come and go while the server runs.
    Changing(Arc<dyn KeySource>),
    NotRequired,
}

/// Where changing keys come from.
pub(crate) trait KeySource: Send + Sync + fmt::Debug {
    /// The keys that are accepted now. Asked for each request.
    fn keys(&self) -> Arc<[Key]>;
}

impl Keys {
    pub(crate) fn find(&self, presented: &[u8]) -> Option<Arc<ClientKey>> {
        match self {
            #[cfg(test)]
            Self::Required(keys) => find(keys, presented),
            Self::Changing(source) => find(&source.keys(), presented),
            Self::NotRequired => Some(Arc::new(ClientKey::nobody())),
        }
    }
}

/// Finds the key that was presented. Compares every known key in full, so that the time tells
/// nothing about them.
fn find(keys: &[Key], presented: &[u8]) -> Option<Arc<ClientKey>> {
    let presented = hash(presented);
    let mut found = u32::MAX;
    for (index, key) in (0_u32..).zip(keys) {
        let same: Choice = key.sha256.ct_eq(&presented);
        found.conditional_assign(&index, same);
    }
    keys.get(usize::try_from(found).ok()?).map(|key| Arc::clone(&key.client))
}

/// What authentication needs.
#[derive(Debug)]
pub(crate) struct Authenticator {
    keys: Keys,
    wrong_keys: WrongKeys,
    /// `limits.wrong_keys_per_minute`.
    wrong_keys_per_minute: u32,
    /// `server.trusted_proxies`: peers whose `X-Forwarded-For` counts.
    trusted_proxies: Vec<IpAddr>,
}

impl Authenticator {
    pub(crate) fn new(
        keys: Keys,
        wrong_keys_per_minute: u32,
        trusted_proxies: Vec<IpAddr>,
    ) -> Self {
        Self { keys, wrong_keys: WrongKeys::default(), wrong_keys_per_minute, trusted_proxies }
    }
}

/// Refuses a request without a valid key; otherwise puts the [`ClientKey`] and its
/// [`KeyId`](crate::ids::KeyId) into its extensions. Runs before the body is read.
pub(crate) async fn require_key(
    State(authenticator): State<Arc<Authenticator>>,
    mut request: Request,
    next: Next,
) -> Response {
    match authenticate(&authenticator, &request) {
        Ok(key) => {
            if let Some(admission) = request.extensions().get::<Arc<Admission>>() {
                admission.authenticate();
            }
            request.extensions_mut().insert(key.id.clone());
            request.extensions_mut().insert(key);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

fn authenticate(
    authenticator: &Authenticator,
    request: &Request,
) -> Result<Arc<ClientKey>, ApiError> {
    let Authenticator { keys, wrong_keys, wrong_keys_per_minute, trusted_proxies } = authenticator;
    if matches!(keys, Keys::NotRequired) {
        return Ok(Arc::new(ClientKey::nobody()));
    }
    let Some(presented) = bearer(request.headers())? else { return Err(refused()) };
    if let Some(key) = keys.find(presented) {
        return Ok(key);
    }
    let client = request
        .extensions()
        .get::<Peer>()
        .map(|peer| peer.client_address(request.headers(), trusted_proxies));
    let now = Instant::now();
    match client.and_then(|client| wrong_keys.count(client, *wrong_keys_per_minute, now)) {
        Some(wait) => Err(ApiError::new(
            ErrorCode::TooManyWrongKeys,
            "Too many wrong API keys came from this address. Wait, then use a valid one.",
        )
        .retry_after(Some(wait))),
        None => Err(refused()),
    }
}

/// A missing key and a wrong one get the same answer.
fn refused() -> ApiError {
    ApiError::new(
        ErrorCode::InvalidApiKey,
        "This server needs a valid API key, sent as 'Authorization: Bearer KEY'.",
    )
}

/// The key in `Authorization`. Keys anywhere else are ignored.
fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, ApiError> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    let first = sent.next();
    if sent.next().is_some() {
        return Err(ApiError::new(
            ErrorCode::InvalidValue,
            "The request has more than one Authorization header.",
        ));
    }
    Ok(first.and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked("bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
    }))
}

/// The wrong keys of each peer within its window.
#[derive(Debug, Default)]
struct WrongKeys(Mutex<HashMap<IpAddr, Count>>);

#[derive(Clone, Copy, Debug)]
struct Count {
    since: Instant,
    wrong: u32,
}

impl WrongKeys {
    /// Counts a wrong key of `peer`. Above `limit`, returns how long the peer must wait.
    fn count(&self, peer: IpAddr, limit: u32, now: Instant) -> Option<Duration> {
        let mut peers = sync::lock(&self.0);
        if peers.len() >= MAX_PEERS {
            peers.retain(|_, count| now < count.since + WINDOW);
        }
        let count = peers.entry(peer).or_insert(Count { since: now, wrong: 0 });
        if now >= count.since + WINDOW {
            *count = Count { since: now, wrong: 0 };
        }
        count.wrong = count.wrong.saturating_add(1);
        (count.wrong > limit).then(|| count.since + WINDOW - now)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn keys() -> Keys {
        Keys::Required(vec![
            Key::from_secret("key_1", "th-one"),
            Key::from_secret("key_2", "th-two"),
        ])
    }

    #[test]
    fn finds_each_key_and_no_other() {
        assert_eq!(keys().find(b"th-one").unwrap().id.to_string(), "key_1");
        assert_eq!(keys().find(b"th-two").unwrap().id.to_string(), "key_2");
        let long = vec![b'x'; 65_536];
        for wrong in [&b""[..], b"th-on", b"th-onee", b"' OR 1=1--", &long] {
            assert!(keys().find(wrong).is_none());
        }
    }

    #[track_caller]
    fn check(headers: &[&str], expected: Option<&str>) {
        let mut map = HeaderMap::new();
        for value in headers {
            map.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(bearer(&map).unwrap(), expected.map(str::as_bytes));
    }

    #[test]
    fn reads_only_a_bearer() {
        check(&["Bearer k"], Some("k"));
        check(&["bearer k"], Some("k"));
        check(&["Bearer  k "], Some("k"));
        check(&["Basic k"], None);
        check(&["k"], None);
        check(&["Bearer"], None);
        check(&[], None);
    }

    #[test]
    fn two_keys_are_no_key() {
        let mut map = HeaderMap::new();
        map.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        map.append(AUTHORIZATION, HeaderValue::from_static("Bearer b"));

        assert_eq!(bearer(&map).unwrap_err().code.status(), 400);
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_over_the_limit_waits_and_only_its_peer() {
        let wrong = WrongKeys::default();
        let (peer, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let start = Instant::now();

        assert!((0..10).all(|_| wrong.count(peer, 10, start).is_none()));
        assert_eq!(wrong.count(peer, 10, start + WINDOW / 2), Some(WINDOW / 2));
        assert_eq!(wrong.count(other, 10, start), None);
        assert_eq!(wrong.count(peer, 10, start + WINDOW), None);
    }
}
