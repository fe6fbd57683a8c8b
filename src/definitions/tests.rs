//! Tests the loader on real files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;

use super::*;
use crate::trust::TrustList;

struct Fixture {
    directory: TempDir,
    workspace: Workspace,
    definitions: Definitions,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["ws", "home", "state"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(directory.path().join("state"), mode).unwrap();
        let settings = SettingsFiles::new(
            Some(&directory.path().join("home")),
            &directory.path().join("state"),
        );
        let workspace = Workspace::open(vec![directory.path().join("ws")]).unwrap();
        let definitions =
            Definitions::new(Some(&directory.path().join("home")), Arc::new(settings));
        Self { directory, workspace, definitions }
    }

    fn trusted() -> Self {
        let fixture = Self::new();
        let list = TrustList::open(&fixture.directory.path().join("state")).unwrap();
        list.add(&fixture.directory.path().join("ws")).unwrap();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn link(self, name: &str, to: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to.replace('~', self.directory.path().to_str().unwrap()), path).unwrap();
        self
    }

    fn current(&self) -> Arc<DefinitionSet> {
        self.definitions.current(&self.workspace)
    }

    fn agents(&self) -> Vec<String> {
        self.current().agents.iter().map(|agent| agent.name.clone()).collect()
    }

    /// Names and descriptions.
    fn skills(&self) -> Vec<String> {
        let shown = |skill: &SkillDefinition| format!("{}: {}", skill.name, skill.description);
        self.current().skills.iter().map(shown).collect()
    }

    fn skipped(&self) -> String {
        let real = fs::canonicalize(self.directory.path()).unwrap();
        let set = self.current();
        let shown = |skipped: &SkippedDefinition| {
            format!("{}: {}\n", skipped.path.display(), skipped.reason)
        };
        set.skipped.iter().map(shown).collect::<String>().replace(real.to_str().unwrap(), "~")
    }
}

fn agent(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n---\nBe {name}.\n")
}

#[test]
fn the_examples_of_the_documentation_are_definitions() {
    let text = include_str!("../../docs/agents.md");
    let mut blocks = text.split("```markdown\n").skip(1).map(|rest| rest.split("```").next());
    let mut block = || blocks.next().flatten().unwrap();
    let fixture = Fixture::trusted()
        .file("ws/.claude/agents/reviewer.md", block())
        .file("ws/.claude/skills/release/SKILL.md", block());
    assert_eq!(fixture.skipped(), "");
    assert_eq!(fixture.agents(), ["reviewer"]);
    let set = fixture.current();
    let skill = set.skill("release").unwrap();
    assert_eq!(skill.argument_hint.as_deref(), Some("VERSION"));
    let opened = fixture.definitions.open_skill(skill, &fixture.workspace).unwrap();
    assert!(opened.told("1.2.0").contains("\nPrepare release 1.2.0:\n"));
}

#[test]
fn the_workspaces_beat_the_users_and_skills_beat_commands() {
    let fixture = Fixture::trusted()
        .file("home/agents/a.md", agent("both"))
        .file("home/agents/b.md", agent("users"))
        .file("ws/.claude/agents/z.md", agent("both"))
        .file("home/skills/x/SKILL.md", "User's x")
        .file("home/skills/only/SKILL.md", "User's only")
        .file("ws/.claude/skills/x/SKILL.md", "Workspace's x")
        .file("ws/.claude/commands/only.md", "A command")
        .file("ws/.claude/commands/git/push.md", "Push it")
        .file("ws/.claude/commands/git/deep/er.md", "Deeper")
        .file("home/commands/git/push.md", "User's push")
        .file("home/commands/notes.txt", "No command");
    assert_eq!(fixture.agents(), ["both", "users"]);
    assert_eq!(fixture.current().agents[0].origin.scope, DefinitionScope::Workspace);
    assert_eq!(
        fixture.skills(),
        ["git:deep:er: Deeper", "git:push: Push it", "only: User's only", "x: Workspace's x"]
    );
    insta::assert_snapshot!(fixture.skipped(), @r"
    ~/home/agents/a.md: overridden by ~/ws/.claude/agents/z.md, which has the same name
    ~/home/skills/x/SKILL.md: overridden by ~/ws/.claude/skills/x/SKILL.md, which has the same name
    ~/ws/.claude/commands/only.md: overridden by ~/home/skills/only/SKILL.md, which has the same name
    ~/home/commands/git/push.md: overridden by ~/ws/.claude/commands/git/push.md, which has the same name
    ");
}

#[test]
fn g4_an_untrusted_workspaces_files_are_listed_and_not_read() {
    let fixture = Fixture::new()
        .file("ws/.claude/agents/a.md", agent("a"))
        .file("ws/.claude/skills/s/SKILL.md", "Text")
        .file("ws/.claude/commands/git/push.md", "Text");
    assert!(fixture.agents().is_empty() && fixture.skills().is_empty());
    insta::assert_snapshot!(fixture.skipped(), @r"
    ~/ws/.claude/agents/a.md: ignored (untrusted); run `toolhand trust ~/ws`
    ~/ws/.claude/skills/s/SKILL.md: ignored (untrusted); run `toolhand trust ~/ws`
    ~/ws/.claude/commands/git/push.md: ignored (untrusted); run `toolhand trust ~/ws`
    ");
    let list = TrustList::open(&fixture.path("state")).unwrap();
    list.add(&fixture.path("ws")).unwrap();
    assert_eq!((fixture.agents().len(), fixture.skills().len()), (1, 2));
    let known = fixture.current();
    list.remove(&fixture.path("ws")).unwrap();
    assert!(fixture.agents().is_empty());
    let skill = known.skill("s").unwrap();
    let opened = fixture.definitions.open_skill(skill, &fixture.workspace);
    assert!(opened.unwrap_err().ends_with("the workspace is not trusted any more"));
}

#[test]
fn g2_g4_links_that_lead_out_and_what_is_no_file_are_skipped() {
    let fixture = Fixture::trusted()
        .file("outside/a.md", agent("outside"))
        .file("outside/SKILL.md", "Outside")
        .file("ws/shared/in.md", agent("inside"))
        .file("ws/shared/skill/SKILL.md", "Inside")
        .link("ws/.claude/agents/in.md", "../../shared/in.md")
        .link("ws/.claude/agents/out.md", "~/outside/a.md")
        .link("ws/.claude/agents/passwd.md", "/etc/passwd")
        .link("ws/.claude/agents/loop.md", "loop.md")
        .file("ws/.claude/agents/dir.md/a.md", "")
        .link("ws/.claude/skills/in", "../../shared/skill")
        .link("ws/.claude/skills/out", "~/outside")
        .link("ws/.claude/skills/linked/SKILL.md", "~/outside/SKILL.md")
        .file("ws/.claude/skills/empty/README.md", "")
        .link("ws/.claude/commands/up", "../commands")
        .file("ws/.claude/commands/1/2/3/4/5/deep.md", "Deep");
    mkfifoat(CWD, fixture.path("ws/.claude/agents/pipe.md"), Mode::RUSR).unwrap();
    assert_eq!(fixture.agents(), ["inside"]);
    assert_eq!(fixture.skills()[0], "in: Inside");
    insta::assert_snapshot!(fixture.skipped(), @r"
    ~/ws/.claude/agents/dir.md/a.md: has no frontmatter: a line `---`, one with `name: …` and one with `description: …`, and a line `---` stand first in the file of an agent
    ~/ws/.claude/agents/loop.md: Too many levels of symbolic links (os error 40)
    ~/ws/.claude/agents/out.md: is a link that leads out of ~/ws, to ~/outside/a.md
    ~/ws/.claude/agents/passwd.md: is a link that leads out of ~/ws, to /etc/passwd
    ~/ws/.claude/agents/pipe.md: not a regular file but a named pipe
    ~/ws/.claude/skills/empty/SKILL.md: is not there
    ~/ws/.claude/skills/linked/SKILL.md: is a link that leads out of ~/ws, to ~/outside/SKILL.md
    ~/ws/.claude/skills/out/SKILL.md: is a link that leads out of ~/ws, to ~/outside/SKILL.md
    ~/ws/.claude/commands/1/2/3/4/5: is more than 4 deep
    ~/ws/.claude/commands/up: is a link to a directory above it
    ");
    let whole = Fixture::trusted().file("outside/a/SKILL.md", "A");
    let whole = whole.link("ws/.claude/skills", "~/outside");
    insta::assert_snapshot!(whole.skipped(), @"~/ws/.claude/skills: is a link that leads out of ~/ws, to ~/outside");
}

#[test]
fn files_that_are_broken_or_too_large_are_skipped() {
    let fixture = Fixture::new()
        .file("home/agents/big.md", agent("big") + &"x".repeat(64 << 10))
        .file("home/agents/broken.md", "---\nname: [\n---\n")
        .file("home/agents/binary.md", b"---\nname: a\0b\n---\n")
        .file("home/agents/bytes.md", b"---\nname: \xff\n---\n")
        .file("home/agents/good.md", agent("good"))
        .file("home/agents/writable.md", agent("writable"))
        .file("home/skills/big/SKILL.md", "x".repeat((256 << 10) + 1))
        .file("home/commands/a b.md", "x");
    let mode = fs::Permissions::from_mode(0o666);
    fs::set_permissions(fixture.path("home/agents/writable.md"), mode).unwrap();
    assert_eq!((fixture.agents(), fixture.skills().len()), (vec!["good".to_owned()], 0));
    insta::assert_snapshot!(fixture.skipped(), @r#"
    ~/home/agents/big.md: is larger than 65536 bytes
    ~/home/agents/binary.md: is no text but a binary file
    ~/home/agents/broken.md: has no description; add a line `description: …` that says when to use it
    ~/home/agents/bytes.md: has no description; add a line `description: …` that says when to use it
    ~/home/agents/writable.md: others may write it (mode 666); chmod go-w it
    ~/home/skills/big/SKILL.md: is larger than 262144 bytes
    ~/home/commands/a b.md: "a b" is no name: letters, digits and _:.-, at most 64 characters
    "#);
}

#[test]
fn outside_42_sub_folders_hold_agents_skills_and_commands() {
    let fixture = Fixture::trusted()
        .file("ws/.claude/agents/team/backend.md", agent("backend"))
        .file("ws/.claude/agents/team/deep/er/dba.md", agent("dba"))
        .file("ws/.claude/agents/front/backend.md", agent("backend"))
        .file("ws/.claude/skills/group/review/SKILL.md", "Review")
        .file("ws/.claude/skills/group/review/parts/SKILL.md", "A part of the skill")
        .file("ws/.claude/skills/group/more/ship/skill.md", "Ship")
        .file("ws/.claude/skills/empty/pictures/a.txt", "")
        .file("ws/.claude/skills/loose.md", "No skill")
        .file("ws/.claude/skills/README.md", "About")
        .file("ws/.claude/commands/git/push.md", "Push");
    assert_eq!(fixture.agents(), ["backend", "dba"]);
    assert_eq!(fixture.skills(), ["git:push: Push", "review: Review", "ship: Ship"]);
    insta::assert_snapshot!(fixture.skipped(), @r"
    ~/ws/.claude/agents/team/backend.md: overridden by ~/ws/.claude/agents/front/backend.md, which has the same name
    ~/ws/.claude/skills/empty/SKILL.md: is not there
    ~/ws/.claude/skills/loose.md: is a file; a skill is a directory with a file SKILL.md in it
    ");
    let set = fixture.current();
    let opened = fixture.definitions.open_skill(set.skill("ship").unwrap(), &fixture.workspace);
    assert!(opened.unwrap().told("").ends_with("Ship"));
    let fixture = fixture.file("ws/.claude/skills/empty/pictures/new/SKILL.md", "New");
    assert!(fixture.skills().contains(&"new: New".to_owned()));
}

#[test]
fn outside_39_files_in_other_encodings_are_read_and_a_guess_is_told() {
    let wide = |text: &str| {
        let units = text.encode_utf16().flat_map(u16::to_le_bytes);
        [&b"\xff\xfe"[..], &units.collect::<Vec<u8>>()].concat()
    };
    let latin = b"---\nname: latin\ndescription: Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n---\nText";
    let fixture = Fixture::trusted()
        .file("ws/.claude/agents/wide.md", wide(&agent("wide")))
        .file("ws/.claude/skills/wide/SKILL.md", wide("---\ndescription: Für alle\n---\nText"))
        .file("ws/.claude/skills/latin/SKILL.md", latin);
    assert_eq!(fixture.agents(), ["wide"]);
    assert_eq!(fixture.skills(), ["latin: Grüße aus Köln, schön!", "wide: Für alle"]);
    let set = fixture.current();
    let remarks: Vec<&str> = set.remarks.iter().map(|remark| remark.text.as_str()).collect();
    assert_eq!(remarks, ["is read in a guessed encoding: windows-1252"]);
    let opened = fixture.definitions.open_skill(set.skill("wide").unwrap(), &fixture.workspace);
    assert!(opened.unwrap().told("").ends_with("\n\nText"));
}

#[test]
fn outside_38_what_is_read_line_by_line_is_told() {
    let fixture = Fixture::trusted().file(
        "ws/.claude/skills/s/SKILL.md",
        "---\nname: Title Name\ndescription: Reviews. Triggers on: review\n---\nText",
    );
    assert_eq!(fixture.skills(), ["s: Reviews. Triggers on: review"]);
    assert_eq!(fixture.skipped(), "");
    let set = fixture.current();
    let remarks: Vec<&str> = set.remarks.iter().map(|remark| remark.text.as_str()).collect();
    insta::assert_snapshot!(remarks.join("\n"), @r#"
    line 3: it is not YAML; put a text in quotes that has a colon and a blank, or begins with a sign such as [ { * & @ %; it was read line by line
    "Title Name" is no name: letters, digits and _:.-, at most 64 characters; after its place it is called s
    "#);
}

#[test]
fn only_so_many_count_and_the_others_are_named() {
    let fixture = (0..102).fold(Fixture::new(), |fixture, at| {
        fixture.file(&format!("home/agents/{at:03}.md"), agent(&format!("a{at}")))
    });
    let fixture = (0..150).fold(fixture, |fixture, at| {
        let command = format!("home/commands/{at:03}.md");
        fixture.file(&format!("home/skills/{at:03}/SKILL.md"), "Text").file(&command, "Text")
    });
    assert_eq!((fixture.agents().len(), fixture.skills().len()), (100, 150));
    let skipped = fixture.skipped();
    assert!(skipped.contains("~/home/agents/100.md: not read: the limit is 100 files"));
    assert!(
        skipped.contains("~/home/commands/149.md: not read: the limit is 200 files"),
        "{skipped}"
    );
}

#[test]
fn what_has_not_changed_is_not_read_again() {
    let fixture = Fixture::new()
        .file("home/agents/a.md", agent("a"))
        .file("home/skills/s/SKILL.md", "First")
        .file("home/skills/later/README.md", "");
    let settle = |fixture: &Fixture| {
        let known = fixture.definitions.known(&fixture.workspace);
        sync::lock(&known).as_mut().unwrap().is_settled = true;
    };
    let first = fixture.current();
    settle(&fixture);
    assert!(Arc::ptr_eq(&first, &fixture.current()));
    let fixture = fixture.file("home/skills/s/SKILL.md", "Second, and longer");
    assert_eq!(fixture.skills(), ["s: Second, and longer"]);
    settle(&fixture);
    let fixture = fixture.file("home/skills/later/SKILL.md", "Later");
    assert_eq!(fixture.skills().len(), 2);
    settle(&fixture);
    let fixture = fixture.file("home/agents/b.md", agent("b"));
    assert_eq!(fixture.agents().len(), 2);
    settle(&fixture);
    fs::remove_dir_all(fixture.path("home/agents")).unwrap();
    assert!(fixture.agents().is_empty());
    settle(&fixture);
    fs::remove_dir_all(fixture.path("home")).unwrap();
    assert!(fixture.skills().is_empty());
}

#[test]
fn a_skills_text_is_read_when_it_is_used() {
    let fixture = Fixture::new()
        .file("home/skills/s/SKILL.md", "---\nallowed-tools: Bash(*)\n---\nText")
        .file("home/commands/c.md", "Command: $ARGUMENTS");
    let set = fixture.current();
    let used = |name: &str| {
        let opened = fixture.definitions.open_skill(set.skill(name).unwrap(), &fixture.workspace);
        opened.map(|opened| opened.told("all of it"))
    };
    let real = fs::canonicalize(fixture.directory.path()).unwrap();
    let told = used("s").unwrap().replace(real.to_str().unwrap(), "~");
    insta::assert_snapshot!(told, @r"
    Base directory for this skill: ~/home/skills/s

    Its author meant it for the tools Bash(*); this permits nothing, and each call is judged as ever.

    Text

    ARGUMENTS: all of it
    ");
    assert_eq!(used("c").unwrap(), "Command: all of it");
    assert!(set.skill("x").is_none());
    fs::write(fixture.path("home/commands/c.md"), "Changed").unwrap();
    assert_eq!(used("c").unwrap(), "Changed\n\nARGUMENTS: all of it");
    fs::remove_file(fixture.path("home/commands/c.md")).unwrap();
    assert!(used("c").unwrap_err().contains("No such file"));
}
