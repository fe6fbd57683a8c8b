//! Reads a body as the text of a page.

use reqwest::StatusCode;
use tokio_util::sync::CancellationToken;

use super::content::Kind;
use super::fetch_error::FetchError;
use super::fetcher::FetchedBody;
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
    /// What is not there of the page, in a sentence.
    pub(crate) note: Option<String>,
}

impl Page {
    /// What the page takes in a cache.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.text.len() + self.title.len() + self.url.url().as_str().len()
    }
}

pub(super) async fn read(
    body: FetchedBody,
    workers: &Workers,
    cancelled: &CancellationToken,
) -> Result<Page, FetchError> {
    let FetchedBody { url, status, content_type, bytes, sent } = body;
    let kind = content_type.kind(&bytes)?;
    let mut page = Page {
        url,
        status,
        content_type: content_type.essence.clone(),
        bytes: sent,
        title: String::new(),
        text: String::new(),
        note: None,
    };
    match kind {
        Kind::Text => {
            page.text = text::without_hidden(&content_type.decode(&bytes, kind)?).into_owned();
        }
        Kind::Html => {
            let source = content_type.decode(&bytes, kind)?;
            let markdown = html::convert(
                workers,
                &source,
                page.url.url().as_str(),
                content_type.syntax(),
                cancelled,
            );
            let markdown = markdown.await.map_err(not_converted)?;
            (page.title, page.text) = (markdown.title, markdown.text);
            page.note = markdown.is_cut.then(|| {
                format!(
                    "(of the page only the first {} MB were read)",
                    html::MAX_HTML_BYTES / 1_000_000
                )
            });
        }
        Kind::Pdf => {
            let text = pdf::first_pages(workers, &bytes, cancelled).await;
            let text = text.map_err(not_converted)?;
            page.text = text::without_hidden(&text.text).into_owned();
            page.note = text.note;
        }
    }
    Ok(page)
}

fn not_converted(error: ConversionError) -> FetchError {
    match error {
        ConversionError::Cancelled => FetchError::Cancelled,
        error => FetchError::Document(error.to_string()),
    }
}
