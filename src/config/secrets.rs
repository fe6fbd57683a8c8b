//! Keys of the environment, and keeping them out of it.
//!
//! Whoever may look at a process reads its environment, for as long as it lives.
//! So a process that was started with keys in it starts itself once more without
//! them, and hands them over in memory that has no name in the file system.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::MemfdFlags;
use rustix::process::DumpableBehavior;

use super::ConfigError;
use super::environment::Variables;
use super::file;
use crate::secret::Secret;
pub(crate) use crate::secret::is_sendable;

/// A key that our clients may use.
pub(crate) const CLIENT_KEY: &str = "TOOLHAND_API_KEY";
/// The key we use upstream.
pub(crate) const UPSTREAM_KEY: &str = "TOOLHAND_UPSTREAM_API_KEY";
/// Says under which descriptor the keys were handed over.
pub(crate) const HANDED_OVER: &str = "TOOLHAND_SECRETS_FD";

/// How the memory shows up in `/proc/self/fd`.
const MEMORY: &str = "toolhand-secrets";

/// Keys that were given, by whatever way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    pub(crate) client_key: Option<Secret>,
    pub(crate) upstream_key: Option<Secret>,
}

/// Keeps others of the same user from looking into this process: its memory, and
/// the environment it was started with.
pub(crate) fn close_to_others() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Starts this program once more without the keys that its environment holds.
///
/// Returns when there are none, or when it cannot be done.
pub(crate) fn leave_environment(variables: &Variables) -> io::Result<()> {
    let given: Vec<_> = [CLIENT_KEY, UPSTREAM_KEY]
        .into_iter()
        .filter_map(|name| Some((name, variables.get(name)?.as_encoded_bytes())))
        .collect();
    if given.is_empty() {
        return Ok(());
    }
    let mut memory = File::from(rustix::fs::memfd_create(MEMORY, MemfdFlags::empty())?);
    for (name, value) in &given {
        memory.write_all(&[name.as_bytes(), b"=", value, b"\0"].concat())?;
    }
    let mut arguments = std::env::args_os();
    let mut again = Command::new(std::env::current_exe()?);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    again.args(arguments).env(HANDED_OVER, memory.as_raw_fd().to_string());
    for (name, _) in given {
        again.env_remove(name);
    }
    Err(again.exec())
}

/// The keys that an earlier self handed over, once: the memory is emptied.
pub(crate) fn handed_over(variables: &Variables) -> Variables {
    let Some(number) = variables.get(HANDED_OVER).and_then(|number| number.to_str()) else {
        return Variables::default();
    };
    read_memory(number).map(|bytes| parse_memory(&bytes)).unwrap_or_default()
}

/// Another descriptor may have that number in a child that inherited the variable.
fn read_memory(number: &str) -> io::Result<Vec<u8>> {
    let path = Path::new("/proc/self/fd").join(number);
    if !fs::read_link(&path)?.to_string_lossy().contains(MEMORY) {
        return Ok(Vec::new());
    }
    let mut memory = OpenOptions::new().read(true).write(true).open(path)?;
    let mut bytes = Vec::new();
    memory.read_to_end(&mut bytes)?;
    memory.set_len(0)?;
    Ok(bytes)
}

fn parse_memory(bytes: &[u8]) -> Variables {
    use std::os::unix::ffi::OsStrExt;

    let pairs = bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        Some((OsStr::from_bytes(&entry[..at]), OsStr::from_bytes(&entry[at + 1..])))
    });
    pairs.collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// The keys of the environment, and the one of `upstream.api_key_file`.
pub(crate) fn collect(
    variables: &Variables,
    upstream_key_file: Option<&Path>,
) -> Result<Secrets, ConfigError> {
    let upstream_key = match (secret(variables, UPSTREAM_KEY)?, upstream_key_file) {
        (None, Some(path)) => Some(file::read_secret(path)?),
        (given, _) => given,
    };
    Ok(Secrets { client_key: secret(variables, CLIENT_KEY)?, upstream_key })
}

fn secret(variables: &Variables, name: &str) -> Result<Option<Secret>, ConfigError> {
    let Some(value) = variables.get(name) else { return Ok(None) };
    match value.to_str() {
        Some(text) if is_sendable(text) => Ok(Some(Secret::new(text))),
        _ => Err(ConfigError::Invalid(format!("{name} holds characters that no key has"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_holds_names_and_values() {
        let variables = parse_memory(b"TOOLHAND_API_KEY=th-1=2\0TOOLHAND_UPSTREAM_API_KEY=sk\0");
        let secrets = collect(&variables, None).unwrap();
        assert_eq!(secrets.client_key, Some(Secret::new("th-1=2")));
        assert_eq!(secrets.upstream_key, Some(Secret::new("sk")));
    }

    #[test]
    fn an_empty_key_is_none_and_an_unsendable_one_is_named_but_not_shown() {
        let empty = Variables::from_iter([(CLIENT_KEY, "")]);
        assert_eq!(collect(&empty, None).unwrap().client_key, None);

        let broken = Variables::from_iter([(CLIENT_KEY, "th-\n1")]);
        let error = collect(&broken, None).unwrap_err().to_string();
        assert_eq!(error, "TOOLHAND_API_KEY holds characters that no key has");
    }

    #[test]
    fn a_stale_descriptor_is_not_read() {
        let variables = Variables::from_iter([(HANDED_OVER, "0")]);
        assert!(handed_over(&variables).get(CLIENT_KEY).is_none());
    }
}
