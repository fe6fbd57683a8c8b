//! Keeps what was detected for as long as the directories of PATH stay as they are.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::detection::{Detection, Surroundings};
use crate::lsp::settings::LspSettings;
use crate::sync;

/// What the directories do not show is found after so long: a program that has become executable,
/// or a TypeScript that was installed beside one.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Workspaces whose detections are kept.
const MAX_KEPT: usize = 64;

#[derive(Debug, Default)]
pub(super) struct DetectionCache(Mutex<HashMap<Vec<PathBuf>, Kept>>);

#[derive(Debug)]
struct Kept {
    directories: Vec<Option<DirectoryVersion>>,
    since: Instant,
    detection: Arc<Detection>,
}

/// Changes when a file comes into a directory or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DirectoryVersion {
    device: u64,
    inode: u64,
    modified: (i64, i64),
}

impl DetectionCache {
    /// What there is. Reads the disk: the directories themselves each time, what is in them when
    /// they have changed.
    pub(super) fn detection(
        &self,
        settings: &LspSettings,
        surroundings: Surroundings<'_>,
    ) -> Arc<Detection> {
        let directories = directories(surroundings);
        let is_current =
            |kept: &&Kept| kept.directories == directories && kept.since.elapsed() < MAX_AGE;
        if let Some(kept) = sync::lock(&self.0).get(surroundings.roots).filter(is_current) {
            return Arc::clone(&kept.detection);
        }
        let since = Instant::now();
        let detection = Arc::new(Detection::new(settings, surroundings));
        let mut all = sync::lock(&self.0);
        if MAX_KEPT <= all.len() {
            all.clear();
        }
        let kept = Kept { directories, since, detection: Arc::clone(&detection) };
        all.insert(surroundings.roots.to_owned(), kept);
        detection
    }
}

/// The directories of PATH as they are now; `None` for one that does not count or is not there.
fn directories(surroundings: Surroundings<'_>) -> Vec<Option<DirectoryVersion>> {
    let version = |path: PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        Some(DirectoryVersion {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    };
    std::env::split_paths(surroundings.search_path)
        .map(|path| Some(path).filter(|path| path.is_absolute()).and_then(version))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn install(directory: &Path, program: &str, mode: u32) {
        fs::write(directory.join(program), "").unwrap();
        fs::set_permissions(directory.join(program), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_installed_later_is_found_and_others_are_not_looked_for_again() {
        let bin = tempfile::tempdir().unwrap();
        let cache = DetectionCache::default();
        let settings = LspSettings::default();
        let look = |roots: &[PathBuf]| {
            let search_path = bin.path().as_os_str();
            cache.detection(&settings, Surroundings { search_path, roots })
        };
        let names = |detection: &Detection| {
            let names = detection.servers.iter().map(|server| server.name.clone());
            names.collect::<Vec<_>>().join(" ")
        };
        let first = look(&[]);
        assert_eq!(names(&first), "");
        assert!(Arc::ptr_eq(&first, &look(&[])), "it is looked for once");

        install(bin.path(), "gopls", 0o755);
        assert_eq!(names(&look(&[])), "gopls");
        assert_eq!(names(&look(&[bin.path().canonicalize().unwrap()])), "", "of this workspace");

        install(bin.path(), "clangd", 0o644);
        assert_eq!(names(&look(&[])), "gopls");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(bin.path().join("clangd"), executable).unwrap();
        tokio::time::advance(MAX_AGE).await;
        assert_eq!(names(&look(&[])), "gopls clangd");
    }
}
