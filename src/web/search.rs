//! Searches the web through the operator's provider.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use moka::future::Cache;
use reqwest::header::{ACCEPT, HeaderValue};
use tokio::time::timeout;
use url::Url;

use self::domains::DomainFilter;
use self::provider::Endpoint;
use super::body::{BodyLimits, receive};
use super::fetch_error::FetchError;
use super::settings::{Provider, WebSettings};
use crate::http_client;
use crate::secret::Secret;

pub(crate) mod domains;
mod provider;
mod results;

/// The time for one search.
const MAX_TIME: Duration = Duration::from_secs(20);

/// The most bytes of a provider's answer.
const MAX_BYTES: usize = 2 << 20;

/// Sessions whose searches are counted; those that have searched last.
const MAX_SESSIONS: u64 = 10_000;

/// Searches the web. The whole server shares one.
#[derive(Debug)]
pub(crate) struct Search {
    client: reqwest::Client,
    endpoint: Endpoint,
    max_results: usize,
    per_session: usize,
    time: Duration,
    /// How often each session has searched.
    counts: Cache<String, Arc<AtomicUsize>>,
}

/// What a search asks for.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) domains: DomainFilter,
}

/// One thing that was found. Its texts are foreign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchResult {
    pub(crate) title: String,
    pub(crate) url: Url,
    pub(crate) snippet: String,
}

/// Why a search has no results, in words for the model. A provider's own words are left out: they
/// may hold anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SearchError {
    #[error("this session has made its {0} searches (web.search.per_session)")]
    TooMany(usize),
    #[error("the search provider did not answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    #[error("the search provider cannot be reached; the operator can check web.search.url")]
    Unreachable,
    #[error("the search provider answered with HTTP {status}; {}", remedy(*.status))]
    Status { status: u16 },
    #[error("the search provider's answer has more than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    #[error(
        "the search provider answered with something that is no list of results; the operator can \
         check web.search"
    )]
    NoResults,
}

fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => "the operator can check its key, and whether it answers in JSON",
        404 => "the operator can check web.search.url and web.search.tool",
        429 => "it takes no more searches for now",
        300..=399 => "redirects are not followed; the operator can check web.search.url",
        _ => "another try may help",
    }
}

impl Search {
    /// `None` if no provider is set. `key` is the provider's, or for `litellm` upstream's.
    pub(crate) fn new(
        settings: &WebSettings,
        upstream: &Url,
        key: Option<&Secret>,
    ) -> Result<Option<Self>, String> {
        let Some(provider) = settings.search.provider else { return Ok(None) };
        let search = &settings.search;
        let tool = search.tool.as_deref().unwrap_or_default();
        let url = match (&search.url, provider) {
            (_, Provider::Litellm) => Some(upstream.clone()),
            (Some(url), _) => Some(url.0.clone()),
            (None, provider) => provider::own_url(provider),
        };
        let url = url.ok_or("web.search.url must be set for this provider")?;
        let client = http_client::build(Vec::new(), |builder| {
            Ok(builder.connect_timeout(settings.connect_timeout))
        })?;
        let counts = Cache::builder().max_capacity(MAX_SESSIONS).build();
        Ok(Some(Self {
            client,
            endpoint: Endpoint::new(provider, &url, tool, key)?,
            max_results: search.results,
            per_session: search.per_session,
            time: MAX_TIME,
            counts,
        }))
    }

    /// Searches for `session`, whose searches are counted.
    pub(crate) async fn search(
        &self,
        query: &Query,
        session: Option<&str>,
    ) -> Result<Vec<SearchResult>, SearchError> {
        self.count(session).await?;
        let found = timeout(self.time, self.request(query)).await;
        let answer = found.unwrap_or(Err(SearchError::Timeout(self.time)))?;
        let found = self.endpoint.results(&answer).ok_or(SearchError::NoResults)?;
        Ok(results::chosen(found, &query.domains, self.max_results))
    }

    async fn count(&self, session: Option<&str>) -> Result<(), SearchError> {
        let Some(session) = session else { return Ok(()) };
        let count = self.counts.get_with(session.to_owned(), async { Arc::default() }).await;
        if count.fetch_add(1, Ordering::Relaxed) < self.per_session {
            return Ok(());
        }
        // So that it cannot overflow.
        count.fetch_sub(1, Ordering::Relaxed);
        Err(SearchError::TooMany(self.per_session))
    }

    async fn request(&self, query: &Query) -> Result<Vec<u8>, SearchError> {
        let request = self.endpoint.request(query, self.max_results);
        let mut sent = self.client.request(request.method, request.url);
        if let Some((name, value)) = self.endpoint.key() {
            sent = sent.header(name, value);
        }
        sent = sent.header(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(body) = request.body {
            sent = sent.header("content-type", "application/json").body(body.to_string());
        }
        let response = sent.send().await.map_err(|error| {
            if error.is_timeout() {
                SearchError::Timeout(self.time)
            } else {
                SearchError::Unreachable
            }
        })?;
        let status = response.status();
        if !status.is_success() {
            return Err(SearchError::Status { status: status.as_u16() });
        }
        let limits = BodyLimits { sent: MAX_BYTES, decoded: MAX_BYTES };
        let body = receive(response, limits).await.map_err(|error| match error {
            FetchError::TooLarge(_) | FetchError::TooLargeDecoded(_) => SearchError::TooLarge,
            FetchError::Broken => SearchError::Unreachable,
            _ => SearchError::NoResults,
        })?;
        Ok(body.bytes)
    }
}

#[cfg(test)]
mod tests;
