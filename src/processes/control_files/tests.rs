//! What is masked in a workspace, shown as one line for each path.

use std::os::unix::fs::symlink;

use super::*;
use crate::processes::test_support::again_unprivileged;

struct Ground(tempfile::TempDir);

fn found_in(roots: &[PathBuf]) -> ControlFiles {
    ControlFiles::find(roots, LinkedRepository::of_all(roots), Vec::new(), &Survey::default())
}

impl Ground {
    /// A name that ends with a slash is a directory.
    fn new(names: &[&str]) -> Self {
        let ground = Self(tempfile::tempdir().unwrap());
        for name in names {
            let path = ground.path(name);
            fs::create_dir_all(if name.ends_with('/') { &path } else { path.parent().unwrap() })
                .unwrap();
            if !name.ends_with('/') {
                fs::write(path, "").unwrap();
            }
        }
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn found(&self) -> ControlFiles {
        found_in(&[self.path("")])
    }

    /// One line for each mask.
    fn shown(&self) -> Vec<String> {
        let root = self.path("");
        let masks = self.found().masks.pruned();
        let lines = masks.iter().map(|(path, kind)| {
            let below = path.strip_prefix(&root).unwrap().display().to_string();
            let is_missing = !path.exists();
            format!("{kind:?}{} {below}", if is_missing { " (missing)" } else { "" })
        });
        lines.collect()
    }

    #[track_caller]
    fn check(&self, expected: &[&str], not: &[&str]) {
        let shown = self.shown();
        for line in expected {
            assert!(shown.contains(&(*line).to_owned()), "{line}: {shown:#?}");
        }
        for name in not {
            let masks = |line: &&String| line.ends_with(&format!(" {name}"));
            assert_eq!(shown.iter().find(masks), None, "{name}");
        }
    }
}

#[test]
fn what_exists_what_is_missing_and_a_repository_are_protected() {
    let ground = Ground::new(&[
        ".git/info/",
        ".git/config",
        ".claude/",
        ".github/",
        ".envrc",
        "a/.npmrc",
        "a/b/c/.vscode/",
        "a/b/c/d/.npmrc",
        "node_modules/x/.npmrc",
    ]);
    ground.check(
        &[
            "ReadOnly .claude",
            "ReadOnly .envrc",
            "ReadOnly (missing) .mcp.json",
            "Keep .git",
            "ReadOnly (missing) .git/hooks",
            "ReadOnly (missing) .git/modules",
            "ReadOnly .git/config",
            "Keep .git/info",
            "ReadOnly (missing) .git/info/attributes",
            "Keep a",
            "ReadOnly a/.npmrc",
            "Keep a/b",
            "Keep a/b/c",
            "ReadOnly a/b/c/.vscode",
        ],
        &["a/b/c/d/.npmrc", "node_modules/x/.npmrc", ".git/objects"],
    );
}

/// Programs would find what is not there.
#[test]
fn of_what_is_missing_only_the_few_names_of_the_specification_are_held() {
    let missing = |ground: &Ground| {
        let lines = ground.shown().into_iter();
        lines.filter(|line| line.contains("(missing)")).collect::<Vec<_>>()
    };
    let bare = Ground::new(&["refs/", "a/", ".github/", ".config/"]);
    assert_eq!(missing(&bare), ["ReadOnly (missing) .claude", "ReadOnly (missing) .mcp.json"]);
    bare.check(&[], &[".git", "refs", "objects", "HEAD", ".github", ".config"]);
    let repository = Ground::new(&[".claude/", ".mcp.json", ".git/", "sub/.git/config"]);
    let expected = [
        "ReadOnly (missing) .git/commondir",
        "ReadOnly (missing) .git/config",
        "ReadOnly (missing) .git/hooks",
        "Keep (missing) .git/info",
        "ReadOnly (missing) .git/info/attributes",
        "ReadOnly (missing) .git/modules",
        "ReadOnly (missing) sub/.git/commondir",
        "ReadOnly (missing) sub/.git/hooks",
        "Keep (missing) sub/.git/info",
        "ReadOnly (missing) sub/.git/info/attributes",
        "ReadOnly (missing) sub/.git/modules",
    ];
    assert_eq!(missing(&repository), expected);
}

#[test]
fn what_a_link_leads_to_inside_is_protected_and_the_link_is_watched() {
    let ground = Ground::new(&["dotfiles/claude/x", "real.git/config", "real.git/hooks/", "out/"]);
    symlink("dotfiles/claude", ground.path(".claude")).unwrap();
    symlink("real.git", ground.path(".git")).unwrap();
    symlink("/etc", ground.path(".vscode")).unwrap();
    symlink("missing", ground.path(".idea")).unwrap();
    symlink(".", ground.path(".husky")).unwrap();
    let expected = [
        "Keep dotfiles",
        "ReadOnly dotfiles/claude",
        "Keep real.git",
        "ReadOnly real.git/config",
        "ReadOnly real.git/hooks",
        "ReadOnly (missing) real.git/modules",
    ];
    ground.check(&expected, &[".vscode", ".husky", "missing", ""]);
    let mut links = ground.found().links;
    links.sort();
    assert_eq!(links, [".claude", ".git", ".husky", ".idea", ".vscode"].map(|it| ground.path(it)));
}

#[test]
fn the_repositories_behind_files_and_their_worktrees_are_protected() {
    let ground = Ground::new(&[
        "main/.git/config",
        "main/.git/worktrees/w/HEAD",
        "main/.git/worktrees/w/commondir",
        "main/.git/worktrees/w/gitdir",
        "elsewhere/config",
    ]);
    for (file, target) in
        [("w", "../main/.git/worktrees/w"), ("sub", "../elsewhere"), ("out", "/etc")]
    {
        fs::create_dir(ground.path(file)).unwrap();
        fs::write(ground.path(file).join(".git"), format!("gitdir: {target}\n")).unwrap();
    }
    ground.check(
        &[
            "ReadOnly w/.git",
            "ReadOnly main/.git/worktrees/w/commondir",
            "ReadOnly main/.git/worktrees/w/gitdir",
            "Keep main/.git/worktrees",
            "ReadOnly sub/.git",
            "ReadOnly elsewhere/config",
            "ReadOnly (missing) elsewhere/hooks",
            "ReadOnly out/.git",
        ],
        &["main/.git/worktrees/w/HEAD"],
    );
}

#[test]
fn hooks_and_settings_that_the_settings_name_are_protected() {
    let ground = Ground::new(&[".githooks/pre-commit", "shared.config", ".git/HEAD", "all/"]);
    let settings = "[core]\n\thooksPath = .githooks\n[include] path = ../shared.config\n\
        [include]\n path = /etc/passwd\n[core] attributesFile = missing\n[x]\npath = ..\n";
    fs::write(ground.path(".git/config"), settings).unwrap();
    ground.check(&["ReadOnly .githooks", "ReadOnly shared.config"], &["missing", "all", ""]);
}

#[test]
fn settings_are_read_as_git_reads_them_and_included_ones_are_followed() {
    let names = [".team hooks/x", "hooks/x", "deep/hooks/x", "if/hooks/x", ".git/HEAD", "no/x"];
    let ground = Ground::new(&names);
    fs::write(
        ground.path(".git/config"),
        "[core] hooksPath = \".team hooks\" # the team's\n[other]\nhooksPath = no\n\
         [include]\n\tpath = ../shared.config ; for all\n\
         [includeIf \"onbranch:main\"]\npath = if.config\n",
    )
    .unwrap();
    let deep = "[include]\npath = shared.config\n[core]\nhooksPath = deep/hooks\n";
    fs::write(ground.path("deep/shared.config"), deep).unwrap();
    let shared = "[core]\nhooksPath = hooks\n[include]\npath = deep/shared.config\n";
    fs::write(ground.path("shared.config"), shared).unwrap();
    fs::write(ground.path(".git/if.config"), "[core]\nhooksPath = if/hooks\n").unwrap();
    let protected = [
        "ReadOnly .team hooks",
        "ReadOnly shared.config",
        "ReadOnly hooks",
        "ReadOnly deep/shared.config",
        "ReadOnly deep/hooks",
        "ReadOnly .git/if.config",
        "ReadOnly if/hooks",
    ];
    ground.check(&protected, &["no"]);
    assert!(!ground.found().observed.is_cut);
}

#[test]
fn settings_that_include_too_many_others_are_not_passed_over_in_silence() {
    let ground = Ground::new(&[".git/HEAD", ".git/config"]);
    for number in 0..6 {
        let name = if number == 0 { "config".to_owned() } else { format!("c{number}") };
        let text = format!("[include]\npath = c{}\n", number + 1);
        fs::write(ground.path(".git").join(name), text).unwrap();
    }
    assert!(!ground.found().observed.is_cut);
    fs::write(ground.path(".git/c6"), "").unwrap();
    assert!(ground.found().observed.is_cut);
}

/// Beside a `commondir` git would take no notice of it.
#[test]
fn no_common_directory_is_held_where_settings_say_where_the_files_are() {
    let ground = Ground::new(&[".git/HEAD", ".git/config", "other.git/HEAD", "other.git/config"]);
    fs::create_dir_all(ground.path("other.git/objects")).unwrap();
    fs::create_dir_all(ground.path("other.git/refs")).unwrap();
    let held = "ReadOnly (missing) .git/commondir";
    let other = "ReadOnly (missing) other.git/commondir";
    for settings in ["[core]\nworktree = ../a\n", "[core]\nbare\n=\n[core] bare = true\n"] {
        fs::write(ground.path(".git/config"), settings).unwrap();
        ground.check(&["ReadOnly .git/config"], &[".git/commondir"]);
    }
    fs::write(ground.path("other.git/config"), "[core]\nbare = true\n").unwrap();
    for settings in ["[core]\nbare = false\n", "[core \"x\"]\nworktree = ../a\n", ""] {
        fs::write(ground.path(".git/config"), settings).unwrap();
        ground.check(&[held, other], &[]);
    }
    fs::write(ground.path(".git/config.worktree"), "[core] worktree = ../a\n").unwrap();
    ground.check(&[other], &[".git/commondir"]);
}

/// Relative paths begin at the top of each worktree.
#[test]
fn hooks_by_a_relative_path_are_protected_in_every_worktree() {
    let ground = Ground::new(&[
        "main/.git/worktrees/w/commondir",
        "main/.githooks/x",
        "w/.githooks/x",
        "elsewhere/HEAD",
        "sub/.githooks/x",
        ".githooks/x",
    ]);
    for settings in ["main/.git/config", "elsewhere/config"] {
        fs::write(ground.path(settings), "[core]\n\thooksPath = .githooks\n").unwrap();
    }
    let named = format!("{}\n", ground.path("w/.git").display());
    fs::write(ground.path("main/.git/worktrees/w/gitdir"), named).unwrap();
    fs::write(ground.path("sub/.git"), "gitdir: ../elsewhere\n").unwrap();
    let protected = ["ReadOnly main/.githooks", "ReadOnly w/.githooks", "ReadOnly sub/.githooks"];
    ground.check(&protected, &[".githooks"]);
}

#[test]
fn settings_of_a_worktree_are_held_where_git_looks_for_them() {
    let ground = Ground::new(&[".git/config", ".git/worktrees/w/gitdir"]);
    ground.check(&[], &[".git/config.worktree", ".git/worktrees/w/config.worktree"]);
    fs::write(ground.path(".git/config"), "[extensions]\n\tworktreeConfig = true\n").unwrap();
    let held = [
        "ReadOnly (missing) .git/config.worktree",
        "ReadOnly (missing) .git/worktrees/w/config.worktree",
    ];
    ground.check(&held, &[]);
}

#[test]
fn a_root_that_is_no_directory_has_nothing() {
    let ground = Ground::new(&["file"]);
    let roots = [ground.path("file"), ground.path("missing")];
    let found = found_in(&roots);
    assert!(found.masks.iter().next().is_none() && found.links.is_empty());
}

#[test]
fn more_worktrees_or_gitlinks_than_are_looked_at_are_not_passed_over_in_silence() {
    let ground = Ground::new(&[".git/config"]);
    let worktrees = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let own = ground.path(&format!(".git/worktrees/{number}"));
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("gitdir"), "").unwrap();
        }
    };
    worktrees(0..200);
    assert!(!ground.found().observed.is_cut);
    ground.check(&["ReadOnly .git/worktrees/199/gitdir"], &[]);
    worktrees(200..201);
    assert!(ground.found().observed.is_cut);
    ground.check(&["ReadOnly .git/worktrees"], &[]);

    let ground = Ground::new(&["file"]);
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(ground.path("")).args(arguments);
        assert!(git.output().unwrap().status.success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    let entries: Vec<String> =
        (0..501).map(|number| format!("160000,{},l{number}", "1".repeat(40))).collect();
    for (these, is_cut) in [(&entries[..500], false), (&entries[500..], true)] {
        let added = these.iter().flat_map(|entry| ["--cacheinfo", entry]);
        git(&["update-index", "--add"].into_iter().chain(added).collect::<Vec<_>>());
        assert_eq!(ground.found().observed.is_cut, is_cut);
    }
}

#[test]
fn a_flood_of_directories_hides_no_worktree() {
    let names = [".git/config", ".git/worktrees/w/commondir", ".git/worktrees/w/gitdir"];
    let ground = Ground::new(&names);
    let flood = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            fs::create_dir(ground.path(&format!(".git/worktrees/n{number}"))).unwrap();
        }
    };
    let held = ["ReadOnly .git/worktrees/w/commondir", "ReadOnly .git/worktrees/w/gitdir"];
    flood(0..3000);
    assert!(!ground.found().observed.is_cut);
    ground.check(&held, &[]);
    flood(3000..20_000);
    assert!(ground.found().observed.is_cut);
    ground.check(&["ReadOnly .git/worktrees"], &[]);
}

/// A name need not be text.
#[test]
fn names_of_any_bytes_are_passed_over() {
    use std::os::unix::ffi::OsStrExt as _;
    let ground = Ground::new(&["a\nb/.claude/", "c\"d'/.envrc"]);
    let bytes = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    fs::create_dir_all(ground.path("").join(bytes).join(".vscode")).unwrap();
    let masks = ground.found().masks;
    let found: Vec<&Path> = masks.iter().map(|(path, _)| path).collect();
    for path in
        [ground.path("a\nb/.claude"), ground.path("c\"d'/.envrc"), ground.path("").join(bytes)]
    {
        assert!(found.iter().any(|mask| mask.starts_with(&path)), "{path:?}");
    }
}

/// A command could open it again, and change what was not seen to be there. Root looks into all.
#[test]
fn g9_a_directory_of_git_that_cannot_be_entered_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    if rustix::process::geteuid().is_root() {
        return;
    }
    for (shut, mode) in [
        (".git", 0),
        (".git", 0o600),
        (".git/info", 0),
        (".git/worktrees", 0),
        (".git/worktrees", 0o300),
    ] {
        let ground =
            Ground::new(&[".git/config", ".git/info/attributes", ".git/worktrees/w/gitdir"]);
        let set = |mode| fs::set_permissions(ground.path(shut), fs::Permissions::from_mode(mode));
        set(mode).unwrap();
        let shown = ground.shown();
        set(0o700).unwrap();
        assert!(shown.contains(&format!("ReadOnly {shut}")), "{shut} {mode:o}: {shown:?}");
        assert!(!shown.iter().any(|line| line.contains("missing) .git/config")), "{shown:?}");
    }
}

#[test]
fn g9_a_root_that_cannot_be_listed_keeps_its_control_files() {
    use std::os::unix::fs::PermissionsExt as _;
    if rustix::process::geteuid().is_root() {
        return;
    }
    let ground =
        Ground::new(&[".git/config", ".git/hooks/x", ".envrc", ".github/workflows/ci.yml"]);
    let root = ground.path("");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o300)).unwrap();
    let shown = ground.shown();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["ReadOnly .git/config", "ReadOnly .git/hooks", "ReadOnly .envrc"] {
        assert!(shown.contains(&name.to_owned()), "{name}: {shown:?}");
    }
}

/// Runs the ones above as somebody who is nobody.
#[test]
fn an_unprivileged_user_keeps_them_too() {
    let Some(said) = again_unprivileged(&["control_files::tests::g9_a_"]) else { return };
    assert!(said.contains("2 passed"), "{said}");
}

/// `core.hooksPath` in `~/.gitconfig` counts in every repository.
#[test]
fn g9_hooks_that_the_person_s_own_settings_name_are_protected_in_every_repository() {
    let ground =
        Ground::new(&[".git/HEAD", "sub/.git/HEAD", "sub/.githooks/pre-commit", "dotfiles/git"]);
    let roots = [ground.path("")];
    let of_person = vec![".githooks".into(), ground.path("dotfiles/git"), "/etc/gitconfig".into()];
    let linked = LinkedRepository::of_all(&roots);
    let found = ControlFiles::find(&roots, linked, of_person, &Survey::default());
    let read_only: Vec<&Path> = found.masks.existing(MaskKind::ReadOnly).collect();
    for name in ["sub/.githooks", "dotfiles/git"] {
        assert!(read_only.contains(&&*ground.path(name)), "{name}: {read_only:?}");
    }
    let missing = &found.observed.missing_targets;
    assert!(missing.contains(&ground.path(".githooks")), "{missing:?}");
}
