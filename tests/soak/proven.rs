//! Runs every generated command that is proven to read only, and watches what it does.
//!
//! The lines are the corpora's, crossed and mutated. Each runs where every program but the proven
//! ones is a trap that leaves a mark, in a directory whose files are compared afterwards, beside
//! a port that counts who connects.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use tempfile::TempDir;

use super::table::Line;

const LINES: usize = 100_000;

/// The commands that may run, and those that must ask.
const CORPORA: [&str; 2] =
    [include_str!("../corpus/shell-may-run.json"), include_str!("../corpus/shell-must-ask.json")];

/// The programs that a proven line may run, beside builtins.
const PROGRAMS: [&str; 13] = [
    "ls", "cat", "head", "tail", "wc", "grep", "cut", "tr", "nl", "stat", "basename", "dirname",
    "realpath",
];

/// Names that lines of the corpora run, and others that harm.
const TRAPS: [&str; 48] = [
    "awk", "base64", "bash", "chmod", "chown", "cp", "curl", "date", "dd", "diff", "ed", "env",
    "file", "find", "git", "install", "kill", "ln", "make", "mkdir", "mkfifo", "mktemp", "mv",
    "nc", "node", "od", "perl", "printf", "python3", "rg", "rm", "rmdir", "sed", "sh", "sort",
    "split", "ssh", "sudo", "tee", "test", "timeout", "touch", "truncate", "uniq", "vi", "wget",
    "xargs", "xxd",
];

/// What is put between the words of the corpora.
const INSERTED: [&str; 44] = [
    ";",
    "&&",
    "||",
    "|",
    "&",
    "|&",
    ">",
    ">>",
    "<",
    "<<<",
    "<>",
    ">|",
    "2>",
    "&>",
    "$(touch x)",
    "`touch x`",
    "${x:=y}",
    "$x",
    "$((a[0]))",
    "{a,b}",
    "*",
    "?",
    "[a]",
    "~",
    "!",
    "#",
    "\\",
    "'",
    "\"",
    "\n",
    "\t",
    "\u{a0}",
    "\u{200b}",
    "-f",
    "--output=x",
    "-o",
    "--",
    "-",
    "x=1",
    "touch",
    "rm -rf .",
    "/dev/tcp/127.0.0.1/PORT",
    "(",
    ")",
];

pub(super) async fn proven() -> Line {
    let checked = tokio::task::spawn_blocking(check).await;
    checked.unwrap_or_else(|fault| {
        let mut line = Line::new("proven commands (R17)");
        line.must(false, || fault.to_string());
        line
    })
}

fn check() -> Line {
    let mut line = Line::new("proven commands (R17)");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("our own socket");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    let corpora = CORPORA.map(lines_of);
    let generated = (0..LINES as u64).map(|seed| generate(&corpora, seed).replace("PORT", &port));
    let mut proven: Vec<String> =
        generated.filter(|line| toolhand::measured::is_proven_read_only(line)).collect();
    proven.sort();
    proven.dedup();
    let halves = proven.chunks(proven.len().div_ceil(2).max(1));
    let faults: Vec<String> = thread::scope(|scope| {
        let runs: Vec<_> = halves.map(|half| scope.spawn(|| run_all(half))).collect();
        runs.into_iter().flat_map(|run| run.join().expect("no panic")).collect()
    });
    line.runs = LINES;
    line.note(format!("{} of them proven and run", proven.len()));
    line.must(proven.len() > 1_000, || format!("only {} lines were proven", proven.len()));
    line.must(faults.is_empty(), || faults.join("; "));
    line.must(listener.accept().is_err(), || "a command connected".to_owned());
    line
}

fn lines_of(corpus: &str) -> Vec<String> {
    serde_json::from_str(corpus).expect("a list")
}

/// A line of the corpora, crossed with others and mutated. Half of the lines begin as ones that
/// may run, so that many are at the border of what is proven.
fn generate(corpora: &[Vec<String>; 2], seed: u64) -> String {
    let mut random = Random(seed);
    let option = random.option();
    let mut words: Vec<&str> = Vec::new();
    let may_run = random.below(2) == 0;
    for _ in 0..=random.below(2) {
        let corpus = &corpora[if may_run { 0 } else { random.below(2) }];
        let line: Vec<&str> = corpus[random.below(corpus.len())].split(' ').collect();
        let from = random.below(line.len());
        let whole = random.below(2) == 0;
        words.extend(if whole { &line[..] } else { &line[from..] });
        if random.below(2) == 0 {
            words.push([";", "&&", "||", "|"][random.below(4)]);
        }
    }
    for _ in 0..random.below(4) {
        let at = random.below(words.len().max(1));
        match random.below(4) {
            3 => words.insert(at.min(words.len()), &option),
            0 => words.insert(at.min(words.len()), INSERTED[random.below(INSERTED.len())]),
            1 if words.len() > 1 => drop(words.remove(at)),
            _ => words.push(PROGRAMS[random.below(PROGRAMS.len())]),
        }
    }
    let mut line = words.join(" ");
    if random.below(4) == 0 {
        let at = line.char_indices().map(|(at, _)| at).nth(random.below(line.len().max(1)));
        let inserted = INSERTED[random.below(INSERTED.len())];
        line.insert_str(at.unwrap_or_default(), inserted);
    }
    line
}

/// `SplitMix64`: the same lines in every run.
struct Random(u64);

impl Random {
    /// Any option of one or two characters, or a long one that some program knows.
    fn option(&mut self) -> String {
        const LONG: [&str; 12] = [
            "exec",
            "file",
            "output",
            "files0-from",
            "include",
            "exclude-from",
            "zero",
            "color",
            "follow",
            "dereference",
            "null",
            "recursive",
        ];
        let mut letter = || {
            char::from(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0189"[self.below(56)])
        };
        match (letter(), letter(), self.below(4)) {
            (first, _, 0 | 1) => format!("-{first}"),
            (first, second, 2) => format!("-{first}{second}"),
            _ => format!("--{}=a.txt", LONG[self.below(LONG.len())]),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap_or_default()
    }
}

/// Runs the lines one after the other, each in the same place. Returns what went wrong.
fn run_all(lines: &[String]) -> Vec<String> {
    let ground = Ground::new();
    // A trap that does not work would hide everything.
    let sprung = ground.run("sh -c true; touch made");
    assert!(sprung.is_some_and(|told| told.contains("sh")), "the traps work");
    let written = ground.run("echo x > made");
    assert!(written.is_some_and(|told| told.contains("made")), "writes are seen");
    let faults = lines.iter().filter_map(|line| Some(format!("{line:?}: {}", ground.run(line)?)));
    faults.take(10).collect()
}

/// Where the lines run.
struct Ground {
    directory: TempDir,
    pristine: BTreeMap<PathBuf, Vec<u8>>,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        for name in ["work/src", "marks", "traps", "programs"] {
            fs::create_dir_all(path(name)).expect("a new directory");
        }
        for name in ["a.txt", "b.txt", "src/foo.rs"] {
            fs::write(path("work").join(name), "foo\nbar x\n").expect("a new file");
        }
        for name in TRAPS {
            let trap = path("traps").join(name);
            fs::write(&trap, format!("#!/shell\n: >/marks/{name}\n")).expect("a new file");
            make_program(&trap);
        }
        for name in PROGRAMS {
            let program = path("programs").join(name);
            fs::copy(Path::new("/usr/bin").join(name), &program).expect("a program");
            make_program(&program);
        }
        let pristine = contents(&path("work"));
        Self { directory, pristine }
    }

    /// What the line did that it must not.
    fn run(&self, line: &str) -> Option<String> {
        let path = |name: &str| self.directory.path().join(name);
        let mut command = Command::new("/usr/bin/bwrap");
        command.env_clear().args(["--unshare-pid", "--unshare-ipc", "--die-with-parent"]);
        for library in ["/lib", "/lib64", "/usr/lib", "/usr/lib64"] {
            command.args(["--ro-bind-try", library, library]);
        }
        let places = [("programs", "/programs"), ("traps", "/usr/bin"), ("traps", "/bin")];
        for (name, inside) in places {
            command.arg("--ro-bind").arg(path(name)).arg(inside);
        }
        for (name, inside) in [("work", "/work"), ("marks", "/marks")] {
            command.arg("--bind").arg(path(name)).arg(inside);
        }
        command.args(["--ro-bind", "/bin/bash", "/shell", "--dev", "/dev", "--proc", "/proc"]);
        command.args(["--setenv", "PATH", "/programs:/usr/bin", "--chdir", "/work"]);
        command.args(["/shell", "--noprofile", "--norc", "-c", line]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("bwrap");
        self.told()
    }

    fn told(&self) -> Option<String> {
        let path = |name: &str| self.directory.path().join(name);
        let marks = contents(&path("marks"));
        if !marks.is_empty() {
            for mark in marks.keys() {
                let _gone = fs::remove_file(mark);
            }
            return Some(format!("ran {:?}", marks.keys().collect::<Vec<_>>()));
        }
        let now = contents(&path("work"));
        if now == self.pristine {
            return None;
        }
        fs::remove_dir_all(path("work")).expect("our own");
        for (file, bytes) in &self.pristine {
            fs::create_dir_all(file.parent().expect("inside")).expect("a new directory");
            fs::write(file, bytes).expect("a new file");
        }
        Some(format!("changed files: {:?}", now.keys().collect::<Vec<_>>()))
    }
}

fn make_program(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own");
}

/// All files below the directory.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else {
                files.insert(path.clone(), fs::read(&path).unwrap_or_default());
            }
        }
    }
    files
}
