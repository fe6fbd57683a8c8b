//! Replaces, inserts or deletes one cell of a notebook. Every byte outside the cell is kept.

use std::ops::Range;

use super::style::Style;
use super::{NoSuchCell, Notebook, NotebookError, as_json, place};
use crate::json::{self, Object};

/// What is to be done with one cell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CellEdit<'a> {
    Replace {
        cell: &'a str,
        source: &'a str,
        kind: Option<CellKind>,
    },
    /// Inserts behind the cell, or before all others.
    Insert {
        after: Option<&'a str>,
        source: &'a str,
        kind: CellKind,
    },
    Delete {
        cell: &'a str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    Code,
    Markdown,
}

/// A notebook with one cell changed.
#[derive(Debug)]
pub(crate) struct Edited {
    pub(crate) bytes: Vec<u8>,
    /// The name of the cell.
    pub(crate) cell: String,
    /// Attachments went, because a code cell has none.
    pub(crate) lost_attachments: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    #[error("{0}. It is text, so use Edit")]
    Notebook(#[from] NotebookError),
    #[error("{0}")]
    Cell(#[from] NoSuchCell),
}

/// Members that code cells alone have.
const OF_CODE: [&str; 2] = ["execution_count", "outputs"];

/// The member that code cells do not have.
const ATTACHMENTS: &str = "attachments";

/// Applies the edit to the contents of a file.
pub(crate) fn edit(file: &[u8], edit: CellEdit<'_>) -> Result<Edited, EditError> {
    let json = as_json(file);
    let notebook = Notebook::parse(&json)?;
    let style = Style::of(&notebook);
    let change = match edit {
        CellEdit::Replace { cell, source, kind } => {
            replace(&notebook, &style, notebook.find(cell)?, source, kind)?
        }
        CellEdit::Insert { after, source, kind } => {
            let after = after.map(|cell| notebook.find(cell)).transpose()?;
            insert(&notebook, &style, after, source, kind)
        }
        CellEdit::Delete { cell } => delete(&notebook, notebook.find(cell)?),
    };
    let Change { span, text, cell, lost_attachments } = change;
    let mark = file.len() - notebook.text.len();
    let (before, after) = (&file[..mark + span.start], &file[mark + span.end..]);
    Ok(Edited { bytes: [before, text.as_bytes(), after].concat(), cell, lost_attachments })
}

/// A text to be put in the place of a span of the notebook.
struct Change {
    span: Range<usize>,
    text: String,
    cell: String,
    lost_attachments: bool,
}

fn replace(
    notebook: &Notebook<'_>,
    style: &Style,
    index: usize,
    source: &str,
    kind: Option<CellKind>,
) -> Result<Change, NotebookError> {
    let cell = &notebook.cells[index];
    let members = cell.members().ok_or(NotebookError::Cell(index))?;
    let kind = kind.or_else(|| kind_of(&members));
    let source = style.source(source);
    let mut set = vec![("source", source.as_str())];
    match kind {
        Some(CellKind::Code) => {
            set.extend([
                ("cell_type", r#""code""#),
                ("execution_count", "null"),
                ("outputs", "[]"),
            ]);
        }
        Some(CellKind::Markdown) => set.push(("cell_type", r#""markdown""#)),
        None => {}
    }
    let dropped: &[&str] = match kind {
        Some(CellKind::Code) => &[ATTACHMENTS],
        Some(CellKind::Markdown) => &OF_CODE,
        None => &[],
    };
    Ok(Change {
        span: notebook.span(cell.json.get()),
        text: style.cell(&changed(&members, &set, dropped)),
        cell: shown_name(notebook, index),
        lost_attachments: kind == Some(CellKind::Code) && members.get(ATTACHMENTS).is_some(),
    })
}

fn kind_of(cell: &Object<'_>) -> Option<CellKind> {
    match cell.string("cell_type").as_deref() {
        Some("code") => Some(CellKind::Code),
        Some("markdown") => Some(CellKind::Markdown),
        _ => None,
    }
}

/// The members of a cell with some set and some dropped. New ones are sorted in where the others
/// are sorted, as Jupyter sorts them.
fn changed<'a>(
    cell: &'a Object<'_>,
    set: &[(&'a str, &'a str)],
    dropped: &[&str],
) -> Vec<(&'a str, &'a str)> {
    let mut members: Vec<(&str, &str)> = Vec::new();
    for (name, value) in cell.members().filter(|(name, _)| !dropped.contains(name)) {
        match set.iter().find(|(new, _)| *new == name) {
            None => members.push((name, value.get())),
            // Of a member that stands there several times, one is left.
            Some(_) if members.iter().any(|(known, _)| *known == name) => {}
            Some(new) => members.push(*new),
        }
    }
    let is_sorted = members.is_sorted_by_key(|(name, _)| *name);
    for new in set {
        if members.iter().any(|(name, _)| *name == new.0) {
            continue;
        }
        let sorted = members.partition_point(|(name, _)| *name < new.0);
        members.insert(if is_sorted { sorted } else { members.len() }, *new);
    }
    members
}

fn insert(
    notebook: &Notebook<'_>,
    style: &Style,
    after: Option<usize>,
    source: &str,
    kind: CellKind,
) -> Change {
    let index = after.map_or(0, |after| after + 1);
    let id = notebook.has_ids.then(|| new_id(notebook, index, source));
    let cell = new_cell(style, source, kind, id.as_deref());
    let span = |index: usize| notebook.span(notebook.cells[index].json.get());
    let between = style.between();
    let (span, text) = match after {
        Some(after) => (span(after).end..span(after).end, format!("{between}{cell}")),
        None if notebook.cells.is_empty() => {
            (notebook.span(notebook.list.get()), style.list_of(&cell))
        }
        None => (span(0).start..span(0).start, format!("{cell}{between}")),
    };
    Change { span, text, cell: id.unwrap_or_else(|| place(index)), lost_attachments: false }
}

fn new_cell(style: &Style, source: &str, kind: CellKind, id: Option<&str>) -> String {
    let (source, id) = (style.source(source), id.map(json::quoted));
    let mut members = match kind {
        CellKind::Code => vec![("cell_type", r#""code""#), ("execution_count", "null")],
        CellKind::Markdown => vec![("cell_type", r#""markdown""#)],
    };
    members.extend(id.as_ref().map(|id| ("id", id.get())));
    members.push(("metadata", "{}"));
    if kind == CellKind::Code {
        members.push(("outputs", "[]"));
    }
    members.push(("source", &source));
    style.cell(&members)
}

/// An id that no cell has. The same call on the same notebook gets the same one, so that what a
/// person approves is what is written.
fn new_id(notebook: &Notebook<'_>, index: usize, source: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(notebook.text.as_bytes()).update(&index.to_le_bytes()).update(source.as_bytes());
    let mut candidates = hasher.finalize_xof();
    loop {
        let mut bytes = [0; 4];
        candidates.fill(&mut bytes);
        let id = format!("{:08x}", u32::from_be_bytes(bytes));
        if !notebook.ids.contains_key(id.as_str()) {
            return id;
        }
    }
}

fn delete(notebook: &Notebook<'_>, index: usize) -> Change {
    let span = |index: usize| notebook.span(notebook.cells[index].json.get());
    let last = notebook.cells.len() - 1;
    let (span, text) = match index {
        0 if last == 0 => (notebook.span(notebook.list.get()), "[]"),
        index if index == last => (span(index - 1).end..span(index).end, ""),
        index => (span(index).start..span(index + 1).start, ""),
    };
    let cell = shown_name(notebook, index);
    Change { span, text: text.to_owned(), cell, lost_attachments: false }
}

fn shown_name(notebook: &Notebook<'_>, index: usize) -> String {
    notebook.name_of(index).map_or_else(|| place(index), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests;
