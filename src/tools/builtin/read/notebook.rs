//! Shows the cells of a notebook with their outputs.

mod outputs;

use std::borrow::Cow;
use std::path::Path;

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

use self::outputs::Pictures;
use super::blocks::{Blocks, Unit};
use super::media::Media;
use super::render;
use crate::files::notebook::{Notebook, as_json};
use crate::files::page::Wanted;
use crate::json;
use crate::openai::chunk::surrogates;
use crate::text;
use crate::tools::tool::{CallContext, ToolError, ToolOutput};

const CELLS: Unit =
    Unit { one: "cell", many: "cells", go_on: |next, _| format!("go on with offset {next}") };

/// The longest name of a type that is shown.
const MAX_TYPE_BYTES: usize = 60;

/// Why the cells of a file are not shown.
#[derive(Debug)]
pub(super) enum NotShown {
    /// It has none that could be edited, so it is text. Says why.
    IsText(String),
    Failed(ToolError),
}

impl From<ToolError> for NotShown {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

pub(super) async fn read(
    media: Media,
    wanted: Wanted,
    context: &CallContext,
) -> Result<ToolOutput, NotShown> {
    let max_chars = context.max_chars.unwrap_or(render::MAX_CHARS);
    media.with_contents(context, move |path, bytes| show(path, &bytes, wanted, max_chars)).await
}

fn show(
    path: &Path,
    bytes: &Bytes,
    wanted: Wanted,
    max_chars: usize,
) -> Result<ToolOutput, NotShown> {
    let name = path.display().to_string();
    let json = as_json(bytes);
    let notebook = Notebook::parse(&json).map_err(|error| NotShown::IsText(error.to_string()))?;
    let total = notebook.cells.len();
    let first = usize::try_from(wanted.first).unwrap_or(usize::MAX);
    if total > 0 && first > total {
        return Err(ToolError::Failed(format!(
            "offset {first} is past the end of {name}, which has {total} cell{}",
            if total == 1 { "" } else { "s" }
        ))
        .into());
    }
    let limit = usize::try_from(wanted.lines).unwrap_or(usize::MAX);
    let mut blocks = Blocks::new(CELLS, first, total, max_chars);
    let mut pictures = Pictures::of(&name);
    for index in (first - 1..total).take(limit) {
        let room = blocks.room();
        let kept = pictures.count();
        let shown = shown(&notebook, index, room, &mut pictures);
        if !blocks.takes(&shown) {
            pictures.forget_after(kept);
            break;
        }
        blocks.add(&shown);
    }
    let count = blocks.count();
    let text = if total == 0 { format!("{name} has no cells.").into() } else { blocks.into_text() };
    let structured = json!({
        "file_path": path.to_string_lossy(),
        "start_cell": first,
        "num_cells": count,
        "total_cells": total,
    });
    let pictures = pictures.into_list();
    Ok(ToolOutput { pictures, ..ToolOutput::text(text).with(structured) })
}

/// A cell with its outputs, not much longer than `room` characters.
fn shown(
    notebook: &Notebook<'_>,
    index: usize,
    room: usize,
    pictures: &mut Pictures<'_>,
) -> String {
    let cell = &notebook.cells[index];
    let Some(members) = cell.members() else { return String::new() };
    let kind = members.string("cell_type");
    let kind = kind.as_deref().unwrap_or("no type");
    let number = index + 1;
    let id = notebook.name_of(index);
    let id = id.map_or_else(|| "no id".to_owned(), |id| format!("id {id}"));
    let count = members.get("execution_count").and_then(json::number);
    let count = count.map(|count| format!(", run {count}")).unwrap_or_default();
    let (total, kind) = (notebook.cells.len(), brief(kind));
    let mut text = format!("=== cell {number} of {total}: {id}, {kind}{count} ===\n");
    if let Some(source) = members.get("source") {
        text.push_str(&joined(source, room));
    }
    if let Some(list) = members.get("outputs") {
        outputs::show(list, number, room, &mut text, pictures);
    }
    text
}

/// The text of a member that is a string, or a list of strings. No more of it than `max_chars`
/// tells that it is longer.
fn joined(value: &RawValue, max_chars: usize) -> String {
    let mut text = String::new();
    let mut room = max_chars + 1;
    each_piece(value, |piece| {
        let piece = text::first_chars(piece, room);
        room -= piece.chars().count();
        text.push_str(piece);
        room > 0
    });
    text
}

/// Passes the strings of a text on, until `take` returns `false`.
fn each_piece(value: &RawValue, mut take: impl FnMut(&str) -> bool) {
    let mut pass = |piece: &RawValue| {
        // Half of a surrogate pair is JSON, but no text.
        let whole = json::string(piece).or_else(|| {
            serde_json::from_str::<String>(&surrogates::repaired(piece.get())).ok().map(Cow::Owned)
        });
        take(whole.as_deref().unwrap_or("\u{fffd}"))
    };
    if json::kind(value) == json::Kind::String {
        pass(value);
        return;
    }
    let each = |piece: &RawValue| if pass(piece) { Ok(()) } else { Err(()) };
    _ = json::for_each_item(value, each);
}

/// A word of the file in one line.
fn brief(word: &str) -> String {
    text::shortened(&text::printable(word.as_bytes()), MAX_TYPE_BYTES).into_owned()
}
