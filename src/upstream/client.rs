//! Sends HTTP requests to upstream, over one connection pool.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
};
use reqwest::{ClientBuilder, Method, Proxy, RequestBuilder, Response, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::fault::{Fault, Refusal};
use super::settings::UpstreamSettings;
use super::sse::guard::SseLimits;
use super::stream::{ChunkStream, Draining};
use super::trace::TraceHeaders;
use super::traits::UpstreamTraits;
use super::whole_body::whole_body_within;
use crate::http_client;
use crate::limits::Limits;
use crate::memory_budget::MemoryBudget;
use crate::named_file;
use crate::openai::chunk::error_in_body;
use crate::secret::Secret;

/// The header under which LiteLLM passes on a provider's `Retry-After`.
const PROVIDER_RETRY_AFTER: &str = "llm_provider-retry-after";
/// The most bytes that are read of an error's body: more than its message needs.
const MAX_ERROR_BODY: usize = 64 << 10;
/// The largest `ca_file`, in bytes. All public certificate authorities together take a quarter
/// of it.
const MAX_CA_FILE: u64 = 1 << 20;
/// The most idle connections that are kept for later requests. Those of a burst are closed
/// after it.
const MAX_IDLE_CONNECTIONS: usize = 64;
/// The time limit for a list that upstream has ready, and for reading an error's body.
const SHORT_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The client to upstream. Cheap to clone; clones share the pool.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    http: reqwest::Client,
    authorization: Option<HeaderValue>,
    completions: Url,
    settings: Arc<UpstreamSettings>,
    caps: SseLimits,
    drains: Arc<Draining>,
    memory_budget: MemoryBudget,
    traits: UpstreamTraits,
}

impl Client {
    /// The error is one line for the person who wrote the configuration.
    pub(crate) fn new(
        settings: &UpstreamSettings,
        limits: &Limits,
        key: Option<&Secret>,
        memory_budget: MemoryBudget,
    ) -> Result<Self, String> {
        Ok(Self(Arc::new(Inner {
            http: http(settings)?,
            authorization: key.map(bearer).transpose()?,
            completions: settings.url.join("/chat/completions"),
            settings: Arc::new(settings.clone()),
            caps: SseLimits { line: limits.line, response: limits.response },
            drains: Arc::default(),
            memory_budget,
            traits: UpstreamTraits::default(),
        })))
    }

    pub(crate) fn settings(&self) -> &Arc<UpstreamSettings> {
        &self.0.settings
    }

    /// What was learnt of upstream's models.
    pub(crate) fn traits(&self) -> &UpstreamTraits {
        &self.0.traits
    }

    /// Requests a completion. Resolves when the response head came with a success status.
    pub(crate) async fn open(
        &self,
        body: impl Into<reqwest::Body>,
        headers: &TraceHeaders,
    ) -> Result<ChunkStream, Fault> {
        let request = self
            .request(Method::POST, self.0.completions.clone(), headers)
            .header(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(body);
        let response = self.send(request, self.0.settings.first_byte_timeout).await?;
        if is_html(&response) {
            let body = beginning(response, MAX_ERROR_BODY).await;
            return Err(Fault::not_a_completion(&body));
        }
        let Inner { caps, settings, drains, memory_budget, .. } = &*self.0;
        Ok(ChunkStream::new(
            response,
            *caps,
            settings,
            Arc::clone(drains),
            memory_budget.reservation(),
        ))
    }

    /// Forwards a request of another route, and streams its body in both directions. `route` is
    /// the path after `/v1`, with its query. A status that is not a success becomes a fault,
    /// since its body may contain keys.
    pub(crate) async fn forward(
        &self,
        method: Method,
        route: &str,
        content_type: Option<HeaderValue>,
        headers: &TraceHeaders,
        body: reqwest::Body,
    ) -> Result<Response, Fault> {
        let url = self.0.settings.url.join(route);
        let mut request = self.request(method, url, headers).body(body);
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        self.send(request, self.0.settings.first_byte_timeout).await
    }

    /// Upstream's list of models, unparsed.
    pub(crate) async fn models(&self) -> Result<Box<RawValue>, Fault> {
        self.list("/models").await
    }

    /// What LiteLLM tells of its models, unparsed. Other servers have no such list.
    pub(crate) async fn model_info(&self) -> Result<Box<RawValue>, Fault> {
        self.list("/model/info").await
    }

    /// A list that upstream has ready.
    async fn list(&self, route: &str) -> Result<Box<RawValue>, Fault> {
        let url = self.0.settings.url.join(route);
        let request = self.request(Method::GET, url, &TraceHeaders::default());
        let response = self.send(request, SHORT_REQUEST_TIMEOUT).await?;
        let mut reservation = self.0.memory_budget.reservation();
        let reserve = |bytes| reservation.hold(bytes).map_err(Fault::from);
        let body = whole_body_within(response, self.0.caps.response, reserve);
        let body = timeout(SHORT_REQUEST_TIMEOUT, body)
            .await
            .map_err(|_| Fault::Idle(SHORT_REQUEST_TIMEOUT))??;
        serde_json::from_slice(&body).map_err(|_| Fault::not_a_completion(&body))
    }

    /// Whether upstream answers and accepts our key.
    pub(crate) async fn probe(&self) -> Result<(), Fault> {
        self.models().await.map(drop)
    }

    fn request(&self, method: Method, url: Url, headers: &TraceHeaders) -> RequestBuilder {
        self.0.http.request(method, url).headers(self.headers(headers))
    }

    fn headers(&self, trace: &TraceHeaders) -> HeaderMap {
        let authorization = self.0.authorization.iter().map(|value| (AUTHORIZATION, value.clone()));
        authorization.chain(trace.iter()).collect()
    }

    /// Sends a request. Returns the response if its head is usable.
    async fn send(&self, request: RequestBuilder, within: Duration) -> Result<Response, Fault> {
        let response = timeout(within, request.send())
            .await
            .map_err(|_| Fault::FirstByte(within))?
            .map_err(|error| Fault::from_request_error(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(Fault::Redirect(status.as_u16()));
        }
        if !status.is_success() {
            return Err(self.refusal(response).await);
        }
        match response.headers().get(CONTENT_ENCODING) {
            Some(encoding) if encoding != "identity" => {
                Err(Fault::NotACompletion(format!("it is encoded: {encoding:?}")))
            }
            _ => Ok(response),
        }
    }

    /// Reads the error of a response with a failure status.
    async fn refusal(&self, response: Response) -> Fault {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let body = beginning(response, MAX_ERROR_BODY).await;
        let error = error_in_body(&String::from_utf8_lossy(&body));
        let is_keyless = self.0.authorization.is_none();
        Fault::Status(Refusal { status, error, retry_after, is_keyless })
    }
}

/// The value of `Authorization` with this key.
pub(crate) fn bearer(key: &Secret) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose().trim()))
        .map_err(|_| "the key holds characters that no header can carry".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_html(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/html"))
}

/// `Retry-After` of upstream, or of the provider behind it: seconds or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = [RETRY_AFTER.as_str(), PROVIDER_RETRY_AFTER]
        .iter()
        .find_map(|name| headers.get(*name))?
        .to_str()
        .ok()?
        .trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// Reads the first `most` bytes of an error's body, as far as they come in time.
async fn beginning(mut response: Response, most: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            let room = most.saturating_sub(body.len()).min(bytes.len());
            body.extend_from_slice(&bytes[..room]);
            if body.len() == most {
                break;
            }
        }
    };
    timeout(SHORT_REQUEST_TIMEOUT, reading).await.ok();
    body
}

/// An HTTP client that follows no redirect and uses no proxy of the environment.
pub(crate) fn http(settings: &UpstreamSettings) -> Result<reqwest::Client, String> {
    http_client::build(own_certificates(settings)?, |builder| prepared(builder, settings))
}

/// Adds what is set for upstream.
fn prepared(builder: ClientBuilder, settings: &UpstreamSettings) -> Result<ClientBuilder, String> {
    let builder = builder
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .connect_timeout(settings.connect_timeout);
    let Some(proxy) = &settings.proxy else { return Ok(builder) };
    let proxy = Proxy::all(proxy).map_err(|error| format!("upstream.proxy: {error}"))?;
    Ok(builder.proxy(proxy))
}

/// Reads the certificates of `ca_file`.
fn own_certificates(settings: &UpstreamSettings) -> Result<Vec<CertificateDer<'static>>, String> {
    let Some(path) = &settings.ca_file else { return Ok(Vec::new()) };
    let because = |why: String| format!("upstream.ca_file {}: {why}", path.display());
    let (pem, _) =
        named_file::read(path, MAX_CA_FILE).map_err(|error| because(error.to_string()))?;
    let certificates = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| because(error.to_string()))?;
    if certificates.is_empty() {
        return Err(because("it holds no certificate".into()));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests;
