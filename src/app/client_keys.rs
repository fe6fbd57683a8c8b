//! Makes, lists and revokes client keys, beside a running server.

mod file;
pub(crate) mod live;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

pub(crate) use self::file::StoredKey;
use super::state_dir::{self, StateError};
use crate::clock;
use crate::http::client_key::hash;

/// The id and the name of the key that is not in `keys.toml`: the one of the environment, or
/// the one in `api-key`.
pub(crate) const FIRST_KEY: &str = "default";

/// Longer names would not fit a line of a list.
const MAX_NAME: usize = 64;

/// What a new key is bound by.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewKey {
    pub(crate) name: String,
    pub(crate) mode: Option<String>,
    pub(crate) workspace: Option<String>,
    pub(crate) disconnect_grace: Option<String>,
    pub(crate) trust_forwarded_user: bool,
}

/// Why a key cannot be made or revoked, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(
        "{0:?} is no name for a key: use 1 to {MAX_NAME} letters, digits, dots, underscores, hyphens and @"
    )]
    Name(String),
    #[error("the name {FIRST_KEY} stands for the key in api-key or TOOLHAND_API_KEY; take another")]
    Reserved,
    #[error("there is a key named {0} already; take another name, or revoke it first")]
    Taken(String),
    #[error("no living key is named {0}; `toolhand key list` shows them")]
    Missing(String),
    #[error(
        "the key {FIRST_KEY} is not in keys.toml: delete the file api-key in the state directory, \
         or change TOOLHAND_API_KEY, and start the server again"
    )]
    First,
    #[error("{0}")]
    Bounds(String),
}

/// The keys of a state directory.
#[derive(Debug)]
pub(crate) struct ClientKeys {
    path: PathBuf,
    directory: File,
}

/// How many living keys there are, with the one that is not in `keys.toml`. Makes nothing.
pub(crate) fn count(path: &Path) -> Result<usize, KeyError> {
    let others = if path.exists() { ClientKeys::open(path)?.list()? } else { Vec::new() };
    Ok(1 + others.iter().filter(|key| key.is_living()).count())
}

impl ClientKeys {
    /// Opens the state directory, which is made if it is missing. A server may run on it.
    pub(crate) fn open(path: &Path) -> Result<Self, KeyError> {
        let directory =
            state_dir::open_directory(path).map_err(|reason| StateError::new(path, reason))?;
        Ok(Self { path: path.to_owned(), directory })
    }

    pub(crate) fn list(&self) -> Result<Vec<StoredKey>, KeyError> {
        file::read(&self.directory).map_err(|reason| self.fault(&reason))
    }

    /// Makes a key, and returns it. Only its hash is kept.
    pub(crate) fn add(&self, new: NewKey) -> Result<String, KeyError> {
        check_name(&new.name)?;
        let secret = state_dir::random_key().map_err(|error| self.fault(&error.to_string()))?;
        let key = StoredKey {
            id: format!("{}{}", file::ID_PREFIX, Uuid::new_v4().simple()),
            name: new.name,
            sha256: file::hex(&hash(secret.as_bytes())),
            created: clock::datetime(),
            mode: new.mode,
            workspace: new.workspace,
            disconnect_grace: new.disconnect_grace,
            trust_forwarded_user: new.trust_forwarded_user,
            client_tools: None,
            revoked: None,
        };
        key.client().map_err(KeyError::Bounds)?;
        self.change(|keys| {
            if keys.iter().any(|other| other.is_living() && other.name == key.name) {
                return Err(KeyError::Taken(key.name.clone()));
            }
            keys.push(key);
            Ok(())
        })?;
        Ok(secret)
    }

    /// Revokes the living key of this name. Returns its id.
    pub(crate) fn revoke(&self, name: &str) -> Result<String, KeyError> {
        if name == FIRST_KEY {
            return Err(KeyError::First);
        }
        self.change(|keys| {
            let is_it = |key: &&mut StoredKey| key.is_living() && key.name == name;
            let found = keys.iter_mut().find(is_it);
            let key = found.ok_or_else(|| KeyError::Missing(name.to_owned()))?;
            key.revoked = Some(clock::datetime());
            Ok(key.id.clone())
        })
    }

    /// Reads, changes and writes the file, while no other command does.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<StoredKey>) -> Result<T, KeyError>,
    ) -> Result<T, KeyError> {
        let _lock = file::lock(&self.directory).map_err(|error| self.io_fault(&error))?;
        let mut keys = self.list()?;
        let done = change(&mut keys)?;
        file::write(&self.directory, &keys).map_err(|error| self.io_fault(&error))?;
        Ok(done)
    }

    fn fault(&self, reason: &str) -> KeyError {
        StateError::new(&self.path, format!("{}: {reason}", file::NAME)).into()
    }

    fn io_fault(&self, error: &io::Error) -> KeyError {
        self.fault(&format!("cannot be written: {error}"))
    }
}

fn check_name(name: &str) -> Result<(), KeyError> {
    if name == FIRST_KEY {
        return Err(KeyError::Reserved);
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    let fits = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain);
    // A name that begins with a hyphen would be a flag in `key revoke`.
    if fits && !name.starts_with('-') { Ok(()) } else { Err(KeyError::Name(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn new_key(name: &str) -> NewKey {
        NewKey { name: name.to_owned(), ..NewKey::default() }
    }

    #[test]
    fn a_key_is_kept_as_its_hash_in_a_file_of_ours_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        let keys = ClientKeys::open(&path).unwrap();

        let secret = keys.add(new_key("alice")).unwrap();

        assert!(secret.starts_with("th-") && secret.len() == 3 + 64, "{secret}");
        let text = fs::read_to_string(path.join("keys.toml")).unwrap();
        assert!(!text.contains(&secret[3..]) && text.contains("name = \"alice\""), "{text}");
        assert!(text.contains(&file::hex(&hash(secret.as_bytes()))), "{text}");
        for name in ["keys.toml", "keys.lock"] {
            let mode = fs::metadata(path.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_name_is_unique_among_living_keys_and_an_id_for_ever() {
        let home = tempfile::tempdir().unwrap();
        let keys = ClientKeys::open(home.path()).unwrap();
        let first = keys.add(new_key("alice")).unwrap();
        let error = keys.add(new_key("alice")).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is a key named alice already; take another name, or revoke it first"
        );

        keys.revoke("alice").unwrap();
        let error = keys.revoke("alice").unwrap_err().to_string();
        assert!(error.starts_with("no living key is named alice"), "{error}");
        let second = keys.add(new_key("alice")).unwrap();

        let kept = keys.list().unwrap();
        assert_ne!(first, second);
        assert_eq!(kept.iter().map(StoredKey::is_living).collect::<Vec<_>>(), [false, true]);
        assert_ne!(kept[0].id, kept[1].id);
    }

    #[test]
    fn what_is_no_name_or_bound_is_refused_and_nothing_kept() {
        let home = tempfile::tempdir().unwrap();
        let keys = ClientKeys::open(home.path()).unwrap();
        let check = |new: NewKey, expected: &str| {
            let error = keys.add(new).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        for name in ["", "a b", "-x", "é", "a\n", &"x".repeat(65)] {
            check(new_key(name), "is no name for a key: use 1 to 64 letters");
        }
        check(new_key("default"), "stands for the key in api-key");
        let mode = Some("wide".to_owned());
        check(NewKey { mode, ..new_key("a") }, "mode: \"wide\" is no permission mode");
        let disconnect_grace = Some("soon".to_owned());
        check(NewKey { disconnect_grace, ..new_key("a") }, "disconnect_grace: \"soon\" does not");
        let error = keys.revoke("default").unwrap_err().to_string();
        assert!(error.contains("delete the file api-key"), "{error}");
        assert!(keys.list().unwrap().is_empty() && !home.path().join("keys.toml").exists());
    }

    #[test]
    fn commands_at_the_same_time_lose_no_key() {
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = home.path();
                scope.spawn(move || {
                    let keys = ClientKeys::open(path).unwrap();
                    keys.add(new_key(&format!("key{number}"))).unwrap();
                });
            }
        });
        assert_eq!(ClientKeys::open(home.path()).unwrap().list().unwrap().len(), 8);
    }
}
