//! Tests what the list of trusted directories holds, and which directories it means.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use insta::assert_snapshot;

use super::*;

/// A state directory, and two projects, one in the other.
struct Ground(tempfile::TempDir);

impl Ground {
    fn new() -> Self {
        let ground = Self(tempfile::tempdir().unwrap());
        for directory in ["ws/inner", "state"] {
            fs::create_dir_all(ground.path(directory)).unwrap();
        }
        fs::write(ground.path("file"), "").unwrap();
        ground
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(relative)
    }

    fn list(&self) -> TrustList {
        TrustList::open(&self.path("state")).unwrap()
    }

    fn write(&self, text: &str, mode: u32) {
        let path = self.path("state/trust.toml");
        let _gone = fs::remove_file(&path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn shown(&self, error: &TrustError) -> String {
        error.to_string().replace(self.path("").to_str().unwrap().trim_end_matches('/'), "~")
    }

    fn error(&self, path: &str) -> String {
        self.shown(&self.list().add(&self.path(path)).unwrap_err())
    }

    fn state(&self, live: &LiveTrust, path: &str) -> TrustState {
        let path = self.path(path);
        live.state(&path, &DirectoryId::from_metadata(&fs::metadata(&path).unwrap()))
    }
}

#[test]
fn trust_is_for_exactly_that_directory_while_it_is_in_the_list() {
    let ground = Ground::new();
    let live = LiveTrust::new(&ground.path("state"));
    assert_eq!(ground.state(&live, "ws"), TrustState::Untrusted);
    symlink(ground.path("ws"), ground.path("link")).unwrap();

    assert_eq!(ground.list().add(&ground.path("link/.")).unwrap(), ground.path("ws"));
    assert_eq!(ground.list().add(&ground.path("ws")).unwrap(), ground.path("ws"));
    assert_eq!(ground.list().list().unwrap().len(), 1);
    assert_eq!(ground.state(&live, "ws"), TrustState::Trusted);
    assert_eq!(ground.state(&live, "ws/inner"), TrustState::Untrusted);
    assert_eq!(ground.state(&live, ""), TrustState::Untrusted);
    let mode = fs::metadata(ground.path("state/trust.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    ground.list().remove(&ground.path("link")).unwrap();
    assert_eq!(ground.state(&live, "ws"), TrustState::Untrusted);
    let error = ground.list().remove(&ground.path("ws")).unwrap_err();
    assert_snapshot!(ground.shown(&error), @"~/ws is not in the list; `toolhand trust --list` shows it");
}

#[test]
fn g3_a_directory_that_is_swapped_is_not_the_one_that_was_trusted() {
    let ground = Ground::new();
    let live = LiveTrust::new(&ground.path("state"));
    let opened = DirectoryId::from_metadata(&fs::metadata(ground.path("ws")).unwrap());
    ground.list().add(&ground.path("ws")).unwrap();
    assert_eq!(live.state(&ground.path("ws"), &opened), TrustState::Trusted);

    fs::rename(ground.path("ws"), ground.path("old")).unwrap();
    assert_eq!(live.state(&ground.path("ws"), &opened), TrustState::Replaced, "nothing is there");
    fs::create_dir(ground.path("ws")).unwrap();
    assert_eq!(live.state(&ground.path("ws"), &opened), TrustState::Replaced, "opened before");
    assert_eq!(ground.state(&live, "ws"), TrustState::Replaced, "opened afterwards");
    assert_eq!(ground.state(&live, "old"), TrustState::Untrusted, "by its new path");

    fs::remove_dir(ground.path("ws")).unwrap();
    symlink(ground.path("old"), ground.path("ws")).unwrap();
    assert_eq!(live.state(&ground.path("ws"), &opened), TrustState::Replaced, "a link to it");
    fs::remove_file(ground.path("ws")).unwrap();
    fs::rename(ground.path("old"), ground.path("ws")).unwrap();
    assert_eq!(live.state(&ground.path("ws"), &opened), TrustState::Trusted, "it is back");

    fs::remove_dir_all(ground.path("ws")).unwrap();
    assert_eq!(ground.list().remove(&ground.path("ws")).unwrap(), ground.path("ws"));
}

#[test]
fn a_directory_of_another_age_is_another_one() {
    let metadata = fs::metadata("/").unwrap();
    let id = DirectoryId::from_metadata(&metadata);
    assert!(id.is(&id));
    let text = |born: &str| {
        format!(
            "[[trusted]]\npath = \"/x\"\ndevice = \"1\"\ninode = \"18446744073709551615\"\n{born}"
        )
    };
    let read = |born: &str| file::parse(&text(born)).unwrap().trusted.remove(0).id;
    assert!(!read("born = \"1.5\"").is(&read("born = \"1.6\"")));
    assert!(!read("born = \"1.5\"").is(&read("")));
    assert!(read("").is(&read("born = \"1.6\"")), "the file system did not know");
}

#[test]
fn what_is_no_directory_of_a_project_cannot_be_trusted() {
    let ground = Ground::new();
    assert_snapshot!(ground.error("file"), @"~/file is not a directory: trust is for a workspace");
    assert_snapshot!(ground.error("gone"), @"~/gone: No such file or directory (os error 2)");
    assert_snapshot!(ground.error("/"), @"/ is not trusted: name the directory of one project");
    assert!(!ground.path("state/trust.toml").exists());
}

#[test]
fn a_broken_list_trusts_nothing_and_is_never_written_over() {
    let ground = Ground::new();
    let live = LiveTrust::new(&ground.path("state"));
    ground.list().add(&ground.path("ws")).unwrap();
    let good = fs::read_to_string(ground.path("state/trust.toml")).unwrap();
    let broken = [
        good.replace("device", "devise"),
        good.replace("device = \"", "device = \"x"),
        good[..good.len() - 5].to_owned(),
        format!("{good}trust_all = true\n"),
        good.replace("path = \"/", "path = \""),
    ];
    for text in broken {
        ground.write(&text, 0o600);
        let state = ground.state(&live, "ws");
        assert!(matches!(state, TrustState::Unreadable(_)), "{text}: {state:?}");
        let error = ground.error("ws");
        assert!(error.contains("trust.toml: ") && error.contains("nothing is trusted"), "{error}");
        assert_eq!(fs::read_to_string(ground.path("state/trust.toml")).unwrap(), text);
    }
    ground.write(&good, 0o644);
    assert!(ground.error("ws").contains("others may read it (mode 644); chmod 600 it"));
    assert!(matches!(ground.state(&live, "ws"), TrustState::Unreadable(_)));
    ground.write(&good, 0o600);
    assert_eq!(ground.state(&live, "ws"), TrustState::Trusted);
}

#[test]
fn a_list_that_is_a_link_or_a_pipe_is_refused_without_waiting() {
    use rustix::fs::{CWD, Mode, mkfifoat};
    let ground = Ground::new();
    let path = ground.path("state/trust.toml");
    let live = LiveTrust::new(&ground.path("state"));
    ground.list().add(&ground.path("ws")).unwrap();
    fs::rename(&path, ground.path("elsewhere")).unwrap();
    symlink(ground.path("elsewhere"), &path).unwrap();
    assert!(matches!(ground.state(&live, "ws"), TrustState::Unreadable(_)));
    fs::remove_file(&path).unwrap();
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    assert!(matches!(ground.state(&live, "ws"), TrustState::Unreadable(_)));
    assert!(ground.error("ws").contains("is not a regular file"));
}
