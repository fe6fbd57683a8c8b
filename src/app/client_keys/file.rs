//! Reads and writes `keys.toml`.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode as FileMode, OFlags, fchmod, renameat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use toml::value::Datetime;

use super::super::state_dir::open_in;
use crate::http::client_key::{ClientKey, Key};
use crate::ids::KeyId;
use crate::named_file;
use crate::ownership::Ownership;
use crate::permissions::Mode;
use crate::tools::settings::ClientTools;
use crate::units::parse_duration;

pub(super) const NAME: &str = "keys.toml";
/// Holds the keys until they are written whole.
const NEW_NAME: &str = ".keys.toml.new";
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
    let file = match open_in(directory, NAME, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let (bytes, metadata) =
        named_file::read_open(&file, MAX_BYTES).map_err(|error| error.to_string())?;
    let ownership = Ownership::from_metadata(&metadata);
    ownership.expect_ours()?;
    ownership.refuse_other_readers("chmod 600 it")?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<Vec<StoredKey>, String> {
    let text = str::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
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
    match unlinkat(directory, NEW_NAME, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let mut file = open_in(directory, NEW_NAME, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
    fchmod(&file, FileMode::RUSR | FileMode::WUSR)?;
    file.write_all(HEADER.as_bytes())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    renameat(directory, NEW_NAME, directory, NAME)?;
    directory.sync_all()
}

/// Waits for commands that change the keys at the moment. The lock is held until the file is
/// dropped.
pub(super) fn lock(directory: &File) -> io::Result<File> {
    let file = open_in(directory, LOCK, OFlags::RDWR | OFlags::CREATE)?;
    file.lock()?;
    Ok(file)
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
