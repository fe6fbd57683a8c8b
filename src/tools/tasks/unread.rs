//! Reads what a task has printed since the last look.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;

use encoding_rs::UTF_8;
use regex::Regex;

use super::agent_task::AgentOutput;
use super::known::Looked;
use super::{BackgroundTask, KnownTask, TaskWork};
use crate::processes::{HeadAndTail, Unread};
use crate::session_files::SessionFiles;
use crate::text::prefix;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// A line that is longer than this is compared with the filter in pieces.
const MAX_LINE: usize = 64 << 10;

/// What a look has found.
#[derive(Debug)]
pub(crate) struct NewOutput {
    pub(crate) text: HeadAndTail,
    /// Lines that the filter has left out.
    pub(crate) left_out: u64,
    /// What is wrong with the output file.
    pub(crate) notes: Vec<String>,
}

impl BackgroundTask {
    /// Returns when all is heard that the command had printed before the call.
    pub(crate) async fn catch_up(&self) {
        if let TaskWork::Command(control) = &self.work {
            control.catch_up().await;
        }
    }

    /// What was printed since the last look, of which at most `most` characters are shown: all,
    /// or the lines that match `filter`. The others count as looked at. Reads the disk.
    pub(crate) fn read_new(
        &self,
        known: &KnownTask,
        files: &SessionFiles,
        filter: Option<&Regex>,
        most: usize,
    ) -> NewOutput {
        known.look(|before| self.read_since(before, files, filter, most))
    }

    fn read_since(
        &self,
        before: Looked,
        files: &SessionFiles,
        filter: Option<&Regex>,
        most: usize,
    ) -> (NewOutput, Looked) {
        let control = match &self.work {
            TaskWork::Command(control) => control,
            TaskWork::Agent { output, .. } => return read_agent(output, before.at, filter, most),
        };
        let unread = control.output().since(before.at);
        let mut notes = Vec::new();
        let mut new = Collector::new(most, filter, before.unfinished);
        if let Some(file) = &unread.file {
            notes.extend(self.changed(file, unread.in_file.end));
        }
        let mut missing = unread.missing;
        if !unread.in_file.is_empty() {
            let read = self.read_file(&unread, files, &mut new, &mut notes);
            missing += (unread.in_file.end - unread.in_file.start).saturating_sub(read);
        }
        if let Some(fault) = control.output().file_fault() {
            notes.push(format!("(the output file ends early: {fault})"));
        }
        if missing > 0 {
            new.gap(missing);
        }
        new.push(&unread.rest);
        new.push(&unread.unfinished);
        let unfinished = if filter.is_none() { unread.unfinished } else { String::new() };
        let looked = Looked { at: unread.end, unfinished };
        let (text, left_out) = new.finish();
        (NewOutput { text, left_out, notes }, looked)
    }

    /// Returns how many bytes were there.
    fn read_file(
        &self,
        unread: &Unread,
        files: &SessionFiles,
        new: &mut Collector<'_>,
        notes: &mut Vec<String>,
    ) -> u64 {
        let opened = match (&unread.file, &self.path) {
            (Some(file), _) => Ok(Arc::clone(file)),
            (None, Some(path)) => files.open(path).map(Arc::new),
            (None, None) => return 0,
        };
        let read = opened.and_then(|file| read_range(&file, unread.in_file.clone(), new));
        read.unwrap_or_else(|error| {
            notes.push(format!("({error})"));
            0
        })
    }

    /// A note if somebody has taken the file of a running task away, or cut it.
    fn changed(&self, file: &File, end: u64) -> Option<String> {
        let metadata = file.metadata().ok()?;
        let what = match () {
            () if metadata.nlink() == 0 => "was removed",
            () if metadata.len() < end => "was cut",
            () => return None,
        };
        let path = self.path.as_ref()?.display();
        Some(format!("({path} {what} by somebody else; the task goes on)"))
    }
}

/// There is no file of what an agent has said, so what is not shown stays for the next look.
fn read_agent(
    output: &AgentOutput,
    seen: u64,
    filter: Option<&Regex>,
    most: usize,
) -> (NewOutput, Looked) {
    let said = output.since(seen);
    let shown = if filter.is_some() { said.as_str() } else { prefix(&said, most) };
    let mut new = Collector::new(most, filter, String::new());
    new.push(shown);
    let (text, left_out) = new.finish();
    let rest = said[shown.len()..].chars().count();
    let more = format!("(cut: {rest} more characters; call TaskOutput again to read on)");
    let notes = (rest > 0).then_some(more).into_iter().collect();
    let looked = Looked { at: seen + shown.len() as u64, unfinished: String::new() };
    (NewOutput { text, left_out, notes }, looked)
}

/// Reads up to the end of the range or of the file, and returns how many bytes that was.
fn read_range(file: &File, range: Range<u64>, new: &mut Collector<'_>) -> io::Result<u64> {
    let mut decoder = UTF_8.new_decoder_without_bom_handling();
    let mut chunk = vec![0; CHUNK];
    let mut text = String::with_capacity(3 * CHUNK);
    let mut at = range.start;
    loop {
        let wanted = usize::try_from(range.end - at).unwrap_or(CHUNK).min(CHUNK);
        let count = file.read_at(&mut chunk[..wanted], at)?;
        at += count as u64;
        text.clear();
        // It has room for all that this many bytes can become.
        _ = decoder.decode_to_string(&chunk[..count], &mut text, count == 0);
        new.push(&text);
        if count == 0 {
            return Ok(at - range.start);
        }
    }
}

/// Puts together what a look shows.
struct Collector<'a> {
    out: HeadAndTail,
    filter: Option<&'a Regex>,
    /// What was shown before of the first line. It is not shown again if the line begins so.
    known: Option<String>,
    /// The beginning of the text, until it is clear whether it is known; later the beginning of
    /// a line that is to be compared.
    held: String,
    left_out: u64,
}

impl<'a> Collector<'a> {
    fn new(most: usize, filter: Option<&'a Regex>, known: String) -> Self {
        let known = Some(known).filter(|known| !known.is_empty());
        Self { out: HeadAndTail::new(most), filter, known, held: String::new(), left_out: 0 }
    }

    fn push(&mut self, text: &str) {
        let Some(known) = &self.known else { return self.push_new(text) };
        self.held.push_str(text);
        if known.starts_with(&self.held) && self.held.len() < known.len() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        let new = held.strip_prefix(known.as_str()).unwrap_or(&held).to_owned();
        self.known = None;
        self.push_new(&new);
    }

    /// Says that there was more.
    fn gap(&mut self, bytes: u64) {
        self.known = None;
        let line_end = if self.held.is_empty() { "" } else { "\n" };
        let held = std::mem::take(&mut self.held);
        self.out.push(&format!("{held}{line_end}[… {bytes} bytes are not kept …]\n"));
    }

    fn push_new(&mut self, text: &str) {
        let Some(filter) = self.filter else { return self.out.push(text) };
        for piece in text.split_inclusive('\n') {
            self.held.push_str(piece);
            if piece.ends_with('\n') || MAX_LINE < self.held.len() {
                let line = std::mem::take(&mut self.held);
                self.left_out += u64::from(!show_if_matched(&mut self.out, filter, &line));
            }
        }
    }

    /// The text, and how many lines the filter has left out.
    fn finish(mut self) -> (HeadAndTail, u64) {
        let held = std::mem::take(&mut self.held);
        match self.filter {
            Some(filter) if !held.is_empty() => {
                self.left_out += u64::from(!show_if_matched(&mut self.out, filter, &held));
            }
            Some(_) => {}
            None => self.out.push(&held),
        }
        (self.out, self.left_out)
    }
}

fn show_if_matched(out: &mut HeadAndTail, filter: &Regex, line: &str) -> bool {
    let is_match = filter.is_match(line.strip_suffix('\n').unwrap_or(line));
    if is_match {
        out.push(line);
    }
    is_match
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(known: &str, filter: Option<&str>, pieces: &[&str]) -> String {
        let filter = filter.map(|filter| Regex::new(filter).unwrap());
        let mut new = Collector::new(1000, filter.as_ref(), known.to_owned());
        for piece in pieces {
            new.push(piece);
        }
        new.finish().0.render(1000, "")
    }

    #[test]
    fn what_was_shown_of_a_line_is_not_shown_again() {
        let check =
            |known, pieces: &[&str], shown| assert_eq!(collected(known, None, pieces), shown);
        check("10", &["10%\n", "a\n"], "%\na\n");
        check("10", &["1", "0", "%\n"], "%\n");
        check("10", &["10"], "");
        check("10", &["20%\n"], "20%\n");
        check("100", &["1", "1\n"], "11\n");
        check("100", &["10"], "10");
        check("", &["a", "b"], "ab");
    }

    #[test]
    fn what_an_agent_has_said_is_read_in_pieces() {
        let output = AgentOutput::default();
        output.push("one \u{e9}\ntwo\n");
        let read = |seen, filter: Option<&Regex>| {
            let (new, looked) = read_agent(&output, seen, filter, 5);
            (new.text.render(100, ""), new.notes.join(""), looked.at)
        };
        let more = "(cut: 6 more characters; call TaskOutput again to read on)";
        assert_eq!(read(0, None), ("one ".to_owned(), more.to_owned(), 4), "whole characters");
        assert_eq!(read(7, None), ("two\n".to_owned(), String::new(), 11));
        let filter = Regex::new("two").unwrap();
        assert_eq!(read(0, Some(&filter)), ("two\n".to_owned(), String::new(), 11));
    }

    #[test]
    fn a_filter_leaves_lines_out() {
        let check = |pieces: &[&str], shown| assert_eq!(collected("", Some("^e"), pieces), shown);
        check(&["error: a\nok\ne", "rror: b\n"], "error: a\nerror: b\n");
        check(&["ok\n", "end"], "end");
        check(&["ok\n", "no end"], "");
    }
}
