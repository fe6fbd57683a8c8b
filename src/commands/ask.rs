//! Runs `toolhand ask`: sends one question to the running server, and shows the answer as
//! it comes.

mod answer;
mod asked;
mod chat;
mod client;
mod control_characters;
mod error;
mod markdown;
mod output;
mod pasted;
mod progress;
mod prompt;
mod reply;
mod screen;
mod stream;
mod target;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use reqwest::Url;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use self::answer::{Ending, Waiting};
pub(crate) use self::chat::Flags as ChatFlags;
use self::client::{Client, Question};
use self::error::{AskError, ErrorKind};
use self::reply::Expected;
use self::screen::Screen;
use super::signals::{INTERRUPTED, TERMINATED};
use super::{Failure, print_error};
use crate::config::environment::Variables;
use crate::secret::Secret;

/// The exit status of a program that SIGPIPE ended: 128 and its number.
const READER_GONE: u8 = 128 + 13;

/// One thread may wait for a slow reader of stdout. The other drives the connection.
const THREADS: usize = 2;

const AFTER_HELP: &str = "\
The answer goes to stdout as it comes, progress and errors to stderr. On a terminal, control
characters in the answer are shown (\\x1b), not sent; into a pipe the text goes as it is.

Without --server the question goes to the server that `toolhand up` or `toolhand serve` has
started. It is found in the state directory (TOOLHAND_STATE_DIR, server.state_dir of the
configuration file, or ~/.local/share/toolhand), and so is its key. Another server gets a key
only from --key-file or TOOLHAND_API_KEY.

When the model needs your approval or asks a question, it is shown on stderr and your reply is
read from the terminal: a choice (1, yes, always, no), an option or your own words. Several
questions take a line each; several approvals take one choice for all of them, or a line with
its code and a choice for each. Without a terminal nothing is approved: the turn waits, and
--session continues it with your reply, which begins with the code of the question.

Exit status:
    0  the model finished its answer
    1  the question failed
    2  the command line or the prompt is wrong
    3  the turn waits for an answer of yours, and the question is on stderr
    4  a limit cut the answer off
    5  the model refused, or a content filter stopped it
    6  no server runs
  130  Ctrl-C, which cancels the turn
  141  the reader of stdout closed it (| head), which cancels the turn too";

/// The flags of `ask`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Flags {
    /// The question; - reads it from stdin. What is piped into stdin is appended to it,
    /// after an empty line
    #[arg(value_name = "PROMPT")]
    prompt: OsString,
    #[command(flatten)]
    connection: Connection,
    /// Print the whole answer as JSON when it is there; a failure is an error object
    #[arg(long)]
    json: bool,
}

/// The flags that say which server is asked, and how.
#[derive(Clone, Debug, Args)]
struct Connection {
    /// The model [default: the one that `toolhand up` names, else the first of the server's list]
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// The session to continue, by a name of yours or the server's id; a new one if there
    /// is none
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
    #[arg(
        long,
        value_name = "URL",
        help = "Another server, such as http://127.0.0.1:8787 (with or without /v1)"
    )]
    server: Option<String>,
    #[arg(
        long,
        value_name = "FILE",
        help = "File with the client key [default: TOOLHAND_API_KEY, else api-key in the state \
                directory]"
    )]
    key_file: Option<PathBuf>,
    /// No progress on stderr
    #[arg(short, long)]
    quiet: bool,
}

/// The server that is asked, and how.
struct Server {
    client: Client,
    key: Option<Secret>,
    model: String,
}

pub(crate) fn run(flags: &Flags, variables: Variables) -> Result<ExitCode, Failure> {
    let screen = Screen::open(flags.connection.quiet, &variables)?;
    run_to_status(until_stopped(flags.clone(), variables, screen))
}

pub(crate) fn run_chat(flags: &ChatFlags, variables: Variables) -> Result<ExitCode, Failure> {
    let talk = chat::talk(flags.clone(), variables);
    run_to_status(async { Ok(talk.await?) })
}

/// Runs `work`, which returns the exit status.
fn run_to_status(work: impl Future<Output = Result<u8, Failure>>) -> Result<ExitCode, Failure> {
    let runtime =
        runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let outcome = runtime.block_on(work);
    // A thread that still blocks must not delay the exit.
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}

/// Asks until the answer is there, a signal comes, or the reader of stdout leaves. Returns
/// the exit status.
async fn until_stopped(flags: Flags, variables: Variables, screen: Screen) -> Result<u8, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let reader_gone = output::reader_gone()?;
    let is_terminal = screen.is_on_terminal();
    let awaits_reply = screen.awaits_reply();
    let is_over = Arc::new(AtomicBool::new(false));
    let stopped = |status: u8| {
        is_over.store(true, Ordering::Relaxed);
        // The cursor may stand behind a spinner or in the middle of the answer.
        let line_break = if is_terminal { "\n" } else { "" };
        let turn = if awaits_reply.load(Ordering::Relaxed) {
            "the turn still waits for your answer"
        } else {
            "the turn is cancelled"
        };
        output::to_stderr(&format!("{line_break}toolhand: interrupted; {turn}\n"));
        Ok(status)
    };
    // Dropping the set cancels the request: the connection is closed.
    let mut asking = JoinSet::new();
    asking.spawn(ask_and_report(flags, variables, screen, Arc::clone(&is_over)));
    tokio::select! {
        biased;
        Some(status) = asking.join_next() => Ok(status?),
        _ = interrupt.recv() => stopped(INTERRUPTED),
        _ = terminate.recv() => stopped(TERMINATED),
        Ok(()) = reader_gone => {
            is_over.store(true, Ordering::Relaxed);
            Ok(READER_GONE)
        }
    }
}

/// Asks, and reports a failure. Returns the exit status. When it `is_over`, the end of the
/// connection is no failure, though this may see it before it is aborted.
async fn ask_and_report(
    flags: Flags,
    variables: Variables,
    mut screen: Screen,
    is_over: Arc<AtomicBool>,
) -> u8 {
    let outcome = ask(&flags, &variables, &mut screen).await;
    let ended = screen.end();
    let error = match (outcome, ended) {
        (Ok(()), Ok(())) => return 0,
        (Err(error), _) => error,
        (Ok(()), Err(error)) => error.into(),
    };
    if error.kind == ErrorKind::ReaderGone {
        return READER_GONE;
    }
    if is_over.load(Ordering::Relaxed) {
        return error.kind.exit_status();
    }
    if flags.json && error.is_unreported() {
        // If stdout cannot be written, the sentence on stderr remains.
        _ = screen.print(&error.object());
    }
    report(&error)
}

async fn ask(flags: &Flags, variables: &Variables, screen: &mut Screen) -> Result<(), AskError> {
    let connection = &flags.connection;
    let named = connection.named()?;
    let prompt = prompt::read(&flags.prompt).await?;
    let Server { client, key, model } = connection.open(named.as_ref(), variables).await?;
    let question = Question { model, prompt, session: connection.session.clone() };
    let asked = if flags.json {
        ask_whole(&client, &question, screen).await
    } else {
        converse(&client, question, screen).await
    };
    asked.map_err(|error| error.without_key(key.as_ref()))
}

impl Connection {
    /// The server that is named.
    fn named(&self) -> Result<Option<Url>, AskError> {
        self.server.as_deref().map(target::base_url).transpose()
    }

    /// Finds the server and its model. Asks it, unless the model is known.
    async fn open(&self, named: Option<&Url>, variables: &Variables) -> Result<Server, AskError> {
        let target = target::find(named, self.key_file.as_deref(), variables)?;
        let client = Client::new(&target)?;
        let key = target.key;
        let model = match self.model.clone().or(target.model) {
            Some(model) => model,
            None => client.first_model().await.map_err(|error| error.without_key(key.as_ref()))?,
        };
        Ok(Server { client, key, model })
    }
}

/// Prints the error, unless it is that nobody reads. Returns its exit status.
fn report(error: &AskError) -> u8 {
    if error.kind == ErrorKind::ReaderGone {
        return READER_GONE;
    }
    print_error(&error.sentence());
    error.kind.exit_status()
}

/// Prints the answer as it came. Nobody is asked: a program reads it.
async fn ask_whole(
    client: &Client,
    question: &Question,
    screen: &mut Screen,
) -> Result<(), AskError> {
    let (body, outcome) = screen.during(client.whole_answer(question)).await?;
    screen.print(&body)?;
    match outcome.ending {
        Ending::Stopped => Ok(()),
        Ending::Suspended(waiting) => {
            screen.question(&waiting.question);
            screen.end_question();
            Err(suspended(outcome.session.as_deref(), &waiting.expected))
        }
        ending => Err(ending.into_error()),
    }
}

/// Asks, and goes on with the person's replies while the turn waits for one.
async fn converse(
    client: &Client,
    mut question: Question,
    screen: &mut Screen,
) -> Result<(), AskError> {
    loop {
        let outcome = client.stream_answer(&question, screen).await?;
        let Waiting { question: asked, expected } = match outcome.ending {
            Ending::Stopped => return Ok(()),
            Ending::Suspended(waiting) => waiting,
            ending => return Err(ending.into_error()),
        };
        screen.question(&asked);
        screen.end_question();
        let session = outcome.session.or(question.session);
        // Without the session a reply would be a question of its own.
        let reply = match session {
            Some(_) if screen.can_ask() => reply_at(screen, expected.clone()).await?,
            _ => None,
        };
        let Some(reply) = reply else { return Err(suspended(session.as_deref(), &expected)) };
        screen.next_part();
        question = Question { prompt: reply, session, ..question };
    }
}

async fn reply_at(screen: &mut Screen, expected: Expected) -> Result<Option<String>, AskError> {
    let awaits_reply = screen.awaits_reply();
    awaits_reply.store(true, Ordering::Relaxed);
    let reply = reply::read(expected).await;
    awaits_reply.store(false, Ordering::Relaxed);
    reply
}

/// The turn waits for a reply that did not come.
fn suspended(session: Option<&str>, expected: &Expected) -> AskError {
    let how = match session {
        Some(session) => {
            format!("reply with `toolhand ask --session {session} {}`", expected.example())
        }
        None => "the server does not name the session".to_owned(),
    };
    let message = format!("the turn waits for your answer: {how}");
    AskError::about_answer(ErrorKind::Suspended, message)
}

impl From<io::Error> for AskError {
    /// From a failed write to stdout.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(ErrorKind::ReaderGone, "stdout is closed"),
            _ => Self::new(ErrorKind::Output, format!("the answer cannot be written: {error}")),
        }
    }
}
