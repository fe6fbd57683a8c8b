//! Directory handles: names are resolved and opened beneath a root.
//!
//! A path is judged by where it really leads, so resolving and opening are one
//! thing here: a [`Target`] holds the directory it was found in, and everything
//! done with it starts from that handle and follows no link any more.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::text::printable;

pub(crate) use identity::Identity;
pub(crate) use replace::ReplaceError;
pub(crate) use target::Target;
pub(crate) use unfinished::Unfinished;

mod direct;
mod identity;
mod replace;
mod target;
mod unfinished;
mod walk;

/// What the kernel takes in one path; longer ones are a mistake or an attack.
const MAX_PATH_BYTES: usize = 4096;

/// The directories that tools may reach, held open.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The workspace itself, then the additional directories; never empty.
    roots: Vec<Root>,
}

#[derive(Debug)]
struct Root {
    /// As the operator wrote it, made absolute.
    given: PathBuf,
    /// With every link resolved.
    real: PathBuf,
    handle: Arc<OwnedFd>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("{} is outside the workspace{}", path.display(), detour(path, leads_to))]
    Outside { path: PathBuf, leads_to: PathBuf },
    #[error("{0}")]
    BadPath(String),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Where a path inside the workspace leads when that is elsewhere.
fn detour(path: &Path, leads_to: &Path) -> String {
    let mut text = String::new();
    if path != leads_to {
        let _ = write!(text, ": it leads to {}", leads_to.display());
    }
    text
}

impl Workspace {
    /// Opens each root; the first is the workspace itself, the others are
    /// `additional_directories`.
    pub(crate) fn open(roots: Vec<PathBuf>) -> Result<Self, ResolveError> {
        let roots: Vec<Root> =
            roots.into_iter().map(|root| Root::open(&root)).collect::<Result<_, _>>()?;
        if roots.is_empty() {
            return Err(ResolveError::BadPath("a workspace needs a directory".to_owned()));
        }
        Ok(Self { roots })
    }

    /// The workspace's own directory, with every link resolved.
    pub(crate) fn root(&self) -> &Path {
        &self.roots[0].real
    }

    /// Finds what `path` leads to, or where it would be made. Links are followed as
    /// long as they stay beneath the roots.
    pub(crate) fn resolve(&self, path: &Path) -> Result<Target, ResolveError> {
        check_spelling(path)?;
        match direct::resolve(self, path) {
            Some(target) => Ok(target),
            None => walk::resolve(self, path),
        }
    }

    /// The innermost root that `path` lies beneath by its spelling, and the rest.
    fn locate<'path>(&self, path: &'path Path) -> Option<(&Root, &'path Path)> {
        let beneath = |root: &'_ Root| {
            path.strip_prefix(&root.real).or_else(|_| path.strip_prefix(&root.given)).ok()
        };
        self.roots
            .iter()
            .filter_map(|root| beneath(root).map(|rest| (root, rest)))
            .min_by_key(|(_, rest)| rest.components().count())
    }
}

impl Root {
    fn open(given: &Path) -> Result<Self, ResolveError> {
        let failed = |source: io::Error| ResolveError::Io { path: given.to_owned(), source };
        let real = fs::canonicalize(given).map_err(failed)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = openat(CWD, &real, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        let spelled = std::path::absolute(given).map_err(failed)?;
        let spelled = absolute(Path::new("/"), &spelled);
        // `a/../b` is only `b` where `a` is no link.
        let is_same = fs::canonicalize(&spelled).is_ok_and(|path| path == real);
        let given = if is_same { spelled } else { real.clone() };
        Ok(Self { given, real, handle: Arc::new(handle) })
    }
}

fn check_spelling(path: &Path) -> Result<(), ResolveError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > MAX_PATH_BYTES {
        return Err(ResolveError::BadPath(format!(
            "the path has {} bytes; {MAX_PATH_BYTES} are the most",
            bytes.len()
        )));
    }
    if path.to_string_lossy().chars().any(char::is_control) {
        let path = printable(bytes);
        return Err(ResolveError::BadPath(format!("the path {path} contains a control character")));
    }
    if !path.is_absolute() {
        return Err(ResolveError::BadPath(format!("{} is no absolute path", path.display())));
    }
    Ok(())
}

/// `path` against `base`, with `.` and `..` removed by name. Nothing else is
/// interpreted: no `$`, no `%`, no `file:`.
pub(crate) fn absolute(base: &Path, path: &Path) -> PathBuf {
    let mut whole = PathBuf::from("/");
    for part in base.join(path).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::Normal(name) => whole.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    whole
}

/// As [`absolute`], with a leading `~` for `home`.
pub(crate) fn absolute_from_home(base: &Path, home: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(beneath_home) => absolute(home, beneath_home),
        Err(_) => absolute(base, path),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// `ws` and `more` are roots; `ws-evil` and `secret` lie outside.
    struct Ground {
        directory: tempfile::TempDir,
        workspace: Workspace,
    }

    impl Ground {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let base = directory.path().canonicalize().unwrap();
            for name in ["ws/sub/deep", "more", "ws-evil"] {
                fs::create_dir_all(base.join(name)).unwrap();
            }
            for name in ["ws/a.txt", "ws/sub/b.txt", "more/c.txt", "ws-evil/x", "secret"] {
                fs::write(base.join(name), name).unwrap();
            }
            symlink(base.join("ws"), base.join("ws-link")).unwrap();
            let workspace = Workspace::open(vec![base.join("ws-link"), base.join("more")]).unwrap();
            Self { directory, workspace }
        }

        fn path(&self, relative: &str) -> PathBuf {
            self.directory.path().canonicalize().unwrap().join(relative)
        }

        fn link(&self, name: &str, to: impl AsRef<Path>) {
            symlink(to, self.path(name)).unwrap();
        }

        /// Where a path leads, by the short way and by the long one alike.
        #[track_caller]
        fn check(&self, path: &str, expected: &str) {
            for resolved in [
                self.workspace.resolve(&self.path(path)),
                walk::resolve(&self.workspace, &self.path(path)),
            ] {
                let leads_to = match resolved {
                    Ok(target) => {
                        let real = target.real_path().strip_prefix(self.path("")).unwrap();
                        let is_new = if target.metadata().is_ok() { "" } else { " (new)" };
                        format!("{}{is_new}", real.display())
                    }
                    Err(ResolveError::Outside { .. }) => "outside".to_owned(),
                    Err(ResolveError::BadPath(_)) => "bad".to_owned(),
                    Err(ResolveError::Io { source, .. }) => source.kind().to_string(),
                };
                assert_eq!(leads_to, expected, "{path}");
            }
        }
    }

    #[test]
    fn finds_what_lies_beneath_a_root() {
        let ground = Ground::new();
        ground.check("ws", "ws");
        ground.check("ws/a.txt", "ws/a.txt");
        ground.check("ws-link/sub/b.txt", "ws/sub/b.txt");
        ground.check("more/c.txt", "more/c.txt");
        ground.check("ws/new.txt", "ws/new.txt (new)");
        ground.check("ws/new/er/est.txt", "ws/new/er/est.txt (new)");
        ground.check("ws/a.txt/b", "not a directory");
    }

    #[test]
    fn refuses_what_lies_elsewhere() {
        let ground = Ground::new();
        ground.check("ws-evil/x", "outside");
        ground.check("secret", "outside");
        ground.check("ws/../secret", "outside");
        for path in ["/etc/passwd", "/proc/self/root/etc/passwd", "/dev/fd/0", "/"] {
            let resolved = ground.workspace.resolve(Path::new(path));
            assert!(matches!(resolved, Err(ResolveError::Outside { .. })), "{path}");
        }
    }

    #[test]
    fn follows_links_within_the_roots() {
        let ground = Ground::new();
        ground.link("ws/relative", "sub/b.txt");
        ground.link("ws/absolute", ground.path("ws/sub"));
        ground.link("ws/by-other-name", ground.path("ws-link/sub"));
        ground.link("ws/across", ground.path("more"));
        ground.link("ws/sub/up", "../a.txt");
        ground.link("ws/dangling", "not/yet.txt");
        ground.check("ws/relative", "ws/sub/b.txt");
        ground.check("ws/absolute/b.txt", "ws/sub/b.txt");
        ground.check("ws/by-other-name/b.txt", "ws/sub/b.txt");
        ground.check("ws/across/c.txt", "more/c.txt");
        ground.check("ws/sub/up", "ws/a.txt");
        ground.check("ws/dangling", "ws/not/yet.txt (new)");
    }

    #[test]
    fn follows_no_link_out_of_the_roots() {
        let ground = Ground::new();
        ground.link("ws/absolute", ground.path("secret"));
        ground.link("ws/relative", "../secret");
        ground.link("ws/directory", "..");
        ground.link("ws/evil", ground.path("ws-evil"));
        ground.link("ws/dangling", ground.path("new-secret"));
        ground.link("ws/chain", "relative");
        ground.link("ws/proc", "/proc/self/root");
        ground.link("ws/loop", "loop");
        for name in ["absolute", "relative", "directory", "directory/secret", "evil/x", "dangling"]
        {
            ground.check(&format!("ws/{name}"), "outside");
        }
        ground.check("ws/chain", "outside");
        ground.check("ws/proc/etc/passwd", "outside");
        ground.check("ws/loop", "filesystem loop or indirection limit (e.g. symlink loop)");
    }

    #[test]
    fn magic_links_are_refused_even_beneath_a_root() {
        let workspace = Workspace::open(vec![PathBuf::from("/proc")]).unwrap();
        for path in ["/proc/self/root/etc/passwd", "/proc/thread-self/cwd", "/proc/self/fd/0"] {
            assert!(workspace.resolve(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn strange_spellings_are_refused_and_strange_names_are_not() {
        use std::os::unix::ffi::OsStrExt as _;

        let ground = Ground::new();
        for name in ["ws/a\0b", "ws/a\nb", "ws/\u{1b}[31m", "ws/\u{85}"] {
            ground.check_bad(name);
        }
        let long = format!("ws/{}", "x/".repeat(3000));
        ground.check_bad(&long);
        assert!(matches!(
            ground.workspace.resolve(Path::new("a.txt")),
            Err(ResolveError::BadPath(_))
        ));
        ground.check("ws/$HOME", "ws/$HOME (new)");
        ground.check("ws/%2e%2e/x", "ws/%2e%2e/x (new)");
        ground.check("ws/-rf", "ws/-rf (new)");
        let name = std::ffi::OsStr::from_bytes(b"not-\xff-utf8");
        fs::write(ground.path("ws").join(name), "x").unwrap();
        let target = ground.workspace.resolve(&ground.path("ws").join(name)).unwrap();
        assert!(target.open_file().is_ok());
    }

    impl Ground {
        #[track_caller]
        fn check_bad(&self, path: &str) {
            let resolved = self.workspace.resolve(&self.path(path));
            assert!(matches!(resolved, Err(ResolveError::BadPath(_))), "{path:?}");
        }

        fn target(&self, path: &str) -> Target {
            self.workspace.resolve(&self.path(path)).unwrap()
        }
    }

    #[test]
    fn opens_regular_files_only_and_waits_for_nobody() {
        use rustix::fs::{Mode, mkfifoat};

        let ground = Ground::new();
        mkfifoat(CWD, ground.path("ws/pipe"), Mode::RUSR).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(ground.path("ws/socket")).unwrap();
        let error = |path| ground.target(path).open_file().unwrap_err().to_string();
        assert_eq!(error("ws/pipe"), "not a regular file but a named pipe");
        assert_eq!(error("ws/socket"), "not a regular file but a socket");
        assert_eq!(error("ws/sub"), "not a regular file but a directory");
        assert_eq!(error("ws"), "not a regular file but a directory");
        let devices = Workspace::open(vec![PathBuf::from("/dev")]).unwrap();
        let null = devices.resolve(Path::new("/dev/zero")).unwrap().open_file();
        assert_eq!(null.unwrap_err().to_string(), "not a regular file but a device");
    }

    #[test]
    fn a_link_swapped_in_after_resolving_is_not_followed() {
        let ground = Ground::new();
        let (file, directory) = (ground.target("ws/sub/b.txt"), ground.target("ws"));
        fs::remove_file(ground.path("ws/sub/b.txt")).unwrap();
        ground.link("ws/sub/b.txt", ground.path("secret"));
        assert!(file.open_file().is_err());
        assert!(directory.open_beneath(Path::new("sub/b.txt")).is_err());
        assert!(replace(&file, b"x", None).is_err());
        assert!(directory.open_beneath(Path::new("../secret")).is_err());
        assert_eq!(fs::read_to_string(ground.path("secret")).unwrap(), "secret");
    }

    /// Whatever is swapped meanwhile: file for link, directory for link.
    #[test]
    fn a_race_for_links_leads_nowhere() {
        let ground = Ground::new();
        ground.link("out", ground.path("ws-evil"));
        fs::write(ground.path("ws/sub/x"), "inside").unwrap();
        let (sub, spare, out) =
            (ground.path("ws/sub"), ground.path("ws/spare"), ground.path("out"));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    fs::rename(&sub, &spare).unwrap();
                    symlink(&out, &sub).unwrap();
                    fs::remove_file(&sub).unwrap();
                    fs::rename(&spare, &sub).unwrap();
                }
            });
            for _ in 0..2000 {
                let Ok(target) = ground.workspace.resolve(&ground.path("ws/sub/x")) else {
                    continue;
                };
                let Ok(mut file) = target.open_file() else { continue };
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert_ne!(text, "ws-evil/x");
                let before = Identity::of(&file.metadata().unwrap());
                let _ = replace(&target, b"inside", Some(before));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(fs::read_to_string(ground.path("ws-evil/x")).unwrap(), "ws-evil/x");
        assert_eq!(fs::read_dir(ground.path("ws-evil")).unwrap().count(), 1);
    }

    fn identity(path: &Path) -> Identity {
        Identity::of(&fs::metadata(path).unwrap())
    }

    fn replace(
        target: &Target,
        contents: &[u8],
        before: Option<Identity>,
    ) -> Result<Identity, ReplaceError> {
        target.replace(contents, before, &Unfinished::default())
    }

    #[test]
    fn replacing_keeps_mode_and_link_and_cuts_hard_links() {
        let ground = Ground::new();
        let path = ground.path("ws/a.txt");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        fs::hard_link(&path, ground.path("twin")).unwrap();
        ground.link("ws/link", "a.txt");

        replace(&ground.target("ws/link"), b"new", Some(identity(&path))).unwrap();

        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o4751);
        assert!(fs::symlink_metadata(ground.path("ws/link")).unwrap().is_symlink());
        assert_eq!(fs::read(ground.path("twin")).unwrap(), b"ws/a.txt");
    }

    #[test]
    fn replacing_makes_directories_and_leaves_nothing_beside_the_file() {
        let ground = Ground::new();
        replace(&ground.target("ws/new/er/file"), b"x", None).unwrap();
        let names = fs::read_dir(ground.path("ws/new/er")).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["file"]);
    }

    #[test]
    fn what_changed_meanwhile_is_not_replaced() {
        let ground = Ground::new();
        let (path, target) = (ground.path("ws/a.txt"), ground.target("ws/a.txt"));
        let before = identity(&path);
        fs::write(&path, "from elsewhere").unwrap();
        assert!(matches!(replace(&target, b"x", Some(before)), Err(ReplaceError::Changed)));
        assert!(matches!(replace(&target, b"x", None), Err(ReplaceError::Changed)));
        fs::remove_file(&path).unwrap();
        assert!(replace(&target, b"x", Some(before)).is_err());
        assert_eq!(fs::read_dir(ground.path("ws")).unwrap().count(), 1, "only `sub` is left");
    }
}
