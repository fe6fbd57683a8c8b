//! Git that reads runs no program which a repository names.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command as Process;

use super::*;

const MODES: [Mode; 5] =
    [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions];
/// What the program of the repository prints.
const SAYS: &str = "the repository's program runs";

/// Writes the program that a repository names. It also ends the git that runs it, which shows where
/// nothing can be written and its output goes nowhere.
fn plant(fixture: &Fixture) {
    let victim = fixture.path("VICTIM");
    let victim = victim.display();
    let script = format!("#!/bin/sh\necho {SAYS} >&2\necho {SAYS}\n: > {victim}\nkill -9 $PPID\n");
    fixture.write("evil", script.as_bytes());
    fs::set_permissions(fixture.path("evil"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// A directory that git takes for a bare repository, as any clone can bring it.
fn plant_bare_repository(fixture: &Fixture) {
    plant(fixture);
    let evil = fixture.path("evil");
    let config = format!(
        "[core]\nrepositoryformatversion = 0\nworktree = ..\nfsmonitor = {}\n",
        evil.display()
    );
    fixture.write("x/HEAD", b"ref: refs/heads/main\n");
    fixture.write("x/config", config.as_bytes());
    fixture.write("x/objects/.keep", b"");
    fixture.write("x/refs/.keep", b"");
}

/// Git as a person uses it, with nothing that confines it.
fn git(fixture: &Fixture, arguments: &[&str]) {
    let mut git = Process::new("/usr/bin/git");
    git.args(["-c", "user.name=n", "-c", "user.email=e", "-c", "core.hooksPath=/dev/null"]);
    let done = git.args(arguments).current_dir(fixture.root()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn g7_a_bare_repository_of_a_clone_runs_nothing() {
    let line = "cd x && git status";
    let without = Fixture::new(&[]);
    plant_bare_repository(&without);
    let answer = without.call(bash(), json!({ "command": line })).await;
    assert!(without.path("VICTIM").exists() && answer.contains("Killed"), "no attack: {answer}");

    let mut runs = 0;
    for level in [Some(Level::Bwrap), Some(Level::Landlock), None] {
        for mode in MODES {
            let ground = Ground::new(level, mode, &[], &[]);
            if level.is_some() && ground.sandbox.level().await.is_none() {
                continue;
            }
            plant_bare_repository(&ground.fixture);
            let before = ground.contents();
            for line in [line, "git -C x status", "(cd x; git log -1)", "cd x; time git status -s"]
            {
                let outcome = ground.run(line).await;
                ground.check_unchanged(&before, &format!("{line} at {level:?} in {mode}"));
                if let Some(output) = outcome {
                    let text = output.text.to_string();
                    let refused = "cannot use bare repository";
                    assert!(text.contains(refused), "{line} at {level:?} in {mode}: {text}");
                    assert_eq!(output.structured["reads_only"], level.is_some(), "{line}");
                    runs += 1;
                }
                ground.answer_in_root();
            }
        }
    }
    assert!(runs >= 4 * 5, "{runs}");
}

impl Ground {
    /// The next command begins in the root again.
    fn answer_in_root(&self) {
        self.fixture.context().agent.set_working_dir(self.fixture.root());
    }
}

/// A repository whose own configuration names a program for everything that has a name for it.
fn repository(fixture: &Fixture) {
    git(fixture, &["init", "-q", "-b", "main"]);
    fixture.write("a.txt", b"one\n");
    fixture.write(".gitattributes", b"*.txt diff=evil\n");
    git(fixture, &["add", "."]);
    git(fixture, &["commit", "-qm", "first"]);
    fixture.write("a.txt", b"one\ntwo\n");
    git(fixture, &["commit", "-qam", "second"]);
    fixture.write("a.txt", b"one\nthree\n");
    git(fixture, &["stash", "-q"]);
    fixture.write("a.txt", b"one\nfour\n");
    plant(fixture);
    let evil = fixture.path("evil");
    let evil = evil.display();
    let config = format!(
        "[core]\nfsmonitor = {evil}\npager = {evil}\nhooksPath = {root}/hooks\n\
         [diff]\nexternal = {evil}\n[diff \"evil\"]\ncommand = {evil}\ntextconv = {evil}\n\
         [pager]\nlog = {evil}\ndiff = {evil}\nshow = {evil}\nblame = {evil}\n\
         [gpg]\nprogram = {evil}\n[log]\nshowSignature = true\n",
        root = fixture.root().display(),
    );
    let path = fixture.path(".git/config");
    let own = fs::read_to_string(&path).unwrap();
    fs::write(&path, own + &config).unwrap();
    fs::create_dir(fixture.path("hooks")).unwrap();
    fs::copy(fixture.path("evil"), fixture.path("hooks/post-index-change")).unwrap();
}

#[tokio::test]
async fn g7_programs_of_the_repository_s_own_configuration_are_not_run() {
    let lines = [
        ("git status", "a.txt"),
        ("git diff", "+four"),
        ("git --no-pager diff HEAD~1 -- a.txt", "+four"),
        ("git log -p -1", "+two"),
        ("git -C . show", "+two"),
        ("git show HEAD:a.txt", "two"),
        ("git stash show -p", "+three"),
        ("git stash list -p", "+three"),
        ("git reflog -p", "+two"),
        ("git reflog show --stat", "a.txt"),
        ("git blame a.txt", "four"),
        ("git grep four", "four"),
        ("for c in HEAD; do git diff $c | cat; done", "+four"),
        ("echo $(git diff --stat)", "1 file changed"),
        ("timeout 10 ls; git shortlog -s HEAD", "n"),
        ("git cat-file -p HEAD:a.txt", "two"),
        ("git describe --always --dirty", "-dirty"),
    ];
    for ground in Ground::each(Mode::Default, &[]).await {
        repository(&ground.fixture);
        let before = ground.contents();
        for (line, shows) in lines {
            let text = ground.answer(line).await.text.to_string();
            assert!(!text.contains(SAYS), "{line}: {text}");
            assert!(text.contains(shows), "{line}: {text}");
            ground.check_unchanged(&before, line);
        }
    }
}
