//! Reads and writes `keys.toml`.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use toml::value::Datetime;

use crate::http::client_key::{ClientKey, Key};
use crate::ids::KeyId;
use crate::named_file::ours;
use crate::permissions::Mode;
use crate::tools::settings::ClientTools;
use crate::units::parse_duration;

pub(super) const NAME: &str = "keys.toml";
/// Locked by the command that changes the keys. The server's own lock is another.
const LOCK: &str = "keys.lock";

pub(super) const ID_PREFIX: &str = "key_";

/// Tens of thousands of keys.
const MAX_BYTES: u64 = 16 << 20;

const HEADER: &str = "# Client keys. `toolhand key` writes this file, and a running server reads \
                      it at once.\n\n";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Keys {
    keys: Vec<StoredKey>,
}

/// A client key as it is kept. An unknown field is an error: it could have been a bound.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredKey {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) sha256: String,
    pub(crate) created: Datetime,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disconnect_grace: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) trust_forwarded_user: bool,
    /// `"all"`, `"none"` or names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_tools: Option<toml::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revoked: Option<Datetime>,
}

impl StoredKey {
    pub(crate) fn is_living(&self) -> bool {
        self.revoked.is_none()
    }

    /// The error names the field.
    pub(super) fn client(&self) -> Result<ClientKey, String> {
        let named = |field: &str, error: &dyn std::fmt::Display| format!("{field}: {error}");
        let mode = self.mode.as_deref().map(str::parse::<Mode>).transpose();
        let grace = self.disconnect_grace.as_deref().map(parse_duration).transpose();
        let tools = self.client_tools.clone().map(toml::Value::try_into::<ClientTools>).transpose();
        Ok(ClientKey {
            id: KeyId::new(&self.id),
            mode: mode.map_err(|error| named("mode", &error))?,
            workspace: self.workspace.clone(),
            disconnect_grace: grace.map_err(|error| named("disconnect_grace", &error))?,
            trust_forwarded_user: self.trust_forwarded_user,
            client_tools: tools.map_err(|error| named("client_tools", &error.message()))?,
            revoked: CancellationToken::new(),
        })
    }

    /// What is compared with the keys of requests.
    pub(super) fn key(&self) -> Result<Key, String> {
        let sha256 = from_hex(&self.sha256).ok_or("sha256 has not 64 hexadecimal digits")?;
        Ok(Key { client: Arc::new(self.client()?), sha256 })
    }

    fn check(&self) -> Result<(), String> {
        let digits = self.id.strip_prefix(ID_PREFIX);
        let is_id = digits.is_some_and(|digits| {
            digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let named = |reason: String| format!("the key {:?}: {reason}", self.name);
        if !is_id {
            return Err(named(format!("its id is not {ID_PREFIX} and 32 hexadecimal digits")));
        }
        self.key().map(drop).map_err(named)
    }
}

/// The keys, revoked ones as well. The error follows the name of the file.
pub(super) fn read(directory: &File) -> Result<Vec<StoredKey>, String> {
    ours::read_text(directory, NAME, MAX_BYTES)?.map_or_else(|| Ok(Vec::new()), |text| parse(&text))
}

fn parse(text: &str) -> Result<Vec<StoredKey>, String> {
    let Keys { keys } = toml::from_str(text).map_err(|error| {
        // The text of the error quotes the line, which may hold a hash.
        let line = error.span().map_or(0, |span| text[..span.start].lines().count());
        format!("line {}: {}", line.max(1), error.message())
    })?;
    let mut ids = HashSet::new();
    for key in &keys {
        key.check()?;
        if !ids.insert(&key.id) {
            return Err(format!("two keys have the id {}", key.id));
        }
    }
    Ok(keys)
}

/// Replaces the file in one step.
pub(super) fn write(directory: &File, keys: &[StoredKey]) -> io::Result<()> {
    let text = toml::to_string(&Keys { keys: keys.to_vec() }).map_err(io::Error::other)?;
    ours::replace(directory, NAME, &format!("{HEADER}{text}"))
}

/// Waits for commands that change the keys at the moment. The lock is held until the file is
/// dropped.
pub(super) fn lock(directory: &File) -> io::Result<File> {
    ours::lock(directory, LOCK)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}
