//! Runs `toolhand chat`: asks one question after the other, all of them in one session.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use futures::FutureExt as _;
use futures::future::Fuse;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::client::{Client, Question};
use super::error::{AskError, ErrorKind};
use super::screen::Screen;
use super::{Connection, READER_GONE, Server, converse, output, pasted, reply, report};
use crate::commands::signals::{INTERRUPTED, TERMINATED};
use crate::config::environment::Variables;
use crate::secret::Secret;

/// Stands in front of what the person types.
const PROMPT: &str = "you > ";

const AFTER_HELP: &str = "\
Each line is a question; one that ends with \\ goes on in the next, and lines that are pasted
together are one. The model remembers what was said and done: all of it is one session, and
--session goes on with an earlier one. Ctrl-C cancels the answer that comes, and at the prompt it
ends the chat, as Ctrl-D does.

The answer goes to stdout, all else to stderr, as `toolhand ask` has it. Without a terminal the
questions are the lines of stdin, and nothing is approved.";

/// The flags of `chat`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Flags {
    #[command(flatten)]
    connection: Connection,
}

/// A chat with one server.
struct Chat {
    flags: Connection,
    variables: Variables,
    client: Arc<Client>,
    key: Option<Secret>,
    model: String,
    session: String,
}

/// What ends an answer or the chat from outside.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Nobody can read stdout any more.
    reader_gone: Fuse<oneshot::Receiver<()>>,
}

/// How the wait for a question or an answer ended.
enum Next<T> {
    Is(T),
    /// The chat ends with this status.
    Exit(u8),
}

/// Asks until the input ends or a signal comes. Returns the exit status.
pub(super) async fn talk(flags: Flags, variables: Variables) -> io::Result<u8> {
    let mut signals = Signals {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
        reader_gone: output::reader_gone()?.fuse(),
    };
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    let chat = match Chat::begin(flags.connection, variables).await {
        Ok(chat) => chat,
        Err(error) => return Ok(report(&error)),
    };
    let mut status = 0;
    loop {
        let question = match signals.until(question(is_terminal)).await {
            Next::Is(Ok(Some(question))) => question,
            Next::Is(Ok(None)) => break,
            Next::Is(Err(error)) => return Ok(report(&error)),
            Next::Exit(status) => return Ok(chat.end(is_terminal, status)),
        };
        match chat.ask(question, &mut signals).await? {
            Next::Is(of_turn) => status = of_turn,
            Next::Exit(status) => return Ok(status),
        }
    }
    // A person has seen what failed, and has left on purpose.
    Ok(chat.end(is_terminal, if is_terminal { 0 } else { status }))
}

/// Reads the next question. `None` at the end of the input.
async fn question(is_terminal: bool) -> Result<Option<String>, AskError> {
    let mut lines = String::new();
    // What was typed while the answer came is one question a line.
    let may_be_pasted = is_terminal && !pasted::has_line().await;
    if is_terminal {
        output::to_stderr(PROMPT);
    }
    while let Some(line) = reply::read_line().await? {
        let line = line.trim_end_matches(['\n', '\r']);
        if let Some(beginning) = line.strip_suffix('\\') {
            lines.push_str(beginning);
            lines.push('\n');
            continue;
        }
        lines.push_str(line);
        if !lines.trim().is_empty() {
            if may_be_pasted {
                lines.push('\n');
                lines.push_str(&pasted::rest().await?);
            }
            lines.truncate(lines.trim_end().len());
            return Ok(Some(lines));
        }
        lines.clear();
        if is_terminal {
            output::to_stderr(PROMPT);
        }
    }
    Ok(Some(lines).filter(|lines| !lines.trim().is_empty()))
}

impl Chat {
    async fn begin(flags: Connection, variables: Variables) -> Result<Self, AskError> {
        let named = flags.named()?;
        let Server { client, key, model } = flags.open(named.as_ref(), &variables).await?;
        let session = flags.session.clone().unwrap_or_else(|| {
            let id = Uuid::new_v4().simple().to_string();
            format!("chat-{}", &id[..12])
        });
        Ok(Self { flags, variables, client: Arc::new(client), key, model, session })
    }

    /// Asks one question, and shows its answer. Returns the status that `ask` would end with.
    async fn ask(&self, prompt: String, signals: &mut Signals) -> io::Result<Next<u8>> {
        let (model, session) = (self.model.clone(), Some(self.session.clone()));
        let question = Question { model, prompt, session };
        let mut screen = Screen::open(self.flags.quiet, &self.variables)?;
        let awaits_reply = screen.awaits_reply();
        let client = Arc::clone(&self.client);
        // Dropping the set cancels the request: the connection is closed.
        let mut asking = JoinSet::new();
        asking.spawn(async move {
            let outcome = converse(&client, question, &mut screen).await;
            let ended = screen.end_answer().map_err(AskError::from);
            outcome.and(ended)
        });
        let stopped = tokio::select! {
            biased;
            Some(answered) = asking.join_next() => {
                let outcome = answered?.map_err(|error| error.without_key(self.key.as_ref()));
                return Ok(match outcome {
                    Ok(()) => Next::Is(0),
                    Err(error) if error.kind == ErrorKind::ReaderGone => Next::Exit(READER_GONE),
                    Err(error) => Next::Is(report(&error)),
                });
            }
            _ = signals.interrupt.recv() => INTERRUPTED,
            _ = signals.terminate.recv() => TERMINATED,
            Ok(()) = &mut signals.reader_gone => return Ok(Next::Exit(READER_GONE)),
        };
        if awaits_reply.load(Ordering::Relaxed) {
            // A thread waits for the reply, and would take the next question for it.
            output::to_stderr("\ntoolhand: interrupted; the turn still waits for your answer\n");
            return Ok(Next::Exit(stopped));
        }
        drop(asking);
        output::to_stderr("\ntoolhand: interrupted; the turn is cancelled\n");
        Ok(if stopped == INTERRUPTED { Next::Is(stopped) } else { Next::Exit(stopped) })
    }

    /// Says how the chat can go on.
    fn end(&self, is_terminal: bool, status: u8) -> u8 {
        if is_terminal && !self.flags.quiet {
            output::to_stderr(&format!("\ntoolhand chat -s {} goes on here\n", self.session));
        }
        status
    }
}

impl Signals {
    async fn until<T>(&mut self, wait: impl Future<Output = T>) -> Next<T> {
        tokio::select! {
            biased;
            done = wait => Next::Is(done),
            _ = self.interrupt.recv() => Next::Exit(INTERRUPTED),
            _ = self.terminate.recv() => Next::Exit(TERMINATED),
        }
    }
}
