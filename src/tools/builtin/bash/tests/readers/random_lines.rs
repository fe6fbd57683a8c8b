//! Runs random lines of readers. Nothing in the workspace changes, nothing that is masked shows,
//! and nobody is called.

use std::net::TcpListener;

use super::*;

/// What is in files that no command may show which nobody approved.
const MASKED: &str = "MASKED-7f3a91";

/// A small generator (`SplitMix64`): all of its numbers follow from one seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let count = u64::try_from(from.len()).unwrap();
        from[usize::try_from(self.next() % count).unwrap()]
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

const PROGRAMS: &[&str] = &[
    "ls -la",
    "cat",
    "head -n 3",
    "tail -c 40",
    "wc -l",
    "grep -rn one",
    "grep -c x",
    "nl",
    "tac",
    "find . -name",
    "find . -type f -newer",
    "sort -u",
    "uniq -c",
    "cut -c1-9",
    "sed -n 1,5p",
    "sed s/a/b/",
    "awk '{print $1}'",
    "od -c",
    "xxd -l 16",
    "base64",
    "md5sum",
    "sha256sum",
    "stat -c %s",
    "file",
    "du -s",
    "diff a.txt",
    "cmp a.txt",
    "comm a.txt",
    "join a.txt",
    "paste",
    "fold -w 9",
    "rev",
    "column -t",
    "jq . ",
    "strings",
    "basename",
    "realpath",
    "readlink",
    "test -f",
    "[ -n",
    "printf %s",
    "echo",
    "git status",
    "git log --oneline --",
    "git diff --",
    "git show",
    "git ls-files",
    "git grep one",
    "git blame",
    "git cat-file -p HEAD:a.txt #",
    "env #",
    "printenv",
    "date #",
    "which",
    "type",
    "command -v",
    "id #",
    "seq 3 #",
    "expr 1 + 2 #",
    "git config --list #",
    "git stash list #",
    "sort -o",
    "find . -delete -name",
    "uniq a.txt",
    "tee",
    "cp a.txt",
    "rm -f",
    "touch",
    "mkdir",
    "chmod +x",
    "git add",
    "git checkout --",
    "sed -i s/a/b/",
    "awk '{print > \"new\"}'",
    "xxd a.txt",
    "truncate -s 0",
    "ln -s a.txt",
];
const OPERANDS: &[&str] = &[
    "a.txt",
    "sub/b.txt",
    "*.txt",
    "s*/*",
    ".e*",
    "*",
    "$X",
    "\"$f\"",
    "${X:-a.txt}",
    "~",
    "$HOME",
    "sub",
    ".",
    "-",
    ".env",
    "sub/../.env",
    "private/p",
    "p*/p",
    "[a-z]*.txt",
    "'a b'",
    "link",
    "$(echo .env)",
    "$(ls)",
    "{a,c}.txt",
    "\\.env",
    "$PWD/a.txt",
    "/etc/hostname",
    "new",
    "HEAD",
    ":0:.env",
    "\"$(printf '.%s' env)\"",
    "a.tx?",
    "..",
    "/proc/self/environ",
    "-exec",
    "-delete",
];
const REDIRECTS: &[&str] = &[
    " 2>/dev/null",
    " 2>&1",
    " >/dev/null",
    " < a.txt",
    " > new",
    " >> a.txt",
    " 2> new",
    " &> new",
    " < .env",
    " <> new",
    " < $(echo .env)",
    " <<< one",
    " < /dev/tcp/127.0.0.1/PORT",
];
const JOINS: &[&str] = &[" | ", " && ", " || ", "; ", "\n", " |& ", " & "];

fn simple(random: &mut Random) -> String {
    let mut line = String::new();
    if random.happens(5) {
        line.push_str(random.pick(&[
            "LC_ALL=C ",
            "time ",
            "timeout 5 ",
            "! ",
            "nice ",
            "X=a.txt ",
        ]));
    }
    line.push_str(random.pick(PROGRAMS));
    for _ in 0..random.next() % 3 {
        line.push(' ');
        line.push_str(random.pick(OPERANDS));
    }
    if line.starts_with("[ ") {
        line.push_str(" ]");
    }
    if random.happens(25) {
        line.push_str(random.pick(REDIRECTS));
    }
    line
}

fn statement(random: &mut Random, depth: usize) -> String {
    if depth == 0 || random.happens(55) {
        return simple(random);
    }
    let inner = statement(random, depth - 1);
    match random.next() % 11 {
        0 => format!("for f in {}; do {inner}; done", random.pick(OPERANDS)),
        1 => format!("if {}; then {inner}; fi", simple(random)),
        2 => format!("({inner})"),
        3 => format!("echo \"$({inner})\""),
        4 => format!("find . -type f | xargs {}", simple(random)),
        5 => format!("ls -A | while read -r f; do {inner}; done"),
        6 => format!("cat <<'E'\n{inner}\nE"),
        7 => format!("cat <<E | {}\n$X $(ls)\nE", simple(random)),
        8 => format!("diff <({inner}) a.txt"),
        9 => format!("cd {} && {inner}", random.pick(OPERANDS)),
        _ => format!("x=$({inner}); echo \"$x\""),
    }
}

fn line(random: &mut Random, port: u16) -> String {
    let mut line = statement(random, 2);
    for _ in 0..random.next() % 3 {
        line.push_str(random.pick(JOINS));
        line.push_str(&statement(random, 1));
    }
    line.replace("PORT", &port.to_string())
}

/// A repository with files that may hold secrets, or are denied, if there are to be any.
fn ground(level: Level, with_secrets: bool) -> Ground {
    let files = [
        ("a.txt", "one\ntwo three\n"),
        ("c.txt", "one\n"),
        ("sub/b.txt", "three one\n"),
        ("sub/deep/d.json", "{\"a\": [1, 2]}\n"),
        ("a b", "blank\n"),
    ];
    let deny: &[&str] = if with_secrets { &["Read(private/**)"] } else { &[] };
    let ground = Ground::new(Some(level), Mode::Default, deny, &files);
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("/usr/bin/git");
        git.args(["-c", "user.name=n", "-c", "user.email=e"]).args(arguments);
        assert!(git.current_dir(ground.fixture.root()).status().unwrap().success());
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    ground.fixture.write("c.txt", b"one\nmore\n");
    std::os::unix::fs::symlink("a.txt", ground.fixture.path("link")).unwrap();
    if with_secrets {
        ground.fixture.write(".env", MASKED.as_bytes());
        ground.fixture.write("sub/key.pem", MASKED.as_bytes());
        ground.fixture.write("private/p", MASKED.as_bytes());
    }
    ground
}

/// Runs that many lines at the level, and returns how many of them ran unasked.
async fn run_lines(ground: &Ground, seed: u64, count: u64) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let before = ground.contents();
    let mut ran = 0;
    for number in 0..count {
        let mut random = Random(seed.wrapping_add(number.wrapping_mul(0x0123_4567_89AB)));
        let line = line(&mut random, port);
        let Some(output) = ground.run(&line).await else { continue };
        ran += 1;
        ground.fixture.context().agent.set_working_dir(ground.fixture.root());
        assert_eq!(output.structured["reads_only"], true, "line {number}: {line}");
        assert!(!output.text.to_string().contains(MASKED), "line {number} shows it: {line}");
        ground.check_unchanged(&before, &format!("line {number}: {line}"));
    }
    assert!(listener.accept().is_err(), "somebody connected");
    ran
}

async fn check(seed: u64, count: u64) {
    let mut levels = 0;
    for (level, with_secrets) in [
        (Level::Bwrap, true),
        (Level::Bwrap, false),
        (Level::Landlock, false),
        (Level::Landlock, true),
    ] {
        let ground = ground(level, with_secrets);
        if ground.sandbox.level().await.is_none() {
            continue;
        }
        let ran = run_lines(&ground, seed, count).await;
        levels += 1;
        let few = level == Level::Landlock && with_secrets;
        assert!(few || ran * 5 > count, "{level}: {ran} of {count} lines ran");
    }
    assert!(levels > 0, "this machine offers no level");
}

#[tokio::test]
async fn g7_random_lines_of_readers_change_nothing_and_show_nothing_masked() {
    check(35, 120).await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn g7_many_random_lines_of_readers_change_nothing_and_show_nothing_masked() {
    check(1_035, 5_000).await;
}
