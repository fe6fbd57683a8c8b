//! Searches files one after the other, on one thread.

use std::cmp::Reverse;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use grep::printer::{StandardBuilder, SummaryBuilder, SummaryKind};
use grep::regex::RegexMatcher;
use grep::searcher::{Searcher, Sink, SinkFinish, SinkMatch};

use super::super::file_bytes::{PlainLineEnds, Utf8Bytes};
use super::super::first_lines::FirstLines;
use super::super::foreign_text::{DecodingReader, ForeignText, SearchedFile, TextSource, WithNul};
use super::super::found::Key;
use super::super::pieces::{FoundInPiece, Piece};
use super::{Searching, What};
use crate::tools::walk::{Entry, LeftOut, PassedKind, PassedOver, reason};

/// In mode `content`, a longer line is replaced with the number of its matches.
const MAX_COLUMNS: u64 = 500;

/// What stands for a longer line whose matches were not counted.
const UNCOUNTED: &[u8] = b"[Omitted long matching line]";

/// What a search of one file has found.
enum FileFindings {
    Lines { lines: FirstLines, is_binary: bool },
    Number(Number),
}

impl FileFindings {
    fn shows_lines(&self) -> bool {
        matches!(self, Self::Lines { lines, .. } if !lines.text.is_empty())
    }

    fn is_binary(&self) -> bool {
        match self {
            Self::Lines { is_binary, .. } => *is_binary,
            Self::Number(number) => number.is_binary,
        }
    }
}

/// What a file is, as far as an answer has to tell of it.
#[derive(Clone, Copy, Debug)]
enum Nature {
    Plain,
    /// It was searched in an encoding that is a guess.
    Guessed,
    TooLarge,
    TextWithNul,
    Binary,
}

/// The search state of one thread, reused for all its files.
pub(super) struct Worker<'a> {
    call: &'a Searching,
    /// A clone for each thread. The cache of a shared matcher would become a bottleneck.
    matcher: RegexMatcher,
    pub(super) searcher: Searcher,
    lines: StandardBuilder,
    summary: SummaryBuilder,
    passed_over: &'a PassedOver,
    /// Whether the matches in lines that are too long to show are counted.
    counts_matches: bool,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        call: &'a Searching,
        searcher: Searcher,
        passed_over: &'a PassedOver,
    ) -> Self {
        let query = &call.query;
        let matcher = query.matcher.clone();
        let mut lines = StandardBuilder::new();
        lines.only_matching(query.only_matching).max_columns(Some(MAX_COLUMNS));
        let mut summary = SummaryBuilder::new();
        let kind = if query.only_matching { SummaryKind::CountMatches } else { SummaryKind::Count };
        summary.kind(kind).path(false).stats(kind == SummaryKind::CountMatches);
        // Each match is a line of its own.
        let counts_matches = query.only_matching;
        Self { call, matcher, searcher, lines, summary, passed_over, counts_matches }
    }

    /// Searches one piece of a named file for its part of the matches.
    pub(super) fn piece(&mut self, piece: Piece<'_>) -> FoundInPiece {
        let mut bytes = Utf8Bytes::of_lines(piece);
        match self.number(&mut bytes) {
            Ok(Number { is_binary: false, matches })
                if matches == 0 || self.call.query.counts() =>
            {
                FoundInPiece::Matches(matches)
            }
            Ok(Number { is_binary: false, .. }) => FoundInPiece::Enough,
            _ => FoundInPiece::Irregular,
        }
    }

    pub(super) fn consider(&mut self, entry: &Entry<'_>) {
        if let Some(why) = entry.left_out {
            return self.pass_over(entry, why);
        }
        if entry.is_directory || self.is_beyond(entry.relative) {
            return;
        }
        self.passed_over.visited();
        if entry.keeps_secret() {
            return self.call.bounds.passed_over();
        }
        match entry.open_file() {
            Ok(Some(opened)) => self.search(&SearchedFile {
                file: &opened.file,
                length: opened.length,
                bounds: &self.call.bounds,
                relative: entry.relative,
                real_path: entry.path,
                keeps_returns: self.call.query.keeps_returns(),
            }),
            Ok(None) => {}
            Err(error) => self.call.bounds.not_searched(entry.path, &reason(&error)),
        }
    }

    fn pass_over(&self, entry: &Entry<'_>, why: LeftOut) {
        let passed = self.passed_over;
        match why {
            LeftOut::Ignored if entry.is_directory => {
                passed.note(PassedKind::Ignored, &entry.relative.join(""));
            }
            LeftOut::Ignored if entry.keeps_secret() => {}
            LeftOut::Ignored => passed.note(PassedKind::Ignored, entry.relative),
            LeftOut::VersionControl => passed.note(PassedKind::VersionControl, entry.relative),
            LeftOut::Link { is_wanted_as_file } => {
                passed.note_link(entry.relative, is_wanted_as_file);
            }
        }
    }

    /// Whether results of this file cannot be on the page any more. Only mode `content` sorts
    /// by path alone, which is known before the search.
    fn is_beyond(&self, relative: &Path) -> bool {
        self.call.query.shows_lines()
            && self.call.found().page.is_closed_to(&(None, relative.to_owned()))
    }

    /// Searches a file, and adds what it finds.
    pub(super) fn search(&mut self, searched: &SearchedFile<'_>) {
        let mut outcome = self.outcome(searched);
        if self.leaves_matches_uncounted(&outcome) {
            // It takes longer, so only from the first line on that is too long to show.
            self.lines.stats(true);
            self.counts_matches = true;
            outcome = self.outcome(searched);
        }
        match outcome {
            Ok((findings, nature)) => {
                self.note_nature(searched, nature);
                if matches!(nature, Nature::Guessed) && findings.shows_lines() {
                    self.call.found().shows_guess = true;
                }
                self.add_findings(searched, findings);
            }
            Err(error) => self.note(&error, searched.real_path),
        }
    }

    /// Searches a file in UTF-8 as it is, any other one in the encoding that Read shows it in.
    fn outcome(&mut self, searched: &SearchedFile<'_>) -> io::Result<(FileFindings, Nature)> {
        let mut bytes = Utf8Bytes::of_file(searched.bytes());
        let outcome = self.findings(&mut bytes, searched);
        if bytes.is_foreign() {
            return self.foreign(searched);
        }
        let findings = outcome?;
        if !findings.is_binary() {
            return Ok((findings, Nature::Plain));
        }
        match searched.with_nul() {
            WithNul::Utf16 => self.foreign(searched),
            WithNul::Text => Ok((findings, Nature::TextWithNul)),
            WithNul::Binary => Ok((findings, Nature::Binary)),
        }
    }

    /// Searches a file that is not UTF-8.
    fn foreign(&mut self, searched: &SearchedFile<'_>) -> io::Result<(FileFindings, Nature)> {
        let (encoding, source) = match searched.foreign_text(&self.call.encodings)? {
            ForeignText::Text(encoding, source) => (encoding, source),
            ForeignText::Bytes => {
                let bytes = &mut Utf8Bytes::unchecked(searched.bytes());
                let findings = self.findings(bytes, searched)?;
                let nature = if findings.is_binary() { Nature::Binary } else { Nature::Plain };
                return Ok((findings, nature));
            }
            ForeignText::TooLarge => {
                let bytes = &mut Utf8Bytes::unchecked(searched.bytes());
                return Ok((self.findings(bytes, searched)?, Nature::TooLarge));
            }
        };
        let findings = match source {
            TextSource::Whole { bytes, .. } => {
                self.findings(&mut DecodingReader::new(&bytes[..], encoding), searched)
            }
            TextSource::File { bytes, ends_at_returns } => {
                let mut text =
                    DecodingReader::new(bytes, encoding).ending_at_returns(ends_at_returns);
                self.findings(&mut text, searched)
            }
        };
        let nature = if encoding.is_guess() { Nature::Guessed } else { Nature::Plain };
        Ok((findings?, nature))
    }

    /// Records what an answer has to tell of a file beside its matches.
    fn note_nature(&self, searched: &SearchedFile<'_>, nature: Nature) {
        let is_named = matches!(self.call.what, What::File(_));
        match nature {
            Nature::Plain => {}
            Nature::Guessed => self.passed_over.note(PassedKind::Guessed, searched.relative),
            Nature::TooLarge => {
                let why = "only its ASCII text was searched: it is not UTF-8, and over 64 MiB";
                self.call.bounds.not_searched(searched.real_path, why);
            }
            // Of a file that the call names, the answer shows that it is binary.
            Nature::TextWithNul | Nature::Binary if is_named => {}
            Nature::TextWithNul => {
                let why = "it has NUL bytes; set path to it to search it";
                self.call.bounds.not_searched(searched.real_path, why);
            }
            Nature::Binary => self.passed_over.note(PassedKind::Binary, searched.relative),
        }
    }

    fn add_findings(&self, searched: &SearchedFile<'_>, findings: FileFindings) {
        match findings {
            FileFindings::Lines { lines, .. } => {
                self.add_lines(searched.relative.to_owned(), lines);
            }
            FileFindings::Number(number) => {
                self.add_number(searched.file, searched.relative, number.matches);
            }
        }
    }

    /// Whether a line is left out without the number of its matches.
    fn leaves_matches_uncounted(&self, outcome: &io::Result<(FileFindings, Nature)>) -> bool {
        let Ok((FileFindings::Lines { lines, .. }, _)) = outcome else { return false };
        !self.counts_matches && memchr::memmem::find(&lines.text, UNCOUNTED).is_some()
    }

    fn findings(
        &mut self,
        reader: &mut impl Read,
        searched: &SearchedFile<'_>,
    ) -> io::Result<FileFindings> {
        if self.call.query.shows_lines() {
            return self.content(reader, searched);
        }
        self.number(reader).map(FileFindings::Number)
    }

    fn content(
        &mut self,
        reader: &mut impl Read,
        searched: &SearchedFile<'_>,
    ) -> io::Result<FileFindings> {
        let query = &self.call.query;
        // Most files have no match, and then nobody asks for the path to show.
        let shown = self.call.paths.shown(searched.relative);
        let mut lines = match &self.call.what {
            // Which lines are on the page is known at once.
            What::File(_) => FirstLines::new(query.offset, query.lines_wanted() - query.offset),
            What::Tree(_) => FirstLines::new(0, query.lines_wanted()),
        };
        let mut printer = self.lines.build_no_color(&mut lines);
        let mut sink = printer.sink_with_path(&self.matcher, &shown);
        let reader = PlainLineEnds::new(reader, query.line_ends);
        let outcome = self.searcher.search_reader(&self.matcher, reader, &mut sink);
        let is_binary = sink.binary_byte_offset().is_some();
        drop(printer);
        match outcome {
            Err(error) if !lines.is_full && lines.text.is_empty() => Err(error),
            // It is searched again.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
            Err(error) if !lines.is_full => {
                // The results before the line that failed are valid.
                self.note(&error, searched.real_path);
                Ok(FileFindings::Lines { lines, is_binary })
            }
            _ => Ok(FileFindings::Lines { lines, is_binary }),
        }
    }

    /// Counts the matches, or stops at the first where the call does not ask for their number.
    fn number(&mut self, reader: &mut impl Read) -> io::Result<Number> {
        let reader = PlainLineEnds::new(reader, self.call.query.line_ends);
        if self.call.query.counts() {
            return self.count(reader);
        }
        let mut first = FirstMatch { number: Number { matches: 0, is_binary: false } };
        self.searcher.search_reader(&self.matcher, reader, &mut first)?;
        Ok(first.number)
    }

    fn count(&mut self, reader: impl Read) -> io::Result<Number> {
        let mut out = Vec::new();
        let mut printer = self.summary.build_no_color(&mut out);
        let mut sink = printer.sink(&self.matcher);
        self.searcher.search_reader(&self.matcher, reader, &mut sink)?;
        let is_binary = sink.binary_byte_offset().is_some();
        drop(printer);
        // Without a path, the printer writes the bare number.
        let count = str::from_utf8(&out).ok().and_then(|text| text.trim_end().parse().ok());
        Ok(Number { matches: count.unwrap_or(0), is_binary })
    }

    /// Adds a file with its number of matches, if it has any.
    pub(super) fn add_number(&self, file: &File, relative: &Path, matches: u64) {
        if matches == 0 {
            return;
        }
        let shown = self.call.paths.shown(relative);
        if self.call.query.counts() {
            let line = format!("{shown}:{matches}\n");
            return self.add((None, relative.to_owned()), line.into_bytes(), matches);
        }
        let modified = file.metadata().and_then(|about| about.modified()).ok();
        let line = format!("{shown}\n");
        self.add((modified.map(Reverse), relative.to_owned()), line.into_bytes(), 0);
    }

    /// Records a file that was not searched, or not to its end.
    fn note(&self, error: &io::Error, path: &Path) {
        if self.call.bounds.is_over() {
            return;
        }
        // The searcher reports its heap limit as an error without a system error code.
        let is_too_large = error.kind() == io::ErrorKind::Other && error.raw_os_error().is_none();
        let reason =
            if is_too_large { self.call.query.too_large().to_owned() } else { reason(error) };
        self.call.bounds.not_searched(path, &reason);
    }

    fn add_lines(&self, path: PathBuf, lines: FirstLines) {
        let mut found = self.call.found();
        // A tree skips nothing, and a file that is named is the only one.
        found.skipped = lines.skipped;
        found.is_of_one_file = matches!(self.call.what, What::File(_));
        let (is_cut, text) = (lines.is_cut(), lines.into_whole_lines());
        if is_cut {
            found.page.insert_cut((None, path), text);
        } else if !text.is_empty() {
            found.add((None, path), text, 0);
        }
    }

    fn add(&self, key: Key, text: Vec<u8>, matches: u64) {
        self.call.found().add(key, text, matches);
    }
}

/// The matches in a file or in a piece of one.
#[derive(Clone, Copy, Debug)]
struct Number {
    matches: u64,
    is_binary: bool,
}

/// Finds out whether a file matches at all. As in ripgrep, matches in a binary file do not
/// count.
struct FirstMatch {
    number: Number,
}

impl Sink for FirstMatch {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> io::Result<bool> {
        self.number.matches = 1;
        Ok(false)
    }

    fn finish(&mut self, searcher: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.number.is_binary = finish.binary_byte_offset().is_some();
        if self.number.is_binary && searcher.binary_detection().quit_byte().is_some() {
            self.number.matches = 0;
        }
        Ok(())
    }
}
