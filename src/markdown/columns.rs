//! Writes foreign text in lines that a code block shows whole, so that nothing of it can stand
//! where nobody looks: beyond the right border, behind many blanks, below many empty lines.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::visible::{
    CONTINUED, CombiningMarks, MAX_RUN, counted_blanks, escaped, is_escaped, note, repeated,
};

/// The code blocks of frontends do not wrap, and show about 90 columns.
const MAX_COLUMNS: usize = 80;

/// A line may begin with so many blanks that are shown as they are. What follows them is still
/// in sight.
const MAX_INDENTATION: usize = 24;

/// The most columns that a tab takes.
const TAB_COLUMNS: usize = 8;

/// What the text is, which decides where its lines may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    /// A command line: behind `&&`, `||`, `;`, `|` and `&`, else behind blanks.
    Shell,
    /// Lines with a mark in their first column.
    Diff,
    Other,
}

impl TextKind {
    pub(super) fn of_language(language: &str) -> Self {
        match language {
            "sh" => Self::Shell,
            "diff" => Self::Diff,
            _ => Self::Other,
        }
    }
}

/// `text` in lines of at most [`MAX_COLUMNS`]. All that cannot be seen is escaped; runs of blanks
/// and of empty lines are counted.
pub(super) fn in_columns(text: &str, kind: TextKind) -> String {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut shown = String::with_capacity(text.len() + text.len() / 8);
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        let (mark, words) = marked(line, kind);
        if !words.chars().all(is_blank) {
            write_line(&cells(mark, words, kind), &mut shown);
            continue;
        }
        let is_alike = |next: &&str| {
            let (next_mark, next_words) = marked(next, kind);
            next_mark == mark && next_words.chars().all(is_blank)
        };
        let mut count = 1;
        while lines.next_if(is_alike).is_some() {
            count += 1;
        }
        write_empty_lines(mark, count, &mut shown);
    }
    shown
}

/// The mark in the first column, and the rest of the line.
fn marked(line: &str, kind: TextKind) -> (&str, &str) {
    if kind == TextKind::Diff && line.starts_with(['+', '-', ' ']) {
        line.split_at(1)
    } else {
        ("", line)
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn write_empty_lines(mark: &str, count: usize, shown: &mut String) {
    let line = format!("{mark}\n");
    if count <= MAX_RUN {
        shown.push_str(&line.repeat(count));
    } else {
        let counted = note(&format!("{count} empty lines"));
        let _ = writeln!(shown, "{mark}{counted}");
    }
}

/// A character as it is shown, or a note of ours, which no border divides.
struct Cell {
    shown: String,
    columns: usize,
    /// How well a line may break after this cell.
    end: LineEnd,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LineEnd {
    Bad,
    Blank,
    Operator,
}

impl Cell {
    fn new(shown: String) -> Self {
        let columns = shown.width();
        Self { shown, columns, end: LineEnd::Bad }
    }

    fn blank(shown: String) -> Self {
        Self { end: LineEnd::Blank, ..Self::new(shown) }
    }
}

fn cells(mark: &str, words: &str, kind: TextKind) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut rest = words;
    if !mark.is_empty() {
        cells.push(Cell::new(mark.to_owned()));
    }
    let indentation = rest.len() - rest.trim_start_matches(is_blank).len();
    if indentation > 0 {
        let (blanks, behind) = rest.split_at(indentation);
        cells.extend(indented(blanks, kind));
        rest = behind;
    }
    let mut marks = CombiningMarks::default();
    let mut left = rest.char_indices().peekable();
    while let Some((at, c)) = left.next() {
        let mut end = at + c.len_utf8();
        if is_blank(c) {
            while let Some((next, blank)) = left.next_if(|(_, c)| is_blank(*c)) {
                end = next + blank.len_utf8();
            }
            marks.begin_anew();
            cells.extend(inner_blanks(&rest[at..end], end == rest.len()));
        } else if is_escaped(c) {
            let mut count = 1;
            while left.next_if(|(_, next)| *next == c).is_some() {
                count += 1;
            }
            marks.begin_anew();
            cells.extend(hidden(c, count));
        } else if !marks.may_stand(c) {
            cells.push(Cell::new(escaped(c)));
        } else if c.to_string().width() == 0
            && let Some(letter) = cells.last_mut()
        {
            letter.shown.push(c);
        } else {
            cells.push(Cell::new(c.to_string()));
        }
    }
    if kind == TextKind::Shell {
        note_operators(&mut cells);
    }
    cells
}

/// The blanks at the start of a line.
fn indented(blanks: &str, kind: TextKind) -> Vec<Cell> {
    let tabs = blanks.matches('\t').count();
    let columns = blanks.len() - tabs + tabs * TAB_COLUMNS;
    let may_have_tabs = tabs == 0 || kind != TextKind::Shell;
    if columns <= MAX_INDENTATION && may_have_tabs {
        let cell = Cell { shown: blanks.to_owned(), columns, end: LineEnd::Bad };
        return vec![cell];
    }
    inner_blanks(blanks, false)
}

/// A run of blanks. At the end of a line nobody sees any.
fn inner_blanks(run: &str, is_last: bool) -> Vec<Cell> {
    if run.len() > MAX_RUN || run.contains('\t') || is_last {
        return vec![Cell::blank(counted_blanks(run))];
    }
    run.chars().map(|c| Cell::blank(c.to_string())).collect()
}

/// A hidden character, each of its own as long as they are few.
fn hidden(c: char, count: usize) -> Vec<Cell> {
    if count > MAX_RUN {
        return vec![Cell::new(repeated(c, count))];
    }
    (0..count).map(|_| Cell::new(escaped(c))).collect()
}

/// Marks the places behind the operators of a command line, with the blanks that follow them.
/// It does not know what is quoted: where a line is broken changes nothing but its look.
fn note_operators(cells: &mut [Cell]) {
    let is = |cell: Option<&Cell>, text: &[&str]| {
        cell.is_some_and(|cell| text.contains(&cell.shown.as_str()))
    };
    for at in 0..cells.len() {
        let before = at.checked_sub(1).and_then(|before| cells.get(before));
        let after = cells.get(at + 1);
        let ends = match cells[at].shown.as_str() {
            ";" => !is(after, &[";"]),
            "|" => !is(after, &["|", "&"]) && !is(before, &[">"]),
            // Not the one of `2>&1` and `&>file`.
            "&" => !is(after, &["&", ">"]) && !is(before, &[">", "<"]),
            _ => false,
        };
        if !ends {
            continue;
        }
        let blanks = cells[at + 1..].iter().take_while(|cell| cell.end == LineEnd::Blank).count();
        cells[at + blanks].end = LineEnd::Operator;
    }
}

fn write_line(mut cells: &[Cell], shown: &mut String) {
    let mut columns = MAX_COLUMNS;
    loop {
        let fitting = fitting(cells, columns);
        let end = if fitting == cells.len() { fitting } else { best_end(&cells[..fitting]) };
        shown.extend(cells[..end].iter().map(|cell| cell.shown.as_str()));
        shown.push('\n');
        cells = &cells[end..];
        if cells.is_empty() {
            return;
        }
        shown.push_str(CONTINUED);
        columns = MAX_COLUMNS - CONTINUED.width();
    }
}

/// How many cells fit into so many columns; one at least.
fn fitting(cells: &[Cell], columns: usize) -> usize {
    let mut taken = 0;
    let fit = cells.iter().take_while(|cell| {
        taken += cell.columns;
        taken <= columns
    });
    fit.count().max(1).min(cells.len())
}

/// Finds the best end of a line: behind the last operator, else behind the last blank, else at the
/// end.
fn best_end(cells: &[Cell]) -> usize {
    let best = cells.iter().map(|cell| cell.end).max().filter(|best| *best != LineEnd::Bad);
    let last = best.and_then(|best| cells.iter().rposition(|cell| cell.end == best));
    last.map_or(cells.len(), |last| last + 1)
}

#[cfg(test)]
mod tests;
