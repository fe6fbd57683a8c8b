//! The worker's side: finds the article of the page on standard input, and writes it as Markdown.

use std::collections::HashSet;
use std::io::{self, Read as _, Write as _};
use std::ops::RangeInclusive;
use std::process::ExitCode;

use dom_query::Document;
use url::Url;

use super::addresses::NamedAddresses;
use super::article::keep_article;
use super::parsing::{self, Syntax};
use super::{MAX_HTML_BYTES, Markdown, TASK, cleaning};
use crate::processes::worker::{self, WorkerLimits};
use crate::text;

const PRIVATE_USE: RangeInclusive<char> = '\u{f0000}'..='\u{ffffd}';

const MAX_TITLE_CHARS: usize = 500;

const LIMITS: WorkerLimits = WorkerLimits { memory_bytes: 512 << 20, cpu_seconds: 2 };

/// Converts a page if this process was started for it.
pub(crate) fn convert_if_asked() -> Option<ExitCode> {
    let arguments = worker::asked(TASK)?;
    let outcome = worker::confine_self(LIMITS).and_then(|()| answer(&arguments));
    Some(if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn answer(arguments: &[String]) -> io::Result<()> {
    let syntax = arguments.get(1).map_or(Syntax::Html, |argument| Syntax::from_argument(argument));
    let mut html = Vec::new();
    io::stdin().take(MAX_HTML_BYTES as u64).read_to_end(&mut html)?;
    let url = arguments.first().map(String::as_str);
    let markdown = markdown(&String::from_utf8_lossy(&html), url, syntax);
    let mut output = io::stdout().lock();
    output.write_all(&serde_json::to_vec(&markdown)?)?;
    output.flush()
}

fn markdown(html: &str, url: Option<&str>, syntax: Syntax) -> Markdown {
    let document = parsing::parse(html, syntax);
    let title = text::shown_line(&document.select("head > title").text());
    let base = cleaning::base(&document, url);
    let addresses = NamedAddresses::of(&document, base.as_ref(), url);
    cleaning::remove_unseen(&document);
    cleaning::split_long_texts(&document);
    let left_out = keep_article(&document, base.as_ref());
    let text = written(&document, base.as_ref());
    Markdown {
        title: text::first_chars(&title, MAX_TITLE_CHARS).to_owned(),
        text: text::without_hidden(&text).into_owned(),
        is_cut: false,
        left_out,
        addresses,
    }
}

fn written(document: &Document, base: Option<&Url>) -> String {
    let mark = unused_character(document);
    cleaning::prepare(document, base, &mark);
    document.md(None).trim().replace(&mark, "&")
}

/// A character for private use that the page does not use.
fn unused_character(document: &Document) -> String {
    let mut used = HashSet::new();
    cleaning::characters(document, |c| {
        if PRIVATE_USE.contains(&c) {
            used.insert(c);
        }
    });
    // The entity stays as it is on a page that uses them all.
    PRIVATE_USE.into_iter().find(|c| !used.contains(c)).map_or_else(|| "&".into(), String::from)
}

#[cfg(test)]
mod tests;
