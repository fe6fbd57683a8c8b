//! Reads pages of the web and searches it.
//!
//! What is fetched is foreign, and so is where a name leads: a page must not reach into the
//! operator's network. `docs/threats.md` has the table.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use reqwest::StatusCode;
use tokio_util::sync::CancellationToken;

use self::destination::Destinations;
pub(crate) use self::fetch_error::FetchError;
use self::fetcher::{Fetched, Fetcher};
pub(crate) use self::page::Page;
pub(crate) use self::resolver::{Resolver, SystemResolver};
pub(crate) use self::settings::{Provider, WebSettings};
use crate::ids::KeyId;
use crate::own_endpoints::OwnEndpoints;
use crate::page_url::{PageUrl, PageUrlError, TrustedHosts};
use crate::processes::worker::Workers;

mod body;
mod connect_deadline;
mod connector;
mod content;
mod destination;
mod fetch_error;
mod fetcher;
mod host_limits;
mod page;
mod resolver;
pub(crate) mod search;
mod settings;
mod upstream_addresses;

/// The most bytes of pages that are kept.
const CACHE_BYTES: u64 = 64 << 20;

/// Reads pages. The whole server shares one.
#[derive(Debug)]
pub(crate) struct Web {
    fetcher: Fetcher,
    workers: Workers,
    trusted: TrustedHosts,
    /// Pages by who has fetched them, and their URLs without fragments.
    cache: Option<Cache<(KeyId, String), Arc<Page>>>,
}

/// What a fetch came to.
#[derive(Clone, Debug)]
pub(crate) enum FetchOutcome {
    Page {
        page: Arc<Page>,
        /// Whether it was there already, or another call has fetched it at the same time.
        is_cached: bool,
    },
    /// The page leads to another host, which was not asked.
    Redirect { status: u16, target: PageUrl },
}

impl Web {
    pub(crate) fn new(
        settings: &WebSettings,
        own: OwnEndpoints,
        workers: Workers,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, String> {
        let destinations = Destinations::new(resolver, own);
        let fetcher = Fetcher::new(settings, destinations, fetcher::unchanged)?;
        let trusted = settings.trusted_hosts.clone();
        Ok(Self { fetcher, workers, trusted, cache: cache(settings.cache) })
    }

    pub(crate) fn parse(&self, url: &str) -> Result<PageUrl, PageUrlError> {
        PageUrl::parse(url, &self.trusted)
    }

    /// Refuses a page of which it shows without asking anyone that it cannot be read.
    pub(crate) fn refuse_known(&self, url: &PageUrl) -> Result<(), FetchError> {
        self.fetcher.destinations.refuse_known(url)
    }

    /// Fetches the page at `url` for the client with `key`.
    pub(crate) async fn fetch(
        &self,
        key: &KeyId,
        url: &PageUrl,
        cancelled: &CancellationToken,
    ) -> Result<FetchOutcome, FetchError> {
        tokio::select! {
            outcome = self.kept_or_fetched(key, url) => outcome,
            () = cancelled.cancelled() => Err(FetchError::Cancelled),
        }
    }

    /// Callers that want a page at the same time share one fetch of it. Where the one that makes
    /// it is dropped, another one begins anew.
    async fn kept_or_fetched(
        &self,
        key: &KeyId,
        url: &PageUrl,
    ) -> Result<FetchOutcome, FetchError> {
        let Some(cache) = &self.cache else { return self.fetch_anew(url).await };
        let to_keep = async {
            match self.fetch_anew(url).await {
                Ok(FetchOutcome::Page { page, .. }) if page.status == StatusCode::OK => Ok(page),
                not_kept => Err(not_kept),
            }
        };
        let entry = cache.entry((key.clone(), url.without_fragment()));
        match entry.or_try_insert_with(to_keep).await {
            Ok(entry) => {
                let is_cached = !entry.is_fresh();
                Ok(FetchOutcome::Page { page: entry.into_value(), is_cached })
            }
            Err(not_kept) => Result::clone(&not_kept),
        }
    }

    async fn fetch_anew(&self, url: &PageUrl) -> Result<FetchOutcome, FetchError> {
        match self.fetcher.fetch(url).await? {
            Fetched::Body(body) => {
                let page = Arc::new(page::read(body, &self.workers).await?);
                Ok(FetchOutcome::Page { page, is_cached: false })
            }
            Fetched::Redirect { status, target } => {
                Ok(FetchOutcome::Redirect { status: status.as_u16(), target })
            }
        }
    }
}

fn cache(time: Duration) -> Option<Cache<(KeyId, String), Arc<Page>>> {
    if time.is_zero() {
        return None;
    }
    let size =
        |_: &(KeyId, String), page: &Arc<Page>| u32::try_from(page.size()).unwrap_or(u32::MAX);
    let cache = Cache::builder().max_capacity(CACHE_BYTES).weigher(size).time_to_live(time).build();
    Some(cache)
}

#[cfg(test)]
pub(crate) mod test_support {
    use std::path::Path;
    use std::sync::LazyLock;

    use super::*;

    /// One for all tests that do not use it: building its clients takes a while.
    static WEB: LazyLock<Arc<Web>> = LazyLock::new(|| {
        let own = OwnEndpoints::new(&"http://127.0.0.1:4000/v1".parse().unwrap());
        let workers = Workers::new(Path::new("/bin/false"));
        Arc::new(Web::new(&WebSettings::default(), own, workers, Arc::new(SystemResolver)).unwrap())
    });

    pub(crate) fn web() -> Arc<Web> {
        Arc::clone(&WEB)
    }
}

#[cfg(test)]
mod tests;
