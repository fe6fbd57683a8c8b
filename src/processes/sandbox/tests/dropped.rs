//! What a command writes into the memory of its sandbox is reported when it has ended.

use std::ffi::OsString;

use super::*;

/// A ground with a home, in which there are programs and the workspace, and its runner. `None`
/// where the level does not hold.
async fn ground_with_home(level: Level) -> Option<(Ground, Runner)> {
    let mut ground = Ground::new(level);
    fs::create_dir_all(ground.path("home/.cargo/bin")).unwrap();
    fs::create_dir_all(ground.path("home/ws")).unwrap();
    let home = ground.path("home");
    let variables = [("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), home.into())];
    let runner = Runner::new(program(), Environment::allowed(variables), None);
    let settings = SandboxSettings {
        levels: vec![level],
        writable: vec![ground.path("home/kept")],
        ..SandboxSettings::default()
    };
    fs::create_dir_all(ground.path("home/kept")).unwrap();
    ground.sandbox = Sandbox::new(runner.clone(), settings);
    if let Some(fault) = ground.sandbox.outcome().await.fault() {
        not_run(level, &fault);
        return None;
    }
    Some((ground, runner))
}

/// What is reported of a command, below the home.
async fn dropped_by(ground: &Ground, runner: &Runner, text: &str) -> (Vec<String>, usize) {
    let root = ground.path("home/ws");
    let confined = ground.sandbox.confine(vec![root.clone()], None).await.unwrap().unwrap();
    let command = shell(&confined, root, text);
    let finished = runner.run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
    let home = ground.path("home");
    let below_home = |path: &OsString| {
        let path = Path::new(path);
        path.strip_prefix(&home).unwrap_or(path).display().to_string()
    };
    (finished.dropped.named.iter().map(below_home).collect(), finished.dropped.more)
}

#[tokio::test]
async fn what_is_lost_with_the_sandbox_is_reported() {
    let Some((ground, runner)) = ground_with_home(Level::Bwrap).await else { return };
    for (text, named, more) in [
        ("echo x > ~/note.txt", &["note.txt"][..], 0),
        ("mkdir -p ~/a/b && echo x > ~/a/b/c; exit 3", &["a"], 0),
        ("touch ~/.npmrc /run/x /dev/shm/y", &["/dev/shm/y", "/run/x", ".npmrc"], 0),
        ("for i in 1 2 3 4 5 6 7; do : > ~/$i; done", &["1", "2", "3", "4", "5"], 2),
        ("mkdir -p ~/.cache/pip && touch ~/.cache/pip/x ~/n", &["n"], 0),
        ("(touch ~/later) & wait", &["later"], 0),
        ("touch ~/x; kill -9 $$", &["x"], 0),
        ("touch ~/x; rm ~/x", &[], 0),
        ("mkdir -p ~/.cache/pip ~/.npm && touch ~/.cache/pip/x ~/.npm/y", &[], 0),
        ("touch own ~/ws/own ~/kept/own $TMPDIR/own /tmp/other", &[], 0),
        ("ls -A ~ > list", &[], 0),
        ("mkdir ~/closed && touch ~/closed/x && chmod 0 ~/closed", &["closed"], 0),
    ] {
        let reported = dropped_by(&ground, &runner, text).await;
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(reported, (named, more), "{text}");
    }
    assert!(!ground.path("home/note.txt").exists() && ground.path("home/kept/own").exists());
}

#[tokio::test]
async fn landlock_drops_nothing() {
    let Some((ground, runner)) = ground_with_home(Level::Landlock).await else { return };
    let text = "touch ~/note.txt; touch own ~/kept/own $TMPDIR/own";
    assert_eq!(dropped_by(&ground, &runner, text).await, (Vec::new(), 0));
    assert!(!ground.path("home/note.txt").exists());
}

/// What a person is told before agrees with what happens.
#[tokio::test]
async fn the_outline_agrees_with_what_happens() {
    use crate::processes::fate::PathFate;
    for level in LEVELS {
        let Some((ground, runner)) = ground_with_home(level).await else { continue };
        let root = ground.path("home/ws");
        let outline = ground.sandbox.outline(level, [root.as_path()].into_iter());
        for name in ["home/note", "home/ws/note", "home/kept/note", "home/.cargo/bin/note"] {
            let path = ground.path(name);
            let text = format!("touch {}", path.display());
            let (dropped, _) = dropped_by(&ground, &runner, &text).await;
            let happened = match (dropped.is_empty(), path.exists()) {
                (true, true) => PathFate::Writable,
                (false, _) => PathFate::Dropped,
                (true, false) if name.contains(".cargo") => PathFate::ReadOnly,
                (true, false) => PathFate::Closed,
            };
            assert_eq!(outline.fate(&path), happened, "{level}: {name}");
        }
    }
}
