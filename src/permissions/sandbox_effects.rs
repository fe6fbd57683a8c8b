//! Tells a person what the sandbox does to a command that they would not expect of it: a download
//! that cannot connect, a file that is gone afterwards.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::opened_command::{CommandAnalysis, CommandFile};
use crate::processes::confinement::{Confinement, Level, Network};
use crate::processes::fate::PathFate;
use crate::text::{first_chars, printable_path};

/// One thing that the sandbox does to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxEffect {
    /// What becomes of the command, in a part of a sentence.
    pub(crate) text: String,
    /// The settings by which the operator decides it.
    pub(crate) settings: Vec<String>,
}

/// A question has few lines that are read.
const MAX_EFFECTS: usize = 3;

/// The characters of a path that are shown.
const MAX_PATH: usize = 60;

/// How many of the operator's directories are named.
const MAX_DIRECTORIES: usize = 2;

const NETWORK: &str = "sandbox.network";
const WRITABLE: &str = "sandbox.writable";
const READABLE: &str = "sandbox.readable";

impl SandboxEffect {
    fn new(text: String, settings: &[&str]) -> Self {
        Self { text, settings: settings.iter().map(|&name| name.to_owned()).collect() }
    }

    /// One line: what becomes of the command, and the settings that decide it.
    pub(crate) fn sentence(&self) -> String {
        let settings: Vec<_> = self.settings.iter().map(|name| format!("`{name}`")).collect();
        let settings = match settings.join(", ") {
            names if names.is_empty() => names,
            names => format!(" ({names})"),
        };
        format!("sandbox: {}{settings}", self.text)
    }
}

/// What this confinement does to the command, the gravest first. Where nothing is known of the
/// command, one line says where it writes and whether it has a network. `further` are the
/// directories besides the workspace that it can write.
pub(super) fn effects(
    command: &CommandAnalysis,
    confinement: &Confinement,
    further: &[PathBuf],
) -> Vec<SandboxEffect> {
    let files = NamedFiles::of(command, confinement);
    let effects = [
        no_network(command.connects(), confinement.network),
        files.dropped(confinement.home.path()),
        files.not_written(),
        files.not_seen(confinement),
        files.temporary(),
    ];
    let mut effects: Vec<SandboxEffect> = effects.into_iter().flatten().collect();
    if effects.is_empty() && !command.names_what_it_writes() {
        effects.push(in_general(confinement, further));
    }
    effects.truncate(MAX_EFFECTS);
    effects
}

fn no_network(program: Option<&str>, network: Network) -> Option<SandboxEffect> {
    let program = program.filter(|_| network == Network::None)?;
    let text = format!("no network: `{program}` cannot connect to anything");
    Some(SandboxEffect::new(text, &[NETWORK]))
}

fn in_general(confinement: &Confinement, further: &[PathBuf]) -> SandboxEffect {
    let places = writable_places(confinement.level, further);
    let writes = match confinement.level {
        Level::Bwrap => format!("only what is written {places} is kept"),
        Level::Landlock => format!("it can write only {places}"),
    };
    match confinement.network {
        Network::None => {
            let text = format!("no network, and {writes}");
            SandboxEffect::new(text, &[NETWORK, WRITABLE])
        }
        Network::Full => SandboxEffect::new(writes, &[WRITABLE]),
    }
}

/// The workspace, what the operator adds, and the directory for temporary files.
fn writable_places(level: Level, further: &[PathBuf]) -> String {
    let mut places = vec!["in the workspace".to_owned()];
    places.extend(further.iter().take(MAX_DIRECTORIES).map(|path| format!("in {}", named(path))));
    if further.len() > MAX_DIRECTORIES {
        places.push("in further directories".to_owned());
    }
    let temporary = if level == Level::Bwrap { "/tmp" } else { "$TMPDIR" };
    format!("{} and in `{temporary}`", places.join(", "))
}

/// The files that a command names, by what becomes of them.
#[derive(Default)]
struct NamedFiles {
    dropped: Vec<PathBuf>,
    not_written: Vec<PathBuf>,
    not_seen: Vec<PathBuf>,
    temporary: Vec<PathBuf>,
}

impl NamedFiles {
    fn of(command: &CommandAnalysis, confinement: &Confinement) -> Self {
        let mut files = Self::default();
        for file in &command.files {
            let path = file.named().to_owned();
            let list = match (fate(file, confinement), file.is_written()) {
                (PathFate::Dropped, true) => &mut files.dropped,
                (PathFate::ReadOnly | PathFate::Closed, true) => &mut files.not_written,
                (PathFate::Dropped | PathFate::Closed, false) => &mut files.not_seen,
                (PathFate::Temporary, _) => &mut files.temporary,
                (PathFate::ReadOnly, false) | (PathFate::Writable | PathFate::Kernel, _) => {
                    continue;
                }
            };
            if !list.contains(&path) {
                list.push(path);
            }
        }
        files
    }

    fn dropped(&self, home: &Path) -> Option<SandboxEffect> {
        let (first, are) = first_of(&self.dropped)?;
        let place = if self.dropped[0].starts_with(home) { "home" } else { "that place" };
        let text =
            format!("{first} {are} gone when the command ends: {place} is empty and temporary");
        Some(SandboxEffect::new(text, &[WRITABLE]))
    }

    fn not_written(&self) -> Option<SandboxEffect> {
        let (first, _) = first_of(&self.not_written)?;
        Some(SandboxEffect::new(format!("{first} cannot be written"), &[WRITABLE]))
    }

    fn not_seen(&self, confinement: &Confinement) -> Option<SandboxEffect> {
        // That home is empty is said already.
        if !self.dropped.is_empty() {
            return None;
        }
        let (first, are) = first_of(&self.not_seen)?;
        if confinement.level == Level::Landlock {
            return Some(SandboxEffect::new(format!("{first} cannot be read"), &[READABLE]));
        }
        let path = &self.not_seen[0];
        let home = confinement.home.path();
        let most_of = if is_around_shown(path, confinement) { "most of " } else { "" };
        let why = if path.starts_with(home) { ": home is empty" } else { "" };
        let text = format!("{most_of}{first} {are} not there{why}");
        Some(SandboxEffect::new(text, &[READABLE]))
    }

    fn temporary(&self) -> Option<SandboxEffect> {
        let (first, are) = first_of(&self.temporary)?;
        let text = format!("{first} {are} in a `/tmp` of this session alone");
        Some(SandboxEffect::new(text, &[]))
    }
}

/// Whether something that the command sees lies below the path.
fn is_around_shown(path: &Path, confinement: &Confinement) -> bool {
    let mut shown = confinement.writable.iter().chain(&confinement.readable);
    confinement.home.path() == path || shown.any(|shown| shown.at.path().starts_with(path))
}

/// What becomes of the file. A link in a root leads to what is there in the sandbox, and one
/// outside is not there itself.
fn fate(file: &CommandFile, confinement: &Confinement) -> PathFate {
    match confinement.fate(file.named()) {
        PathFate::Writable => confinement.fate(file.leads_to()),
        fate => fate,
    }
}

/// The first one in words, with how many there are besides, and the verb for all of them.
fn first_of(paths: &[PathBuf]) -> Option<(String, &'static str)> {
    let first = named(paths.first()?);
    match paths.len() {
        1 => Some((first, "is")),
        more => Some((format!("{first} and {} more", more - 1), "are")),
    }
}

/// A path as code. It has no mark that would end the code.
fn named(path: &Path) -> String {
    let shown = printable_path(path).replace('`', "'");
    let cut = first_chars(&shown, MAX_PATH);
    let end = if cut.len() < shown.len() { "…" } else { "" };
    format!("`{cut}{end}`")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use super::*;
    use crate::permissions::opened_command::Surroundings;
    use crate::permissions::{CommandLine, OpenedCommand, pattern_roots};
    use crate::processes::confinement::Shown;
    use crate::workspace::Workspace;

    /// A workspace `ws`, a home, and a confinement.
    struct Ground {
        directory: tempfile::TempDir,
        level: Level,
        network: Network,
        further: Vec<PathBuf>,
    }

    impl Ground {
        fn new(level: Level) -> Self {
            let directory = tempfile::tempdir().unwrap();
            for name in ["ws", "home/.cargo/bin", "data"] {
                fs::create_dir_all(directory.path().join(name)).unwrap();
            }
            Self { directory, level, network: Network::None, further: Vec::new() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().canonicalize().unwrap().join(name)
        }

        fn confinement(&self) -> Confinement {
            let shown = |path: &PathBuf| Shown::as_it_is(path);
            let roots = [self.path("ws")];
            Confinement {
                level: self.level,
                network: self.network,
                reads_only: false,
                writable: roots.iter().chain(&self.further).map(shown).collect(),
                readable: ["/usr".into(), "/etc".into(), self.path("home/.cargo/bin")]
                    .iter()
                    .map(shown)
                    .collect(),
                temporary: Path::new("/nonexistent").into(),
                home: self.path("home").into(),
                git_settings: None,
                masks: Vec::new(),
                above: Vec::new(),
                mounted: Vec::new(),
            }
        }

        /// The sentences, with `HOME` for home.
        fn told(&self, line: &str) -> Vec<String> {
            let workspace = Arc::new(Workspace::open(vec![self.path("ws")]).unwrap());
            let roots = pattern_roots(&workspace, self.path("home"));
            let surroundings = Surroundings {
                workspace: &workspace,
                roots: &roots,
                is_own_state: &|_, _| false,
                search_path: OsStr::new("/usr/bin:/bin"),
                writable: &self.further,
            };
            let command_line = CommandLine {
                line: line.to_owned(),
                directory: self.path("ws"),
                real_directory: self.path("ws"),
                outside_sandbox: false,
                lacked: None,
            };
            let opened = OpenedCommand::open(command_line, surroundings);
            let effects = effects(opened.analysis(), &self.confinement(), &self.further);
            let home = self.path("home").display().to_string();
            effects.iter().map(|effect| effect.sentence().replace(&home, "HOME")).collect()
        }

        #[track_caller]
        fn check(&self, line: &str, expected: &[&str]) {
            assert_eq!(self.told(line), expected, "{line}");
        }
    }

    const NO_NETWORK: &str =
        "sandbox: no network: `curl` cannot connect to anything (`sandbox.network`)";

    #[test]
    fn what_is_lost_closed_or_unreachable_is_told_of_the_command_that_does_it() {
        let ground = Ground::new(Level::Bwrap);
        ground.check("curl http://example.com", &[NO_NETWORK]);
        let dropped = "sandbox: `HOME/note.txt` is gone when the command ends: home is empty and \
                       temporary (`sandbox.writable`)";
        ground.check("touch ~/note.txt && ls -la ~", &[dropped]);
        ground.check("make > ~/note.txt", &[dropped]);
        ground.check(
            "touch ~/a ~/b ~/c; curl -s http://x",
            &[
                NO_NETWORK,
                "sandbox: `HOME/a` and 2 more are gone when the command ends: home is empty and \
                 temporary (`sandbox.writable`)",
            ],
        );
        ground.check(
            "cp a /etc/hosts",
            &["sandbox: `/etc/hosts` cannot be written (`sandbox.writable`)"],
        );
        ground.check(
            "cat ~/.notes",
            &["sandbox: `HOME/.notes` is not there: home is empty (`sandbox.readable`)"],
        );
        ground.check(
            "ls ~",
            &["sandbox: most of `HOME` is not there: home is empty (`sandbox.readable`)"],
        );
        ground.check("touch /tmp/x", &["sandbox: `/tmp/x` is in a `/tmp` of this session alone"]);
    }

    #[test]
    fn at_landlock_what_lies_outside_is_refused() {
        let ground = Ground::new(Level::Landlock);
        ground.check("curl http://example.com", &[NO_NETWORK]);
        ground.check(
            "touch ~/note.txt",
            &["sandbox: `HOME/note.txt` cannot be written (`sandbox.writable`)"],
        );
        ground
            .check("cat ~/.notes", &["sandbox: `HOME/.notes` cannot be read (`sandbox.readable`)"]);
        ground.check("touch /tmp/x", &["sandbox: `/tmp/x` cannot be written (`sandbox.writable`)"]);
    }

    #[test]
    fn of_a_program_that_is_not_known_one_line_says_what_holds_for_all() {
        let mut ground = Ground::new(Level::Bwrap);
        ground.check(
            "make",
            &["sandbox: no network, and only what is written in the workspace and in `/tmp` is \
               kept (`sandbox.network`, `sandbox.writable`)"],
        );
        ground.level = Level::Landlock;
        ground.check(
            "make",
            &["sandbox: no network, and it can write only in the workspace and in `$TMPDIR` \
               (`sandbox.network`, `sandbox.writable`)"],
        );
        ground.further = ["/a", "/b", "/c"].map(PathBuf::from).to_vec();
        ground.network = Network::Full;
        ground.check(
            "make",
            &["sandbox: it can write only in the workspace, in `/a`, in `/b`, in further \
               directories and in `$TMPDIR` (`sandbox.writable`)"],
        );
    }

    #[test]
    fn what_the_settings_allow_and_what_stays_in_the_workspace_needs_no_line() {
        let mut ground = Ground::new(Level::Bwrap);
        for line in [
            "touch a && ls",
            "cp a b > /dev/null",
            "echo x >> notes",
            "cat /etc/hostname",
            "rm -r build",
            "git commit -m x",
        ] {
            ground.check(line, &[]);
        }
        ground.network = Network::Full;
        ground.further = vec![ground.path("home/notes"), ground.path("data")];
        let data = ground.path("data").display().to_string();
        for line in ["touch ~/notes/a", &format!("touch {data}/x")] {
            ground.check(line, &[]);
        }
        assert!(!ground.told("curl http://example.com").concat().contains("no network"));
    }

    #[test]
    fn a_link_of_the_workspace_is_followed_and_no_name_breaks_out_of_its_code() {
        let ground = Ground::new(Level::Bwrap);
        symlink(ground.path("home"), ground.path("ws/link")).unwrap();
        let told = ground.told("touch link/x").concat();
        assert!(told.contains("is gone when the command ends"), "{told}");
        let long = "n".repeat(100);
        let told = ground.told(&format!("touch /etc/'a`b\n{long}'")).concat();
        assert!(told.starts_with("sandbox: `/etc/a'b"), "{told}");
        assert!(told.contains("…` cannot be written"), "{told}");
    }
}
