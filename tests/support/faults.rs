//! Serves an upstream on raw TCP that sends exactly what it is told: it frames, completes
//! and checks nothing. [`Faults`] decides what happens for each connection and each
//! request. It runs on a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::http::{Framing, Head, Reader};

/// The next step on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// These bytes, in one write.
    Bytes(Vec<u8>),
    /// Nothing for a while. This is a fault, never a way to wait for something.
    Sleep(Duration),
    /// The same bytes repeatedly, until the peer leaves.
    Forever(Vec<u8>, Duration),
    /// Nothing more, until the peer leaves.
    Hang,
    /// A normal close.
    Fin,
    /// A close with a reset.
    Reset,
}

/// A request as it arrived.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body sent upstream is JSON")
    }
}

/// Decides what happens to a connection.
pub(crate) trait Faults: Send + Sync + 'static {
    /// The steps before the first request of connection `number` is read.
    fn accepted(&self, _number: usize) -> Vec<Step> {
        Vec::new()
    }

    /// The answer to a request. If it has no end, the connection is kept and the next
    /// request is read.
    fn asked(&self, request: &Asked) -> Vec<Step>;
}

impl<F: Fn(&Asked) -> Vec<Step> + Send + Sync + 'static> Faults for F {
    fn asked(&self, request: &Asked) -> Vec<Step> {
        self(request)
    }
}

/// A running upstream. Dropping it ends its connections.
#[derive(Debug)]
pub(crate) struct FaultUpstream {
    address: SocketAddr,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl FaultUpstream {
    pub(crate) fn start(faults: Arc<impl Faults>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a listener for tokio");
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                tokio::select! {
                    () = accept(listener, faults) => {}
                    () = stopped.cancelled() => {}
                }
            });
        });
        Self { address, stop, thread: Some(thread) }
    }

    /// The value for `upstream.url`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

impl Drop for FaultUpstream {
    fn drop(&mut self) {
        self.stop.cancel();
        let ended = self.thread.take().map(JoinHandle::join);
        let is_well = ended.is_none_or(|ended| ended.is_ok());
        assert!(is_well || std::thread::panicking(), "the fault upstream panicked");
    }
}

async fn accept<F: Faults>(listener: std::net::TcpListener, faults: Arc<F>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    let mut connections = JoinSet::new();
    for number in 0.. {
        let (stream, _) = listener.accept().await.expect("a connection");
        connections.spawn(serve(stream, number, Arc::clone(&faults)));
        while let Some(ended) = connections.try_join_next() {
            ended.expect("no connection panics");
        }
    }
}

const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";

/// Answers the requests of one connection until it ends.
async fn serve<F: Faults>(stream: TcpStream, number: usize, faults: Arc<F>) {
    stream.set_nodelay(true).expect("a TCP socket");
    let (read, write) = stream.into_split();
    let mut connection = Connection { reader: Reader::new(read), write };
    let mut steps = faults.accepted(number);
    loop {
        if let Err(error) = connection.play(steps).await {
            return connection.close(&error);
        }
        let Ok(Some(head)) = connection.reader.head().await else { return };
        let Ok(body) = connection.reader.body(head.framing(Framing::Over)).await else { return };
        // The server also asks what models there are.
        steps = if head.line.starts_with("GET ") {
            vec![Step::Bytes(NOT_FOUND.to_vec())]
        } else {
            faults.asked(&Asked { head, body })
        };
    }
}

struct Connection {
    reader: Reader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

impl Connection {
    /// Runs the steps. An error ends the connection, scripted or because the peer left.
    async fn play(&mut self, steps: Vec<Step>) -> io::Result<()> {
        for step in steps {
            match step {
                Step::Bytes(bytes) => self.write.write_all(&bytes).await?,
                Step::Sleep(time) => sleep(time).await,
                Step::Forever(bytes, pause) => loop {
                    self.write.write_all(&bytes).await?;
                    sleep(pause).await;
                },
                Step::Hang => {
                    self.reader.closed().await;
                    return Err(ended());
                }
                Step::Fin => return Err(ended()),
                Step::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
            }
        }
        Ok(())
    }

    /// Dropping the write half would send a FIN before the reset.
    fn close(self, error: &io::Error) {
        if error.kind() == io::ErrorKind::ConnectionReset {
            let socket: &TcpStream = self.write.as_ref();
            let _gone_already = socket.set_zero_linger();
            self.write.forget();
        }
    }
}

fn ended() -> io::Error {
    io::Error::other("the script ends the connection")
}

/// A head with these lines, each without its line end.
pub(crate) fn head(status: &str, lines: &[&str]) -> Vec<u8> {
    let lines: String = lines.iter().map(|line| [line, "\r\n"].concat()).collect();
    format!("HTTP/1.1 {status}\r\n{lines}\r\n").into_bytes()
}

/// A whole answer with a length.
pub(crate) fn answer(status: &str, lines: &[&str], body: &[u8]) -> Vec<u8> {
    let length = format!("content-length: {}", body.len());
    let head = head(status, &[lines, &[length.as_str()]].concat());
    [&head, body].concat()
}

/// One chunk of a body in `transfer-encoding: chunked`.
pub(crate) fn framed(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}
