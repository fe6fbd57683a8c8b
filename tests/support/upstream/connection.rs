//! Plays the steps of each answer on one connection to the scripted upstream.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::{Request, Shared, State, Step};
use crate::support::http::{Framing, Head, Reader};

/// Answers the requests of one connection until it ends.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    stream.set_nodelay(true).expect("a TCP socket");
    let (read, write) = stream.into_split();
    let mut connection = Connection { reader: Reader::new(read), write, headed: false };
    while let Ok(Some(head)) = connection.reader.head().await {
        let Ok(body) = connection.reader.body(head.framing(Framing::Over)).await else { return };
        let request = Request { head, body, abandoned: false };
        let (number, steps) = shared.change(|state| state.admit(request));
        match connection.play(steps, &shared).await {
            Ending::Answer => {}
            // Dropping the write half would send a FIN before the reset.
            Ending::Reset => return connection.write.forget(),
            Ending::Connection { abandoned } => {
                return shared.change(|state| state.requests[number].abandoned = abandoned);
            }
        }
    }
}

struct Connection {
    reader: Reader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    /// Whether the head of the current answer has been sent.
    headed: bool,
}

enum Ending {
    /// The answer is complete; the connection is kept.
    Answer,
    Connection {
        abandoned: bool,
    },
    Reset,
}

impl Connection {
    async fn play(&mut self, steps: VecDeque<Step>, shared: &Shared) -> Ending {
        self.headed = false;
        for step in steps {
            match step {
                Step::Close => return Ending::Connection { abandoned: false },
                Step::Reset => {
                    let socket: &TcpStream = self.write.as_ref();
                    socket.set_zero_linger().expect("a TCP socket");
                    return Ending::Reset;
                }
                Step::Hang => {
                    self.reader.closed().await;
                    return Ending::Connection { abandoned: true };
                }
                Step::Gate(gate) => {
                    shared.change(|state| state.reached.insert(gate.clone()));
                    let opened = |state: &State| state.open.contains(&gate).then_some(());
                    tokio::select! {
                        () = shared.wait(opened) => {}
                        () = self.reader.closed() => return Ending::Connection { abandoned: true },
                    }
                }
                Step::Flood(bytes) => {
                    while self.send(Step::Send(bytes.clone())).await.is_ok() {
                        shared.state().flooded += bytes.len() as u64;
                    }
                    return Ending::Connection { abandoned: true };
                }
                step => {
                    if self.send(step).await.is_err() {
                        return Ending::Connection { abandoned: true };
                    }
                }
            }
        }
        match self.end().await {
            Ok(()) => Ending::Answer,
            Err(_) => Ending::Connection { abandoned: true },
        }
    }

    async fn send(&mut self, step: Step) -> io::Result<()> {
        match step {
            Step::Send(bytes) => {
                if !self.headed {
                    let kind = ("content-type".to_owned(), "text/event-stream".to_owned());
                    self.head(200, &[kind]).await?;
                }
                let framed =
                    [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
                self.write.write_all(&framed).await
            }
            Step::Head { status, headers } => self.head(status, &headers).await,
            Step::Answer { status, headers, body } => self.answer(status, &headers, &body).await,
            Step::Garbage(bytes) => self.write.write_all(&bytes).await,
            Step::Gate(_) | Step::Close | Step::Reset | Step::Hang | Step::Flood(_) => Ok(()),
        }
    }

    async fn head(&mut self, status: u16, headers: &[(String, String)]) -> io::Result<()> {
        self.headed = true;
        let headers = format!("{}transfer-encoding: chunked\r\n\r\n", Head::lines(headers));
        let head = format!("HTTP/1.1 {status} Scripted\r\n{headers}");
        self.write.write_all(head.as_bytes()).await
    }

    async fn answer(
        &mut self,
        status: u16,
        headers: &[(String, String)],
        body: &[u8],
    ) -> io::Result<()> {
        let told = headers.iter().any(|(name, _)| name == "content-type");
        let kind = if told { "" } else { "content-type: application/json\r\n" };
        let (length, headers) = (body.len(), Head::lines(headers));
        let head = format!(
            "HTTP/1.1 {status} Scripted\r\n{kind}{headers}content-length: {length}\r\n\r\n"
        );
        self.write.write_all(&[head.as_bytes(), body].concat()).await
    }

    async fn end(&mut self) -> io::Result<()> {
        if self.headed { self.write.write_all(b"0\r\n\r\n").await } else { Ok(()) }
    }
}
