//! Tells the model what the sandbox has prevented or dropped, and which setting allows it, so that
//! it does not try the same again.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::answer::{ExitOne, has_failed};
use super::masked_paths::MaskedPaths;
use super::output_end::{last_lines, printed, says, words};
use super::repeatable_command::RepeatableCommand;
use crate::permissions::{Lacked, SecondRun};
use crate::processes::confinement::{Confinement, Level, Network};
use crate::processes::fate::PathFate;
use crate::processes::{DroppedPaths, EndCause, Finished};
use crate::text::printable;

/// How far above its reason a path may stand.
const LINES_ABOVE: usize = 3;

/// What programs say, in lower case, when they cannot connect because there is no network: no name
/// is resolved, and no socket is made. Tried with curl, wget, git, ssh, pip, npm, cargo, go, uv,
/// apt, node, python, perl and bash.
const NOT_CONNECTED: [&str; 22] = [
    "/dev/tcp/",
    "/dev/udp/",
    "connect eperm",
    "could not resolve host",
    "couldn't connect to server",
    "dial tcp",
    "dial udp",
    "dns error",
    "eai_again",
    "failed to lookup address information",
    "getaddrinfo",
    "inet: operation not permitted",
    "listen eperm",
    "name or service not known",
    "network is unreachable",
    "newconnectionerror",
    "socket: operation not permitted",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "unable to connect to",
    "unable to resolve host",
    "unknownhostexception",
];

/// What stands in such a line, in lower case, if it is about a Unix socket: no setting of the network
/// lets a command connect to one.
const OF_UNIX_SOCKETS: [&str; 2] = ["dial unix", ".sock"];

/// The sandbox of one command that may write.
pub(super) struct SandboxNotes {
    pub(super) confinement: Arc<Confinement>,
    /// Whether the model may ask for a command outside of the sandbox.
    pub(super) may_escape: bool,
    /// Whether a program of the command is made to connect to other machines.
    pub(super) connects: bool,
    /// Where the command began.
    pub(super) directory: PathBuf,
    /// `None`: somebody has approved the command.
    pub(super) unapproved: Option<RepeatableCommand>,
    /// What becomes of the command when it comes again because something was closed to it.
    pub(super) second: SecondRun,
}

impl SandboxNotes {
    /// One line each for what was dropped, closed, kept, not written, and not reached. Says what the sandbox
    /// does, and not that this is why the command failed, which nobody can know.
    pub(super) fn of(&self, finished: &Finished, exit_one: ExitOne) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        notes.extend(self.dropped(&finished.dropped));
        // In a pipe a failure is not seen.
        let has_failed = has_failed(exit_one, finished) || finished.cause == EndCause::TimedOut;
        let has_masks = !self.confinement.masks.is_empty();
        if has_failed || self.connects || has_masks {
            let output = printed(finished);
            notes.extend(self.masked(&output));
            notes.extend(self.not_written(&output).filter(|_| has_failed));
            notes.extend(self.not_connected(&output).filter(|_| has_failed || self.connects));
        }
        notes
    }

    /// What was closed to it or kept from it. A command that nobody has approved is asked about when
    /// it comes again.
    fn masked(&self, output: &str) -> Vec<String> {
        let met = MaskedPaths::met(output, &self.confinement, &self.directory);
        if let Some(unapproved) = self.unapproved.as_ref().filter(|_| met.closed.is_some()) {
            unapproved.remember(Lacked::Secrets);
        }
        met.notes(self.unapproved.is_none(), self.second)
    }

    fn dropped(&self, dropped: &DroppedPaths) -> Option<String> {
        if dropped.named.is_empty() && dropped.more == 0 {
            return None;
        }
        let named = dropped.named.iter().map(|path| printable(path.as_bytes()));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = match (dropped.more, named.is_empty()) {
            (0, _) => String::new(),
            (more, true) => format!("{more} files"),
            (more, false) => format!(" and {more} more"),
        };
        let way = self.way("`sandbox.writable`");
        Some(format!(
            "(the sandbox has dropped {named}{more}: what is written outside of the workspace and \
             $TMPDIR is gone when the command ends. {way})"
        ))
    }

    fn not_written(&self, output: &str) -> Option<String> {
        let path = refused_path(output, &self.confinement)?;
        let fate = self.confinement.fate(Path::new(&path));
        let settings = if fate == PathFate::Closed && self.confinement.level == Level::Landlock {
            "`sandbox.writable`, and for reading with `sandbox.readable`"
        } else {
            "`sandbox.writable`"
        };
        let way = self.way(settings);
        Some(format!(
            "(in the sandbox a command can write only in the workspace and $TMPDIR, and so not {}. \
             {way})",
            printable(path.as_bytes())
        ))
    }

    fn not_connected(&self, output: &str) -> Option<String> {
        match refused_connection(output)? {
            Connection::UnixSocket => Some(format!(
                "(the sandbox lets no command connect to a Unix socket, so do not try again. {})",
                self.way_outside()
            )),
            Connection::Network if self.confinement.network == Network::Full => None,
            Connection::Network => Some(format!(
                "(the sandbox has no network: no connection can be made, so do not try again. {})",
                self.way("`sandbox.network = \"full\"`")
            )),
        }
    }

    /// Who can allow it, and how.
    fn way(&self, settings: &str) -> String {
        if self.may_escape {
            return format!(
                "The operator can allow it with {settings}; `dangerouslyDisableSandbox` asks a \
                 person for a run outside"
            );
        }
        format!("Only the operator can allow it, with {settings}")
    }

    /// The same for what no setting of the sandbox allows in it.
    fn way_outside(&self) -> &'static str {
        if self.may_escape {
            "`dangerouslyDisableSandbox` asks a person for a run outside"
        } else {
            "Only the operator can allow a run outside, with `sandbox.escape`"
        }
    }
}

/// What a command could not connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Network,
    UnixSocket,
}

/// What the end of the output says that no connection was made to.
fn refused_connection(output: &str) -> Option<Connection> {
    let lines: Vec<String> = last_lines(output).into_iter().map(str::to_lowercase).collect();
    let says = |line: &&String| NOT_CONNECTED.iter().any(|words| line.contains(words));
    let refused: Vec<&String> = lines.iter().filter(says).collect();
    // Python names the socket only in the lines above the error.
    let of_python = || {
        let denied = lines.iter().any(|line| line.starts_with("permissionerror: [errno 1]"));
        denied && lines.iter().any(|line| line.contains("socket"))
    };
    match refused[..] {
        [] => of_python().then_some(Connection::Network),
        _ if refused.iter().all(|line| is_of_unix_socket(line)) => Some(Connection::UnixSocket),
        _ => Some(Connection::Network),
    }
}

/// Whether a line is about a Unix socket.
fn is_of_unix_socket(line: &str) -> bool {
    says(line, &OF_UNIX_SOCKETS)
}

/// The first path near the end of the output that was refused and that the sandbox lets nobody
/// write.
fn refused_path(output: &str, confinement: &Confinement) -> Option<String> {
    let lines = last_lines(output);
    let refused = (0..lines.len()).filter(|&at| says_refused(lines[at], confinement.level));
    let near = refused.flat_map(|at| {
        // Some programs write the reason alone on a line, below what it is about.
        let is_alone = !lines[at].contains(['/', '\'', '`', '"']);
        let first = if is_alone { at.saturating_sub(LINES_ABOVE) } else { at };
        (first..=at).rev()
    });
    let mut paths = near.flat_map(|at| paths_in(lines[at]));
    paths.find(|path| is_refused_by(confinement, Path::new(path))).map(str::to_owned)
}

/// Whether a program says here that it may not write. In bubblewrap what cannot be written is
/// mounted read-only; landlock denies the permission.
fn says_refused(line: &str, level: Level) -> bool {
    let refusals = match level {
        Level::Bwrap => ["read-only file system", "erofs"],
        Level::Landlock => ["permission denied", "eacces"],
    };
    says(line, &refusals) && !is_of_unix_socket(line)
}

/// Whether it is the sandbox that refuses to write the path. Where landlock lets a command read,
/// the modes of a file refuse a user with the same words.
fn is_refused_by(confinement: &Confinement, path: &Path) -> bool {
    match (confinement.level, confinement.fate(path)) {
        (_, PathFate::Closed) | (Level::Bwrap, PathFate::ReadOnly) => true,
        (Level::Landlock, PathFate::ReadOnly) => rustix::process::geteuid().is_root(),
        _ => false,
    }
}

/// The absolute paths in a message, without the quotes around them.
fn paths_in(line: &str) -> impl Iterator<Item = &str> {
    words(line).filter(|word| word.starts_with('/') && 1 < word.len())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::processes::confinement::Shown;

    fn notes(level: Level, network: Network, may_escape: bool) -> SandboxNotes {
        let shown = |path: &str| Shown::as_it_is(Path::new(path));
        let confinement = Confinement {
            level,
            network,
            reads_only: false,
            writable: vec![shown("/w")],
            readable: vec![shown("/usr"), shown("/etc")],
            temporary: Path::new("/state/tmp").into(),
            home: Path::new("/home/me").into(),
            git_settings: None,
            masks: Vec::new(),
            above: Vec::new(),
            mounted: Vec::new(),
        };
        SandboxNotes {
            confinement: Arc::new(confinement),
            may_escape,
            connects: false,
            directory: "/w".into(),
            unapproved: None,
            second: SecondRun::AsksAPerson,
        }
    }

    fn usual(level: Level) -> SandboxNotes {
        notes(level, Network::None, false)
    }

    #[test]
    fn what_was_dropped_is_named_with_the_setting() {
        let dropped = |named: &[&str], more| DroppedPaths {
            named: named.iter().map(Into::into).collect(),
            more,
        };
        let told = |dropped| usual(Level::Bwrap).dropped(&dropped);
        assert_eq!(told(dropped(&[], 0)), None);
        assert_snapshot!(told(dropped(&["/home/me/note.txt"], 0)).unwrap(), @"(the sandbox has dropped /home/me/note.txt: what is written outside of the workspace and $TMPDIR is gone when the command ends. Only the operator can allow it, with `sandbox.writable`)");
        assert_snapshot!(told(dropped(&["/home/me/a\nb", "/run/x"], 3)).unwrap(), @r"(the sandbox has dropped /home/me/a\nb, /run/x and 3 more: what is written outside of the workspace and $TMPDIR is gone when the command ends. Only the operator can allow it, with `sandbox.writable`)");
        assert_snapshot!(told(dropped(&[], 2)).unwrap(), @"(the sandbox has dropped 2 files: what is written outside of the workspace and $TMPDIR is gone when the command ends. Only the operator can allow it, with `sandbox.writable`)");
        let escaping = notes(Level::Bwrap, Network::None, true);
        assert_snapshot!(escaping.dropped(&dropped(&["/home/me/x"], 0)).unwrap(), @"(the sandbox has dropped /home/me/x: what is written outside of the workspace and $TMPDIR is gone when the command ends. The operator can allow it with `sandbox.writable`; `dangerouslyDisableSandbox` asks a person for a run outside)");
    }

    /// Each of these was printed in the sandbox.
    #[test]
    fn programs_that_could_not_connect_are_recognised() {
        for said in [
            "curl: (6) Could not resolve host: example.com",
            "curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server",
            "wget: unable to resolve host address ‘example.com’",
            "fatal: unable to access 'https://x/a/': Could not resolve host: x",
            "fatal: unable to connect to 1.1.1.1:\n1.1.1.1[0: 1.1.1.1]: errno=Operation not permitted",
            "ssh: Could not resolve hostname h: Temporary failure in name resolution",
            "WARNING: Retrying after connection broken by 'NewConnectionError('<x>: Failed to \
             establish a new connection: [Errno -2] Name or service not known')': /simple/x/\n\
             ERROR: No matching distribution found for x",
            "npm error code EAI_AGAIN\nnpm error syscall getaddrinfo",
            "  [6] Could not resolve hostname (Could not resolve host: index)",
            "go: x: Get \"https://p/@v/list\": dial tcp: lookup p on 10.0.0.1:53: dial udp \
             10.0.0.1:53: socket: operation not permitted",
            "  cause: failed to lookup address information: Temporary failure in name resolution",
            "Error: connect EPERM 1.1.1.1:80 - Local (undefined:undefined)",
            "Error: listen EPERM: operation not permitted 0.0.0.0:3000",
            "  File \"/x/socket.py\", line 232, in __init__\n    _socket.socket.__init__(self)\n\
             PermissionError: [Errno 1] Operation not permitted",
            "IO::Socket::INET: Operation not permitted\t...propagated at -e line 1.",
            "bash: socket: Operation not permitted\nbash: /dev/tcp/1.1.1.1/80: Operation not permitted",
        ] {
            assert!(usual(Level::Bwrap).not_connected(said).is_some(), "{said}");
            let connected = notes(Level::Bwrap, Network::Full, false);
            assert_eq!(connected.not_connected(said), None, "{said}");
        }
        assert_snapshot!(usual(Level::Landlock).not_connected("EAI_AGAIN").unwrap(), @r#"(the sandbox has no network: no connection can be made, so do not try again. Only the operator can allow it, with `sandbox.network = "full"`)"#);
        assert_snapshot!(notes(Level::Bwrap, Network::None, true).not_connected("EAI_AGAIN").unwrap(), @r#"(the sandbox has no network: no connection can be made, so do not try again. The operator can allow it with `sandbox.network = "full"`; `dangerouslyDisableSandbox` asks a person for a run outside)"#);
    }

    #[test]
    fn no_setting_of_the_network_allows_a_unix_socket() {
        for said in [
            "permission denied while trying to connect to the Docker daemon socket at \
             unix:///var/run/docker.sock: Get \"http://x\": dial unix /var/run/docker.sock: \
             socket: operation not permitted",
            "Error: connect EPERM /run/x.sock",
        ] {
            for network in [Network::None, Network::Full] {
                let notes = notes(Level::Landlock, network, false);
                let told = notes.not_connected(said).unwrap();
                assert!(told.contains("no command connect to a Unix socket"), "{said}: {told}");
                assert!(told.ends_with("a run outside, with `sandbox.escape`)"), "{told}");
                assert_eq!(notes.not_written(said), None, "{said}");
            }
        }
    }

    #[test]
    fn what_fails_for_its_own_reasons_is_not_taken_for_a_connection() {
        let long_ago = format!("Could not resolve host: x\n{}", "test passed\n".repeat(80));
        for said in [
            "error[E0433]: failed to resolve: use of undeclared type",
            "chown: changing ownership of 'x': Operation not permitted",
            "PermissionError: [Errno 1] Operation not permitted: 'x'",
            "Error: expected 200, got 404",
            "npm error Missing script: \"build\"",
            &long_ago,
        ] {
            assert_eq!(usual(Level::Bwrap).not_connected(said), None, "{said}");
        }
    }

    #[test]
    fn a_path_that_the_sandbox_lets_nobody_write_is_named() {
        for (said, path) in [
            ("touch: cannot touch '/home/me/x': Permission denied", "/home/me/x"),
            ("mkdir: cannot create directory ‘/var/lib/x’: Permission denied", "/var/lib/x"),
            ("bash: line 1: /home/me/log: Permission denied", "/home/me/log"),
            ("PermissionError: [Errno 13] Permission denied: '/home/me/x'", "/home/me/x"),
            ("Error: EACCES: permission denied, mkdir '/home/me/.npm'", "/home/me/.npm"),
            (
                "error: failed to open `/home/me/.cargo/x`\n\nCaused by:\n  Permission denied",
                "/home/me/.cargo/x",
            ),
        ] {
            let note = usual(Level::Landlock).not_written(said).unwrap_or_default();
            assert!(note.contains(&format!("and so not {path}. ")), "{said}: {note}");
        }
        let said = "warning: x\n  File \"/usr/lib/x.py\", line 1\nOSError: [Errno 30] Read-only file \
                    system: 'own'";
        assert_eq!(usual(Level::Bwrap).not_written(said), None, "another path");
        let said = "bash: line 1: /etc/x: Read-only file system";
        assert_snapshot!(usual(Level::Bwrap).not_written(said).unwrap(), @"(in the sandbox a command can write only in the workspace and $TMPDIR, and so not /etc/x. Only the operator can allow it, with `sandbox.writable`)");
        let said = "touch: cannot touch '/home/me/x': Permission denied";
        assert_snapshot!(usual(Level::Landlock).not_written(said).unwrap(), @"(in the sandbox a command can write only in the workspace and $TMPDIR, and so not /home/me/x. Only the operator can allow it, with `sandbox.writable`, and for reading with `sandbox.readable`)");
    }

    #[test]
    fn what_lies_in_the_workspace_is_refused_by_something_else() {
        for said in [
            "bash: line 1: ./deploy.sh: Permission denied",
            "cat: '/usr/own': No such file or directory",
            "bash: line 1: /w/deploy.sh: Permission denied",
            "/w/.git/config: Read-only file system",
            "/home/me/x: No such file or directory",
            "cat: /proc/1/environ: Permission denied",
            "/home/me/x\n1\n2\n3\n4\nPermission denied",
            "",
        ] {
            for level in [Level::Bwrap, Level::Landlock] {
                assert_eq!(usual(level).not_written(said), None, "{said}");
            }
        }
    }
}
