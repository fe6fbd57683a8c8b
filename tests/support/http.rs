//! Reads HTTP/1.1 for both ends of a test: heads and bodies, byte by byte, strictly.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The head of a request or response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// `POST /v1/chat/completions HTTP/1.1`, or `HTTP/1.1 200 OK`.
    pub(crate) line: String,
    /// Names in lower case, in the order they came.
    pub(crate) headers: Vec<(String, String)>,
}

/// How the end of a body is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    /// It ends with the connection.
    ToEnd,
    Over,
}

/// The reading side of a connection, with bytes that were read ahead.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    inner: R,
    ahead: Vec<u8>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// `POST` of a request.
    pub(crate) fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// `/v1/models` of a request.
    pub(crate) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// 200 of a response.
    pub(crate) fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default()
    }

    /// The lines of `headers`, as they are sent.
    pub(crate) fn lines(headers: &[(String, String)]) -> String {
        let lines = headers.iter().map(|(name, value)| [name, ": ", value, "\r\n"].concat());
        lines.collect()
    }

    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Self { line, headers }
    }

    /// How the body of a message with this head ends. `otherwise` applies if the head
    /// does not say (a request has no body; a response ends with the connection).
    pub(crate) fn framing(&self, otherwise: Framing) -> Framing {
        if self.header("transfer-encoding").is_some() {
            return Framing::Chunked;
        }
        match self.header("content-length").and_then(|length| length.parse().ok()) {
            Some(0) => Framing::Over,
            Some(length) => Framing::Length(length),
            None => otherwise,
        }
    }
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, ahead: Vec::new() }
    }

    /// Where it reads from.
    pub(crate) fn into_inner(self) -> R {
        self.inner
    }

    /// The next head; `None` if the peer has closed.
    pub(crate) async fn head(&mut self) -> io::Result<Option<Head>> {
        match self.until(b"\r\n\r\n").await? {
            Some(bytes) => Ok(Some(Head::parse(&bytes))),
            None => Ok(None),
        }
    }

    /// The next piece of a body; `None` at its proper end. An improper end is an error.
    pub(crate) async fn piece(&mut self, framing: &mut Framing) -> io::Result<Option<Vec<u8>>> {
        match *framing {
            Framing::Over => Ok(None),
            Framing::ToEnd => {
                if self.ahead.is_empty() && self.fill().await? == 0 {
                    *framing = Framing::Over;
                    return Ok(None);
                }
                Ok(Some(std::mem::take(&mut self.ahead)))
            }
            Framing::Length(left) => {
                if self.ahead.is_empty() && self.fill().await? == 0 {
                    return Err(cut_off());
                }
                let piece: Vec<u8> = self.ahead.drain(..left.min(self.ahead.len())).collect();
                let left = left - piece.len();
                *framing = if left == 0 { Framing::Over } else { Framing::Length(left) };
                Ok(Some(piece))
            }
            Framing::Chunked => self.chunk(framing).await,
        }
    }

    /// A whole body.
    pub(crate) async fn body(&mut self, mut framing: Framing) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&mut framing).await? {
            body.extend(piece);
        }
        Ok(body)
    }

    /// Waits until the peer closes. Keeps what it sends before.
    pub(crate) async fn closed(&mut self) {
        while !matches!(self.fill().await, Ok(0) | Err(_)) {}
    }

    async fn chunk(&mut self, framing: &mut Framing) -> io::Result<Option<Vec<u8>>> {
        let line = self.until(b"\r\n").await?.ok_or_else(cut_off)?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16)
            .map_err(|_| io::Error::other(format!("no chunk size: {line:?}")))?;
        while self.ahead.len() < size + 2 {
            if self.fill().await? == 0 {
                return Err(cut_off());
            }
        }
        let chunk: Vec<u8> = self.ahead.drain(..size).collect();
        self.ahead.drain(..2);
        if size == 0 {
            *framing = Framing::Over;
            return Ok(None);
        }
        Ok(Some(chunk))
    }

    /// Everything up to the next `end`, which is removed too.
    async fn until(&mut self, end: &[u8]) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.ahead.windows(end.len()).position(|window| window == end) {
                let bytes = self.ahead.drain(..at + end.len()).take(at).collect();
                return Ok(Some(bytes));
            }
            if self.fill().await? == 0 {
                return if self.ahead.is_empty() { Ok(None) } else { Err(cut_off()) };
            }
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.inner.read_buf(&mut self.ahead).await
    }
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended within a message")
}
