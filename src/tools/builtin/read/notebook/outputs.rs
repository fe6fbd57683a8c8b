//! Shows the outputs of a code cell, and takes the pictures among them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::{brief, each_piece};
use crate::json::{self, Object};
use crate::processes::CommandOutput;
use crate::tools::answer::IMAGE_ATTACHED;
use crate::tools::picture::{self, DecodingTime};
use crate::tools::tool::{Picture, PictureFormat};

/// A longer output is cut.
const MAX_OUTPUT_CHARS: usize = 10_000;

/// The most pictures of one answer. A round has no more.
const MAX_PICTURES: usize = 20;

/// Of an output in several forms the first of these is shown, besides its picture.
const TEXTS: [&str; 6] =
    ["text/plain", "text/markdown", "text/latex", "text/html", "image/svg+xml", "application/json"];

const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The pictures of an answer.
#[derive(Debug)]
pub(super) struct Pictures<'a> {
    notebook: &'a str,
    list: Vec<Picture>,
    /// Those that cannot be shown take their time as well.
    attempts: usize,
    /// What all of them have together.
    time: DecodingTime,
}

impl<'a> Pictures<'a> {
    pub(super) fn of(notebook: &'a str) -> Self {
        Self { notebook, list: Vec::new(), attempts: 0, time: DecodingTime::of_a_call() }
    }

    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    pub(super) fn forget_after(&mut self, count: usize) {
        self.list.truncate(count);
    }

    pub(super) fn into_list(self) -> Vec<Picture> {
        self.list
    }

    /// Attaches a picture of a cell, and says what became of it.
    fn attach(&mut self, cell: usize, data: &RawValue) -> String {
        if self.attempts == MAX_PICTURES {
            return format!("(image not attached: one answer has at most {MAX_PICTURES})");
        }
        self.attempts += 1;
        match self.decoded(cell, data) {
            Ok(note) => format!("{IMAGE_ATTACHED} {note}"),
            Err(reason) => format!("(image not attached: {reason})"),
        }
    }

    fn decoded(&mut self, cell: usize, data: &RawValue) -> Result<String, String> {
        let mut text = String::new();
        each_piece(data, |piece| {
            text.extend(piece.chars().filter(|c| !c.is_ascii_whitespace()));
            true
        });
        let bytes = STANDARD.decode(text).map_err(|_| "its data is not base64".to_owned())?;
        let format = PictureFormat::recognise(&bytes)
            .ok_or_else(|| "its data is not a picture in a supported format".to_owned())?;
        let prepared = picture::prepare(bytes.into(), format, self.time);
        let prepared = prepared.map_err(|error| error.to_string())?;
        let note = prepared.described(format);
        self.list.push(prepared.attached(format!("{}, cell {cell}", self.notebook)));
        Ok(note)
    }
}

/// Adds the outputs of a cell to `text`, until that is longer than `room` characters.
pub(super) fn show(
    list: &RawValue,
    cell: usize,
    room: usize,
    text: &mut String,
    pictures: &mut Pictures<'_>,
) {
    _ = json::for_each_item(list, |output| {
        // No character has more than four bytes.
        if text.len() > room.saturating_mul(4) {
            return Err(());
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let shown = Object::from_raw(output).map(|output| one(&output, cell, pictures));
        text.push_str(&shown.unwrap_or_else(|| "--- output that cannot be read ---".to_owned()));
        Ok(())
    });
}

fn one(output: &Object<'_>, cell: usize, pictures: &mut Pictures<'_>) -> String {
    let kind = output.string("output_type");
    match kind.as_deref() {
        Some("stream") => {
            let name = output.string("name");
            let name = brief(name.as_deref().unwrap_or("stream"));
            titled(&name, &output.get("text").map(cut).unwrap_or_default())
        }
        Some("error") => titled("error", &error(output)),
        _ => match output.get("data").and_then(Object::from_raw) {
            Some(data) => bundle(&data, cell, pictures),
            None => titled(&brief(kind.as_deref().unwrap_or("no type")), ""),
        },
    }
}

fn titled(title: &str, text: &str) -> String {
    format!("--- output: {title} ---\n{text}")
}

/// An output in several forms.
fn bundle(data: &Object<'_>, cell: usize, pictures: &mut Pictures<'_>) -> String {
    let mut parts = Vec::new();
    if let Some((_, picture)) = first_of(data, &PICTURES) {
        parts.push(pictures.attach(cell, picture));
    }
    match first_of(data, &TEXTS) {
        Some((name, text)) => {
            parts.push(cut(text));
            titled(name, &parts.join("\n"))
        }
        None if parts.is_empty() => {
            let names: Vec<_> = data.keys().take(5).map(brief).collect();
            titled(&names.join(", "), "(not shown)")
        }
        None => titled("image", &parts.join("\n")),
    }
}

fn first_of<'a>(data: &Object<'a>, names: &[&'static str]) -> Option<(&'static str, &'a RawValue)> {
    names.iter().find_map(|name| data.get(name).map(|value| (*name, value)))
}

/// The traceback, which ends with the error, or the error alone.
fn error(output: &Object<'_>) -> String {
    let capture = CommandOutput::for_text(MAX_OUTPUT_CHARS);
    let mut is_empty = true;
    if let Some(lines) = output.get("traceback") {
        each_piece(lines, |line| {
            capture.push(line.as_bytes());
            capture.push(b"\n");
            is_empty = false;
            true
        });
    }
    if is_empty {
        let part = |name| output.string(name).unwrap_or_default();
        capture.push(format!("{}: {}", part("ename"), part("evalue")).as_bytes());
    }
    rendered(&capture)
}

/// A text without escape sequences, cut if it is too long.
fn cut(value: &RawValue) -> String {
    let capture = CommandOutput::for_text(MAX_OUTPUT_CHARS);
    match json::kind(value) {
        json::Kind::String | json::Kind::Array => each_piece(value, |piece| {
            capture.push(piece.as_bytes());
            true
        }),
        _ => capture.push(value.get().as_bytes()),
    }
    rendered(&capture)
}

fn rendered(capture: &CommandOutput) -> String {
    capture.finish();
    let hint = format!("outputs over {MAX_OUTPUT_CHARS} characters are cut");
    capture.render(MAX_OUTPUT_CHARS, &hint)
}
