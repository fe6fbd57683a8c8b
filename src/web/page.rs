//! Reads a body as the text of a page.

use reqwest::StatusCode;
use tokio_util::sync::CancellationToken;

use super::content::Kind;
use super::fetch_error::FetchError;
use super::fetcher::FetchedBody;
use crate::documents::html::{LeftOut, Markdown, NamedAddresses};
use crate::documents::{ConversionError, html, pdf};
use crate::page_url::PageUrl;
use crate::processes::worker::Workers;
use crate::text;

/// The text of a page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Where it stood in the end.
    pub(crate) url: PageUrl,
    pub(crate) status: StatusCode,
    pub(crate) content_type: String,
    /// Bytes as they were sent.
    pub(crate) bytes: usize,
    pub(crate) title: String,
    pub(crate) text: String,
    /// Other addresses that the page names.
    pub(crate) addresses: NamedAddresses,
    /// What is not there of the page, each in a sentence.
    pub(crate) notes: Vec<String>,
}

impl Page {
    /// What the page takes in a cache.
    pub(super) fn size(&self) -> usize {
        let NamedAddresses { leads_to, canonical } = &self.addresses;
        let addresses = [leads_to, canonical].into_iter().flatten().map(String::len).sum::<usize>();
        let url = self.url.url().as_str().len();
        size_of::<Self>() + self.text.len() + self.title.len() + url + addresses
    }
}

/// What is read of a body.
#[derive(Debug, Default)]
struct PageText {
    title: String,
    text: String,
    addresses: NamedAddresses,
    notes: Vec<String>,
}

/// Reads the body of a page. A worker ends when the future is dropped.
pub(super) async fn read(body: FetchedBody, workers: &Workers) -> Result<Page, FetchError> {
    let PageText { title, text, addresses, notes } = match text_of(&body, workers).await {
        Ok(text) => text,
        // An error is told by its status, with or without a text.
        Err(_) if !body.status.is_success() => PageText::default(),
        Err(error) => return Err(error),
    };
    let FetchedBody { url, status, content_type, addresses: of_head, sent, .. } = body;
    let content_type = content_type.essence;
    let addresses = of_head.or(addresses);
    Ok(Page { url, status, content_type, bytes: sent, title, text, addresses, notes })
}

async fn text_of(body: &FetchedBody, workers: &Workers) -> Result<PageText, FetchError> {
    // Several calls may wait for the page, so that no one of them can cancel it.
    let cancelled = &CancellationToken::new();
    let FetchedBody { url, content_type, bytes, .. } = body;
    let kind = content_type.kind(bytes)?;
    match kind {
        Kind::Text => {
            let text = text::without_hidden(&content_type.decode(bytes, kind)?).into_owned();
            Ok(PageText { text, ..PageText::default() })
        }
        Kind::Html => {
            let source = content_type.decode(bytes, kind)?;
            let (url, syntax) = (url.url().as_str(), content_type.syntax());
            let markdown = html::convert(workers, &source, url, syntax, cancelled);
            let markdown = markdown.await.map_err(not_converted)?;
            Ok(PageText::of(markdown))
        }
        Kind::Pdf => {
            let pages = pdf::first_pages(workers, bytes, cancelled).await;
            let pages = pages.map_err(not_converted)?;
            let text = text::without_hidden(&pages.text).into_owned();
            let notes = pages.note.into_iter().collect();
            Ok(PageText { text, notes, ..PageText::default() })
        }
    }
}

impl PageText {
    fn of(markdown: Markdown) -> Self {
        let Markdown { title, text, is_cut, left_out, addresses } = markdown;
        let mut notes = Vec::new();
        if is_cut {
            let most = html::MAX_HTML_BYTES / 1_000_000;
            notes.push(format!("(of the page only the first {most} MB were read)"));
        }
        if let Some(LeftOut { chars, of }) = left_out {
            notes.push(format!(
                "(this is the article of the page; {chars} of its {of} characters, around the \
                 article, are left out)"
            ));
        }
        Self { title, text, addresses, notes }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn not_converted(error: ConversionError) -> FetchError {
    FetchError::Document(error.to_string())
}
