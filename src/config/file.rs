//! Reads the files that decide what the server does. Refuses files that others could have
//! written.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::ConfigError;
use super::environment::Variables;
use crate::encoding;
use crate::named_file;
use crate::ownership::Ownership;
use crate::secret::Secret;

/// Larger than any configuration, and a bound for files that never end.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The configuration file: the one that was named, else the user's own if it exists.
/// Never one in the working directory, because a cloned repository must not set anything.
pub(crate) fn locate(named: Option<&Path>, variables: &Variables) -> Option<PathBuf> {
    let named = named.map(Path::to_owned);
    named.or_else(|| variables.get("TOOLHAND_CONFIG").map(PathBuf::from)).or_else(|| {
        let own = own(variables)?;
        own.exists().then_some(own)
    })
}

/// Where the user's own file is, or would be.
pub(crate) fn own(variables: &Variables) -> Option<PathBuf> {
    Some(directory(variables)?.join("toolhand.toml"))
}

fn directory(variables: &Variables) -> Option<PathBuf> {
    let configured = variables.get("XDG_CONFIG_HOME").map(PathBuf::from);
    configured
        .filter(|path| path.is_absolute())
        .or_else(|| Some(home(variables)?.join(".config")))
        .map(|path| path.join("toolhand"))
}

/// The home directory. A relative one is ignored, because it would change with the
/// working directory.
pub(crate) fn home(variables: &Variables) -> Option<PathBuf> {
    let home = variables.get("HOME").map(PathBuf::from).or_else(std::env::home_dir);
    home.filter(|path| path.is_absolute())
}

/// Reads the text of a configuration file.
pub(crate) fn read(path: &Path) -> Result<String, ConfigError> {
    let refuse = |reason: String| ConfigError::File { path: path.to_owned(), reason };
    let (text, metadata) = open_and_read(path).map_err(|error| refuse(error.to_string()))?;
    let ownership = Ownership::from_metadata(&metadata);
    ownership
        .expect_ours_or_roots()
        .and_then(|()| {
            ownership.refuse_other_writers(&format!("run: chmod go-w {}", path.display()))
        })
        .map_err(refuse)?;
    Ok(text)
}

/// Reads the key in a file.
pub(crate) fn read_secret(path: &Path) -> Result<Secret, ConfigError> {
    let refuse = |reason: String| ConfigError::File { path: path.to_owned(), reason };
    let (text, metadata) = open_and_read(path).map_err(|error| refuse(error.to_string()))?;
    let ownership = Ownership::from_metadata(&metadata);
    ownership
        .expect_ours_or_roots()
        .and_then(|()| {
            ownership.refuse_other_readers(&format!("run: chmod 600 {}", path.display()))
        })
        .map_err(refuse)?;
    Secret::sendable(text.trim())
        .ok_or_else(|| refuse("holds no key: one line of printable characters".into()))
}

fn open_and_read(path: &Path) -> io::Result<(String, Metadata)> {
    let (bytes, metadata) = named_file::read(path, MAX_FILE_BYTES)?;
    let text = encoding::exact_text(bytes).map_err(io::Error::other)?;
    Ok((text, metadata))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[track_caller]
    fn check(mode: u32, config: &str, secret: &str) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "th-1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let shown = |result: Result<(), ConfigError>| match result {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string().replace(&path.display().to_string(), "FILE"),
        };

        assert_eq!(shown(read(&path).map(drop)), config, "as configuration");
        assert_eq!(shown(read_secret(&path).map(drop)), secret, "as a key");
    }

    #[test]
    fn a_file_that_others_may_write_is_refused() {
        check(0o600, "ok", "ok");
        check(0o644, "ok", "FILE: others may read it (mode 644); run: chmod 600 FILE");
        check(
            0o660,
            "FILE: others may write it (mode 660); run: chmod go-w FILE",
            "FILE: others may read it (mode 660); run: chmod 600 FILE",
        );
        check(
            0o606,
            "FILE: others may write it (mode 606); run: chmod go-w FILE",
            "FILE: others may read it (mode 606); run: chmod 600 FILE",
        );
    }

    #[test]
    fn the_file_is_the_named_one_or_the_users_own_and_never_here() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".config/toolhand/toolhand.toml");
        let variables = |extra: &[(&str, &str)]| {
            let home = ("HOME", home.path().to_str().unwrap());
            extra.iter().copied().chain([home]).collect::<Variables>()
        };
        assert_eq!(locate(None, &variables(&[])), None);

        fs::create_dir_all(own.parent().unwrap()).unwrap();
        fs::write(&own, "").unwrap();
        assert_eq!(locate(None, &variables(&[])), Some(own.clone()));
        assert_eq!(locate(None, &variables(&[("XDG_CONFIG_HOME", "relative")])), Some(own));
        assert_eq!(locate(None, &variables(&[("XDG_CONFIG_HOME", "/nowhere")])), None);

        let named = variables(&[("TOOLHAND_CONFIG", "/etc/t.toml")]);
        assert_eq!(locate(None, &named), Some("/etc/t.toml".into()));
        assert_eq!(locate(Some(Path::new("a.toml")), &named), Some("a.toml".into()));
    }
}
