//! The headers of a client's request that go upstream with it.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// All that are passed on as they came: LiteLLM obeys too many others.
const PASSED_ON: [HeaderName; 2] =
    [HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Under which names upstream's log knows a request: its id and its trace. Nothing else
/// of a client's head can be put into it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceHeaders(HeaderMap);

impl TraceHeaders {
    /// The trace that stands in `headers`, and our id of the request.
    pub(crate) fn new(headers: &HeaderMap, request_id: HeaderValue) -> Self {
        let trace = PASSED_ON.into_iter();
        let trace = trace.filter_map(|name| Some((name.clone(), headers.get(name)?.clone())));
        Self(trace.chain([(REQUEST_ID, request_id)]).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> + '_ {
        self.0.iter().map(|(name, value)| (name.clone(), value.clone()))
    }
}
