//! Writes what stands behind the messages of a request but `tool_choice`: `tools` and
//! `parallel_tool_calls`.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::tools::definition::without_eager_input;

/// The end of each request of a turn.
#[derive(Debug)]
pub(super) struct Tail {
    /// The definitions of the server's tools.
    own: Vec<Arc<RawValue>>,
    clients: Vec<Arc<RawValue>>,
    parallel_tool_calls: Option<bool>,
    /// Whether the server's tools are written with `eager_input_streaming`.
    is_eager: bool,
    /// The bytes that were sent last.
    written: Bytes,
}

impl Tail {
    pub(super) fn new(
        own: Vec<Arc<RawValue>>,
        clients: Vec<Arc<RawValue>>,
        parallel_tool_calls: Option<bool>,
    ) -> Self {
        let written = Bytes::new();
        let tail = Self { own, clients, parallel_tool_calls, is_eager: true, written };
        Self { written: tail.write(), ..tail }
    }

    pub(super) fn has_tools(&self) -> bool {
        !self.own.is_empty() || !self.clients.is_empty()
    }

    /// Whether `eager_input_streaming` was sent for a tool of the server's.
    pub(super) fn has_eager_input(&self) -> bool {
        self.is_eager && !self.own.is_empty()
    }

    /// The bytes for a model that takes `eager_input_streaming`, or refuses it.
    pub(super) fn for_model(&mut self, takes_eager_input: bool) -> Bytes {
        if self.is_eager != takes_eager_input {
            self.is_eager = takes_eager_input;
            self.written = self.write();
        }
        self.written.clone()
    }

    /// The bytes that it keeps in memory. The server's definitions belong to all turns.
    pub(super) fn size(&self) -> usize {
        self.written.len() + self.clients.iter().map(|tool| tool.get().len()).sum::<usize>()
    }

    /// Begins with the closing bracket of `messages`.
    fn write(&self) -> Bytes {
        if !self.has_tools() {
            return Bytes::from_static(b"]");
        }
        let own = self.own.iter().map(|tool| {
            if self.is_eager { Cow::Borrowed(tool.get()) } else { without_eager_input(tool) }
        });
        let clients = self.clients.iter().map(|tool| Cow::Borrowed(tool.get()));
        let tools = own.chain(clients).collect::<Vec<_>>().join(",");
        let parallel = self
            .parallel_tool_calls
            .map(|parallel| format!(r#","parallel_tool_calls":{parallel}"#));
        format!(r#"],"tools":[{tools}]{}"#, parallel.unwrap_or_default()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = r#"{"function":{"name":"a","eager_input_streaming":true}}"#;

    fn tail(own: &[&str], clients: &[&str]) -> Tail {
        let raw = |text: &&str| RawValue::from_string((*text).to_owned()).unwrap().into();
        let [own, clients] = [own, clients].map(|tools| tools.iter().map(raw).collect::<Vec<_>>());
        Tail::new(own, clients, Some(false))
    }

    #[test]
    fn only_the_servers_own_tools_lose_the_member() {
        let mut tail = tail(&[OWN], &[OWN]);
        let usual = format!(r#"],"tools":[{OWN},{OWN}],"parallel_tool_calls":false"#);
        assert_eq!(tail.for_model(true), usual);
        assert!(tail.has_eager_input());
        let plain = format!(
            r#"],"tools":[{{"function":{{"name":"a"}}}},{OWN}],"parallel_tool_calls":false"#
        );
        assert_eq!(tail.for_model(false), plain);
        assert!(!tail.has_eager_input());
    }

    #[test]
    fn what_the_client_sends_is_not_ours_to_leave_out() {
        let mut tail = tail(&[], &[OWN]);
        assert!(!tail.has_eager_input());
        let usual = tail.for_model(true);
        assert_eq!(tail.for_model(false), usual);
    }
}
