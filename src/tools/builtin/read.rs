//! Reads a file: text page by page, a notebook by its cells, a PDF file by its pages, a picture
//! whole. The contents decide what it is.

mod blocks;
mod media;
mod notebook;
mod other_pictures;
mod pdf;
mod picture;
mod render;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::media::{Kind, Media};
use self::notebook::NotShown;
use crate::blocking::FILES;
use crate::encoding::Binary;
use crate::files::page::{LinePart, Page, PageError, Total, Wanted};
use crate::files::{Declaration, Files, Fingerprint, ShownLines};
use crate::lsp::LanguageServers;
use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::processes::worker::Workers;
use crate::tools::languages::Languages;
use crate::tools::tool::{CallContext, Concurrency, StartRule, Tool, ToolError, ToolOutput};
use crate::workspace::{FileVersion, Target};

/// Lines of a page if the model names no number. Most source files are shorter.
const DEFAULT_LINES: u64 = 2000;

/// Follows what a picture in another format is.
const ONLY_SHOWN: &str = "and only PNG, JPEG, GIF and WebP are shown. Where a program that converts \
    it is installed (such as ImageMagick, ffmpeg, or Pillow for Python), make a PNG of it with that \
    and read the PNG";

/// Whether this server was built with a reader of PDF files.
const HAS_PDF: bool = cfg!(feature = "pdf");

#[derive(Debug)]
pub(crate) struct Read {
    workers: Workers,
    files: Arc<Files>,
    languages: Languages,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ReadInput {
    /// The file to read; a relative path counts from the working directory.
    file_path: PathBuf,
    /// The line to start at, or the cell of a notebook; 1 if left out. For files that do not
    /// fit one answer.
    offset: Option<u64>,
    /// How many lines or cells to read; 2000 lines, or all cells, if left out.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// The character to start at in the line at `offset`, to read a line of over 2000
    /// characters in parts.
    #[schemars(range(min = 1))]
    column: Option<u64>,
    /// Pages of a PDF file, such as `3` or `1-5`; at most 20. Required if it has more than 10.
    pages: Option<String>,
}

impl Read {
    pub(crate) fn new(workers: Workers) -> Self {
        Self { workers, files: Arc::default(), languages: Languages::default() }
    }

    /// Reads files in the encodings that these know.
    pub(crate) fn with_files(self, files: Arc<Files>) -> Self {
        Self { files, ..self }
    }

    /// Has these servers open what is read.
    pub(crate) fn with_languages(self, servers: Option<Arc<LanguageServers>>) -> Self {
        Self { languages: Languages::new(servers), ..self }
    }
}

impl Tool for Read {
    type Input = ReadInput;

    const NAME: &'static str = "Read";
    const ALIASES: &'static [&'static str] = &["FileRead", "read_file"];
    const ACCESS: AccessKind = AccessKind::Read;
    const DESCRIPTION: &'static str = if HAS_PDF {
        "Reads a file. Text comes by lines, each with its number and a tab, which are not part of \
         the file. Jupyter notebooks come by cells with their outputs, PDF files as the text of \
         their pages, and pictures (PNG, JPEG, GIF, WebP) are shown. Long files come in parts: go \
         on where the answer says PARTIAL. Lines over 2000 characters are cut: go on in one with \
         column. It reads files only; list directories with Glob."
    } else {
        "Reads a file. Text comes by lines, each with its number and a tab, which are not part of \
         the file. Jupyter notebooks come by cells with their outputs, and pictures (PNG, JPEG, \
         GIF, WebP) are shown. Long files come in parts: go on where the answer says PARTIAL. \
         Lines over 2000 characters are cut: go on in one with column. It reads files only; list \
         directories with Glob."
    };
    const START: StartRule = StartRule::Closed;
    const MAX_RESULT_CHARS: Option<usize> = Some(render::MAX_CHARS);

    fn withheld(&self) -> &'static [&'static str] {
        if HAS_PDF { &[] } else { &["pages"] }
    }

    fn concurrency(&self, _: &ReadInput) -> Concurrency {
        Concurrency::Shared
    }

    fn access_request(&self, input: &ReadInput, context: &CallContext) -> AccessRequest {
        AccessRequest::Read(context.resolve(Some(&input.file_path)))
    }

    fn headline(&self, input: &ReadInput) -> String {
        input.file_path.display().to_string()
    }

    async fn execute(
        &self,
        input: ReadInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let (wanted, call) = (input.wanted_text(), context.clone());
        let path = permit.target().map(|target| target.real_path().to_owned());
        let (target, _) =
            permit.into_target().ok_or_else(|| ToolError::failed("no file was permitted"))?;
        let (files, opened) = (Arc::clone(&self.files), Arc::clone(&target));
        let open = move || open(&files, &opened, wanted, &call);
        let opened = FILES.run(open).await.map_err(ToolError::failed)??;
        let (kind, mut output) = match opened {
            Opened::Text(output) => {
                self.languages.opened(path.as_deref(), &context);
                (None, output)
            }
            Opened::Other(media) => self.show(media, target, &input, &context).await?,
        };
        let note = input.note_on_unused(kind);
        output.text = output.text.closed_by(note);
        Ok(output)
    }
}

impl Read {
    /// The answer, and what the file was shown as.
    async fn show(
        &self,
        media: Media,
        target: Arc<Target>,
        input: &ReadInput,
        context: &CallContext,
    ) -> Result<(Option<Kind>, ToolOutput), ToolError> {
        let kind = media.kind;
        let output = match kind {
            Kind::Picture(format) => picture::read(media, format, context).await?,
            Kind::Notebook => match notebook::read(media, input.wanted_cells(), context).await {
                Ok(output) => output,
                Err(NotShown::Failed(error)) => return Err(error),
                Err(NotShown::IsText(why)) => {
                    let output = self.show_as_text(target, input, context, &why).await?;
                    return Ok((None, output));
                }
            },
            Kind::Pdf => pdf::read(media, input.pages(), &self.workers, context).await?,
        };
        Ok((Some(kind), output))
    }

    /// The text of a file that has the name of a notebook, and no cells.
    async fn show_as_text(
        &self,
        target: Arc<Target>,
        input: &ReadInput,
        context: &CallContext,
        why: &str,
    ) -> Result<ToolOutput, ToolError> {
        let (files, wanted, call) = (Arc::clone(&self.files), input.wanted_text(), context.clone());
        let read = move || {
            let failed = |error: io::Error| not_read(&target, &error, &call);
            let file = target.open_resolved_file().map_err(failed)?;
            read(&files, &target, &file, wanted, &call)
        };
        let mut output = FILES.run(read).await.map_err(ToolError::failed)??;
        output.text.close(format!(
            "(called a notebook, but {why}; so it is shown as text, and Edit and Write change it \
             as text)"
        ));
        Ok(output)
    }
}

impl ReadInput {
    fn wanted_text(&self) -> WantedText {
        let lines = match self.column {
            Some(_) => 1,
            None => self.limit.unwrap_or(DEFAULT_LINES),
        };
        WantedText { lines: Wanted { first: self.first(), lines }, column: self.column }
    }

    fn wanted_cells(&self) -> Wanted {
        Wanted { first: self.first(), lines: self.limit.unwrap_or(u64::MAX) }
    }

    fn first(&self) -> u64 {
        self.offset.unwrap_or(1).max(1)
    }

    fn pages(&self) -> Option<&str> {
        self.pages.as_deref().map(str::trim).filter(|pages| !pages.is_empty())
    }

    /// Names the arguments that a file of this kind has no use for. `None` is text.
    fn note_on_unused(&self, kind: Option<Kind>) -> Option<String> {
        let (lines, pages, what) = match kind {
            None => (true, false, "a text file"),
            Some(Kind::Notebook) => (true, false, "a notebook"),
            Some(Kind::Picture(_)) => (false, false, "a picture"),
            Some(Kind::Pdf) => (false, true, "a PDF file"),
        };
        let given = [
            ("offset", !lines && self.offset.is_some()),
            ("limit", !lines && self.limit.is_some()),
            ("column", kind.is_some() && self.column.is_some()),
            ("pages", !pages && self.pages().is_some()),
        ];
        let unused: Vec<_> = given.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        let (last, others) = unused.split_last()?;
        Some(match others {
            [] => format!("({last} has no effect on {what})"),
            _ => format!("({} and {last} have no effect on {what})", others.join(", ")),
        })
    }
}

/// The part of a text that is asked for.
#[derive(Clone, Copy, Debug)]
struct WantedText {
    lines: Wanted,
    /// The character to start at in the first line, which then is the only one.
    column: Option<u64>,
}

/// A file whose contents have been recognised.
enum Opened {
    /// It was text, and has been read.
    Text(ToolOutput),
    Other(Media),
}

fn open(
    files: &Files,
    target: &Target,
    wanted: WantedText,
    context: &CallContext,
) -> Result<Opened, ToolError> {
    let failed = |error: io::Error| not_read(target, &error, context);
    let file = target.open_resolved_file().map_err(failed)?;
    let kind = Kind::recognise(&file, target.real_path()).map_err(failed)?;
    Ok(match kind {
        Some(kind) => Opened::Other(Media::new(kind, file, target).map_err(failed)?),
        None => Opened::Text(read(files, target, &file, wanted, context)?),
    })
}

fn read(
    files: &Files,
    target: &Target,
    file: &File,
    wanted: WantedText,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let failed = |error: io::Error| not_read(target, &error, context);
    let before = FileVersion::from_metadata(&file.metadata().map_err(failed)?);
    let declared = files.declaration(target, &context.agent.read_state, None);
    let declared = declared.map(Declaration::encoding);
    let no_page = |error| no_page((target, file), error, context);
    let page = Page::read(file, wanted.lines, declared, &context.cancelled).map_err(no_page)?;
    let part = wanted.column.map(|column| part_of_line(file, &page, column, context));
    let part = part.transpose().map_err(no_page)?;
    let has_changed = FileVersion::from_metadata(&file.metadata().map_err(failed)?) != before;

    let state = &context.agent.read_state;
    let fingerprint = Fingerprint { version: before, hash: page.hash };
    if page.lines == 0 && page.total != Total::Exactly(0) {
        return Err(past_the_end(target, &page));
    }
    if let (Some(part), Some(column)) = (part, wanted.column)
        && page.total != Total::Exactly(0)
    {
        state.saw(target.real_path(), fingerprint, page.content.clone());
        let text = render::part(part, &page, column, has_changed)?;
        return Ok(ToolOutput::text(text).with(structured(target, &page, 1)));
    }
    let known = (target.real_path().to_owned(), fingerprint);
    let view = render::View::new(&page, known, context.max_chars.unwrap_or(render::MAX_CHARS));
    let (num_lines, shown) = (view.count(), view.shown_lines());
    let was_shown = shown.filter(|shown| !has_changed && state.was_shown(shown));
    state.saw(target.real_path(), fingerprint, page.content.clone());

    let path = target.path().display();
    let text = match (page.total, was_shown) {
        (Total::Exactly(0), _) => format!("{path} is empty.").into(),
        (_, Some(ShownLines { lines, .. })) => {
            let (first, last) = (lines.start(), lines.end());
            format!("{path} has not changed since you read lines {first}-{last}.").into()
        }
        _ => view.into_text(has_changed),
    };
    Ok(ToolOutput::text(text).with(structured(target, &page, num_lines)))
}

fn structured(target: &Target, page: &Page, num_lines: u64) -> Value {
    let total = match page.total {
        Total::Exactly(total) => json!(total),
        Total::MoreThan(_) => json!(null),
    };
    json!({
        "file_path": target.path().to_string_lossy(),
        "start_line": page.first,
        "num_lines": num_lines,
        "total_lines": total,
    })
}

/// Reads as much of the first line of a page as one answer shows, from a character on.
fn part_of_line(
    file: &File,
    page: &Page,
    column: u64,
    context: &CallContext,
) -> Result<LinePart, PageError> {
    let most = render::part_chars(context.max_chars.unwrap_or(render::MAX_CHARS));
    LinePart::read(file, page, (column, most), &context.cancelled)
}

fn past_the_end(target: &Target, page: &Page) -> ToolError {
    let total = match page.total {
        Total::Exactly(total) | Total::MoreThan(total) => total,
    };
    ToolError::Failed(format!(
        "offset {} is past the end of {}, which has {total} line{}",
        page.first,
        target.path().display(),
        if total == 1 { "" } else { "s" }
    ))
}

fn not_read(target: &Target, error: &io::Error, context: &CallContext) -> ToolError {
    let path = target.path().display();
    if error.kind() == io::ErrorKind::NotFound {
        return ToolError::Missing(format!(
            "File does not exist: {path}. The working directory is {}",
            context.agent.working_dir().display()
        ));
    }
    ToolError::Failed(match error.kind() {
        io::ErrorKind::IsADirectory => {
            format!("{path} is {error}; list it with Glob")
        }
        io::ErrorKind::InvalidInput => format!("{path} is {error}"),
        _ => format!("could not read {path}: {error}"),
    })
}

fn no_page((target, file): (&Target, &File), error: PageError, context: &CallContext) -> ToolError {
    let path = target.path().display();
    match error {
        PageError::Binary(Binary(what)) => {
            if let Some(what) = media::other_picture(file) {
                return ToolError::Failed(format!("{path} is {what}, {ONLY_SHOWN}"));
            }
            let also = if HAS_PDF {
                "notebooks, pictures and PDF files"
            } else {
                "notebooks and pictures"
            };
            ToolError::Failed(format!("{path} is {what}, and only text, {also} can be read"))
        }
        PageError::TooFar(_) => ToolError::Failed(format!("{path}: {error}")),
        PageError::Cancelled => ToolError::Cancelled,
        PageError::Io(error) => not_read(target, &error, context),
    }
}

#[cfg(test)]
mod media_tests;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use insta::assert_snapshot;

    use super::*;
    use crate::tools::tool::test_support::Workspace;

    async fn answer(files: &[(&str, &str)], arguments: Value) -> String {
        Workspace::new(files).call(Read::default(), arguments).await
    }

    impl Default for Read {
        fn default() -> Self {
            Self::new(Workers::new(Path::new("/proc/self/exe")))
        }
    }

    #[tokio::test]
    async fn numbers_the_lines() {
        let answer = answer(&[("a.txt", "one\n\ttwo\r\n\nfour")], json!({ "file_path": "a.txt" }));
        assert_snapshot!(answer.await, @r"
        1	one
        2		two
        3	
        4	four
        ");
    }

    #[tokio::test]
    async fn goes_on_where_a_page_ended() {
        let workspace = Workspace::new(&[("a.txt", "1\n2\n3\n4\n5\n")]);
        let first =
            workspace.call(Read::default(), json!({ "file_path": "a.txt", "limit": 2 })).await;
        let last =
            workspace.call(Read::default(), json!({ "file_path": "a.txt", "offset": 4 })).await;
        assert_snapshot!(first, @r"
             1	1
             2	2
        (PARTIAL: lines 1-2 of 5; go on with offset 3)
        ");
        assert_snapshot!(last, @r"
             4	4
             5	5
        (PARTIAL: lines 4-5 of 5; the end of the file)
        ");
    }

    #[tokio::test]
    async fn says_what_there_is_not() {
        let workspace = Workspace::new(&[("empty", ""), ("one", "1\n")]);
        workspace.write("image.txt", b"\x89PNG\r\n\x1a\n\0\0");
        std::fs::create_dir(workspace.path("directory")).unwrap();
        let mut answers = Vec::new();
        for (path, offset) in
            [("empty", 1), ("one", 3), ("missing", 0), ("directory", 0), ("image.txt", 0)]
        {
            let arguments = json!({ "file_path": path, "offset": offset });
            answers.push(workspace.call(Read::default(), arguments).await);
        }
        assert_snapshot!(answers.join("\n"), @r"
        $WORKSPACE/empty is empty.
        Error: offset 3 is past the end of $WORKSPACE/one, which has 1 line
        Error: File does not exist: $WORKSPACE/missing. The working directory is $WORKSPACE
        Error: $WORKSPACE/directory is not a regular file but a directory; list it with Glob
        Error: $WORKSPACE/image.txt is a PNG picture, but it is cut short or damaged (unexpected end of file)
        ");
    }

    #[tokio::test]
    async fn a_long_line_is_cut_at_a_character() {
        let long = "é".repeat(2500);
        let answer = answer(&[("a", &long)], json!({ "file_path": "a" })).await;
        let line = format!("     1\t{} … (line cut at 2000 characters)", "é".repeat(2000));
        let how = "(to go on in a line that is cut, set offset to its number and column to 2001)";
        assert_eq!(answer, format!("{line}\n{how}"));
    }

    #[tokio::test]
    async fn files_25_a_cut_line_is_read_on_in_parts() {
        let line: String = ('a'..='z').cycle().take(25_000).collect();
        let workspace = Workspace::new(&[("a", &format!("1\n{line}\n3\n")), ("empty", "")]);
        let read = async |arguments: Value| workspace.call(Read::default(), arguments).await;
        let mut all = line[..2000].to_owned();
        let mut next = 2001;
        while next <= 25_000 {
            let answer = read(json!({ "file_path": "a", "offset": 2, "column": next })).await;
            let (part, note) = answer.split_once('\n').unwrap();
            all.push_str(part.strip_prefix("     2\t").unwrap());
            let last = (next + 9_999).min(25_000);
            let how = match last {
                25_000 => "the end of the line".to_owned(),
                _ => format!("go on with offset 2 and column {}", last + 1),
            };
            assert_eq!(
                note,
                format!("(PARTIAL: characters {next}-{last} of 25000 of line 2; {how})")
            );
            next = last + 1;
        }
        assert_eq!(all, line);
        assert_snapshot!(read(json!({ "file_path": "a", "offset": 2, "column": 25_001 })).await, @"Error: column 25001 is past the end of line 2, which has 25000 characters");
        assert_snapshot!(read(json!({ "file_path": "a", "offset": 3, "column": 1 })).await, @r"
             3	3
        (PARTIAL: characters 1-1 of 1 of line 3; the end of the line)
        ");
        assert_snapshot!(read(json!({ "file_path": "a", "offset": 9, "column": 1 })).await, @"Error: offset 9 is past the end of $WORKSPACE/a, which has 3 lines");
        assert_snapshot!(read(json!({ "file_path": "empty", "column": 5 })).await, @"$WORKSPACE/empty is empty.");
    }

    #[tokio::test]
    async fn files_25_a_part_fits_its_limit_and_is_not_the_whole_line() {
        let mut workspace = Workspace::new(&[("a", &"x".repeat(5000))]);
        workspace.limit(600);
        let part = json!({ "file_path": "a", "column": 11 });
        let answer = workspace.call(Read::default(), part.clone()).await;
        assert!(answer.chars().count() <= 600, "{answer}");
        assert!(answer.contains("(PARTIAL: characters 11-"), "{answer}");
        workspace.close_round();
        assert_eq!(workspace.call(Read::default(), part).await, answer);
    }

    #[tokio::test]
    async fn an_answer_ends_with_a_whole_line_and_how_to_go_on() {
        let text = format!("{}\n", "x".repeat(99)).repeat(1500);
        let answer = answer(&[("a", &text)], json!({ "file_path": "a" })).await;
        assert!(answer.chars().count() <= render::MAX_CHARS);
        let last = answer.lines().last().unwrap();
        assert_eq!(last, "(PARTIAL: lines 1-925 of 1500; go on with offset 926)");
        assert_eq!(answer.lines().count(), 926);
    }

    #[tokio::test]
    async fn other_encodings_are_marked() {
        let workspace = Workspace::new(&[]);
        workspace.write("utf16", b"\xff\xfea\0\n\0b\0");
        workspace.write("mark", b"\xef\xbb\xbfa\n");
        workspace.write("latin", b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n");
        workspace.write("broken", &["ä ö ü ß ä ö".as_bytes(), b"\xff"].concat());
        let mut answers = Vec::new();
        for path in ["utf16", "mark", "latin", "broken"] {
            answers.push(workspace.call(Read::default(), json!({ "file_path": path })).await);
        }
        assert_snapshot!(answers.join("\n"), @r"
             1	a
             2	b
        (decoded from UTF-16LE)
             1	a
             1	Grüße aus Köln, schön!
        (guessed: windows-1252. Edit and Write put nothing but ASCII into it without `encoding`)
             1	ä ö ü ß ä ö�
        (guessed: utf-8. Edit and Write put nothing but ASCII into it without `encoding`)
        (bytes that are not UTF-8 are shown as �)
        ");
    }

    #[tokio::test]
    async fn t17_no_nul_character_is_shown_wherever_it_stands() {
        let utf_16 =
            |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        let utf_32 = |text: &str| text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        let far = "line\n".repeat(20_000);
        let contents: [Vec<u8>; 6] = [
            utf_32("\u{feff}one\ntwo\n"),
            [b"\xff\xfe".to_vec(), vec![0; 100]].concat(),
            utf_16("\u{feff}one\n\0\n"),
            utf_16(&format!("\u{feff}{far}\0\n")),
            utf_16(&format!("{far}\0\n")),
            format!("\u{feff}{far}\0\n").into_bytes(),
        ];
        for (number, content) in contents.iter().enumerate() {
            let workspace = Workspace::new(&[]);
            workspace.write("a", content);
            let first =
                workspace.call(Read::default(), json!({ "file_path": "a", "limit": 1 })).await;
            let late = json!({ "file_path": "a", "offset": 19_990 });
            let late = workspace.call(Read::default(), late).await;
            assert!(!first.contains('\0') && !late.contains('\0'), "{number}: {first:?} {late:?}");
            assert!(late.contains("and only text, notebooks"), "{number}: {late:?}");
        }
    }

    #[tokio::test]
    async fn a_line_that_was_cut_is_shown_again() {
        let workspace = Workspace::new(&[("a.txt", &format!("1\n{}\n3\n", "x".repeat(3000)))]);
        let all = json!({ "file_path": "a.txt" });
        let first = workspace.call(Read::default(), all.clone()).await;
        assert!(first.contains("line cut at 2000 characters"), "{first}");
        workspace.close_round();
        assert_eq!(workspace.call(Read::default(), all).await, first);
        let whole = json!({ "file_path": "a.txt", "limit": 1 });
        workspace.call(Read::default(), whole.clone()).await;
        workspace.close_round();
        assert!(workspace.call(Read::default(), whole).await.contains("has not changed"));
    }

    #[tokio::test]
    async fn lines_that_a_limit_leaves_out_were_not_shown() {
        let mut workspace = Workspace::new(&[("a.txt", &"0123456789\n".repeat(100))]);
        workspace.limit(500);
        let all = json!({ "file_path": "a.txt" });
        let first = workspace.call(Read::default(), all.clone()).await;
        assert!(first.chars().count() <= 500, "{first}");
        let last = first.lines().last().unwrap();
        assert_eq!(last, "(PARTIAL: lines 1-13 of 100; go on with offset 14)");
        workspace.close_round();
        let again = workspace.call(Read::default(), all).await;
        assert!(again.ends_with("has not changed since you read lines 1-13."), "{again}");
        let rest = json!({ "file_path": "a.txt", "offset": 13 });
        assert!(workspace.call(Read::default(), rest).await.starts_with("    13\t"));
    }

    #[tokio::test]
    async fn a_line_longer_than_the_limit_is_cut() {
        let mut workspace = Workspace::new(&[("a.txt", &"x".repeat(1000))]);
        workspace.limit(300);
        let answer = workspace.call(Read::default(), json!({ "file_path": "a.txt" })).await;
        assert!(answer.chars().count() <= 300, "{answer}");
        assert!(answer.contains("x … (line cut at 90 characters)"), "{answer}");
    }

    #[tokio::test]
    async fn no_number_of_lines_is_too_much() {
        let workspace = Workspace::new(&[("empty lines", &"\n".repeat(1_000_000))]);
        let mut answers = Vec::new();
        for (offset, limit) in
            [(json!(1), json!(1)), (json!(999_999), json!(10)), (json!(1_u64 << 53), json!(1))]
        {
            let arguments = json!({ "file_path": "empty lines", "offset": offset, "limit": limit });
            answers.push(workspace.call(Read::default(), arguments).await);
        }
        for (offset, limit) in
            [(json!(0), json!(0)), (json!(-1), json!(-1)), (json!(u64::MAX), json!(1))]
        {
            let arguments = json!({ "file_path": "empty lines", "offset": offset, "limit": limit, "pages": "1" });
            answers.push(workspace.call(Read::default(), arguments).await);
        }
        let all = json!({ "file_path": "empty lines", "limit": u64::MAX });
        answers.push(workspace.call(Read::default(), all).await.lines().last().unwrap().to_owned());
        assert_snapshot!(answers.join("\n"), @r"
             1	
        (PARTIAL: lines 1-1 of 1000000; go on with offset 2)
        999999	
        1000000	
        (PARTIAL: lines 999999-1000000 of 1000000; the end of the file)
        Error: offset 9007199254740992 is past the end of $WORKSPACE/empty lines, which has 1000000 lines
        Error: invalid input: `limit`: expected at least 1, got number 0
        Error: invalid input: `offset`: expected at least 0, got number -1; `limit`: expected at least 1, got number -1
        Error: offset 18446744073709551615 is past the end of $WORKSPACE/empty lines, which has 1000000 lines
        (PARTIAL: lines 1-12375 of 1000000; go on with offset 12376)
        ");
    }

    #[tokio::test]
    async fn what_was_shown_in_an_earlier_round_is_not_shown_again() {
        let workspace = Workspace::new(&[("a.txt", "1\n2\n3\n")]);
        let arguments = json!({ "file_path": "a.txt" });
        let first = workspace.call(Read::default(), arguments.clone()).await;
        assert_eq!(
            workspace.call(Read::default(), arguments.clone()).await,
            first,
            "in the same round"
        );
        workspace.close_round();
        assert_snapshot!(workspace.call(Read::default(), arguments.clone()).await, @"$WORKSPACE/a.txt has not changed since you read lines 1-3.");
        workspace.write("a.txt", b"1\n2\nthree\n");
        assert_snapshot!(workspace.call(Read::default(), arguments).await, @r"
        1	1
        2	2
        3	three
        ");
    }

    #[tokio::test]
    async fn reads_through_a_link_and_by_absolute_path() {
        let workspace = Workspace::new(&[("a.txt", "1\n")]);
        symlink("a.txt", workspace.path("link")).unwrap();
        for path in [workspace.path("link"), workspace.path("sub/../a.txt")] {
            assert_eq!(
                workspace.call(Read::default(), json!({ "file_path": path })).await,
                "     1\t1"
            );
        }
    }

    #[tokio::test]
    async fn a_file_of_a_tebibyte_costs_nothing() {
        let workspace = Workspace::new(&[("a", "text\n")]);
        let sparse = File::options().write(true).open(workspace.path("a")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        let answer = workspace.call(Read::default(), json!({ "file_path": "a" })).await;
        assert!(answer.contains("is a binary file"), "{answer}");
        let text = "y\n".repeat(1 << 16);
        workspace.write("b", text.as_bytes());
        let sparse = File::options().write(true).open(workspace.path("b")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        let answer = workspace.call(Read::default(), json!({ "file_path": "b", "limit": 1 })).await;
        assert_snapshot!(answer, @r"
             1	y
        (PARTIAL: lines 1-1 of more than 65536; go on with offset 2)
        ");
    }

    #[tokio::test]
    async fn a_cancelled_read_says_so() {
        let workspace = Workspace::new(&[("a", &"x\n".repeat(1 << 20))]);
        workspace.context().cancelled.cancel();
        let answer = workspace.call(Read::default(), json!({ "file_path": "a" })).await;
        assert_eq!(answer, "Error: interrupted");
    }
}
