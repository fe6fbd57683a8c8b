//! Reads `keys.toml` again whenever it has changed, while the server runs.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{AtFlags, statat};
use tokio::time::sleep;

use super::super::state_dir::StateError;
use super::{file, file::StoredKey};
use crate::http::auth::{Key, KeySource};
use crate::http::client_key::ClientKey;
use crate::sync;

/// How often the file is looked at without a request, so that a revoked key's streams end.
const INTERVAL: Duration = Duration::from_secs(1);

/// The keys of a running server. What a command changes holds from the next request on.
#[derive(Debug)]
pub(crate) struct LiveKeys {
    path: PathBuf,
    directory: File,
    /// The one that is not in the file.
    first: Key,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The file that was read last, well or not.
    seen: Option<Version>,
    keys: Arc<[Key]>,
}

/// Tells a file from the one that was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    inode: u64,
    size: i64,
    mode: u32,
    owner: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl LiveKeys {
    /// Fails if the file cannot be used: at the start somebody reads why.
    pub(crate) fn open(path: &Path, directory: File, first: Key) -> Result<Self, StateError> {
        let refuse = |reason| StateError::new(path, format!("{}: {reason}", file::NAME));
        let seen = version(&directory);
        let stored = file::read(&directory).map_err(refuse)?;
        let keys = accepted(&first, &stored, &[]).map_err(refuse)?;
        let state = Mutex::new(State { seen, keys });
        Ok(Self { path: path.to_owned(), directory, first, state })
    }

    /// Looks at the file now and then, for ever, and tells which keys count now.
    pub(crate) async fn watch(&self, keys_now: impl Fn(&[Key])) {
        loop {
            sleep(INTERVAL).await;
            keys_now(&self.keys());
        }
    }

    /// Keeps the old keys if the file cannot be used.
    fn reload(&self, state: &mut State) {
        let stored = file::read(&self.directory);
        let keys = stored.and_then(|stored| accepted(&self.first, &stored, &state.keys));
        match keys {
            Ok(keys) => {
                revoke_missing(&state.keys, &keys);
                tracing::info!(keys = keys.len(), "read the client keys");
                state.keys = keys;
            }
            Err(reason) => tracing::warn!(
                path = %self.path.join(file::NAME).display(),
                %reason,
                "the client keys cannot be read: those from before stay"
            ),
        }
    }
}

impl KeySource for LiveKeys {
    fn keys(&self) -> Arc<[Key]> {
        let mut state = sync::lock(&self.state);
        let version = version(&self.directory);
        if version != state.seen {
            state.seen = version;
            self.reload(&mut state);
        }
        Arc::clone(&state.keys)
    }
}

fn version(directory: &File) -> Option<Version> {
    let stat = statat(directory, file::NAME, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    #[expect(clippy::useless_conversion, reason = "the types differ among architectures")]
    let seconds =
        |number, nanoseconds| (i64::from(number), i64::try_from(nanoseconds).unwrap_or(0));
    Some(Version {
        inode: stat.st_ino,
        size: stat.st_size,
        mode: stat.st_mode,
        owner: stat.st_uid,
        modified: seconds(stat.st_mtime, stat.st_mtime_nsec),
        changed: seconds(stat.st_ctime, stat.st_ctime_nsec),
    })
}

/// The first key and the living ones of the file. A key that was there before keeps its token,
/// so that its streams hear of a later end.
fn accepted(first: &Key, stored: &[StoredKey], before: &[Key]) -> Result<Arc<[Key]>, String> {
    let known: HashMap<_, _> = before.iter().map(|key| (&key.client.id, key)).collect();
    let mut keys = vec![first.clone()];
    for stored in stored.iter().filter(|key| key.is_living()) {
        let mut key = stored.key()?;
        let same = known.get(&key.client.id).filter(|known| known.sha256 == key.sha256);
        if let Some(known) = same {
            let revoked = known.client.revoked.clone();
            key.client = Arc::new(ClientKey { revoked, ..ClientKey::clone(&key.client) });
        }
        keys.push(key);
    }
    Ok(keys.into())
}

fn revoke_missing(before: &[Key], now: &[Key]) {
    for key in before {
        let is_there =
            now.iter().any(|other| other.client.id == key.client.id && other.sha256 == key.sha256);
        if !is_there {
            tracing::info!(key = %key.client.id, "a client key was revoked");
            key.client.revoked.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::{ClientKeys, NewKey};
    use super::*;
    use crate::http::auth::Keys;

    struct Ground {
        home: tempfile::TempDir,
        commands: ClientKeys,
        live: Arc<LiveKeys>,
    }

    fn ground() -> Ground {
        let home = tempfile::tempdir().unwrap();
        let commands = ClientKeys::open(home.path()).unwrap();
        let first = Key::from_secret("default", "th-first");
        let live = LiveKeys::open(home.path(), File::open(home.path()).unwrap(), first).unwrap();
        Ground { home, commands, live: Arc::new(live) }
    }

    impl Ground {
        fn add(&self, name: &str) -> String {
            let mode = Some("plan".to_owned());
            self.commands.add(NewKey { name: name.into(), mode, ..NewKey::default() }).unwrap()
        }

        fn find(&self, secret: &str) -> Option<Arc<ClientKey>> {
            Keys::Changing(Arc::clone(&self.live) as Arc<dyn KeySource>).find(secret.as_bytes())
        }

        fn write(&self, text: &str) {
            let path = self.home.path().join("keys.toml");
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }

        fn text(&self) -> String {
            fs::read_to_string(self.home.path().join("keys.toml")).unwrap()
        }
    }

    #[test]
    fn d13_a_key_counts_from_the_next_request_on_until_it_is_revoked() {
        let ground = ground();
        assert_eq!(ground.find("th-first").unwrap().id.as_str(), "default");
        let secret = ground.add("alice");
        let key = ground.find(&secret).unwrap();
        assert!(key.id.as_str().starts_with("key_") && key.mode.is_some());

        // Another key changes nothing for this one.
        let other = ground.add("bob");
        assert!(ground.find(&other).is_some() && !key.revoked.is_cancelled());
        ground.commands.revoke("alice").unwrap();
        assert!(ground.find(&secret).is_none() && ground.find(&other).is_some());
        assert!(key.revoked.is_cancelled());

        let again = ground.find(&ground.add("alice")).unwrap();
        assert_ne!(again.id, key.id, "what the old one left is not the new one's");
    }

    #[tokio::test(start_paused = true)]
    async fn x7_a_revoked_key_is_noticed_without_a_request() {
        let ground = ground();
        let key = ground.find(&ground.add("alice")).unwrap();
        ground.commands.revoke("alice").unwrap();
        assert!(!key.revoked.is_cancelled());
        tokio::select! {
            () = ground.live.watch(|_| ()) => {}
            () = key.revoked.cancelled() => {}
            () = sleep(Duration::from_secs(5)) => panic!("it takes too long"),
        }
    }

    #[test]
    fn d13_a_file_that_cannot_be_used_changes_nothing() {
        let ground = ground();
        let secret = ground.add("alice");
        let key = ground.find(&secret).unwrap();
        let good = ground.text();
        for broken in [
            &good[..good.len() / 2],
            "keys = 1",
            &good.replace("key_", "KEY_"),
            &good.replace("sha256 = \"", "sha256 = \"x"),
            &good.replace("mode = \"plan\"", "mode = \"all\""),
            &good.replace("mode = \"plan\"", "mod = \"plan\""),
            &format!("{good}\n{good}"),
            &format!("{good}client_tools = 7\n"),
        ] {
            ground.write(broken);
            assert!(ground.find(&secret).is_some(), "{broken}");
        }
        // Others may read it.
        ground.write(&good.replace("alice", "carol"));
        let path = ground.home.path().join("keys.toml");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(ground.find(&secret).is_some() && !key.revoked.is_cancelled());
        // Each reason is told as well, and no hash with it.
        ground.write("[[keys]]\nsha256 = [\n");
        let error = ground.commands.list().unwrap_err().to_string();
        assert!(error.contains("keys.toml: line 2: ") && !error.contains("sha256 ="), "{error}");

        ground.write("");
        assert!(ground.find(&secret).is_none() && key.revoked.is_cancelled());
        ground.write(&good);
        assert!(ground.find(&secret).is_some());
        fs::remove_file(path).unwrap();
        assert!(ground.find(&secret).is_none());
    }

    #[test]
    fn x12_a_file_that_others_may_read_refuses_the_start() {
        let ground = ground();
        ground.add("alice");
        let path = ground.home.path().join("keys.toml");
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
        let directory = File::open(ground.home.path()).unwrap();
        let first = Key::from_secret("default", "th-first");

        let error = LiveKeys::open(ground.home.path(), directory, first).unwrap_err().to_string();

        let expected = "keys.toml: others may read it (mode 640); chmod 600 it";
        assert!(error.ends_with(expected), "{error}");
    }
}
