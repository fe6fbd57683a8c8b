//! Shows the text of a PDF file, page by page.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::blocks::{Blocks, Unit};
use super::media::{Media, could_not_read};
use super::render;
use crate::blocking::DOCUMENTS;
use crate::documents::pdf::{
    MAX_FILE_BYTES, MAX_UNASKED_PAGES, Report, TASK, fault, page_text, reports,
};
use crate::processes::worker::{WorkerEnd, Workers};
use crate::tools::tool::{CallContext, ToolError, ToolOutput};

/// The most pages of one call. Their text fills an answer.
const MAX_PAGES: usize = 20;

const PAGES: Unit = Unit {
    one: "page",
    many: "pages",
    go_on: |next, total| match total.min(next + MAX_PAGES - 1) {
        last if last == next => format!("go on with pages {next}"),
        last => format!("go on with pages {next}-{last}"),
    },
};

/// The pages that the model asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: usize,
    last: usize,
}

pub(super) async fn read(
    media: Media,
    pages: Option<&str>,
    workers: &Workers,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    if !super::HAS_PDF {
        return Err(ToolError::Failed(format!(
            "{} is a PDF document, and this server was built without a reader of those (the cargo \
             feature pdf)",
            media.path.display()
        )));
    }
    let range = pages.map(range).transpose()?;
    let (file, path, contents) = media.into_file();
    let size = file.metadata().map_err(|error| could_not_read(&shown(&path), &error))?.len();
    if size > MAX_FILE_BYTES {
        let limit = MAX_FILE_BYTES / 1_000_000;
        return Err(failed(&path, &format!("has more than {limit} MB, the most that is read")));
    }
    let is_cut_short = !has_end(&file, size);
    let arguments =
        range.map_or(Vec::new(), |Range { first, last }| vec![first.to_string(), last.to_string()]);
    // Held until the worker has ended.
    let _slot = DOCUMENTS.enter().await.map_err(ToolError::failed)?;
    let answer = workers.run(TASK, &arguments, file, &context.cancelled).await;
    let answer = answer.map_err(|error| could_not_read(&shown(&path), &error))?;
    if answer.end == WorkerEnd::Cancelled {
        return Err(ToolError::Cancelled);
    }
    let reports = reports(&answer.output);
    let document = Document { path, range, reports, end: answer.end, is_cut_short };
    let output = document.output(context.max_chars.unwrap_or(render::MAX_CHARS))?;
    contents.seen(context).await?;
    Ok(output)
}

fn range(pages: &str) -> Result<Range, ToolError> {
    let number = |text: &str| text.trim().parse().ok().filter(|page: &usize| *page > 0);
    let (first, last) = pages.split_once('-').unwrap_or((pages, pages));
    let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
    let (first, last) = range.ok_or_else(|| {
        ToolError::InvalidInput(format!(
            "pages is {pages:?}; give one page, such as \"3\", or a range, such as \"1-5\""
        ))
    })?;
    if last - first >= MAX_PAGES {
        return Err(ToolError::InvalidInput(format!(
            "pages {first}-{last} are {}; one call reads at most {MAX_PAGES}",
            (last - first).saturating_add(1)
        )));
    }
    Ok(Range { first, last })
}

/// What a worker has told of a document.
struct Document {
    path: PathBuf,
    range: Option<Range>,
    reports: Vec<Report>,
    end: WorkerEnd,
    /// Whether the file lacks its end. A reader then finds pages without their text.
    is_cut_short: bool,
}

/// Whether the file has the mark of its end, behind which only a few bytes may follow.
fn has_end(file: &File, size: u64) -> bool {
    const MARK: &[u8] = b"%%EOF";
    let mut last = vec![0; 1024];
    let read = file.read_at(&mut last, size.saturating_sub(1024)).unwrap_or(0);
    memchr::memmem::find(&last[..read], MARK).is_some()
}

impl Document {
    fn output(self, max_chars: usize) -> Result<ToolOutput, ToolError> {
        let total = self.total()?;
        let Range { first, last } = self.wanted(total)?;
        let mut blocks = Blocks::new(PAGES, first, total, max_chars);
        for number in first..=last {
            let Some(page) = self.page(number, total) else { break };
            if !blocks.takes(&page) {
                break;
            }
            blocks.add(&page);
        }
        let count = blocks.count();
        if count == 0 && total > 0 {
            return Err(failed(&self.path, &format!("could not be read: {}", self.fault())));
        }
        if self.is_cut_short && !self.has_text() {
            return Err(failed(&self.path, "is cut short or damaged: its end is missing"));
        }
        let mut text = if total == 0 {
            format!("{} has no pages.", self.path.display()).into()
        } else {
            blocks.into_text()
        };
        if self.end != WorkerEnd::InOrder && self.page(last, total).is_none() {
            text.close(format!("(further pages could not be read: {})", self.fault()));
        }
        if self.is_cut_short {
            text.close("(the end of the file is missing, and so may be pages or their text)");
        }
        Ok(ToolOutput::text(text).with(json!({
            "file_path": self.path.to_string_lossy(),
            "first_page": first,
            "num_pages": count,
            "total_pages": total,
        })))
    }

    fn has_text(&self) -> bool {
        let is_text = |report: &Report| matches!(report, Report::Page { text, .. } if !text.trim().is_empty());
        self.reports.iter().any(is_text)
    }

    /// How many pages the document has, if it can be read.
    fn total(&self) -> Result<usize, ToolError> {
        let reason = match self.reports.first() {
            Some(Report::Pages(total)) => return Ok(*total),
            Some(Report::Locked) => {
                "is encrypted, and opens only with a password; its text cannot be read".to_owned()
            }
            Some(Report::UnknownEncryption(how)) => {
                format!("is encrypted, by {how}; its text cannot be read")
            }
            Some(Report::Broken(reason)) => format!("is damaged and cannot be read: {reason}"),
            Some(Report::Unconfined(reason)) => {
                format!("was not read, since its reader could not be confined: {reason}")
            }
            _ => format!("could not be read: {}", self.fault()),
        };
        Err(failed(&self.path, &reason))
    }

    fn wanted(&self, total: usize) -> Result<Range, ToolError> {
        match self.range {
            None if total > MAX_UNASKED_PAGES => Err(failed(
                &self.path,
                &format!(
                    "has {total} pages; say which ones with pages, such as \"1-{}\", at most \
                     {MAX_PAGES} in one call",
                    total.min(MAX_PAGES)
                ),
            )),
            None => Ok(Range { first: 1, last: total }),
            Some(Range { first, .. }) if first > total => {
                let plural = if total == 1 { "" } else { "s" };
                Err(failed(
                    &self.path,
                    &format!("has {total} page{plural}; there is no page {first}"),
                ))
            }
            Some(range) => Ok(Range { last: range.last.min(total), ..range }),
        }
    }

    /// A page under its title. `None` if the worker has not come so far.
    fn page(&self, wanted: usize, total: usize) -> Option<String> {
        page_text(&self.reports, wanted, total)
    }

    /// Why the worker has not told more.
    fn fault(&self) -> &'static str {
        fault(self.end)
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn failed(path: &Path, what: &str) -> ToolError {
    ToolError::Failed(format!("{} {what}", path.display()))
}
