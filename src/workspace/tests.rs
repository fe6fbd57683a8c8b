//! Checks which paths resolve, which are refused, and races that swap in links.

use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::mkfifoat;

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

    /// Checks where a path leads: `direct` and `walk` must agree.
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
                Err(ResolveError::Magic(_)) => "magic".to_owned(),
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
    for name in ["absolute", "relative", "directory", "directory/secret", "evil/x", "dangling"] {
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
    let ground = Ground::new();
    for name in ["ws/a\0b", "ws/a\nb", "ws/\u{1b}[31m", "ws/\u{85}"] {
        ground.check_bad(name);
    }
    let long = format!("ws/{}", "x/".repeat(3000));
    ground.check_bad(&long);
    assert!(matches!(ground.workspace.resolve(Path::new("a.txt")), Err(ResolveError::BadPath(_))));
    for name in ["q\0q/../a.txt", "q\u{1}q/../a.txt", "a/q\nq/../../a.txt", "q\u{9f}/../a.txt"] {
        let path = absolute(&ground.path("ws"), Path::new(name));
        assert!(
            matches!(ground.workspace.resolve(&path), Err(ResolveError::BadPath(_))),
            "{path:?}"
        );
    }
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
fn the_judged_file_is_opened_whatever_has_its_name() {
    let ground = Ground::new();
    let target = ground.target("ws/a.txt");
    fs::rename(ground.path("ws/sub/b.txt"), ground.path("ws/a.txt")).unwrap();
    let read = |target: &Target| io::read_to_string(target.open_resolved_file().unwrap()).unwrap();
    assert_eq!(read(&target), "ws/a.txt");
    assert_eq!(read(&ground.target("ws/a.txt")), "ws/sub/b.txt");
    let fault = |path| ground.target(path).open_resolved_file().unwrap_err();
    assert_eq!(fault("ws/gone").kind(), io::ErrorKind::NotFound);
    assert_eq!(fault("ws/sub").to_string(), "not a regular file but a directory");
}

#[test]
fn a_link_swapped_in_after_resolving_is_not_followed() {
    let ground = Ground::new();
    let (file, directory) = (ground.target("ws/sub/b.txt"), ground.target("ws/sub"));
    let directory = directory.open_directory().unwrap();
    fs::remove_file(ground.path("ws/sub/b.txt")).unwrap();
    ground.link("ws/sub/b.txt", ground.path("secret"));
    assert!(file.open_file().is_err());
    assert!(directory.open_file(c"b.txt").is_err());
    assert!(replace(&file, b"x", None).is_err());
    assert_eq!(fs::read_to_string(ground.path("secret")).unwrap(), "secret");
}

/// Swaps a file for a link, and a directory for a link, while paths are resolved.
#[test]
fn a_race_for_links_leads_nowhere() {
    let ground = Ground::new();
    ground.link("out", ground.path("ws-evil"));
    fs::write(ground.path("ws/sub/x"), "inside").unwrap();
    let (sub, spare, out) = (ground.path("ws/sub"), ground.path("ws/spare"), ground.path("out"));
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
            let before = FileVersion::from_metadata(&file.metadata().unwrap());
            let _ = replace(&target, b"inside", Some(before));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(ground.path("ws-evil/x")).unwrap(), "ws-evil/x");
    assert_eq!(fs::read_dir(ground.path("ws-evil")).unwrap().count(), 1);
}

fn version(path: &Path) -> FileVersion {
    FileVersion::from_metadata(&fs::metadata(path).unwrap())
}

fn replace(
    target: &Target,
    contents: &[u8],
    before: Option<FileVersion>,
) -> Result<FileVersion, ReplaceError> {
    target.replace(contents, before, &TempFiles::default()).map(|written| written.version)
}

#[test]
fn t12_t24_replacing_keeps_mode_and_link_and_cuts_hard_links() {
    let ground = Ground::new();
    let path = ground.path("ws/a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
    fs::hard_link(&path, ground.path("twin")).unwrap();
    ground.link("ws/link", "a.txt");

    replace(&ground.target("ws/link"), b"new", Some(version(&path))).unwrap();

    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o751);
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
    let before = version(&path);
    fs::write(&path, "from elsewhere").unwrap();
    assert!(matches!(replace(&target, b"x", Some(before)), Err(ReplaceError::Changed)));
    assert!(matches!(replace(&target, b"x", None), Err(ReplaceError::Changed)));
    fs::remove_file(&path).unwrap();
    assert!(replace(&target, b"x", Some(before)).is_err());
    assert_eq!(fs::read_dir(ground.path("ws")).unwrap().count(), 1, "only `sub` is left");
}
