//! Keeps secrets out of the environment of this process.
//!
//! A process's initial environment can be read in `/proc` for as long as it lives, and
//! root can always read it. So a process that was started with more than the variables
//! listed here starts itself once more with those alone. It hands over the others in
//! anonymous memory.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::environment::Variables;
use crate::processes::{execute, take_descriptor};

/// Names the descriptor of the memory with the other variables.
pub(crate) const HANDED_OVER: &str = "TOOLHAND_SECRETS_FD";

/// The variables that may stay: those that locate programs and files, and those that
/// libraries read before `main` or by themselves. Our settings may not stay: a URL may
/// contain a password.
const KEPT: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "TZ",
    "TMPDIR",
    "TERM",
    "NO_COLOR",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "RUST_BACKTRACE",
    "TOKIO_WORKER_THREADS",
    PURGE_DELAY,
];

/// Tells our allocator how many milliseconds to wait until it gives freed memory back. It reads
/// this before `main`.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";
/// The allocator's own second is longer than most requests take: a large one would hold all its
/// copies at the same time.
const PURGE_DELAY_MS: &str = "10";

/// This program, even if its file was replaced or removed since it started.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The link above would show as "exe" in lists of processes.
const NAME: &std::ffi::CStr = c"toolhand";

/// The memory's name in `/proc/self/fd`, and its first bytes.
const MEMORY: &str = "toolhand-secrets";
const HEADER: &[u8] = b"toolhand environment 1\0";

/// More than the kernel accepts as the environment of a new program.
const MAX_BYTES: u64 = 8 << 20;

/// Seals that forbid every further change of the memory.
const SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);

/// The environment for programs that this server starts and that are no commands.
pub(crate) fn kept() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| is_kept(name))
}

/// Whether a variable may stay in the environment of this process.
fn is_kept(name: &OsStr) -> bool {
    KEPT.iter().any(|kept| name == *kept)
        || name.to_str().is_some_and(|name| name.starts_with("LC_"))
}

/// Keeps other processes of the same user from reading this process's memory and its
/// initial environment.
pub(crate) fn close_to_others() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Returns all variables that this process was given. Starts the program once more if its
/// environment has variables that may not stay, or lacks the one for our allocator. If that fails,
/// returns the variables all the same, with the reason. Must be called before there are threads.
pub(crate) fn take() -> (Variables, io::Result<()>) {
    let all = Variables::from_process();
    let has_others = all.iter().any(|(name, _)| !is_kept(name) && name != HANDED_OVER);
    if has_others || all.get(PURGE_DELAY).is_none() {
        // Restart even if a descriptor is named: with other variables present, it does
        // not come from us.
        let outcome = start_again(&all);
        return (all, outcome);
    }
    // Otherwise the process is shown as "exe".
    let named = rustix::thread::set_name(NAME).map_err(io::Error::from);
    let handed_over = all.get(HANDED_OVER).and_then(|number| handed_over(number));
    (all.with(handed_over.unwrap_or_default()), named)
}

/// Returns only if it failed.
fn start_again(all: &Variables) -> io::Result<()> {
    let (kept, others): (Vec<_>, Vec<_>) =
        all.iter().filter(|(name, _)| *name != HANDED_OVER).partition(|(name, _)| is_kept(name));
    let memory = fill_memory(others.into_iter())?;
    let number = memory.as_raw_fd().to_string().into();
    let marker = (OsString::from(HANDED_OVER), number);
    let name = OsString::from(PURGE_DELAY);
    let value = OsString::from(PURGE_DELAY_MS);
    let delay = all.get(PURGE_DELAY).is_none().then_some((&name, &value));
    let environment = kept.into_iter().chain(delay).chain([(&marker.0, &marker.1)]);
    let environment: io::Result<Vec<_>> =
        environment.map(|(name, value)| text(entry(name, value))).collect();
    let arguments: io::Result<Vec<_>> =
        std::env::args_os().map(|argument| text(argument.into_vec())).collect();
    fcntl_setfd(&memory, FdFlags::empty())?;
    Err(execute(&text(OWN_PROGRAM.into())?, &arguments?, &environment?))
}

fn text(bytes: Vec<u8>) -> io::Result<CString> {
    Ok(CString::new(bytes)?)
}

fn entry(name: &OsStr, value: &OsStr) -> Vec<u8> {
    [name.as_bytes(), b"=", value.as_bytes()].concat()
}

fn fill_memory<'v>(
    variables: impl Iterator<Item = (&'v OsString, &'v OsString)>,
) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut memory = File::from(memfd_create(MEMORY, flags)?);
    memory.write_all(HEADER)?;
    for (name, value) in variables {
        memory.write_all(&entry(name, value))?;
        memory.write_all(b"\0")?;
    }
    fcntl_add_seals(&memory, SEALS)?;
    Ok(memory)
}

/// Reads and closes the memory that the program left under this descriptor number before
/// it restarted. A descriptor of anything else is left alone.
fn handed_over(number: &OsStr) -> Option<Variables> {
    let number: RawFd = number.to_str()?.parse().ok().filter(|number| 2 < *number)?;
    let link = format!("/proc/self/fd/{number}");
    if !fs::read_link(&link)
        .ok()?
        .as_os_str()
        .as_bytes()
        .starts_with(format!("/memfd:{MEMORY}").as_bytes())
    {
        return None;
    }
    let mut memory = OpenOptions::new().read(true).open(link).ok()?;
    if fcntl_get_seals(&memory).ok()? != SEALS {
        return None;
    }
    drop(take_descriptor(number));
    let mut bytes = Vec::new();
    (&mut memory).take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(parse(bytes.strip_prefix(HEADER)?))
}

fn parse(entries: &[u8]) -> Variables {
    let pairs = entries.split(|byte| *byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        Some((OsStr::from_bytes(&entry[..at]), OsStr::from_bytes(&entry[at + 1..])))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn p13_memory_holds_names_and_values_and_is_read_once() {
        let variables = Variables::from_iter([
            ("ONE", OsStr::from_bytes(b"a=b\n\xff")),
            ("TWO", OsStr::new("")),
        ]);
        let memory = fill_memory(variables.iter()).unwrap();
        let number = std::os::fd::IntoRawFd::into_raw_fd(memory);
        let name = OsString::from(number.to_string());
        let link = format!("/proc/self/fd/{number}");
        let inode = || fs::metadata(&link).ok().map(|metadata| metadata.ino());
        let own = inode();

        let taken = handed_over(&name).unwrap();

        assert_eq!(
            format!("{:?}", taken.iter().collect::<Vec<_>>()),
            format!("{:?}", variables.iter().collect::<Vec<_>>())
        );
        // Another test may have a file of this number by now.
        assert!(own.is_some() && inode() != own, "it is closed");
    }

    #[test]
    fn p13_what_is_no_memory_of_ours_is_neither_read_nor_closed() {
        let unsealed = File::from(memfd_create(MEMORY, MemfdFlags::CLOEXEC).unwrap());
        let ordinary = File::open("/dev/null").unwrap();
        for file in [&unsealed, &ordinary] {
            assert!(handed_over(file.as_raw_fd().to_string().as_ref()).is_none());
            assert!(file.metadata().is_ok());
        }
        for number in ["0", "-1", "999999", "x", ""] {
            assert!(handed_over(number.as_ref()).is_none(), "{number}");
        }
    }

    #[test]
    fn no_setting_and_no_key_is_kept() {
        for name in
            ["TOOLHAND_UPSTREAM_PROXY", "TOOLHAND_API_KEY", "OPENAI_API_KEY", "LCX", "PATH2"]
        {
            assert!(!is_kept(OsStr::new(name)), "{name}");
        }
        assert!(is_kept(OsStr::new("LC_ALL")) && is_kept(OsStr::new("HOME")));
    }
}
