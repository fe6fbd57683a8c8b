//! Reads the text of PDF files.

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{ConversionError, in_memory};
use crate::blocking::DOCUMENTS;
use crate::processes::worker::{Answer, WorkerEnd, Workers};

mod beginning;
#[cfg(feature = "pdf")]
mod encryption;
#[cfg(feature = "pdf")]
mod extraction;

pub(crate) use self::beginning::{FIRST_BYTES, is_document};
#[cfg(feature = "pdf")]
pub(super) use self::extraction::extract_if_asked;

/// The worker's task. Its arguments are the first and the last page, or none for all pages.
pub(crate) const TASK: &str = "pdf";

/// The largest file that is read.
pub(crate) const MAX_FILE_BYTES: u64 = 100_000_000;

/// A document of more pages is read in parts: the caller says which.
pub(crate) const MAX_UNASKED_PAGES: usize = 10;

/// The most characters of one page. A page of print has three thousand.
#[cfg(feature = "pdf")]
const MAX_PAGE_CHARS: usize = 100_000;

/// A line of the worker's answer.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// How many pages the document has. Comes first.
    Pages(usize),
    /// The text of one page, counted from 1.
    Page { number: usize, text: String, is_cut: bool },
    /// A page whose text cannot be read, and why.
    BadPage { number: usize, reason: String },
    /// It opens only with a password.
    Locked,
    /// It is encrypted in this way, which the reader does not know.
    UnknownEncryption(String),
    /// It cannot be read at all.
    Broken(String),
    /// This process could not be confined, and has read nothing.
    Unconfined(String),
}

/// The lines of an answer. One that was cut off is left out.
pub(crate) fn reports(output: &[u8]) -> Vec<Report> {
    output
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

/// The text of page `wanted` of `total` under its title. `None` if the worker has not come so far.
pub(crate) fn page_text(reports: &[Report], wanted: usize, total: usize) -> Option<String> {
    let text = reports.iter().find_map(|report| match report {
        Report::Page { number, text, is_cut } if *number == wanted => Some(match text.trim() {
            "" => "(this page has no text; it may be a scan)".to_owned(),
            text if *is_cut => format!("{text}\n(this page has more text, which is cut)"),
            text => text.to_owned(),
        }),
        Report::BadPage { number, reason } if *number == wanted => {
            Some(format!("(the text of this page could not be read: {reason})"))
        }
        _ => None,
    })?;
    // Fonts without a table of characters yield them.
    let text = text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "");
    Some(format!("Page {wanted} of {total}\n{text}\n"))
}

/// Why a worker has not told more.
pub(crate) fn fault(end: WorkerEnd) -> &'static str {
    match end {
        WorkerEnd::InOrder => "the PDF reader returned nothing",
        WorkerEnd::TimedOut => "it took too long",
        WorkerEnd::TooMuchOutput => "it has too much text",
        WorkerEnd::BrokeDown => "its reader crashed or ran out of memory",
        WorkerEnd::Cancelled => "it was interrupted",
    }
}

/// The most pages of a document that is read from its beginning.
const MAX_FIRST_PAGES: usize = 20;

/// The beginning of a document.
#[derive(Debug)]
pub(crate) struct FirstPages {
    pub(crate) text: String,
    /// What is not there of it, in a sentence.
    pub(crate) note: Option<String>,
}

/// The first pages of a document that was fetched.
pub(crate) async fn first_pages(
    workers: &Workers,
    document: &[u8],
    cancelled: &CancellationToken,
) -> Result<FirstPages, ConversionError> {
    let failed = |error: &dyn std::fmt::Display| ConversionError::NotStarted(error.to_string());
    if !cfg!(feature = "pdf") {
        return Err(failed(&"this server was built without a reader of PDF"));
    }
    let input = in_memory(document).map_err(|error| failed(&error))?;
    // Held until the worker has ended.
    let _slot = DOCUMENTS.enter().await.map_err(|error| failed(&error))?;
    let pages = [1.to_string(), MAX_FIRST_PAGES.to_string()];
    let answer = workers.run(TASK, &pages, input, cancelled).await;
    let answer = answer.map_err(|error| failed(&error))?;
    if answer.end == WorkerEnd::Cancelled {
        return Err(ConversionError::Cancelled);
    }
    text_of(&answer).map_err(ConversionError::Unreadable)
}

fn text_of(answer: &Answer) -> Result<FirstPages, String> {
    let reports = reports(&answer.output);
    let total = match reports.first() {
        Some(Report::Pages(total)) => *total,
        Some(Report::Locked) => {
            return Err("it is encrypted, and opens only with a password".into());
        }
        Some(Report::UnknownEncryption(how)) => return Err(format!("it is encrypted, by {how}")),
        Some(Report::Broken(_)) => return Err("it is damaged".into()),
        _ => return Err(fault(answer.end).into()),
    };
    let texts = (1..=total.min(MAX_FIRST_PAGES)).map_while(|n| page_text(&reports, n, total));
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() && total > 0 {
        return Err(fault(answer.end).into());
    }
    let shown = texts.len();
    let note = match total {
        0 => Some("(the document has no pages)".to_owned()),
        _ if shown < total => Some(format!("(pages {} to {total} were not read)", shown + 1)),
        _ => None,
    };
    Ok(FirstPages { text: texts.join("\n"), note })
}
