//! Writes what stands behind the messages of a request but `tool_choice`: `tools` and
//! `parallel_tool_calls`.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::joined;
use crate::tools::definition::without_eager_input;

/// The end of each request of a turn.
#[derive(Debug)]
pub(super) struct Tail {
    /// The definitions of the server's tools, which most turns share.
    own: Bytes,
    /// The same without `eager_input_streaming`, once a model has refused that.
    plain: Option<Bytes>,
    /// The client's tools and `parallel_tool_calls`. Empty if there are no tools at all.
    rest: Bytes,
    /// Whether the server's tools were written with `eager_input_streaming` last.
    is_eager: bool,
}

impl Tail {
    pub(super) fn new(
        own: Bytes,
        clients: &[Box<RawValue>],
        parallel_tool_calls: Option<bool>,
    ) -> Self {
        let has_tools = !(own.is_empty() && clients.is_empty());
        let mut rest = Vec::new();
        if has_tools {
            if !own.is_empty() && !clients.is_empty() {
                rest.push(b',');
            }
            rest.extend(joined(clients.iter().map(|tool| tool.get())));
            rest.push(b']');
            if let Some(parallel) = parallel_tool_calls {
                rest.extend_from_slice(format!(r#","parallel_tool_calls":{parallel}"#).as_bytes());
            }
        }
        Self { own, plain: None, rest: rest.into(), is_eager: true }
    }

    pub(super) fn has_tools(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Whether `eager_input_streaming` was sent for a tool of the server's.
    pub(super) fn has_eager_input(&self) -> bool {
        self.is_eager && !self.own.is_empty()
    }

    /// The pieces for a model that takes `eager_input_streaming`, or refuses it. They begin
    /// with the closing bracket of `messages`.
    pub(super) fn for_model(&mut self, takes_eager_input: bool) -> [Bytes; 3] {
        self.is_eager = takes_eager_input;
        let own = if takes_eager_input {
            &self.own
        } else {
            self.plain.get_or_insert_with(|| plain(&self.own))
        };
        let before: &[u8] = if self.rest.is_empty() { b"]" } else { br#"],"tools":["# };
        [Bytes::from_static(before), own.clone(), self.rest.clone()]
    }

    /// The definitions of the server's tools.
    pub(super) fn definitions(&self) -> &[u8] {
        &self.own
    }

    /// The bytes that are sent.
    pub(super) fn len(&self) -> usize {
        self.own.len() + self.rest.len()
    }

    /// The bytes that it keeps in memory. The server's definitions belong to all turns.
    pub(super) fn size(&self) -> usize {
        self.rest.len() + self.plain.as_ref().map_or(0, Bytes::len)
    }
}

/// Removes `eager_input_streaming` from each definition.
fn plain(definitions: &Bytes) -> Bytes {
    let array = [b"[", &definitions[..], b"]"].concat();
    let definitions: Vec<&RawValue> =
        serde_json::from_slice(&array).expect("our own definitions are JSON");
    let plain: Vec<_> = definitions.into_iter().map(without_eager_input).collect();
    plain.join(",").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = r#"{"function":{"name":"a","eager_input_streaming":true}}"#;

    fn tail(own: &str, clients: &[&str]) -> Tail {
        let raw = |text: &&str| RawValue::from_string((*text).to_owned()).unwrap();
        let clients: Vec<_> = clients.iter().map(raw).collect();
        Tail::new(Bytes::copy_from_slice(own.as_bytes()), &clients, Some(false))
    }

    fn written(tail: &mut Tail, takes_eager_input: bool) -> String {
        String::from_utf8(tail.for_model(takes_eager_input).concat()).unwrap()
    }

    #[test]
    fn only_the_servers_own_tools_lose_the_member() {
        let mut tail = tail(&format!("{OWN},{OWN}"), &[OWN]);
        let usual = format!(r#"],"tools":[{OWN},{OWN},{OWN}],"parallel_tool_calls":false"#);
        assert_eq!(written(&mut tail, true), usual);
        assert!(tail.has_eager_input());
        let plain = r#"{"function":{"name":"a"}}"#;
        let plain = format!(r#"],"tools":[{plain},{plain},{OWN}],"parallel_tool_calls":false"#);
        assert_eq!(written(&mut tail, false), plain);
        assert!(!tail.has_eager_input());
        assert_eq!(written(&mut tail, true), usual);
    }

    #[test]
    fn what_the_client_sends_is_not_ours_to_leave_out() {
        let mut tail = tail("", &[OWN]);
        assert!(!tail.has_eager_input());
        let usual = written(&mut tail, true);
        assert_eq!(written(&mut tail, false), usual);
    }

    #[test]
    fn a_request_without_tools_ends_with_its_messages() {
        let mut tail = tail("", &[]);
        assert_eq!((written(&mut tail, false).as_str(), tail.has_tools()), ("]", false));
    }
}
