//! Finds the ids by which a request names its session and the person behind it.

use std::borrow::Cow;

use axum::http::HeaderName;

use crate::ids::SessionId;
use crate::store::SessionKey;
use crate::store::rows::SessionName;

/// The longest id of a session, in bytes.
pub(crate) const MAX_ID: usize = 128;

/// Headers by which frontends name a chat. The first that is there decides.
const CHAT_HEADERS: [&str; 4] =
    ["x-openwebui-chat-id", "chatui-conversation-id", "x-conversation-id", "x-opencode-session"];

const METADATA: [&str; 3] = ["session_id", "conversation_id", "chat_id"];

const USER_HEADER: &str = "x-openwebui-user-id";

/// Ids with these beginnings change from request to request, or are shared by several chats.
const SHARED: [&str; 3] = ["temporary:", "local:", "channel:"];

/// Further headers, from `[sessions]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdSources {
    pub(crate) id_headers: Vec<HeaderName>,
    pub(crate) user_headers: Vec<HeaderName>,
}

/// The session that a client names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExplicitId {
    /// Given to us. It names one session whatever the model, and may be an id of ours.
    Own(String),
    /// A frontend's chat id: one session per model.
    Frontend(String),
}

/// Where a request may name its session.
pub(crate) struct Given<'a> {
    /// `toolhand.session`, which is a valid id.
    pub(crate) own: Option<&'a str>,
    pub(crate) header: &'a dyn Fn(&str) -> Option<&'a [u8]>,
    /// The texts in `metadata`.
    pub(crate) metadata: &'a dyn Fn(&str) -> Option<Cow<'a, str>>,
    /// `sessions.id_headers`.
    pub(crate) more_headers: &'a [HeaderName],
}

/// Whether the text may be the id of a session: it is repeated in a header and in the log.
pub(crate) fn is_id(text: &str) -> bool {
    (1..=MAX_ID).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// The session that the request names. The first id that is there decides: a request whose
/// chat id is of no use names no session.
pub(crate) fn explicit_id(given: &Given<'_>) -> Option<ExplicitId> {
    if let Some(own) = given.own {
        return Some(ExplicitId::Own(own.to_owned()));
    }
    let header = |name: &str| (given.header)(name).map(String::from_utf8_lossy);
    let chat = CHAT_HEADERS.iter().filter_map(|name| header(name));
    let metadata = METADATA.iter().filter_map(|name| (given.metadata)(name));
    let more = given.more_headers.iter().filter_map(|name| header(name.as_str()));
    let id = chat.chain(metadata).chain(more).find(|id| !id.trim().is_empty())?;
    let is_shared = SHARED.iter().any(|prefix| id.starts_with(prefix));
    (is_id(&id) && !is_shared).then(|| ExplicitId::Frontend(id.into_owned()))
}

/// The person for whom a frontend asks. Only a key that is trusted with it may say so.
pub(crate) fn forwarded_user<'a>(
    header: impl Fn(&str) -> Option<&'a [u8]>,
    more_headers: &[HeaderName],
    is_trusted: bool,
) -> Option<String> {
    let more = more_headers.iter().map(HeaderName::as_str);
    let mut names = std::iter::once(USER_HEADER).chain(more);
    let user = names.find_map(|name| header(name).filter(|user| !user.trim_ascii().is_empty()));
    // Two users never get the same text, whatever the bytes.
    let text = |user: &[u8]| match str::from_utf8(user) {
        Ok(user) => user.to_owned(),
        Err(_) => format!("\0{}", user.escape_ascii()),
    };
    user.filter(|_| is_trusted).map(text)
}

impl ExplicitId {
    /// The name of a session that is made for it.
    pub(crate) fn name(&self, model: &str) -> SessionName {
        match self {
            Self::Own(id) => SessionName { text: id.clone(), model: None },
            Self::Frontend(id) => SessionName { text: id.clone(), model: Some(model.to_owned()) },
        }
    }

    /// How the session is looked up: the first that is found is it.
    pub(crate) fn keys(&self, model: &str) -> Vec<SessionKey> {
        let own = match self {
            Self::Own(id) => SessionId::parse(id).map(SessionKey::Id),
            Self::Frontend(_) => None,
        };
        own.into_iter().chain([SessionKey::Name(self.name(model))]).collect()
    }

    pub(crate) fn text(&self) -> &str {
        let (Self::Own(id) | Self::Frontend(id)) = self;
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        own: Option<&str>,
        headers: &[(&str, &[u8])],
        metadata: &[(&str, &str)],
        id: Option<&str>,
    ) {
        let header = |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, id)| *id);
        let found = |name: &str| metadata.iter().find(|(key, _)| *key == name);
        let metadata = |name: &str| found(name).map(|(_, id)| Cow::Borrowed(*id));
        let more = [HeaderName::from_static("x-chat")];
        let given = Given { own, header: &header, metadata: &metadata, more_headers: &more };
        assert_eq!(explicit_id(&given).as_ref().map(ExplicitId::text), id);
    }

    #[test]
    fn the_first_id_that_is_there_decides() {
        let webui: (&str, &[u8]) = ("x-openwebui-chat-id", b"w");
        let other: (&str, &[u8]) = ("x-conversation-id", b"c");
        let more: (&str, &[u8]) = ("x-chat", b"m");
        let metadata = [("chat_id", "chat"), ("session_id", "session")];
        check(Some("own"), &[webui], &metadata, Some("own"));
        check(None, &[other, webui], &metadata, Some("w"));
        check(None, &[other, more], &metadata, Some("c"));
        check(None, &[("chatui-conversation-id", b""), more], &metadata, Some("session"));
        check(None, &[more], &[("chat_id", " ")], Some("m"));
        check(None, &[("x-opencode-session", b"o")], &[], Some("o"));
        check(None, &[], &[], None);
    }

    #[test]
    fn an_id_that_could_not_be_ours_is_none() {
        let long = "x".repeat(129);
        for id in ["temporary:x1", "local:1", "channel:1", "a\u{1}b", "a\nb", "é", &long] {
            check(None, &[("x-openwebui-chat-id", id.as_bytes())], &[("chat_id", "x")], None);
            check(None, &[], &[("session_id", id)], None);
        }
        check(None, &[("x-openwebui-chat-id", b"\xff\xfe")], &[], None);
        check(None, &[], &[("session_id", &long[..128])], Some(&long[..128]));
        check(Some("local:1"), &[], &[], Some("local:1"));
    }

    #[test]
    fn a_chat_id_is_one_session_per_model_and_ours_is_one_for_all() {
        let own = SessionId::random();
        let keys = |id: &ExplicitId| id.keys("m").len();
        assert_eq!(ExplicitId::Frontend("a".to_owned()).name("m").model.as_deref(), Some("m"));
        assert_eq!(ExplicitId::Own("a".to_owned()).name("m").model, None);
        let id = ExplicitId::Own(own.to_string());
        assert_eq!(id.keys("m")[0], SessionKey::Id(own.clone()));
        assert_eq!(keys(&ExplicitId::Frontend(own.to_string())), 1);
        assert_eq!(keys(&ExplicitId::Own(own.to_string().to_uppercase())), 1);
    }

    #[test]
    fn only_a_trusted_key_may_name_a_person() {
        let headers: [(&str, &[u8]); 2] = [("x-openwebui-user-id", b"anna"), ("x-user", b"\xff")];
        let more = [HeaderName::from_static("x-user")];
        let user = |headers: &[(&str, &'static [u8])], is_trusted| {
            let header =
                |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, id)| *id);
            forwarded_user(header, &more, is_trusted)
        };
        assert_eq!(user(&headers, true).as_deref(), Some("anna"));
        assert_eq!(user(&headers, false), None);
        assert_eq!(user(&headers[1..], true).as_deref(), Some("\0\\xff"));
        assert_eq!(user(&[("x-openwebui-user-id", b" ")], true), None);
    }
}
