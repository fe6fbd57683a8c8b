//! Writes what a language server has found: each place with its line, if it may be shown.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use crate::lsp::{self, Answer, Answers, Encoding, Found, FoundPlace, FoundSymbol, LineColumn};
use crate::permissions::HiddenFiles;
use crate::text;
use crate::tools::answer::AnswerText;
use crate::tools::tool::ToolOutput;
use crate::workspace::{FileId, ResolveError, Workspace};

/// Places that an answer shows. The rest is counted.
const MAX_PLACES: usize = 100;

/// Characters of a line that are shown.
pub(super) const MAX_LINE_CHARS: usize = 300;

/// Bytes of files that are read for one answer. Beyond it places come without their lines.
const MAX_READ_BYTES: usize = 64 << 20;

/// All that an answer is made of.
pub(super) struct Rendering {
    pub(super) operation: &'static str,
    pub(super) answers: Answers,
    /// The place that was asked about, and its line.
    pub(super) asked_line: Option<(LineColumn, String)>,
    pub(super) shown_path: Option<PathBuf>,
    pub(super) working_dir: PathBuf,
    pub(super) hidden: Arc<HiddenFiles>,
}

/// What may be shown of a place.
enum Shown {
    /// Nothing, not even that it is there.
    Hidden,
    /// The place alone.
    Place(PathBuf),
    /// The file's text, as it is now.
    Text(PathBuf, String),
}

/// Looks at files once for all places in them.
struct Files<'a> {
    workspace: &'a Workspace,
    hidden: &'a HiddenFiles,
    looked_at: HashMap<PathBuf, Shown>,
    read_bytes: usize,
}

/// The lines of an answer, and what they leave out.
#[derive(Default)]
struct Listed {
    lines: Vec<String>,
    /// The most lines of one server.
    room: usize,
    files: HashSet<PathBuf>,
    hidden: usize,
    more: usize,
    /// Places in something that is no file.
    foreign: usize,
}

impl Rendering {
    /// Reads the disk.
    pub(super) fn output(self, workspace: &Workspace) -> ToolOutput {
        let Self { operation, answers, asked_line, shown_path, working_dir, hidden } = self;
        let Answers { answers, faults } = answers;
        let mut files = Files::new(workspace, &hidden);
        let mut listed = Listed { room: MAX_PLACES / answers.len().max(1), ..Listed::default() };
        let mut texts = Vec::new();
        for answer in &answers {
            match &answer.found {
                Found::Text(text) => texts.push(text::without_hidden(text).trim().to_owned()),
                Found::Places(places) => {
                    listed.add(places, answer.encoding, &mut files, &working_dir);
                }
            }
        }
        texts.extend(listed.lines.iter().cloned());
        texts.retain(|text| !text.is_empty());
        let body = texts.join("\n");
        let count = if listed.lines.is_empty() {
            usize::from(!body.is_empty())
        } else {
            listed.lines.len() + listed.more
        };
        let mut answer = AnswerText::from(body.clone());
        if count == 0 {
            let servers: Vec<&str> = answers.iter().map(|it| it.server.as_str()).collect();
            answer.close(format!("{} found nothing.", servers.join(", ")));
        }
        if let Some((place, line)) = asked_line {
            let line = shown_text(&line);
            answer.close(format!(
                "(asked about line {}, column {}: {line})",
                place.line, place.column
            ));
        }
        for note in listed.notes() {
            answer.close(note);
        }
        for note in answers.iter().flat_map(notes_of) {
            answer.close(note);
        }
        for fault in &faults {
            answer.close(format!("(not answered: {})", text::shown_line(fault)));
        }
        ToolOutput::text(answer).with(json!({
            "operation": operation,
            "result": body,
            "file_path": shown_path,
            "result_count": count,
            "file_count": listed.files.len(),
        }))
    }
}

/// The notes on how a server has answered.
fn notes_of(Answer { server, is_still_indexing, malformed, .. }: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    if 0 < *malformed {
        notes.push(format!("({malformed} left out, which {server} sent malformed)"));
    }
    if *is_still_indexing {
        notes.push(format!(
            "({server} may be still indexing the project, so there may be more: ask again later)"
        ));
    }
    notes
}

impl Listed {
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: usize, what: &str| {
            if 0 < count {
                notes.push(format!("({count} {what})"));
            }
        };
        note(self.more, "more are not shown");
        note(self.hidden, "left out, in files that may not be read");
        note(self.foreign, "left out, in what is no file");
        notes
    }

    /// Adds the places of a server. Several servers of a project may find the same.
    fn add(
        &mut self,
        places: &[FoundPlace],
        encoding: Encoding,
        files: &mut Files<'_>,
        working_dir: &Path,
    ) {
        let begun_at = self.lines.len();
        for place in places {
            let Some(path) = &place.path else {
                self.foreign += 1;
                continue;
            };
            let is_full = self.room <= self.lines.len() - begun_at;
            let shown = match files.look_at(path, is_full) {
                Shown::Hidden => {
                    self.hidden += 1;
                    continue;
                }
                shown => shown,
            };
            if is_full {
                self.more += 1;
                continue;
            }
            let (real, line) = match shown {
                Shown::Text(real, text) => {
                    (real, line_with_text(place, encoding, real, text, working_dir))
                }
                Shown::Place(real) => (real, line_without_text(place, real, working_dir)),
                Shown::Hidden => continue,
            };
            let is_others = self.lines[..begun_at].contains(&line);
            if !is_others {
                self.files.insert(real.clone());
                self.lines.push(line);
            }
        }
    }
}

fn line_with_text(
    place: &FoundPlace,
    encoding: Encoding,
    real: &Path,
    text: &str,
    working_dir: &Path,
) -> String {
    let LineColumn { line, column } = encoding.to_line_column(text, place.position);
    let quoted = lsp::line(text, line).unwrap_or_default();
    let head = head(real, (line, column), place.symbol.as_ref(), working_dir);
    format!("{head}: {}", shown_text(quoted))
}

/// The column stays in the server's units, since the line may not be read to convert it.
fn line_without_text(place: &FoundPlace, real: &Path, working_dir: &Path) -> String {
    let (line, column) = (place.position.line, place.position.character);
    let from_one = (line.saturating_add(1), column.saturating_add(1));
    head(real, from_one, place.symbol.as_ref(), working_dir)
}

fn head(
    real: &Path,
    (line, column): (u32, u32),
    symbol: Option<&FoundSymbol>,
    working_dir: &Path,
) -> String {
    let path = real.strip_prefix(working_dir).unwrap_or(real);
    let path = text::printable_path(path);
    let place = format!("{path}:{line}:{column}");
    match symbol {
        None => place,
        Some(FoundSymbol { name, kind, depth }) => {
            let (indent, name) = ("  ".repeat((*depth).min(8)), shown_text(name));
            format!("{indent}{place} {kind} {name}")
        }
    }
}

fn shown_text(line: &str) -> String {
    text::shown_line(text::first_chars(line.trim(), MAX_LINE_CHARS))
}

impl<'a> Files<'a> {
    fn new(workspace: &'a Workspace, hidden: &'a HiddenFiles) -> Self {
        Self { workspace, hidden, looked_at: HashMap::new(), read_bytes: 0 }
    }

    fn look_at(&mut self, path: &Path, is_text_unwanted: bool) -> &Shown {
        if !self.looked_at.contains_key(path) {
            let shown = self.shown(path, is_text_unwanted);
            self.looked_at.insert(path.to_owned(), shown);
        }
        &self.looked_at[path]
    }

    fn shown(&mut self, path: &Path, is_text_unwanted: bool) -> Shown {
        let target = match self.workspace.resolve(path) {
            Ok(target) => target,
            Err(ResolveError::Outside { leads_to, .. }) => {
                let is_hidden = [path, &leads_to].iter().any(|path| self.hides(path));
                return if is_hidden { Shown::Hidden } else { Shown::Place(leads_to) };
            }
            // What cannot be looked at is not told of.
            Err(_) => return Shown::Hidden,
        };
        let real = target.real_path().to_owned();
        let id = target.metadata().ok().map(|metadata| FileId::from_metadata(&metadata));
        if self.hides(path) || self.hides(&real) || id.is_some_and(|id| self.hidden.has(id)) {
            return Shown::Hidden;
        }
        if is_text_unwanted || MAX_READ_BYTES <= self.read_bytes {
            return Shown::Place(real);
        }
        let opened = target.open_resolved_file().ok();
        match opened.and_then(|file| lsp::read_document(&real, &file).ok()) {
            Some(document) => {
                self.read_bytes += document.text.len();
                Shown::Text(real, document.text)
            }
            None => Shown::Place(real),
        }
    }

    fn hides(&self, path: &Path) -> bool {
        self.hidden.covers(path, false) || self.hidden.keeps_secret(path)
    }
}
