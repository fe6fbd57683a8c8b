//! Turns HTML pages into Markdown.

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub(crate) use self::addresses::NamedAddresses;
pub(crate) use self::article::LeftOut;
pub(crate) use self::conversion::convert_if_asked;
pub(crate) use self::parsing::Syntax;
use super::{ConversionError, in_memory};
use crate::blocking::DOCUMENTS;
use crate::processes::worker::{WorkerEnd, Workers};
use crate::text;

mod addresses;
mod article;
mod cleaning;
mod conversion;
mod parsing;
mod tables;
mod unseen;

/// The worker's task. Its arguments are the URL of the page and its syntax.
const TASK: &str = "html";

/// The most bytes of HTML that are parsed.
pub(crate) const MAX_HTML_BYTES: usize = 4_000_000;

/// The Markdown of a page, as the worker answers it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Markdown {
    pub(crate) title: String,
    pub(crate) text: String,
    /// Whether the page was too long to be parsed whole.
    pub(crate) is_cut: bool,
    /// The part that is not shown, of a page that is shown as its article.
    pub(crate) left_out: Option<LeftOut>,
    pub(crate) addresses: NamedAddresses,
}

/// Converts `html` in a worker. Links are resolved against `url`.
pub(crate) async fn convert(
    workers: &Workers,
    html: &str,
    url: &str,
    syntax: Syntax,
    cancelled: &CancellationToken,
) -> Result<Markdown, ConversionError> {
    let not_started =
        |error: &dyn std::fmt::Display| ConversionError::NotStarted(error.to_string());
    let parsed = text::prefix(html, MAX_HTML_BYTES);
    let input = in_memory(parsed.as_bytes()).map_err(|error| not_started(&error))?;
    let arguments = [url.to_owned(), syntax.as_argument().to_owned()];
    // Held until the worker has ended.
    let _slot = DOCUMENTS.enter().await.map_err(|error| not_started(&error))?;
    let answer = workers.run(TASK, &arguments, input, cancelled).await;
    let answer = answer.map_err(|error| not_started(&error))?;
    match answer.end {
        WorkerEnd::InOrder => {}
        WorkerEnd::Cancelled => return Err(ConversionError::Cancelled),
        WorkerEnd::TimedOut => return Err(ConversionError::TimedOut),
        WorkerEnd::TooMuchOutput => return Err(ConversionError::TooMuch),
        WorkerEnd::BrokeDown => return Err(ConversionError::BrokeDown),
    }
    let markdown: Markdown =
        serde_json::from_slice(&answer.output).map_err(|_| ConversionError::BrokeDown)?;
    Ok(Markdown { is_cut: parsed.len() < html.len(), ..markdown })
}
