//! Commands that put links where the next command's sandbox looks.

use super::*;

impl Ground {
    /// Runs a command in several roots.
    async fn run_in(&self, roots: &[&str], text: &str) -> (Finished, Vec<PathBuf>) {
        let roots = roots.iter().map(|root| self.path(root)).collect();
        let confined = self.sandbox.confine(roots, None).await.unwrap().unwrap();
        let text = text.replace("OUT", self.path("outside").to_str().unwrap());
        let command = shell(&confined, self.path("root"), &text);
        let finished = runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
        (finished, confined.changed_control_files())
    }
}

/// A root in another one, or above it in a directory that can be moved.
#[tokio::test]
async fn p8_a_root_that_a_command_has_replaced_leads_nowhere() {
    for ground in Ground::each().await {
        fs::create_dir_all(ground.path("root/deep/inner")).unwrap();
        let roots = ["root", "root/deep/inner"];
        ground
            .run_in(
                &roots,
                "mv deep/inner deep/was || mv deep was; mkdir deep; ln -s OUT deep/inner",
            )
            .await;
        let before = ground.outside();
        let (finished, _) = ground
            .run_in(&roots, "cat deep/inner/file; echo x >deep/inner/file; touch deep/inner/new")
            .await;
        let said = finished.output.render(1000, "");
        assert!(!said.contains(SECRET), "{}: {said}", ground.level);
        assert_eq!(ground.outside(), before, "{}", ground.level);
    }
}

/// Directories on the search path, and those that the operator adds, may lie in a root.
#[tokio::test]
async fn p8_a_readable_place_that_a_command_has_replaced_leads_nowhere() {
    for level in LEVELS {
        let mut ground = Ground::new(level);
        let tools = ground.path("root/tools/bin");
        fs::create_dir_all(&tools).unwrap();
        symlink(ground.path("root/tools"), ground.path("linked")).unwrap();
        let settings = SandboxSettings {
            levels: vec![level],
            readable: vec![tools, ground.path("linked")],
            writable: vec![ground.path("root/sub")],
            ..SandboxSettings::default()
        };
        ground.sandbox = Sandbox::new(runner(), settings);
        if ground.sandbox.level().await.is_none() {
            continue;
        }
        let attack =
            "mv tools was; mkdir tools; ln -s OUT tools/bin; mv sub sub2; ln -s OUT sub; ls";
        ground.run_in(&["root"], attack).await;
        let said = ground.output("cat tools/bin/file sub/file; echo x >sub/file").await;
        assert!(!said.contains(SECRET), "{level}: {said}");
        ground.output("rm -rf tools; ln -s OUT tools").await;
        let linked = ground.path("linked/file");
        let said = ground.output(&format!("cat {}", linked.display())).await;
        assert!(!said.contains(SECRET), "{level}: {said}");
        assert_eq!(fs::read_to_string(ground.path("outside/file")).unwrap(), SECRET);
    }
}

#[tokio::test]
async fn a_root_that_has_vanished_is_nothing_that_can_be_written() {
    for ground in Ground::each().await {
        let (finished, _) =
            ground.run_in(&["root", "vanished"], "ls ../vanished; echo works").await;
        let said = finished.output.render(1000, "");
        assert!(said.ends_with("works\n"), "{}: {said}", ground.level);
        assert!(!ground.path("vanished").exists());
    }
}

/// Nothing can be mounted on a link. What it leads to is read-only, and a new link is named.
#[tokio::test]
async fn control_files_that_are_links_are_protected_or_named() {
    for ground in Ground::each().await {
        fs::create_dir_all(ground.path("root/dotfiles/claude")).unwrap();
        symlink("dotfiles/claude", ground.path("root/.claude")).unwrap();
        let written = ground.path("root/dotfiles/claude/settings.json");
        let attack = "echo x >.claude/settings.json; echo x >dotfiles/claude/settings.json";
        let (_, changed) = ground.run_in(&["root"], attack).await;
        match ground.level {
            Level::Bwrap => assert!(!written.exists() && changed.is_empty(), "{changed:?}"),
            Level::Landlock => {
                assert!(changed.contains(&ground.path("root/.claude")) || written.exists());
            }
        }
        let (_, changed) =
            ground.run_in(&["root"], "mkdir evil; ln -sfn evil .claude; ls -l .claude").await;
        assert!(changed.contains(&ground.path("root/.claude")), "{}: {changed:?}", ground.level);
    }
}

/// Paths are bytes.
#[tokio::test]
async fn names_of_any_bytes_work() {
    use std::os::unix::ffi::OsStrExt as _;
    for ground in Ground::each().await {
        let name = std::ffi::OsStr::from_bytes(b"a\nb\"c'd \xff$(touch x)");
        let root = ground.path("root").join(name);
        fs::create_dir_all(root.join(".git")).unwrap();
        let confined = ground.sandbox.confine(vec![root.clone()], None).await.unwrap().unwrap();
        let command = shell(&confined, root.clone(), "echo made >new; echo x >.git/hooks; cat new");
        let finished = runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
        assert!(finished.output.render(1000, "").ends_with("made\n"), "{}", ground.level);
        assert!(root.join("new").exists());
    }
}
