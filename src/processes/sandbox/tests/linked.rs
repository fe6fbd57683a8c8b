//! Roots whose repository lies elsewhere: linked worktrees and submodules.

use super::*;

/// Runs git outside of any sandbox, with settings of nobody.
fn git(directory: &Path, arguments: &[&str]) {
    let mut git = Process::new("git");
    git.current_dir(directory).args(["-c", "protocol.file.allow=always"]).args(arguments);
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"]
    {
        git.env(name, "me");
    }
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    assert!(git.stdout(std::process::Stdio::null()).status().unwrap().success(), "{arguments:?}");
}

const COMMIT: &str = "git -c user.name=me -c user.email=me@here commit -q";

impl Ground {
    /// Makes the root a linked worktree of a repository beside it.
    fn link_worktree(&self) {
        let main = self.path("main");
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q", "-b", "main"]);
        fs::write(main.join("file"), "text\n").unwrap();
        git(&main, &["add", "file"]);
        git(&main, &["commit", "-q", "-m", "first"]);
        fs::remove_dir_all(self.path("root")).unwrap();
        git(&main, &["worktree", "add", "-q", self.path("root").to_str().unwrap()]);
    }

    async fn read_in_root(&self, text: &str) -> String {
        let confined = self.sandbox.confine_to_reading(vec![self.path("root")], None).await;
        let command = shell(&confined.unwrap().unwrap(), self.path("root"), text);
        let finished = runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
        finished.output.render(30_000, "")
    }
}

#[tokio::test]
async fn git_works_in_a_linked_worktree_and_commits_to_its_repository() {
    for ground in Ground::each().await {
        ground.link_worktree();
        let said =
            ground.read_in_root("echo x >new; git status --short; git log --format=%s").await;
        assert!(said.ends_with("first\n") && !said.contains("fatal"), "{}: {said}", ground.level);
        let line = format!(
            "set -e; echo x >new; git add new; {COMMIT} -m second; git branch side; git stash list; \
             git log --format=%s; git status --short"
        );
        assert_eq!(ground.output(&line).await, "second\nfirst\n", "{}", ground.level);
        git(&ground.path("main"), &["rev-parse", "--verify", "-q", "side"]);
    }
}

#[tokio::test]
async fn g9_a_linked_worktree_changes_no_settings_programs_or_other_worktrees() {
    let attacks = [
        "git config user.name evil",
        "echo x >>MAIN/config",
        "mkdir -p MAIN/hooks; echo x >MAIN/hooks/pre-commit",
        "echo ROOT >MAIN/commondir; echo x >MAIN/info/attributes",
        "echo x >MAIN/HEAD; rm -rf MAIN/worktrees/other; echo x >MAIN/worktrees/other/HEAD",
        "mkdir MAIN/modules/x; mv MAIN/hooks MAIN/was; mv MAIN/worktrees MAIN/w",
        "mv MAIN/worktrees/root MAIN/worktrees/was; echo x >MAIN/../file",
    ];
    for ground in Ground::each().await {
        if ground.level != Level::Bwrap {
            continue;
        }
        ground.link_worktree();
        let other = ground.path("other");
        git(&ground.path("main"), &["worktree", "add", "-q", other.to_str().unwrap()]);
        let main = ground.path("main/.git");
        let contents = || {
            let mut contents = Contents::new();
            collect(&ground.path("main"), &mut contents);
            contents.retain(|path, _| !path.starts_with(main.join("worktrees/root")));
            contents
        };
        let before = contents();
        for attack in attacks {
            let attack = attack.replace("MAIN", main.to_str().unwrap());
            ground.output(&attack.replace("ROOT", ground.path("root").to_str().unwrap())).await;
            assert!(before == contents(), "{}: {attack}", ground.level);
        }
    }
}

/// What a person is told before agrees with what happens.
#[tokio::test]
async fn the_outline_has_the_repository_of_a_linked_worktree() {
    use crate::processes::fate::PathFate;
    for ground in Ground::each().await {
        ground.link_worktree();
        let root = ground.path("root");
        let outline = ground.sandbox.outline(ground.level, [root.as_path()].into_iter());
        for (name, is_writable) in
            [("root/new", true), ("main/.git/refs/new", true), ("main/new", false)]
        {
            let path = ground.path(name);
            let told = outline.fate(&path) == PathFate::Writable;
            ground.output(&format!("touch {}", path.display())).await;
            let happened = (told, path.exists());
            assert_eq!(happened, (is_writable, is_writable), "{}: {name}", ground.level);
        }
        let confined = ground.sandbox.confine(vec![root], None).await.unwrap().unwrap();
        assert_eq!(outline.writable, confined.confinement.writable, "{}", ground.level);
        assert_eq!(outline.readable, confined.confinement.readable, "{}", ground.level);
    }
}

/// Landlock cannot take a file out of a directory that is writable.
#[tokio::test]
async fn g9_what_a_linked_worktree_changes_of_its_repository_is_told() {
    for ground in Ground::each().await {
        ground.link_worktree();
        let repository = ground.path("main/.git");
        let obeyed = ["worktrees/root/commondir", "config", "hooks/pre-commit"];
        fs::create_dir_all(repository.join("hooks")).unwrap();
        fs::write(repository.join("hooks/pre-commit"), "was").unwrap();
        for name in obeyed {
            let path = repository.join(name);
            let was = fs::read(&path).unwrap();
            let confined = ground.sandbox.confine(vec![ground.path("root")], None).await;
            let confined = confined.unwrap().unwrap();
            let attack = format!("echo evil >{}; true", path.display());
            let command = shell(&confined, ground.path("root"), &attack);
            runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
            let is_kept = fs::read(&path).unwrap() == was;
            assert_eq!(is_kept, ground.level == Level::Bwrap, "{name}");
            let told = confined.changed_control_files();
            assert_eq!(told.iter().any(|told| path.starts_with(told)), !is_kept, "{told:?}");
            fs::write(&path, was).unwrap();
        }
    }
}

/// git looks for hooks by a relative path in the worktree in which it runs, and not beside the
/// settings that name it.
#[tokio::test]
async fn g9_hooks_by_a_relative_path_are_those_of_the_linked_worktree() {
    for ground in Ground::each().await {
        ground.link_worktree();
        git(&ground.path("main"), &["config", "core.hooksPath", ".githooks"]);
        let hook = ground.path("root/.githooks/pre-commit");
        fs::create_dir(hook.parent().unwrap()).unwrap();
        fs::write(&hook, "was\n").unwrap();
        let confined = ground.sandbox.confine(vec![ground.path("root")], None).await;
        let confined = confined.unwrap().unwrap();
        let attack = "echo evil >>.githooks/pre-commit; true";
        let command = shell(&confined, ground.path("root"), attack);
        runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
        let is_kept = fs::read_to_string(&hook).unwrap() == "was\n";
        assert_eq!(is_kept, ground.level == Level::Bwrap, "{}", ground.level);
        let told = confined.changed_control_files();
        assert_eq!(told.contains(&hook), !is_kept, "{}: {told:?}", ground.level);
    }
}

#[tokio::test]
async fn g3_a_root_that_names_a_repository_which_does_not_name_it_is_not_shown_it() {
    for ground in Ground::each().await {
        ground.link_worktree();
        let root = ground.path("root");
        let named = fs::read(root.join(".git")).unwrap();
        fs::rename(&root, ground.path("elsewhere")).unwrap();
        fs::create_dir(&root).unwrap();
        fs::write(root.join(".git"), named).unwrap();
        // The other root is gone, and with it what the repository would name.
        let own = ground.path("main/.git/worktrees/root/gitdir");
        fs::write(own, format!("{}\n", ground.path("elsewhere/.git").display())).unwrap();
        let config = ground.path("main/.git/config");
        let said = ground.output(&format!("cat {}; git log", config.display())).await;
        assert!(!said.contains("[core]") && !said.contains("first"), "{}: {said}", ground.level);
    }
}

#[tokio::test]
async fn git_works_in_a_submodule_whose_repository_lies_above() {
    for ground in Ground::each().await {
        ground.link_worktree();
        let (above, main) = (ground.path("above"), ground.path("main"));
        fs::create_dir(&above).unwrap();
        git(&above, &["init", "-q"]);
        git(&above, &["submodule", "--quiet", "add", main.to_str().unwrap(), "part"]);
        fs::write(above.join("part/new"), "x").unwrap();
        let confined = ground.sandbox.confine(vec![above.join("part")], None).await;
        let confined = confined.unwrap().unwrap();
        let line = format!(
            "git status --short; git log --format=%s; git add new; {COMMIT} -m second; \
             git log --format=%s -1; git config user.name evil"
        );
        let command = shell(&confined, above.join("part"), &line);
        let finished = runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
        let said = finished.output.render(30_000, "");
        assert!(said.starts_with("?? new\nfirst\nsecond\n"), "{}: {said}", ground.level);
        let settings = above.join(".git/modules/part/config");
        let is_kept = !fs::read_to_string(&settings).unwrap().contains("evil");
        assert_eq!(is_kept, ground.level == Level::Bwrap);
        let told = confined.changed_control_files();
        assert_eq!(told.contains(&settings), !is_kept, "{told:?}");
    }
}
