//! Runs a proxy between a client and the server that makes the client a bad one: slow,
//! halting, disappearing. A script, read from the top as the answer comes, decides what
//! it does.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch as notice;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::server::{KEY, Server};
use super::watch;

use crate::support::sync;

/// What happens next to the bytes of the answer. After the end of the script everything
/// is forwarded.
#[derive(Clone, Debug)]
pub(crate) enum Toxic {
    /// Forward this many bytes.
    Pass(usize),
    /// Read nothing until the test opens this gate.
    Gate(String),
    /// Read the rest in pieces of `bytes`, with a pause between them.
    Slow { bytes: usize, pause: Duration },
    /// The client closes.
    Close,
    /// The client closes with a reset.
    Reset,
    /// The client closes its sending side and reads on.
    HalfClose,
    /// The client neither reads nor writes nor closes.
    Freeze,
}

/// A running proxy. Dropping it closes all its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    server: SocketAddr,
    gates: Arc<Gates>,
    _task: JoinSet<()>,
}

#[derive(Debug)]
struct Gates {
    state: Mutex<State>,
    changed: notice::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    open: HashSet<String>,
    reached: HashSet<String>,
}

/// How the sockets of one connection are made, and what happens on it.
#[derive(Clone, Debug)]
struct Plan {
    server: SocketAddr,
    buffer: usize,
    script: Vec<Toxic>,
}

impl Proxy {
    /// Starts a proxy between `server` and its clients. The kernel buffers about `buffer`
    /// bytes for a client that does not read (0: the kernel's own choice).
    pub(crate) async fn before(server: &Server, buffer: usize, script: Vec<Toxic>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let gates = Arc::new(Gates { state: Mutex::default(), changed: notice::channel(0).0 });
        let plan = Plan { server: server.address(), buffer, script };
        let (serving, server) = (Arc::clone(&gates), plan.server);
        let mut task = JoinSet::new();
        task.spawn(accept(listener, plan, serving));
        Self { address, server, gates, _task: task }
    }

    /// A client with the right key that connects through this proxy.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address, KEY).header("host", &self.server.to_string())
    }

    /// Opens a gate permanently.
    pub(crate) fn open(&self, gate: &str) {
        self.gates.change(|state| state.open.insert(gate.to_owned()));
    }

    /// Waits until a connection has reached a gate.
    pub(crate) async fn reached(&self, gate: &str) {
        let reached = self.gates.wait(|state| state.reached.contains(gate));
        watch(&format!("the client to reach gate {gate}"), reached).await;
    }
}

impl Gates {
    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        change(&mut sync::lock(&self.state));
        self.changed.send_modify(|count| *count += 1);
    }

    async fn wait(&self, found: impl Fn(&State) -> bool) {
        let mut changes = self.changed.subscribe();
        while !found(&sync::lock(&self.state)) {
            changes.changed().await.expect("the sender lives as long as we");
        }
    }
}

async fn accept(listener: TcpListener, plan: Plan, gates: Arc<Gates>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.expect("a connection");
                connections.spawn(relay(client, plan.clone(), Arc::clone(&gates)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn relay(client: TcpStream, plan: Plan, gates: Arc<Gates>) {
    let server = plan.connect().await.expect("the server listens");
    client.set_nodelay(true).expect("a TCP socket");
    server.set_nodelay(true).expect("a TCP socket");
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let answer = Answer { from_server, to_client, piece: 1 << 16, pause: Duration::ZERO };
    let mut upward = JoinSet::new();
    let frozen = CancellationToken::new();
    upward.spawn(copy_up(from_client, to_server, frozen.clone()));
    // Any end ends both directions.
    let _ended = answer.play(plan.script, &gates, &mut upward, &frozen).await;
}

/// Forwards the request unchanged, and the client's close unless the proxy is frozen.
async fn copy_up(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, frozen: CancellationToken) {
    tokio::select! {
        () = frozen.cancelled() => std::future::pending().await,
        _ended = tokio::io::copy(&mut from, &mut to) => {}
    }
}

impl Plan {
    async fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        if self.buffer > 0 {
            set_socket_recv_buffer_size(&socket, self.buffer)?;
        }
        socket.connect(self.server).await
    }
}

/// The answer on its way to the client.
struct Answer {
    from_server: OwnedReadHalf,
    to_client: OwnedWriteHalf,
    piece: usize,
    pause: Duration,
}

impl Answer {
    async fn play(
        mut self,
        script: Vec<Toxic>,
        gates: &Gates,
        upward: &mut JoinSet<()>,
        frozen: &CancellationToken,
    ) -> io::Result<()> {
        for toxic in script {
            match toxic {
                Toxic::Pass(bytes) => self.pass(bytes).await?,
                Toxic::Slow { bytes, pause } => (self.piece, self.pause) = (bytes, pause),
                Toxic::Gate(gate) => {
                    gates.change(|state| state.reached.insert(gate.clone()));
                    gates.wait(|state| state.open.contains(&gate)).await;
                }
                Toxic::Close => return Ok(()),
                Toxic::Reset => {
                    let server: &TcpStream = self.from_server.as_ref();
                    set_socket_linger(server, Some(Duration::ZERO))?;
                    return Ok(());
                }
                // Dropping the write half closes it.
                Toxic::HalfClose => upward.shutdown().await,
                Toxic::Freeze => {
                    frozen.cancel();
                    return std::future::pending().await;
                }
            }
        }
        self.pass(usize::MAX).await
    }

    /// Forwards `left` bytes. Fails at the end of the answer.
    async fn pass(&mut self, mut left: usize) -> io::Result<()> {
        let mut bytes = vec![0; self.piece];
        while left > 0 {
            let most = left.min(self.piece);
            let read = self.from_server.read(&mut bytes[..most]).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.to_client.write_all(&bytes[..read]).await?;
            left -= read;
            if !self.pause.is_zero() {
                sleep(self.pause).await;
            }
        }
        Ok(())
    }
}
