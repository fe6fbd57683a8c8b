//! Tests what the settings files say as they come, change, break and go.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::{CWD, Mode, mkfifoat};

use super::*;
use crate::trust::TrustList;

const SHARED: usize = 1;
const LOCAL: usize = 2;

struct Ground {
    home: tempfile::TempDir,
    workspace: Workspace,
    files: SettingsFiles,
}

impl Ground {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().canonicalize().unwrap();
        for directory in ["ws/.claude", "user", "state", "additional"] {
            fs::create_dir_all(path.join(directory)).unwrap();
        }
        let roots = vec![path.join("ws"), path.join("additional")];
        let workspace = Workspace::open(roots).unwrap();
        let files = SettingsFiles::new(Some(&path.join("user")), &path.join("state"));
        Self { home, workspace, files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn now(&self) -> SettingsSnapshot {
        self.files.snapshot(&self.workspace)
    }

    /// The deny rules of each file, or its fault.
    fn shown(&self) -> String {
        let shown = self.now().files.map(|file| match (&file.contents, &file.fault) {
            (contents, None) => denied(contents.as_deref()),
            (None, Some(fault)) => fault.clone(),
            (contents, Some(fault)) => format!("{fault} ({})", denied(contents.as_deref())),
        });
        shown.join("; ").replace(&self.path("").display().to_string(), "~/")
    }
}

fn denied(contents: Option<&SettingsContents>) -> String {
    let rules = contents.iter().flat_map(|contents| &contents.deny);
    rules.map(|rule| rule.text.as_str()).collect::<Vec<_>>().join(" ")
}

fn denying(rule: &str) -> String {
    format!("{{\"permissions\": {{\"deny\": [\"{rule}\"]}}}}")
}

#[test]
fn the_example_of_the_documentation_is_read_whole() {
    let text = include_str!("../../docs/trust.md");
    let (_, rest) = text.split_once("```json\n").unwrap();
    let contents = SettingsContents::parse(rest.split_once("```").unwrap().0).unwrap();
    assert_eq!((contents.allow.len(), contents.ask.len(), contents.deny.len()), (2, 1, 1));
    assert!(contents.without_effect.is_empty() && !contents.additional_directories.is_empty());
}

#[test]
fn what_is_written_counts_from_the_next_look_on() {
    let ground = Ground::new();
    assert_eq!(ground.shown(), "; ; ");
    ground.write("user/settings.json", &denying("Bash"));
    ground.write("ws/.claude/settings.json", &denying("Grep"));
    ground.write("ws/.claude/settings.local.json", &denying("Glob"));
    assert_eq!(ground.shown(), "Bash; Grep; Glob");
    // As long as before, so that only the time tells.
    ground.write("ws/.claude/settings.json", &denying("Edit"));
    assert_eq!(ground.shown(), "Bash; Edit; Glob");
    assert!(ground.now().is_same(&ground.now()));

    fs::rename(ground.path("ws/.claude"), ground.path("ws/gone")).unwrap();
    assert_eq!(ground.shown(), "Bash; ; ");
    let before = ground.now();
    fs::rename(ground.path("ws/gone"), ground.path("ws/.claude")).unwrap();
    assert_eq!(ground.shown(), "Bash; Edit; Glob");
    assert!(!before.is_same(&ground.now()));
}

#[test]
fn g1_only_trust_lets_all_of_a_workspaces_file_count() {
    let ground = Ground::new();
    let whole = |at: usize| {
        let now = ground.now();
        now.counts_whole(&now.files[at])
    };
    assert!(whole(0) && !whole(SHARED) && !whole(LOCAL));
    let list = TrustList::open(&ground.path("state")).unwrap();
    list.add(&ground.path("")).unwrap();
    assert!(!whole(SHARED), "trust of the directory above is none");
    list.add(&ground.path("ws")).unwrap();
    assert!(whole(0) && whole(SHARED) && whole(LOCAL));
    list.remove(&ground.path("ws")).unwrap();
    assert!(!whole(SHARED) && !whole(LOCAL));
}

#[test]
fn a_broken_file_is_told_and_leaves_what_was_there() {
    let ground = Ground::new();
    ground.write("user/settings.json", &denying("Bash"));
    assert_eq!(ground.shown(), "Bash; ; ");
    ground.write("user/settings.json", "{\n}}");
    ground.write("ws/.claude/settings.json", "{\"permissions\": {\"deny\": 1}}");
    let fault = "line 1: invalid type: integer `1`, expected a sequence";
    assert_eq!(ground.shown(), format!("line 2: trailing characters (Bash); {fault}; "));
    ground.write("user/settings.json", "{}");
    fs::remove_file(ground.path("ws/.claude/settings.json")).unwrap();
    assert_eq!(ground.shown(), "; ; ");
}

#[test]
fn a_file_that_leads_out_or_would_block_is_a_fault_at_once() {
    let ground = Ground::new();
    let shared = ground.path("ws/.claude/settings.json");
    let replaced = |make: &dyn Fn()| {
        let _gone = fs::remove_file(&shared);
        make();
        ground.shown()
    };
    ground.write("outside", &denying("Bash"));
    ground.write("additional/settings.json", &denying("Bash"));
    ground.write("ws/inside", &denying("Glob"));
    for outside in ["outside", "additional/settings.json"] {
        let told = replaced(&|| symlink(ground.path(outside), &shared).unwrap());
        assert_eq!(told, format!("; leads out of the workspace, to ~/{outside}; "));
    }
    assert_eq!(replaced(&|| symlink("../inside", &shared).unwrap()), "; Glob; ");
    assert_eq!(replaced(&|| symlink("nowhere", &shared).unwrap()), "; ; ");
    let pipe = || mkfifoat(CWD, &shared, Mode::RUSR | Mode::WUSR).unwrap();
    assert_eq!(replaced(&pipe), "; not a regular file but a named pipe; ");
    assert_eq!(
        replaced(&|| symlink("/dev/zero", &shared).unwrap()),
        "; leads out of the workspace, to /dev/zero; "
    );
    assert_eq!(replaced(&|| symlink("settings.json", &shared).unwrap()).matches("link").count(), 1);
    let large = || fs::write(&shared, " ".repeat((1 << 20) + 1)).unwrap();
    assert_eq!(replaced(&large), "; is larger than 1048576 bytes; ");
    assert_eq!(replaced(&|| fs::write(&shared, b"\xff").unwrap()), "; is not UTF-8; ");
    assert_eq!(replaced(&|| fs::write(&shared, "{}").unwrap()), "; ; ");

    fs::remove_dir_all(ground.path("ws/.claude")).unwrap();
    symlink(ground.path("user"), ground.path("ws/.claude")).unwrap();
    ground.write("user/settings.local.json", "{}");
    assert!(ground.shown().ends_with("leads out of the workspace, to ~/user/settings.local.json"));
}

#[test]
fn the_users_file_may_be_a_link_and_no_one_elses_to_write() {
    let ground = Ground::new();
    ground.write("outside", &denying("Bash"));
    symlink(ground.path("outside"), ground.path("user/settings.json")).unwrap();
    assert_eq!(ground.shown(), "Bash; ; ");
    let mode = |mode| fs::set_permissions(ground.path("outside"), fs::Permissions::from_mode(mode));
    mode(0o666).unwrap();
    assert_eq!(ground.shown(), "others may write it (mode 666); chmod go-w it (Bash); ; ");
    mode(0o600).unwrap();
    assert_eq!(ground.shown(), "Bash; ; ");
}
