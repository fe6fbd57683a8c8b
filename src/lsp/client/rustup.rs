//! Keeps the choice of a Rust toolchain from a workspace that is not trusted.
//!
//! Programs that rustup stands in for (`rust-analyzer`, `cargo`, `rustc`) run the toolchain that
//! the `rust-toolchain.toml` of the repository names, and that may be a directory of the
//! repository with a program of its own. The variable weighs more than the file.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The variable by which rustup is told the toolchain.
const VARIABLE: &str = "RUSTUP_TOOLCHAIN";

/// The program that stands in for those of the toolchains.
const RUSTUP: &str = "rustup";

/// Longer settings are not rustup's.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
struct Settings {
    default_toolchain: Option<String>,
}

/// The variables of a language server in a workspace that is not trusted. An error says why the
/// program must not be started. Reads the disk.
pub(super) fn variables(
    program: &Path,
    home: &Path,
    roots: &[PathBuf],
) -> Result<Vec<(OsString, OsString)>, &'static str> {
    match default_toolchain(home, roots) {
        Some(toolchain) => Ok(vec![(VARIABLE.into(), toolchain.into())]),
        None if is_rustup(program) => {
            Err("rustup has no default toolchain, and what the workspace \
             names is not started")
        }
        None => Ok(Vec::new()),
    }
}

/// The toolchain that the operator has chosen. One whose settings lie in the workspace is chosen
/// by whoever wrote the workspace.
fn default_toolchain(home: &Path, roots: &[PathBuf]) -> Option<String> {
    let settings = fs::canonicalize(home.join(".rustup/settings.toml")).ok()?;
    let is_workspaces = roots.iter().any(|root| settings.starts_with(root));
    let metadata = fs::metadata(&settings).ok()?;
    if is_workspaces || !metadata.is_file() || MAX_SETTINGS_BYTES < metadata.len() {
        return None;
    }
    let settings: Settings = toml::from_str(&fs::read_to_string(settings).ok()?).ok()?;
    settings.default_toolchain.filter(|name| !name.is_empty())
}

/// Whether rustup stands in for the program: as a link to it, or as another name of its file.
fn is_rustup(program: &Path) -> bool {
    let Ok(real) = fs::canonicalize(program) else { return false };
    if real.file_name().is_some_and(|name| name == RUSTUP) {
        return true;
    }
    let file = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let beside = [program, &real].map(|path| path.with_file_name(RUSTUP));
    beside.iter().filter_map(|rustup| file(rustup)).any(|rustup| Some(rustup) == file(&real))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Ground(tempfile::TempDir);

    impl Ground {
        fn new(settings: &str) -> Self {
            let ground = Self(tempfile::tempdir().unwrap());
            for directory in ["bin", ".rustup"] {
                fs::create_dir(ground.path(directory)).unwrap();
            }
            fs::write(ground.path("bin/rustup"), "").unwrap();
            symlink("rustup", ground.path("bin/linked")).unwrap();
            fs::hard_link(ground.path("bin/rustup"), ground.path("bin/named")).unwrap();
            fs::write(ground.path("bin/other"), "").unwrap();
            fs::write(ground.path(".rustup/settings.toml"), settings).unwrap();
            ground
        }

        fn path(&self, relative: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(relative)
        }

        fn toolchain(&self, program: &str, root: &str) -> Result<String, &'static str> {
            let roots = [self.path(root)];
            let variables = variables(&self.path(program), &self.path(""), &roots)?;
            let shown = variables.iter().map(|(name, value)| {
                format!("{}={}", name.to_string_lossy(), value.to_string_lossy())
            });
            Ok(shown.collect())
        }
    }

    #[test]
    fn the_operators_default_is_the_toolchain() {
        let ground =
            Ground::new("version = \"12\"\ndefault_toolchain = \"stable-x\"\n[overrides]\n");
        for program in ["bin/linked", "bin/named", "bin/other"] {
            let chosen = ground.toolchain(program, "ws").unwrap();
            assert_eq!(chosen, "RUSTUP_TOOLCHAIN=stable-x", "{program}");
        }
    }

    #[test]
    fn without_a_default_rustup_is_not_started() {
        for settings in ["", "default_toolchain = \"\"", "not toml"] {
            let ground = Ground::new(settings);
            for program in ["bin/linked", "bin/named", "bin/rustup"] {
                assert!(ground.toolchain(program, "ws").is_err(), "{program}");
            }
            assert_eq!(ground.toolchain("bin/other", "ws").unwrap(), "");
        }
    }

    #[test]
    fn settings_in_the_workspace_choose_nothing() {
        let ground = Ground::new("default_toolchain = \"/ws/evil\"");
        assert!(ground.toolchain("bin/linked", "").is_err());
        assert!(ground.toolchain("bin/linked", ".rustup").is_err());
        assert_eq!(ground.toolchain("bin/other", "").unwrap(), "");
    }
}
