//! Reads the settings of `[sessions]`.

use std::time::Duration;

use axum::http::HeaderName;
use serde::{Deserialize, Deserializer};

use crate::store::settings::StoreSettings;

/// `[sessions]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SessionSettings {
    /// Whether a conversation without an id is recognised by what it says.
    pub(crate) content_address: bool,
    pub(crate) store: StoreKind,
    /// A session is forgotten so long after its last request.
    #[serde(with = "crate::units::duration")]
    pub(crate) retention: Duration,
    /// The bytes of all sessions together.
    #[serde(with = "crate::units::size")]
    pub(crate) max_bytes: usize,
    /// A session's background tasks end so long after its last turn.
    #[serde(with = "crate::units::duration")]
    pub(crate) idle: Duration,
    /// Further headers that name a session, after those of known frontends.
    #[serde(deserialize_with = "header_names")]
    pub(crate) id_headers: Vec<HeaderName>,
    /// Further headers that name the person behind a client, after those of known frontends.
    #[serde(deserialize_with = "header_names")]
    pub(crate) user_headers: Vec<HeaderName>,
}

/// Where sessions are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum StoreKind {
    /// In `toolhand.db` of the state directory.
    #[default]
    Sqlite,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            content_address: true,
            store: StoreKind::default(),
            retention: Duration::from_secs(3600 * 30 * 24),
            max_bytes: 1 << 30,
            idle: Duration::from_secs(3600 * 24),
            id_headers: Vec::new(),
            user_headers: Vec::new(),
        }
    }
}

impl SessionSettings {
    /// What the store is opened with.
    pub(crate) fn store_settings(&self) -> StoreSettings {
        StoreSettings { retention: self.retention, max_bytes: self.max_bytes as u64 }
    }
}

impl TryFrom<String> for StoreKind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.as_str() {
            "sqlite" => Ok(Self::Sqlite),
            // The value may be a URL with a password: it is not repeated.
            _ => Err("this version keeps sessions in \"sqlite\" only".into()),
        }
    }
}

fn header_names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<HeaderName>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    let parse = |name: String| {
        name.parse().map_err(|_| serde::de::Error::custom(format!("{name:?} is no header's name")))
    };
    names.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_an_error_that_says_so() {
        let error = |text: &str| toml::from_str::<SessionSettings>(text).unwrap_err().to_string();
        let store = error("store = \"postgres://me:secret@host/db\"");
        assert!(store.contains("keeps sessions in \"sqlite\" only"), "{store}");
        assert!(error("id_headers = [\"x y\"]").contains("\"x y\" is no header's name"));
        assert!(error("retention = 30").contains("retention"));
        let read: SessionSettings =
            toml::from_str("max_bytes = \"2MiB\"\nuser_headers = [\"X-Person\"]").unwrap();
        assert_eq!(read.store_settings().max_bytes, 2 << 20);
        assert_eq!(read.user_headers, ["x-person"]);
    }
}
