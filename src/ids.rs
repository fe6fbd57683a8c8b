//! Defines a type for each kind of id. The ids that the server makes are UUIDs: those that the
//! store looks up are of version 7, 74 random bits behind the time, so that rows of one time lie
//! together; the others of version 4, 122 random bits.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid, Variant, Version};

macro_rules! random_ids {
    ($uuid:ident: $($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub(crate) struct $name(String);

        impl $name {
            pub(crate) fn random() -> Self {
                Self(format!(concat!($prefix, "{}"), Uuid::$uuid().simple()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

random_ids! { now_v7:
    /// A session.
    SessionId = "sess_";
    /// A turn: one client request until its answer.
    TurnId = "turn_";
    /// A question to a person about a tool call.
    ApprovalId = "appr_";
    /// A subagent.
    AgentId = "agent_";
}

random_ids! { new_v4:
    /// The `id` of a completion and of all its chunks.
    CompletionId = "chatcmpl-";
    /// An HTTP request, in the log and upstream. A client may choose its own.
    RequestId = "req_";
    /// A tool call for which the model gave no id, or one that was in use.
    CallId = "call_";
    /// A card that shows a tool call in a frontend.
    CardId = "card_";
}

impl CompletionId {
    /// The completion that a turn answers with. A turn that is told again has the same.
    pub(crate) fn of_turn(turn: &TurnId) -> Self {
        Self(turn.0.replacen("turn_", "chatcmpl-", 1))
    }
}

impl TurnId {
    /// The row under which the store keeps what a subagent has done.
    pub(crate) fn of_agent(agent: &AgentId) -> Self {
        Self(agent.0.replacen("agent_", "turn_", 1))
    }
}

impl CardId {
    /// The digits that cards have in the place of a UUID's version, four cards each. Random ids, of
    /// version 4, name no turn.
    const VERSIONS: [u128; 15] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    /// The lowest of the four bits of the version, and of the two of the variant.
    const VERSION_AT: u32 = 76;
    const VARIANT_AT: u32 = 62;

    /// The card with this number of a turn. Its digits are the turn's, but for the six bits that
    /// are the same in all ids of turns: these count the cards. A frontend sends the id back, and
    /// the list then names the turn exactly. The cards behind the sixtieth are random.
    pub(crate) fn of_turn(turn: &TurnId, number: usize) -> Self {
        let digits = turn.0.strip_prefix("turn_").unwrap_or_default();
        let (Ok(uuid), Some(version)) = (Uuid::try_parse(digits), Self::VERSIONS.get(number / 4))
        else {
            return Self::random();
        };
        let shared = !((0b1111 << Self::VERSION_AT) | (0b11 << Self::VARIANT_AT));
        let version = version << Self::VERSION_AT;
        let variant = (number as u128 % 4) << Self::VARIANT_AT;
        let uuid = Uuid::from_u128((uuid.as_u128() & shared) | version | variant);
        Self(format!("card_{}", uuid.simple()))
    }

    /// The turn that the card names.
    pub(crate) fn turn(&self) -> Option<TurnId> {
        let uuid = Uuid::try_parse(self.0.strip_prefix("card_")?).ok()?;
        if uuid.get_version_num() == 4 {
            return None;
        }
        let of_turn = Builder::from_bytes(uuid.into_bytes())
            .with_version(Version::SortRand)
            .with_variant(Variant::RFC4122);
        Some(TurnId(format!("turn_{}", of_turn.into_uuid().simple())))
    }
}

impl AgentId {
    /// The subagent that the store keeps in this row.
    pub(crate) fn of_row(row: &TurnId) -> Self {
        Self(row.0.replacen("turn_", "agent_", 1))
    }
}

macro_rules! ids_that_come_back {
    ($($name:ident = $prefix:literal;)*) => {$(
        impl $name {
            /// Reads an id that the server made. No other spelling is one.
            pub(crate) fn parse(text: &str) -> Option<Self> {
                is_own_id($prefix, text).then(|| Self(text.to_owned()))
            }

        }
    )*};
}

macro_rules! shown_ids {
    ($($name:ident)*) => {$(
        impl $name {
            pub(crate) fn as_str(&self) -> &str {
                &self.0
            }
        }
    )*};
}

shown_ids! { SessionId TurnId ApprovalId CardId AgentId }

ids_that_come_back! {
    SessionId = "sess_";
    TurnId = "turn_";
    ApprovalId = "appr_";
    CardId = "card_";
    AgentId = "agent_";
}

/// Whether `text` is `prefix` and 32 lower-case hexadecimal digits.
fn is_own_id(prefix: &str, text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix(prefix).is_some_and(|rest| rest.len() == 32 && rest.bytes().all(is_digit))
}

/// Separates what belongs to different keys, and under one key to different forwarded users.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Scope([u8; 32]);

impl Scope {
    /// `user` is the forwarded id of a person behind a trusted frontend.
    pub(crate) fn new(key: &KeyId, user: Option<&str>) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("toolhand scope of a client key");
        hasher.update(&key.0.len().to_le_bytes()).update(key.0.as_bytes());
        if let Some(user) = user {
            hasher.update(b"/").update(user.as_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }

    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scope(..)")
    }
}

/// The longest request id that is taken from a client, in bytes.
const MAX_REQUEST_ID: usize = 128;

impl RequestId {
    /// The client's id, or `None` if it is empty, too long, or not printable ASCII: it is
    /// repeated in a header and in the log.
    pub(crate) fn from_client(sent: &[u8]) -> Option<Self> {
        let is_printable = sent.iter().all(|byte| (b' '..=b'~').contains(byte));
        let fits = (1..=MAX_REQUEST_ID).contains(&sent.len());
        (is_printable && fits).then(|| Self(String::from_utf8_lossy(sent).into_owned()))
    }

    /// The id as printable ASCII.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names a client key in the log, and separates what belongs to different keys. It reveals
/// nothing of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyId(Arc<str>);

impl KeyId {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Stands for every client of a server that asks for no key.
    pub(crate) fn nobody() -> Self {
        Self::new("nobody")
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn cards_name_their_turn() {
        let turn = TurnId::random();
        let cards: Vec<CardId> = (0..70).map(|number| CardId::of_turn(&turn, number)).collect();
        for (number, card) in cards.iter().enumerate() {
            assert_eq!(CardId::parse(card.as_str()).as_ref(), Some(card));
            assert_eq!(card.turn(), (number < 60).then(|| turn.clone()), "{number}");
        }
        assert_eq!(cards.iter().collect::<HashSet<_>>().len(), 70);
        assert_ne!(CardId::of_turn(&TurnId::random(), 0), cards[0]);
        assert_eq!(CardId::random().turn(), None);
    }
}
