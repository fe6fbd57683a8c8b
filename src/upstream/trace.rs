//! Selects the headers of a client's request that are sent upstream.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// The headers that are passed on unchanged. LiteLLM obeys many others, so there are no more.
const FORWARDED_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The request's id and trace, by which upstream's log can be matched with ours. No other
/// header of a client is sent upstream.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceHeaders(HeaderMap);

impl TraceHeaders {
    /// Takes the trace from `headers`, and the server's id of the request.
    pub(crate) fn new(headers: &HeaderMap, request_id: HeaderValue) -> Self {
        let trace = FORWARDED_HEADERS.into_iter();
        let trace = trace.filter_map(|name| Some((name.clone(), headers.get(name)?.clone())));
        Self(trace.chain([(REQUEST_ID, request_id)]).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> + '_ {
        self.0.iter().map(|(name, value)| (name.clone(), value.clone()))
    }
}
