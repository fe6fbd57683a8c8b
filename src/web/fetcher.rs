//! Fetches what stands at a URL: looks at its addresses, follows redirects within the host, and
//! receives the body, all within one time limit.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LINK, LOCATION, REFRESH,
    USER_AGENT,
};
use reqwest::{ClientBuilder, Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::body::{Body, BodyLimits, receive};
use super::connector::Connector;
use super::content::ContentType;
use super::destination::Destinations;
use super::fetch_error::FetchError;
use super::host_limits::HostLimits;
use super::settings::WebSettings;
use crate::documents::html::NamedAddresses;
use crate::page_url::{PageUrl, TrustedHosts};

/// The most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// What is asked for: Markdown first, which some sites have for models, then pages that can be read
/// as text, and a form of them for people.
const ACCEPTED: &str = "text/markdown,text/html;q=0.9,application/xhtml+xml;q=0.9,text/*;q=0.8,\
                        application/pdf;q=0.8,*/*;q=0.5";

#[derive(Debug)]
pub(super) struct Fetcher {
    pub(super) destinations: Destinations,
    connector: Connector,
    hosts: HostLimits,
    trusted: TrustedHosts,
    connect_timeout: Duration,
    timeout: Duration,
    limits: BodyLimits,
}

/// What stood at a URL.
#[derive(Debug)]
pub(super) enum Fetched {
    Body(FetchedBody),
    /// The page leads to another host, which the model may fetch.
    Redirect {
        status: StatusCode,
        target: PageUrl,
    },
}

/// Where the redirects within a host have led.
#[derive(Debug)]
enum Followed {
    Answer { url: PageUrl, response: Response },
    Redirect { status: StatusCode, target: PageUrl },
}

#[derive(Debug)]
pub(super) struct FetchedBody {
    /// Where it stood in the end.
    pub(super) url: PageUrl,
    pub(super) status: StatusCode,
    pub(super) content_type: ContentType,
    /// Those that the head of the answer names.
    pub(super) addresses: NamedAddresses,
    pub(super) bytes: Vec<u8>,
    /// Bytes as they were sent.
    pub(super) sent: usize,
}

impl Fetcher {
    pub(super) fn new(
        settings: &WebSettings,
        destinations: Destinations,
        prepared: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> Result<Self, String> {
        Ok(Self {
            destinations,
            connector: Connector::new(prepared)?,
            hosts: HostLimits::default(),
            trusted: settings.trusted_hosts.clone(),
            connect_timeout: settings.connect_timeout,
            timeout: settings.timeout,
            limits: BodyLimits { sent: settings.max_bytes, decoded: settings.max_decoded },
        })
    }

    pub(super) async fn fetch(&self, url: &PageUrl) -> Result<Fetched, FetchError> {
        let deadline = Instant::now() + self.timeout;
        // All redirects that are followed stay on the host.
        let _permit = self.within(deadline, self.hosts.enter(url.host())).await?;
        match self.within(deadline, self.follow(url)).await?? {
            Followed::Answer { url, response } => {
                self.body(url, response, deadline).await.map(Fetched::Body)
            }
            Followed::Redirect { status, target } => Ok(Fetched::Redirect { status, target }),
        }
    }

    async fn within<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Result<T, FetchError> {
        timeout_at(deadline, work).await.map_err(|_| FetchError::Timeout(self.timeout))
    }

    /// Goes from one URL to the next, as long as they are of one host.
    async fn follow(&self, first: &PageUrl) -> Result<Followed, FetchError> {
        let mut url = first.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.request(&url).await?;
            let Some(target) = self.target(&url, &response)? else {
                return Ok(Followed::Answer { url, response });
            };
            if !url.may_lead_to(&target) {
                // The model may fetch the target it is told, so only an allowed target is told.
                let found = self.addresses(&target, Instant::now() + self.connect_timeout).await;
                let status = response.status();
                return match found {
                    Ok(_) => Ok(Followed::Redirect { status, target }),
                    Err(FetchError::HostNotFound | FetchError::ConnectTimeout(_)) => {
                        Err(FetchError::RedirectNotFound)
                    }
                    Err(_) => Err(FetchError::Redirect),
                };
            }
            url = target;
        }
        Err(FetchError::Redirects(MAX_REDIRECTS))
    }

    async fn request(&self, url: &PageUrl) -> Result<Response, FetchError> {
        let deadline = Instant::now() + self.connect_timeout;
        let addresses = self.addresses(url, deadline).await?;
        let response = self.connector.get(url, addresses, headers(), deadline).await;
        response.map_err(|error| self.fault(&error))
    }

    async fn addresses(
        &self,
        url: &PageUrl,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        let found = timeout_at(deadline, self.destinations.allowed_addresses(url)).await;
        found.unwrap_or(Err(FetchError::ConnectTimeout(self.connect_timeout)))
    }

    /// Where the answer leads, if it leads anywhere.
    fn target(&self, url: &PageUrl, response: &Response) -> Result<Option<PageUrl>, FetchError> {
        let status = response.status().as_u16();
        if !matches!(status, 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let location = response.headers().get(LOCATION).ok_or(FetchError::NoTarget(status))?;
        let location =
            std::str::from_utf8(location.as_bytes()).map_err(|_| FetchError::Redirect)?;
        if url.is_downgrade(location) {
            return Err(FetchError::Redirect);
        }
        url.join(location, &self.trusted).map(Some).map_err(|_| FetchError::Redirect)
    }

    /// The body of an answer. An error is told by its status, so one whose body does not come
    /// whole has none.
    async fn body(
        &self,
        url: PageUrl,
        response: Response,
        deadline: Instant,
    ) -> Result<FetchedBody, FetchError> {
        let status = response.status();
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_type = ContentType::parse(content_type);
        let addresses = addresses_of(response.headers(), &url);
        let Body { bytes, sent } =
            match self.within(deadline, receive(response, self.limits)).await.flatten() {
                Ok(body) => body,
                Err(_) if !status.is_success() => Body::default(),
                Err(error) => return Err(error),
            };
        Ok(FetchedBody { url, status, content_type, addresses, bytes, sent })
    }

    fn fault(&self, error: &reqwest::Error) -> FetchError {
        if !error.is_connect() {
            return FetchError::Broken;
        }
        if error.is_timeout() {
            return FetchError::ConnectTimeout(self.connect_timeout);
        }
        let mut source: Option<&dyn std::error::Error> = Some(error);
        while let Some(cause) = source {
            let tls = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            if tls.and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some()
                || cause.is::<rustls::Error>()
            {
                return FetchError::Certificate;
            }
            source = cause.source();
        }
        FetchError::Unreachable
    }
}

/// The other addresses that the head of an answer names.
fn addresses_of(headers: &HeaderMap, url: &PageUrl) -> NamedAddresses {
    let refresh = headers.get(REFRESH).and_then(|value| value.to_str().ok());
    let links = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    NamedAddresses::of_headers(refresh, links, url.url())
}

fn headers() -> HeaderMap {
    let agent = concat!("toolhand/", env!("CARGO_PKG_VERSION"));
    [(ACCEPT, ACCEPTED), (ACCEPT_ENCODING, "gzip, br"), (USER_AGENT, agent)]
        .map(|(name, value)| (name, HeaderValue::from_static(value)))
        .into_iter()
        .collect()
}

/// What [`Fetcher::new`] is given outside of tests: the clients need no more than they have.
pub(super) fn unchanged(builder: ClientBuilder) -> ClientBuilder {
    builder
}
