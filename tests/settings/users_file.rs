//! Tests that a settings file of the user which cannot be read, or whose rules or hooks cannot,
//! stops the start and shows in `toolhand check`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::trust::{builder, toolhand};
use crate::support::server::Builder;
use crate::support::upstream::Upstream;

const NOWHERE: &str = "http://127.0.0.1:1/v1";

/// Makes the file at a path.
type MakeFile<'a> = &'a dyn Fn(&Path);

/// Starts a server in whose home the file was made, and returns what it says of it.
fn refusal(make: MakeFile<'_>) -> String {
    let builder = Builder::new(NOWHERE);
    fs::create_dir(builder.home().join(".claude")).expect("a directory");
    make(&builder.home().join(".claude/settings.json"));
    let (status, stdout, stderr) = builder.run();
    assert_eq!((status.code(), stdout.as_str()), (Some(1), ""), "{stderr}");
    // The rest is the log.
    let told: Vec<&str> = stderr.lines().filter(|line| line.starts_with("toolhand: ")).collect();
    assert_eq!(told.len(), 1, "one line: {stderr}");
    told[0].to_owned()
}

fn text(text: &'static str) -> impl Fn(&Path) {
    move |path| fs::write(path, text).expect("a file")
}

#[test]
fn a_file_that_cannot_be_read_stops_the_start_with_one_line() {
    let ways: [(&str, MakeFile<'_>); 8] = [
        ("is not a regular file", &|path| fs::create_dir(path).expect("a directory")),
        ("is not a regular file", &|path| {
            mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a pipe");
        }),
        ("is not a regular file", &|path| symlink("/dev/zero", path).expect("a link")),
        ("a link that leads to nothing", &|path| symlink("nowhere", path).expect("a link")),
        ("is not UTF-8", &|path| fs::write(path, b"{\"a\": \"\xff\"}").expect("a file")),
        ("is larger than 1048576 bytes", &|path| {
            fs::write(path, " ".repeat((1 << 20) + 1)).expect("a file");
        }),
        ("others may write it", &|path| {
            fs::write(path, "{}").expect("a file");
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("our own");
        }),
        ("Not a directory", &|path| {
            let directory = path.parent().expect("a directory");
            fs::remove_dir(directory).expect("it is empty");
            fs::write(directory, "").expect("a file");
        }),
    ];
    for (reason, make) in ways {
        let told = refusal(make);
        assert!(told.contains(".claude/settings.json: ") && told.contains(reason), "{told}");
    }
}

#[test]
fn a_file_that_cannot_be_understood_stops_the_start_and_names_the_line() {
    for (written, reason) in [
        ("", "line 1: EOF"),
        ("{\n// no comment\n}", "line 2: "),
        ("[]", "line 1: invalid type"),
        ("{\"permissions\": {\"deny\": \"Bash\"}}", "line 1: invalid type: string"),
        ("{\"permissions\": {\"deny\": [1]}}", "line 1: invalid type: integer"),
        ("{\"permissions\": {\"deny\": {}}}", "line 1: invalid type: map"),
        ("{\"permissions\": {\n\"deny\": [], \"deny\": []}}", "line 2: duplicate field"),
        ("{\n\"permission\": {\"deny\": [\"Bash\"]}}", "line 2: unknown key \"permission\""),
        ("{\"permissions\": {\"denied\": [\"Bash\"]}}", "did you mean \"deny\"?"),
        ("{\"deny\": [\"Bash\"]}", "into \"permissions\""),
        ("{\"permissions\": {\"deny\": [\"Bash(git reset:* --hard)\"]}}", "`:*` stands for"),
        ("{\"permissions\": {\"ask\": [\n\"Read(src/[a)\"]}}", "line 2: "),
        ("{\"permissions\": {\"allow\": [\"Edit(src/{a)\"]}}", "unclosed"),
        ("{\"permissions\": {\"deny\": [\"WebFetch(domain:)\"]}}", "domain"),
        ("{\"permissions\": {\"deny\": [\"Bash(a), Read(b)\"]}}", "two rules"),
        ("{\"permissions\": {\"deny\": [\"Skill(a, b)\"]}}", "a rule for each"),
    ] {
        let told = refusal(&text(written));
        assert!(told.contains(".claude/settings.json: ") && told.contains(reason), "{told}");
    }
}

#[test]
fn hooks_that_cannot_be_read_stop_the_start() {
    for (written, reason) in [
        ("{\"hooks\": 5}", "hooks: is neither"),
        ("{\"hooks\": {\"PreToolUsed\": []}}", "no event is named \"PreToolUsed\""),
        (
            "{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"(\", \"hooks\": []}]}}",
            "does not compile",
        ),
        (
            "{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"Edit Write\", \"hooks\": []}]}}",
            "is no tool's name",
        ),
        ("{\"hooks\": {\"PreToolUse\": [{\"hook\": []}]}}", "hooks: is missing"),
        ("{\"hook\": {}}", "did you mean \"hooks\"?"),
    ] {
        let told = refusal(&text(written));
        assert!(told.contains(".claude/settings.json: ") && told.contains(reason), "{told}");
    }
}

#[tokio::test]
async fn check_ends_with_1_for_a_file_that_would_stop_the_start() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    let path = server.state_dir().with_file_name(".claude").join("settings.json");
    fs::create_dir(path.parent().expect("a directory")).expect("a new directory");
    for (written, reason) in [
        ("{", "line 1: "),
        ("{\"hooks\": 5}", "hooks: is neither"),
        ("{\"permissions\": {\"deny\": [\"Read([a)\"]}}", "never closed"),
        ("{\"permissions\": {\"denyed\": []}}", "did you mean \"deny\"?"),
    ] {
        fs::write(&path, written).expect("a file");
        let output = toolhand(&server, &["check"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(".claude/settings.json: ") && error.contains(reason), "{error}");
    }
    fs::remove_file(&path).expect("it goes");
    symlink("nowhere", &path).expect("a link");
    let output = toolhand(&server, &["check"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("leads to nothing"));
}

#[test]
fn rules_of_the_configuration_that_could_never_match_stop_the_start() {
    for rule in [
        "Bash(git reset:* --hard)",
        "Bash(npm:**)",
        "Read(src/[a)",
        "Read([)",
        "Edit(src/{a,b)",
        "Edit(C:\\\\x)",
        "Read(src\\\\main.rs)",
        "Read(a\\\\)",
        "Read([z-a])",
        "Read([[:alpha:]])",
        "Read($HOME/x)",
        "Read(file:///etc/x)",
        "Read( a)",
        "Read(a//b)",
        "Read(a/./b)",
        "WebFetch(domain:)",
        "WebFetch(domain:https://a.com)",
        "WebFetch(domain:a.com,b.com)",
        "Bash(git push), Bash(rm *)",
        "Bash(a\\u0001b)",
    ] {
        for list in ["permissions.deny", "permissions.ask", "permissions.allow"] {
            let builder = Builder::new(NOWHERE).config(list, &format!("[\"{rule}\"]"));
            let (status, stdout, stderr) = builder.run();
            assert_eq!((status.code(), stdout.as_str()), (Some(1), ""), "{rule}: {stderr}");
            assert!(stderr.contains(list), "{rule}: {stderr}");
        }
    }
}
