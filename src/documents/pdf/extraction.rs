//! The worker's side: takes the text out of the document on standard input.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use pdf_oxide::PdfDocument;
use pdf_oxide::converters::ConversionOptions;
use pdf_oxide::error::Error;

use super::beginning;
use super::encryption;
use super::{FIRST_BYTES, MAX_FILE_BYTES, MAX_PAGE_CHARS, MAX_UNASKED_PAGES, Report, TASK};
use crate::processes::worker::{self, WorkerLimits};
use crate::text;

/// Why an encrypted page has no text.
const NOTHING_DECIPHERED: &str =
    "nothing was found in it; it is encrypted in a way that its reader gets wrong, or a scan";

/// A page of a damaged file may ask for any amount of memory.
const LIMITS: WorkerLimits = WorkerLimits { memory_bytes: 1 << 30, cpu_seconds: 30 };

/// Reads a document if this process was started for it. Must be called before this process has
/// anything that a document could reach.
pub(crate) fn extract_if_asked() -> Option<ExitCode> {
    let arguments = worker::asked(TASK)?;
    let outcome = match worker::confine_self(LIMITS) {
        Ok(()) => extract(&arguments),
        Err(error) => tell(&Report::Unconfined(error.to_string())),
    };
    Some(if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn extract(arguments: &[String]) -> io::Result<()> {
    let mut file = Vec::new();
    io::stdin().take(MAX_FILE_BYTES + 1).read_to_end(&mut file)?;
    let unknown = encryption::unknown(&file);
    let (document, pages) = match (opened_anywhere(file), unknown) {
        (Ok((document, _)), Some(how)) if document.is_encrypted() => {
            return tell(&Report::UnknownEncryption(how));
        }
        (Ok(opened), _) => opened,
        (Err(_), Some(how)) => return tell(&Report::UnknownEncryption(how)),
        (Err(Error::EncryptedPdf), None) => return tell(&Report::Locked),
        (Err(error), None) => return tell(&Report::Broken(error.to_string())),
    };
    tell(&Report::Pages(pages))?;
    let wanted = match arguments {
        [first, last] => match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) => first..=pages.min(last),
            _ => return Ok(()),
        },
        _ if pages <= MAX_UNASKED_PAGES => 1..=pages,
        _ => return Ok(()),
    };
    wanted.into_iter().try_for_each(|number| tell(&page(&document, number)))
}

/// Opens a document that may begin behind other bytes. Its offsets count from its mark, or from the
/// beginning of the file.
fn opened_anywhere(file: Vec<u8>) -> Result<(PdfDocument, usize), Error> {
    let front = beginning::offset(&file[..file.len().min(FIRST_BYTES)]).unwrap_or(0);
    if front == 0 {
        return opened(file);
    }
    match opened(file[front..].to_vec()) {
        Ok((document, pages)) if pages > 0 => Ok((document, pages)),
        _ => opened(file),
    }
}

fn opened(file: Vec<u8>) -> Result<(PdfDocument, usize), Error> {
    let document = PdfDocument::from_bytes(file)?;
    if document.is_encrypted() && !document.is_authenticated() {
        return Err(Error::EncryptedPdf);
    }
    let pages = document.page_count()?;
    Ok((document, pages))
}

fn page(document: &PdfDocument, number: usize) -> Report {
    // Other ways to the text have open endless loops.
    match document.to_plain_text(number - 1, &ConversionOptions::default()) {
        // What is deciphered wrongly has no text either.
        Ok(whole) if whole.trim().is_empty() && document.is_encrypted() => {
            Report::BadPage { number, reason: NOTHING_DECIPHERED.to_owned() }
        }
        Ok(whole) => {
            let text = text::first_chars(&whole, MAX_PAGE_CHARS).to_owned();
            Report::Page { number, is_cut: text.len() < whole.len(), text }
        }
        Err(error) => Report::BadPage { number, reason: error.to_string() },
    }
}

fn tell(report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}
