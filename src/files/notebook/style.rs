//! Recognises how a JSON text is laid out, so that what is added to it looks alike.

use super::Notebook;
use crate::json;

/// The layout of a notebook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// The line end. `None`: the notebook is one line.
    newline: Option<&'static str>,
    /// What each level is indented by.
    unit: String,
    /// What stands before a cell on its first line.
    cell_indent: String,
    colon: &'static str,
    comma: &'static str,
    /// From the end of a cell to the begin of the next one.
    between: String,
}

impl Style {
    pub(super) fn of(notebook: &Notebook<'_>) -> Self {
        let text = notebook.text;
        let head = text.trim_start().strip_prefix('{').unwrap_or_default();
        let gap = &head[..head.len() - head.trim_start().len()];
        let newline = gap.rfind('\n').map(|_| if gap.contains("\r\n") { "\r\n" } else { "\n" });
        let unit = gap.rfind('\n').map_or("", |line_end| &gap[line_end + 1..]);
        let colon = if has_spaced_colon(head) { ": " } else { ":" };
        let spans: Vec<_> =
            notebook.cells.iter().take(2).map(|cell| notebook.span(cell.json.get())).collect();
        let before = spans.first().map(|first| &text[..first.start]);
        let before = before.map(|before| &before[before.trim_end().len()..]);
        let own_indent =
            before.and_then(|before| before.rsplit_once('\n')).map(|(_, indent)| indent.to_owned());
        let cell_indent = own_indent.unwrap_or_else(|| unit.repeat(2));
        let comma = match newline {
            Some(_) => ",",
            None if colon == ":" => ",",
            None => ", ",
        };
        let between = match (spans.as_slice(), before, newline) {
            ([first, second], _, _) => text[first.end..second.start].to_owned(),
            (_, Some(before), Some(_)) => format!(",{before}"),
            (_, None, Some(newline)) => format!(",{newline}{cell_indent}"),
            (_, _, None) => comma.to_owned(),
        };
        Self { newline, unit: unit.to_owned(), cell_indent, colon, comma, between }
    }

    /// What separates two cells.
    pub(super) fn between(&self) -> &str {
        &self.between
    }

    /// A cell of these members, whose values are JSON.
    pub(super) fn cell(&self, members: &[(&str, &str)]) -> String {
        let member = |(name, value): &(&str, &str)| {
            let name = json::quoted(name);
            format!("{name}{}{value}", self.colon)
        };
        self.group('{', &members.iter().map(member).collect::<Vec<_>>(), '}', 0)
    }

    /// The source of a cell, as a list of its lines with their line ends.
    pub(super) fn source(&self, source: &str) -> String {
        let lines = source.split_inclusive('\n').map(|line| json::quoted(line).get().to_owned());
        self.group('[', &lines.collect::<Vec<_>>(), ']', 1)
    }

    /// The list of cells with a first one.
    pub(super) fn list_of(&self, cell: &str) -> String {
        match self.newline {
            Some(newline) => {
                let outer = self.cell_indent.strip_suffix(&self.unit).unwrap_or_default();
                format!("[{newline}{}{cell}{newline}{outer}]", self.cell_indent)
            }
            None => format!("[{cell}]"),
        }
    }

    /// An object or a list, `depth` levels inside a cell.
    fn group(&self, open: char, items: &[String], close: char, depth: usize) -> String {
        let Some(newline) = self.newline.filter(|_| !items.is_empty()) else {
            return format!("{open}{}{close}", items.join(self.comma));
        };
        let outer = self.cell_indent.clone() + &self.unit.repeat(depth);
        let inner = format!("{newline}{outer}{}", self.unit);
        let items = items.join(&format!(",{inner}"));
        format!("{open}{inner}{items}{newline}{outer}{close}")
    }
}

/// Whether a space follows the colon of the first member. `members` begins after the brace.
fn has_spaced_colon(members: &str) -> bool {
    let key = members.trim_start();
    let mut is_escaped = false;
    let end = key.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    let after = end.map_or("", |(end, _)| &key[end + 1..]);
    after.trim_start().strip_prefix(':').is_some_and(|value| value.starts_with(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(notebook: &str, between: &str, cell: &str) {
        let style = Style::of(&Notebook::parse(notebook.as_bytes()).unwrap());
        let source = style.source("a\nb");
        assert_eq!(style.between(), between);
        assert_eq!(style.cell(&[("x", "1"), ("source", &source)]), cell);
    }

    #[test]
    fn what_is_added_looks_like_the_rest() {
        check(
            "{\n \"cells\": [\n  {},\n  {}\n ],\n \"nbformat\": 4\n}\n",
            ",\n  ",
            "{\n   \"x\": 1,\n   \"source\": [\n    \"a\\n\",\n    \"b\"\n   ]\n  }",
        );
        check(
            "{\r\n\t\"nbformat\": 4,\r\n\t\"cells\": [\r\n\t\t{}]}",
            ",\r\n\t\t",
            "{\r\n\t\t\t\"x\": 1,\r\n\t\t\t\"source\": [\r\n\t\t\t\t\"a\\n\",\r\n\t\t\t\t\"b\"\r\n\t\t\t]\r\n\t\t}",
        );
        check(r#"{"nbformat":4,"cells":[{},{}]}"#, ",", r#"{"x":1,"source":["a\n","b"]}"#);
        check(r#"{"nbformat": 4, "cells": [{}]}"#, ", ", r#"{"x": 1, "source": ["a\n", "b"]}"#);
        check(
            r#"{"n\"\\": 1, "nbformat":4, "cells": []}"#,
            ", ",
            r#"{"x": 1, "source": ["a\n", "b"]}"#,
        );
    }

    #[test]
    fn an_empty_source_has_no_lines() {
        let text = "{\n \"cells\": [],\n \"nbformat\": 4\n}";
        let style = Style::of(&Notebook::parse(text.as_bytes()).unwrap());
        assert_eq!(style.source(""), "[]");
        assert_eq!(style.source("a\n"), "[\n    \"a\\n\"\n   ]");
        assert_eq!(style.list_of("{}"), "[\n  {}\n ]");
    }
}
