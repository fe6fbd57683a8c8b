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
    has_clients: bool,
    /// How the server's tools were written last.
    sent: OwnTools,
}

/// How the server's own tools are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnTools {
    /// With `eager_input_streaming`.
    Eager,
    Plain,
    LeftOut,
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
        let has_clients = !clients.is_empty();
        Self { own, plain: None, rest: rest.into(), has_clients, sent: OwnTools::Eager }
    }

    pub(super) fn has_client_tools(&self) -> bool {
        self.has_clients
    }

    /// Whether tools were sent last.
    pub(super) fn sends_tools(&self) -> bool {
        self.has_clients || self.sends_own_tools()
    }

    /// Whether tools of the server's were sent last.
    pub(super) fn sends_own_tools(&self) -> bool {
        self.sent != OwnTools::LeftOut && !self.own.is_empty()
    }

    /// Whether `eager_input_streaming` was sent for a tool of the server's.
    pub(super) fn has_eager_input(&self) -> bool {
        self.sent == OwnTools::Eager && !self.own.is_empty()
    }

    /// The pieces with the server's tools in this form. They begin with the closing bracket of
    /// `messages`.
    pub(super) fn with_own_tools(&mut self, own: OwnTools) -> [Bytes; 3] {
        self.sent = own;
        if !self.sends_tools() {
            return [Bytes::from_static(b"]"), Bytes::new(), Bytes::new()];
        }
        let own = match own {
            OwnTools::Eager => self.own.clone(),
            OwnTools::Plain => self.plain.get_or_insert_with(|| plain(&self.own)).clone(),
            OwnTools::LeftOut => Bytes::new(),
        };
        // The comma behind the server's tools goes with them.
        let is_alone = own.is_empty() && self.rest.starts_with(b",");
        let rest = self.rest.slice(usize::from(is_alone)..);
        [Bytes::from_static(br#"],"tools":["#), own, rest]
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

    fn written(tail: &mut Tail, own: OwnTools) -> String {
        String::from_utf8(tail.with_own_tools(own).concat()).unwrap()
    }

    #[test]
    fn only_the_servers_own_tools_lose_the_member() {
        let mut tail = tail(&format!("{OWN},{OWN}"), &[OWN]);
        let usual = format!(r#"],"tools":[{OWN},{OWN},{OWN}],"parallel_tool_calls":false"#);
        assert_eq!(written(&mut tail, OwnTools::Eager), usual);
        assert!(tail.has_eager_input());
        let plain = r#"{"function":{"name":"a"}}"#;
        let plain = format!(r#"],"tools":[{plain},{plain},{OWN}],"parallel_tool_calls":false"#);
        assert_eq!(written(&mut tail, OwnTools::Plain), plain);
        assert!(!tail.has_eager_input());
        assert_eq!(written(&mut tail, OwnTools::Eager), usual);
    }

    #[test]
    fn what_the_client_sends_is_not_ours_to_leave_out() {
        let mut tail = tail("", &[OWN]);
        assert!(!tail.has_eager_input());
        let usual = written(&mut tail, OwnTools::Eager);
        assert_eq!(written(&mut tail, OwnTools::Plain), usual);
        assert_eq!(written(&mut tail, OwnTools::LeftOut), usual);
    }

    #[test]
    fn without_the_servers_tools_the_clients_are_left() {
        let both = written(&mut tail(OWN, &[r#"{"a":1}"#]), OwnTools::LeftOut);
        assert_eq!(both, r#"],"tools":[{"a":1}],"parallel_tool_calls":false"#);
        let mut own = tail(OWN, &[]);
        assert_eq!(written(&mut own, OwnTools::LeftOut), "]");
        assert!(!own.sends_tools());
        assert!(written(&mut own, OwnTools::Plain).contains("tools") && own.sends_own_tools());
    }

    #[test]
    fn a_request_without_tools_ends_with_its_messages() {
        let mut tail = tail("", &[]);
        assert_eq!(written(&mut tail, OwnTools::Plain), "]");
        assert!(!tail.sends_tools());
    }
}
