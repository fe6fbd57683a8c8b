//! Builds the Landlock rules of a confinement: what a command may read, and what it may change.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

use super::{Confinement, Network};

/// The newest rules that are known here. An older kernel leaves out those that it does not
/// know; the probes find out whether the rest is enough.
const NEWEST: ABI = ABI::V6;

/// The devices that every program may expect.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Programs look here for the machine and for themselves. What is another process's own in
/// `/proc` Landlock keeps closed by itself.
const SYSTEM: [&str; 3] = ["/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup"];

pub(super) fn rules(confinement: &Confinement) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    if confinement.network == Network::None {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let mut rules = rules.create()?;
    let everything = AccessFs::from_all(NEWEST);
    let reading = AccessFs::from_read(NEWEST);
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let own = if confinement.reads_only { reading } else { everything };
    let writable = confinement.writable.iter().map(|shown| shown.from.path());
    let writable = writable.chain([confinement.temporary.path()]).map(|path| (path, own));
    let readable = confinement.readable.iter().map(|shown| shown.from.path());
    let readable = readable.chain(SYSTEM.map(Path::new)).map(|path| (path, reading));
    let devices = DEVICES.map(|path| (Path::new(path), device));
    for (path, access) in writable.chain(readable).chain(devices) {
        rules = with(rules, path, access)?;
    }
    Ok(rules)
}

/// From now on this thread, and what it starts, can signal only what it starts. Returns whether
/// the kernel knows of it. `no_new_privs` must be set.
pub(in crate::processes) fn scope_signals() -> bool {
    let status = only_signals().and_then(RulesetCreated::restrict_self);
    status.is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

fn only_signals() -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default().handle_access(AccessFs::Refer)?.scope(Scope::Signal)?;
    // Every set of rules forbids to move files from one directory to another where it does not
    // allow that.
    with(rules.create()?, Path::new("/"), AccessFs::Refer.into())
}

/// Allows access beneath a path. A path that is not there is nothing that could be reached, and
/// one that has become a link is not what was meant.
fn with(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let Ok(handle) = opened else { return Ok(rules) };
    // The rights of directories do not fit a file, and the kernel refuses them there.
    let kind = fstat(&handle).map(|metadata| FileType::from_raw_mode(metadata.st_mode));
    let is_directory = kind == Ok(FileType::Directory);
    let access = if is_directory { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(handle, access))
}
