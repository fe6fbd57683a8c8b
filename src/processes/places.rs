//! Lists the directories of this machine that a confined command may read. Pure.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Programs, libraries and the settings of the machine.
const SYSTEM: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/run/current-system",
];

/// What names are resolved with. `/etc/resolv.conf` is often a link into one of these.
const NETWORK: [&str; 2] = ["/run/systemd/resolve", "/run/resolvconf"];

/// Where toolchains live below home. No directory that also keeps keys.
const TOOLCHAINS: [&str; 12] = [
    ".rustup",
    ".cargo/bin",
    ".cargo/registry",
    ".cargo/git",
    ".pyenv",
    ".nvm",
    ".local/bin",
    ".local/lib",
    ".local/share/uv",
    "go",
    ".deno",
    ".bun",
];

/// All that a command may read besides what it may write. `further` are the operator's.
pub(super) fn readable(
    home: &Path,
    path: &OsStr,
    network: bool,
    further: &[PathBuf],
) -> Vec<PathBuf> {
    let system = SYSTEM.iter().chain(NETWORK.iter().filter(|_| network)).map(PathBuf::from);
    let toolchains = TOOLCHAINS.iter().map(|name| home.join(name));
    let programs = programs(home, path);
    system.chain(toolchains).chain(programs).chain(further.iter().cloned()).collect()
}

/// The directories of a search path that are not there anyway. A whole home or the whole machine
/// on it is a slip, and no toolchain.
pub(super) fn programs(home: &Path, path: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute() && !home.starts_with(directory))
        .filter(|directory| !SYSTEM.iter().any(|system| directory.starts_with(system)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(path: &str, further: &[&str]) -> Vec<String> {
        let further: Vec<PathBuf> = further.iter().map(PathBuf::from).collect();
        let places = readable(Path::new("/home/me"), OsStr::new(path), false, &further);
        let extra = places.iter().map(|place| place.display().to_string());
        extra.filter(|path| !SYSTEM.contains(&path.as_str()) && !path.contains("/me/")).collect()
    }

    #[test]
    fn the_search_path_is_read_but_no_directory_around_home() {
        let path = "/usr/bin:/srv/tools/bin:/home:/home/me:/:relative::/opt/x/bin";
        assert_eq!(listed(path, &[]), ["/srv/tools/bin"]);
    }

    #[test]
    fn what_the_operator_adds_is_read() {
        assert_eq!(listed("", &["/data"]), ["/data"]);
    }

    #[test]
    fn nothing_that_keeps_keys_is_read() {
        for name in [".ssh", ".cargo", ".config", ".local/share", ".aws", ".npmrc", ""] {
            assert!(!TOOLCHAINS.contains(&name), "{name}");
        }
        for root in ["/", "/home", "/root", "/run", "/var", "/tmp", "/proc"] {
            assert!(!SYSTEM.contains(&root), "{root}");
        }
    }
}
