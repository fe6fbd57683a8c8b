//! Finds the cells of a Jupyter notebook in its JSON text, and leaves the text as it is.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use serde_json::value::RawValue;

pub(crate) use self::non_numbers::as_json;
use crate::json::{self, Object};
use crate::text::BYTE_ORDER_MARK;

pub(crate) mod edit;
mod non_numbers;
mod style;

/// Cells that a notebook may have. Each takes about a hundred bytes of memory beside the text,
/// and no person writes a thousandth of them.
pub(crate) const MAX_CELLS: usize = 100_000;

/// How many names of cells an error lists.
const MAX_LISTED: usize = 20;

/// The longest id that the format allows.
const MAX_ID_CHARS: usize = 64;

/// Whether the file has the name of a notebook.
pub(crate) fn is_called_one(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

/// Whether these contents of a file are a notebook whose cells can be edited. All else is text,
/// whatever its name: a merge conflict is no JSON.
pub(crate) fn has_cells(file: &[u8]) -> bool {
    Notebook::parse(&as_json(file)).is_ok()
}

/// A notebook of format 4.
#[derive(Debug)]
pub(crate) struct Notebook<'a> {
    /// The whole file, without a byte order mark.
    text: &'a str,
    /// The list of cells in `text`.
    list: &'a RawValue,
    pub(crate) cells: Vec<Cell<'a>>,
    /// Whether the format gives every cell an id.
    has_ids: bool,
    /// How many cells have each id.
    ids: HashMap<Cow<'a, str>, usize>,
}

#[derive(Debug)]
pub(crate) struct Cell<'a> {
    json: &'a RawValue,
    id: Option<Cow<'a, str>>,
}

/// Why a file cannot be taken for a notebook.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotebookError {
    #[error("it is not UTF-8 from byte {0} on")]
    Encoding(usize),
    #[error("it is not JSON: {0}")]
    Json(serde_json::Error),
    #[error("it is JSON, but has no nbformat and no list of cells")]
    Other,
    #[error("it is in notebook format {0}; only those from 4 on have one list of cells")]
    Format(u64),
    #[error("it has several members called {0}")]
    Ambiguous(&'static str),
    #[error("cell {0}, counted from 0, is not a JSON object")]
    Cell(usize),
    #[error("it has more than {MAX_CELLS} cells, the most that are read")]
    TooManyCells,
}

/// Why a name means no cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSuchCell {
    #[error("no cell is called {name:?}; {known}")]
    Unknown { name: String, known: String },
    #[error("{count} cells have the id {name:?}; name one of them by its place: {places}")]
    Several { name: String, count: usize, places: String },
}

impl<'a> Notebook<'a> {
    /// Reads the contents of a file, [as JSON](as_json). Takes time and memory by its length alone, however deep it
    /// is nested.
    pub(crate) fn parse(file: &'a [u8]) -> Result<Self, NotebookError> {
        let text = std::str::from_utf8(file)
            .map_err(|error| NotebookError::Encoding(error.valid_up_to()))?;
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let all: &RawValue = serde_json::from_str(text).map_err(NotebookError::Json)?;
        let object = Object::from_raw(all).ok_or(NotebookError::Other)?;
        let version = Version::read(&object)?;
        let list = only(&object, "cells")?.ok_or(NotebookError::Other)?;
        let cells = cells(list)?;
        let mut ids = HashMap::new();
        for id in cells.iter().filter_map(|cell| cell.id.clone()) {
            *ids.entry(id).or_default() += 1;
        }
        Ok(Self { text, list, cells, has_ids: version.has_ids(), ids })
    }

    /// The name by which a cell can be edited: its id, or `cell-N` if it has none of its own.
    /// `None` if another cell has that very id.
    pub(crate) fn name_of(&self, index: usize) -> Option<Cow<'_, str>> {
        let id = self.cells.get(index)?.id.as_deref();
        if let Some(id) = id.filter(|id| is_valid(id) && self.ids.get(*id) == Some(&1)) {
            return Some(Cow::Borrowed(id));
        }
        let place = place(index);
        (!self.ids.contains_key(place.as_str())).then_some(Cow::Owned(place))
    }

    /// The cell that `name` means. An id that is exactly so in the file wins over the count.
    pub(crate) fn find(&self, name: &str) -> Result<usize, NoSuchCell> {
        let have_it = |(_, cell): &(usize, &Cell<'_>)| cell.id.as_deref() == Some(name);
        let found = self.cells.iter().enumerate().filter(have_it).map(|(index, _)| index);
        let found: Vec<usize> = found.take(MAX_LISTED).collect();
        match found.as_slice() {
            [index] => Ok(*index),
            [] => counted(name).filter(|index| *index < self.cells.len()).ok_or_else(|| {
                let known = self.known();
                NoSuchCell::Unknown { name: name.to_owned(), known }
            }),
            several => Err(NoSuchCell::Several {
                name: name.to_owned(),
                count: self.ids.get(name).copied().unwrap_or(several.len()),
                places: several.iter().copied().map(place).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// The names that there are, as the end of an error.
    fn known(&self) -> String {
        let total = self.cells.len();
        if total == 0 {
            return "the notebook has no cells".to_owned();
        }
        let names = (0..total).filter_map(|index| self.name_of(index)).take(MAX_LISTED);
        let names = names.collect::<Vec<_>>().join(", ");
        let more = total.saturating_sub(MAX_LISTED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("the cells are {names}{more}")
    }

    /// Where in the text a part of it stands.
    fn span(&self, part: &'a str) -> std::ops::Range<usize> {
        let start = part.as_ptr() as usize - self.text.as_ptr() as usize;
        start..start + part.len()
    }
}

impl<'a> Cell<'a> {
    /// The members of the cell. It has some: the notebook was parsed with them.
    pub(crate) fn members(&self) -> Option<Object<'a>> {
        Object::from_raw(self.json)
    }
}

/// The version of the notebook format, from which the shape of a cell follows.
struct Version {
    major: u64,
    minor: u64,
}

impl Version {
    fn read(notebook: &Object<'_>) -> Result<Self, NotebookError> {
        let number = |name| {
            let value = only(notebook, name)?;
            Ok(value.and_then(|value| serde_json::from_str::<u64>(value.get()).ok()))
        };
        let major = number("nbformat")?.ok_or(NotebookError::Other)?;
        if major < 4 {
            return Err(NotebookError::Format(major));
        }
        Ok(Self { major, minor: number("nbformat_minor")?.unwrap_or(0) })
    }

    fn has_ids(&self) -> bool {
        (4, 5) <= (self.major, self.minor)
    }
}

/// The member of this name. If there were several, other programs could see another one.
fn only<'a>(
    object: &Object<'a>,
    name: &'static str,
) -> Result<Option<&'a RawValue>, NotebookError> {
    if object.keys().filter(|key| *key == name).count() > 1 {
        return Err(NotebookError::Ambiguous(name));
    }
    Ok(object.get(name))
}

fn cells(list: &RawValue) -> Result<Vec<Cell<'_>>, NotebookError> {
    let mut cells = Vec::new();
    let read = json::for_each_item(list, |json| {
        if cells.len() == MAX_CELLS {
            return Err(NotebookError::TooManyCells);
        }
        let members = Object::from_raw(json).ok_or(NotebookError::Cell(cells.len()))?;
        cells.push(Cell { json, id: members.string("id") });
        Ok(())
    });
    read.ok_or(NotebookError::Other)??;
    Ok(cells)
}

/// The name of a cell by its place, counted from 0.
fn place(index: usize) -> String {
    format!("cell-{index}")
}

fn counted(name: &str) -> Option<usize> {
    let number = name.strip_prefix("cell-")?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
}

/// Whether an id is one that the format allows. Others are not shown: they could be anything.
fn is_valid(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_ID_CHARS).contains(&id.len()) && id.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notebook(cells: &str) -> String {
        format!(r#"{{"cells": [{cells}], "nbformat": 4, "nbformat_minor": 5}}"#)
    }

    #[track_caller]
    fn fault(file: &[u8]) -> String {
        Notebook::parse(file).unwrap_err().to_string()
    }

    #[test]
    fn a_cell_is_called_by_its_own_id_or_by_its_place() {
        let text = notebook(
            r#"{"id": "a"}, {}, {"id": "b"}, {"id": "b"}, {"id": ""}, {"id": "cell-7"},
            {"id": "a b"}, {"id": 7}"#,
        );
        let notebook = Notebook::parse(text.as_bytes()).unwrap();
        let names: Vec<_> = (0..8).map(|index| notebook.name_of(index)).collect();
        let names: Vec<_> = names.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
        assert_eq!(names, ["a", "cell-1", "cell-2", "cell-3", "cell-4", "cell-7", "cell-6", "-"]);
        for (index, name) in names.iter().enumerate().take(7) {
            assert_eq!(notebook.find(name), Ok(index), "{name}");
        }
        assert_eq!(notebook.find("cell-0"), Ok(0));
        assert_eq!(notebook.find("a b"), Ok(6));
        assert_eq!(
            notebook.find("b").unwrap_err().to_string(),
            r#"2 cells have the id "b"; name one of them by its place: cell-2, cell-3"#
        );
        for unknown in ["cell-8", "cell-", "cell--1", "cell-+1", "c", "7"] {
            assert_eq!(
                notebook.find(unknown).unwrap_err().to_string(),
                format!(
                    "no cell is called {unknown:?}; the cells are a, cell-1, cell-2, cell-3, \
                     cell-4, cell-7, cell-6"
                )
            );
        }
    }

    #[test]
    fn of_many_cells_twenty_are_listed() {
        let text = notebook(&vec!["{}"; 23].join(","));
        let fault = Notebook::parse(text.as_bytes()).unwrap().find("x").unwrap_err().to_string();
        assert!(fault.ends_with("cell-18, cell-19 and 3 more"), "{fault}");
        let empty = notebook("");
        let fault = Notebook::parse(empty.as_bytes()).unwrap().find("cell-0").unwrap_err();
        assert_eq!(fault.to_string(), r#"no cell is called "cell-0"; the notebook has no cells"#);
    }

    #[test]
    fn t33_what_is_no_notebook_is_said_to_be_none() {
        for (file, expected) in [
            (&b""[..], "it is not JSON: EOF while parsing a value at line 1 column 0"),
            (b"{\n<<<<<<<", "it is not JSON: key must be a string at line 2 column 1"),
            (b"{} {}", "it is not JSON: trailing characters at line 1 column 4"),
            (b"{\"cells\": \"\xff\"}", "it is not UTF-8 from byte 11 on"),
            (b"{\"cells\": []}", "it is JSON, but has no nbformat and no list of cells"),
            (b"[]", "it is JSON, but has no nbformat and no list of cells"),
            (
                br#"{"worksheets": [], "nbformat": 3}"#,
                "it is in notebook format 3; only those from 4 on have one list of cells",
            ),
            (
                br#"{"cells": {}, "nbformat": 4}"#,
                "it is JSON, but has no nbformat and no list of cells",
            ),
            (
                br#"{"cells": [], "cells": [{}], "nbformat": 4}"#,
                "it has several members called cells",
            ),
            (
                br#"{"cells": [{}, 1], "nbformat": 4}"#,
                "cell 1, counted from 0, is not a JSON object",
            ),
        ] {
            assert_eq!(fault(file), expected);
        }
        let many = notebook(&vec!["{}"; 1_000_000].join(","));
        assert_eq!(fault(many.as_bytes()), "it has more than 100000 cells, the most that are read");
    }

    #[test]
    fn t33_depth_costs_nothing() {
        let depth = 10_000;
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        let text = notebook(&format!(r#"{{"id": "a", "metadata": {{"x": {nested}}}}}"#));
        let notebook = Notebook::parse(text.as_bytes()).unwrap();
        assert_eq!(notebook.find("a"), Ok(0));
        assert_eq!(fault("[".repeat(depth).as_bytes()).split(':').next(), Some("it is not JSON"));
    }
}
