//! Gives a test a loopback interface of its own, so that ports can be those which the
//! documents print, and so that nothing can be fetched.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Brings the loopback interface up, says so, and keeps the namespace until its standard
/// input closes. 0x8914 is `SIOCSIFFLAGS`, 0x41 is `IFF_UP` and `IFF_RUNNING`.
const HOLD: &str = r#"
import fcntl, socket, struct, sys
request = struct.pack("16sh14x", b"lo", 0x41)
fcntl.ioctl(socket.socket(), 0x8914, request)
print("up", flush=True)
sys.stdin.read()
"#;

/// Ways into a namespace of one's own: options of `unshare` and of `nsenter`. Root needs
/// no user namespace; others do, and not every machine lets them.
const WAYS: [(&[&str], &[&str]); 2] = [
    (&["--net"], &["--net"]),
    (&["--map-root-user", "--net"], &["--user", "--net", "--preserve-credentials"]),
];

/// The network that commands run in.
#[derive(Debug)]
pub(super) enum Network {
    /// A namespace, with the process that holds it and the options that enter it.
    Own { holder: Child, enter: &'static [&'static str] },
    /// The machine's. The printed ports must be free there.
    Shared,
}

impl Network {
    pub(super) fn new() -> Self {
        let own = WAYS.iter().find_map(|(leave, enter)| {
            let mut command = Command::new("unshare");
            command.args(*leave).args(["--", "python3", "-c", HOLD]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut holder = command.spawn().ok()?;
            let mut said = String::new();
            let stdout = holder.stdout.as_mut().expect("piped");
            BufReader::new(stdout).read_line(&mut said).expect("text");
            if said == "up\n" {
                return Some(Self::Own { holder, enter });
            }
            let _ended = holder.wait();
            None
        });
        own.unwrap_or(Self::Shared)
    }

    /// A command that runs `program` in this network.
    pub(super) fn command(&self, program: &str) -> Command {
        let Self::Own { holder, enter } = self else { return Command::new(program) };
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", holder.id())).args(*enter).args(["--", program]);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Self::Own { holder, .. } = self {
            drop(holder.stdin.take());
            let _ended = holder.wait();
        }
    }
}
