//! Forwards further `/v1` routes unchanged, streamed in both directions.
//!
//! Forwards named routes only: upstream has administrative routes, which its key must not
//! open to our clients.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Uri};
use axum::response::Response;
use futures::stream::{self, Stream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::multipart::FieldNames;
use super::request_context::RequestContext;
use super::upstream_fault::to_api_error_about;
use super::{denied_fields, strict_json};
use crate::errors::{ApiError, ErrorCode};
use crate::http::body::{self, Incoming};
use crate::limits::Limits;
use crate::memory_budget::{MemoryBudget, Reservation};
use crate::sync;
use crate::upstream::Client;

/// OpenAI's routes by the name of their group.
const GROUPS: [(&str, &[&str]); 6] = [
    ("completions", &["completions"]),
    ("embeddings", &["embeddings"]),
    ("moderations", &["moderations"]),
    ("rerank", &["rerank"]),
    ("audio", &["audio/speech", "audio/transcriptions", "audio/translations"]),
    ("images", &["images/generations", "images/edits", "images/variations"]),
];

/// Further routes of OpenAI's clients, of which LiteLLM has some.
const FURTHER: [&str; 2] = ["batches", "files"];

/// Routes that the server answers itself.
const OWN: [&str; 2] = ["chat", "models"];

/// Which routes are forwarded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// `POST` to exactly these paths below `/v1/`.
    pub(crate) known: BTreeSet<String>,
    /// These paths below `/v1/` and everything beneath them.
    pub(crate) further: BTreeSet<String>,
}

impl Routes {
    /// Whether requests to this path below `/v1/` are forwarded.
    pub(crate) fn contains(&self, route: &str) -> bool {
        self.known.contains(route) || self.further.iter().any(|above| is_beneath(route, above))
    }

    /// Whether an operator can have this path below `/v1/` forwarded by naming it.
    pub(crate) fn could_contain(route: &str) -> bool {
        let members = GROUPS.iter().flat_map(|(_, members)| members.iter());
        members.chain(&FURTHER).any(|known| is_beneath(route, known))
    }

    /// Reads `upstream.passthrough`. The error is for the operator.
    pub(crate) fn named(names: &[String]) -> Result<Self, String> {
        let mut routes = Self::default();
        for name in names {
            if OWN.contains(&name.split('/').next().unwrap_or_default()) {
                return Err(format!("{name:?} is a route of the server's own"));
            }
            if !name.split('/').all(is_plain) {
                return Err(format!("{name:?} is no route: write it as \"responses\""));
            }
            match GROUPS.iter().find(|(group, _)| group == name) {
                Some((_, members)) => {
                    routes.known.extend(members.iter().map(|route| (*route).to_owned()));
                }
                None => drop(routes.further.insert(name.clone())),
            }
        }
        let Self { known, further } = &mut routes;
        known.retain(|route| !further.iter().any(|above| is_beneath(route, above)));
        let all = further.clone();
        further.retain(|route| !all.iter().any(|above| route != above && is_beneath(route, above)));
        Ok(routes)
    }
}

fn is_beneath(route: &str, above: &str) -> bool {
    route.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether every parser reads this path segment in the same way: no `..`, no escapes.
fn is_plain(segment: &str) -> bool {
    let is_plain_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@~".contains(&byte);
    !segment.is_empty()
        && segment.bytes().any(|byte| byte != b'.')
        && segment.bytes().all(is_plain_byte)
}

pub(crate) async fn forward(
    State(upstream): State<Arc<Client>>,
    State(limits): State<Arc<Limits>>,
    State(memory_budget): State<MemoryBudget>,
    context: RequestContext,
    request: Request,
) -> Result<Response, ApiError> {
    let revoked = context.client_key.revoked.clone();
    let answer = exchange(&upstream, &limits, memory_budget.reservation(), &context, request);
    match revoked.run_until_cancelled(answer).await {
        Some(answer) => Ok(relayed(answer?, upstream.settings().idle_timeout, revoked)),
        None => Err(ApiError::new(ErrorCode::InvalidApiKey, "This API key was revoked.")),
    }
}

/// Sends the request upstream, and returns when the head of the answer is there.
async fn exchange(
    upstream: &Client,
    limits: &Limits,
    reservation: Reservation,
    context: &RequestContext,
    request: Request,
) -> Result<reqwest::Response, ApiError> {
    let route = route_of(request.uri())?;
    let method = request.method().clone();
    let upload = Upload::default();
    let Outgoing { content_type, body, model, _share } =
        outgoing(request, limits, reservation, upload.clone()).await?;
    let headers = &context.upstream_headers;
    let answer = upstream.forward(method, &route, content_type, headers, body).await;
    match upload.failure() {
        Some(error) => Err(error),
        None => answer.map_err(|fault| to_api_error_about(&fault, model.as_deref(), upstream)),
    }
}

/// The path and query after `/v1`.
fn route_of(uri: &Uri) -> Result<String, ApiError> {
    let unknown = || ApiError::new(ErrorCode::UnknownRoute, "There is no such route.");
    let route = uri.path().strip_prefix("/v1/").ok_or_else(unknown)?;
    if !route.split('/').all(is_plain) {
        return Err(unknown());
    }
    let Some(query) = uri.query() else { return Ok(format!("/{route}")) };
    let Query(parameters) = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|_| ApiError::new(ErrorCode::InvalidValue, "The query is not readable."))?;
    for (name, _) in &parameters {
        denied_fields::check_form_field(name)?;
    }
    Ok(format!("/{route}?{query}"))
}

struct Outgoing {
    content_type: Option<HeaderValue>,
    body: reqwest::Body,
    /// The model of a JSON body.
    model: Option<String>,
    /// Counts a body that is not streamed.
    _share: Option<Reservation>,
}

async fn outgoing(
    request: Request,
    limits: &Limits,
    reservation: Reservation,
    upload: Upload,
) -> Result<Outgoing, ApiError> {
    if matches!(*request.method(), Method::GET | Method::DELETE) {
        return Ok(Outgoing {
            content_type: None,
            body: Bytes::new().into(),
            model: None,
            _share: None,
        });
    }
    let content_type = request.headers().get(CONTENT_TYPE).cloned();
    let is_multipart = body::media_type(request.headers())? == "multipart/form-data";
    if !is_multipart || !takes_multipart(request.uri().path()) {
        let (bytes, reservation) = body::read_json(request, limits, reservation).await?;
        let fields = strict_json::object(&bytes)?;
        denied_fields::check(&fields)?;
        let model = fields.string("model").map(Into::into);
        drop(fields);
        let body = bytes.into();
        return Ok(Outgoing { content_type, body, model, _share: Some(reservation) });
    }
    let boundary = content_type.as_ref().and_then(|value| value.to_str().ok());
    let names = FieldNames::from_content_type(boundary.unwrap_or_default())?;
    body::declared_length(request.headers(), limits.upload)?;
    let incoming = Incoming::new(request.into_body(), limits.upload, limits.body_time);
    let body = reqwest::Body::wrap_stream(watched(incoming, names, upload));
    Ok(Outgoing { content_type, body, model: None, _share: None })
}

/// Image and audio uploads are multipart. Routes that OpenAI defines with JSON take JSON
/// only.
fn takes_multipart(path: &str) -> bool {
    !["/v1/completions", "/v1/embeddings", "/v1/moderations", "/v1/rerank"].contains(&path)
}

/// Why the server aborted an upload.
#[derive(Clone, Debug, Default)]
struct Upload(Arc<Mutex<Option<ApiError>>>);

impl Upload {
    fn fail(&self, error: ApiError) -> io::Error {
        *sync::lock(&self.0) = Some(error);
        io::ErrorKind::InvalidData.into()
    }

    fn failure(&self) -> Option<ApiError> {
        sync::lock(&self.0).take()
    }
}

/// Forwards the body until a field in it is denied. Then the body ends with an error, so
/// upstream never sees a complete request.
fn watched(
    incoming: Incoming,
    names: FieldNames,
    upload: Upload,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold((incoming, names, upload), |(mut incoming, mut names, upload)| async move {
        let next = match incoming.next().await {
            Ok(Some(piece)) => names.feed(&piece).map(|()| Some(piece)),
            Ok(None) => names.finish().map(|()| None),
            Err(error) => Err(error),
        };
        match next {
            Ok(piece) => Ok(piece.map(|piece| (piece, (incoming, names, upload)))),
            Err(error) => Err(upload.fail(error)),
        }
    })
}

/// Streams a successful answer to the client. It is cut off when the client's key is revoked.
fn relayed(answer: reqwest::Response, idle: Duration, revoked: CancellationToken) -> Response {
    let status = answer.status();
    let content_type = answer.headers().get(CONTENT_TYPE).cloned();
    let pieces = stream::try_unfold((answer, revoked), move |(mut answer, revoked)| async move {
        let next = revoked.run_until_cancelled(timeout(idle, answer.chunk())).await;
        let next = next.ok_or_else(|| io::Error::other("the client key was revoked"))?;
        let piece = next.map_err(io::Error::other)?.map_err(io::Error::other)?;
        io::Result::Ok(piece.map(|piece| (piece, (answer, revoked))))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    *response.status_mut() = status;
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(names: &[&str]) -> Result<Routes, String> {
        Routes::named(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_group_is_its_known_routes_and_another_name_all_beneath_it() {
        let routes = routes(&["audio", "completions", "responses", "responses/x"]).unwrap();

        assert_eq!(
            routes.known.iter().collect::<Vec<_>>(),
            ["audio/speech", "audio/transcriptions", "audio/translations", "completions"]
        );
        assert_eq!(routes.further.iter().collect::<Vec<_>>(), ["responses"]);
    }

    #[test]
    fn names_that_are_no_route_are_refused() {
        for name in ["", "/x", "x/", "..", "a/../b", "a%2e", "{x}", "chat", "models", "chat/x"] {
            assert!(routes(&[name]).is_err(), "{name}");
        }
    }

    #[track_caller]
    fn check(uri: &'static str, expected: Result<&str, ErrorCode>) {
        let route = route_of(&Uri::from_static(uri)).map_err(|error| error.code);
        assert_eq!(route.as_deref(), expected.as_ref().copied(), "{uri}");
    }

    #[test]
    fn only_plain_routes_go_upstream() {
        check("/v1/files/file-1/content", Ok("/files/file-1/content"));
        check("/v1/files?limit=2&after=a%20b", Ok("/files?limit=2&after=a%20b"));
        check("/v1/files?api_base=x", Err(ErrorCode::RefusedField));
        check("/v1/files?%61pi_base=x", Err(ErrorCode::RefusedField));
        for uri in ["/v1/files/../key", "/v1/files/%2e%2e/key", "/v1/files//x", "/v1/files/a;b"] {
            check(uri, Err(ErrorCode::UnknownRoute));
        }
    }
}
