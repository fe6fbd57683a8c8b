//! Compiles the arguments of a call: pattern, file filters and form of the answer.

use std::path::{Path, PathBuf};

use grep::regex::RegexMatcher;
use grep::searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::overrides::OverrideBuilder;
use ignore::types::{Types, TypesBuilder};

use super::pattern::LineEnds;
use super::{GrepInput, OutputMode, pattern};
use crate::look_alike::{normal_path, normal_text};
use crate::text;
use crate::tools::tool::ToolError;
use crate::tools::walk::{self, Filter, FilterGlobs, READ_LITERALLY, with_literal_brackets};

/// Lines, paths or counts of an answer if the model sets no limit.
const DEFAULT_LIMIT: usize = 250;

/// Bytes of one file that a thread may hold. Longer lines, and larger files in a search across
/// lines, are not searched.
const HEAP_LIMIT: usize = 64 << 20;

/// Suggestions for an unknown file type.
const MAX_SUGGESTIONS: usize = 3;

/// Below this similarity it is another word, not a typing error.
const MIN_SIMILARITY: f64 = 0.7;

/// Says that a list of globs was read as one name too.
const READ_AS_ONE: &str = "(brackets, braces, blanks and commas of glob are read as plain \
    characters: it matches nothing otherwise)";

#[derive(Debug)]
pub(super) struct Query {
    pub(super) matcher: RegexMatcher,
    globs: Option<Globs>,
    pub(super) line_ends: LineEnds,
    types: Option<Types>,
    working_dir: PathBuf,
    pub(super) mode: OutputMode,
    pub(super) only_matching: bool,
    pub(super) line_numbers: bool,
    pub(super) offset: usize,
    /// `None` means no limit.
    pub(super) limit: Option<usize>,
    before: usize,
    after: usize,
    multiline: bool,
}

impl Query {
    /// Globs with a slash are relative to `working_dir`.
    pub(super) fn compile(input: &GrepInput, working_dir: &Path) -> Result<Self, ToolError> {
        let around = input.around.unwrap_or(0);
        Ok(Self {
            matcher: pattern::compile(input)?,
            globs: input.glob.as_deref().map(|text| Globs::new(text, working_dir)).transpose()?,
            line_ends: LineEnds::of(&input.pattern),
            types: input.file_type.as_deref().map(types).transpose()?,
            working_dir: working_dir.to_owned(),
            mode: input.output_mode,
            only_matching: input.only_matching.unwrap_or(false),
            line_numbers: input.line_numbers.unwrap_or(true),
            offset: input.offset.unwrap_or(0),
            limit: Some(input.head_limit.unwrap_or(DEFAULT_LIMIT)).filter(|limit| *limit > 0),
            before: input.before.unwrap_or(around),
            after: input.after.unwrap_or(around),
            multiline: input.multiline.unwrap_or(false),
        })
    }

    /// The filter for a walk of the directory that was asked for at `path`.
    pub(super) fn filter(&self, path: &Path, real_path: &Path, reading: GlobReading) -> Filter {
        let globs = self.globs.as_ref().and_then(|globs| globs.read(reading)).cloned();
        let below = path.strip_prefix(&self.working_dir).ok();
        let globs_top =
            globs.as_ref().zip(below).map(|(globs, below)| globs.matcher.path().join(below));
        let globs_top = globs_top.filter(|top| top != real_path);
        let types = self.types.clone();
        Filter { enters_ignored: true, globs, globs_top, types, ..Filter::default() }
    }

    /// Whether the globs can be read with their brackets as plain characters.
    pub(super) fn has_second_reading(&self) -> bool {
        self.globs.as_ref().is_some_and(|globs| globs.with_literals.is_some())
    }

    /// Why the globs are none as they are written, if so.
    pub(super) fn fault_of_globs(&self) -> Option<ToolError> {
        let fault = self.globs.as_ref()?.as_written.as_ref().err()?;
        Some(ToolError::InvalidInput(fault.clone()))
    }

    /// What an answer says of globs in their second reading.
    pub(super) fn note_on_second_reading(&self) -> &'static str {
        if self.globs.as_ref().is_some_and(|globs| globs.is_list) {
            READ_AS_ONE
        } else {
            READ_LITERALLY
        }
    }

    /// Whether one of the globs is the path of a file, which is searched even if it is ignored.
    pub(super) fn names_paths(&self) -> bool {
        self.globs.as_ref().is_some_and(|globs| globs.names_paths)
    }

    /// Whether the globs have groups that only other tools know.
    pub(super) fn has_extended_group(&self) -> bool {
        self.globs.as_ref().is_some_and(|globs| globs.has_extended_group)
    }

    /// The reason why a file is too large to search.
    pub(super) fn too_large(&self) -> &'static str {
        if self.multiline {
            "it is over 64 MiB, too large for multiline"
        } else {
            "a line is over 64 MiB"
        }
    }

    /// Whether carriage returns stay also where lines end at them alone.
    pub(super) fn keeps_returns(&self) -> bool {
        self.line_ends == LineEnds::WithReturns
    }

    /// Whether matching lines are shown.
    pub(super) fn shows_lines(&self) -> bool {
        self.mode == OutputMode::Content
    }

    /// Whether matching lines are counted.
    pub(super) fn counts(&self) -> bool {
        self.mode == OutputMode::Count
    }

    /// Whether each piece of a file can be searched on its own: matches do not span lines, and
    /// no line is shown, so that none needs its number or those around it.
    pub(super) fn works_in_pieces(&self) -> bool {
        self.mode != OutputMode::Content && !self.multiline
    }

    /// A searcher for one thread.
    pub(super) fn searcher(&self) -> Searcher {
        self.builder().build()
    }

    /// A searcher for pieces of one file. It stops at a NUL.
    pub(super) fn searcher_of_pieces(&self) -> Searcher {
        let mut builder = self.builder();
        builder.binary_detection(BinaryDetection::quit(0)).build()
    }

    fn builder(&self) -> SearcherBuilder {
        let mut builder = SearcherBuilder::new();
        builder
            .multi_line(self.multiline)
            // What it gets is UTF-8, behind the byte order mark.
            .bom_sniffing(false)
            .heap_limit(Some(HEAP_LIMIT))
            .line_number(self.mode == OutputMode::Content && self.line_numbers)
            // In every mode, as in ripgrep: lines of context may show that a file is binary.
            .before_context(self.before)
            .after_context(self.after);
        builder
    }

    pub(super) fn has_context(&self) -> bool {
        self.mode == OutputMode::Content && self.before + self.after > 0
    }

    /// The number of lines that fill the page, and one more to tell whether others follow.
    pub(super) fn lines_wanted(&self) -> usize {
        let limit = self.limit.unwrap_or(usize::MAX);
        self.offset.saturating_add(limit).saturating_add(1)
    }
}

/// How brackets and braces of globs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GlobReading {
    AsWritten,
    WithLiterals,
}

/// The globs of a call in both readings.
#[derive(Debug)]
struct Globs {
    /// Why one of them is none, if so. Then the other reading is the only one.
    as_written: Result<FilterGlobs, String>,
    /// Matches names with brackets and braces as well, and of a list with blanks and commas.
    with_literals: Option<FilterGlobs>,
    is_list: bool,
    /// Whether one of them is the path of a file.
    names_paths: bool,
    has_extended_group: bool,
}

impl Globs {
    fn new(text: &str, working_dir: &Path) -> Result<Self, ToolError> {
        walk::check_pattern(text)?;
        let root = working_dir.canonicalize().unwrap_or_else(|_| working_dir.to_owned());
        // A glob of ASCII names no letter with an accent, so paths are compared as they are.
        let are_normal = !text.is_ascii();
        let root = if are_normal { normal_path(&root).into_owned() } else { root };
        let text = normal_text(text);
        let globs: Vec<String> = split(&text).into_iter().map(str::to_owned).collect();
        let read = |globs: &[String]| filter_globs(&root, globs, are_normal);
        let as_written = read(&globs);
        let names_paths = globs.iter().any(|glob| is_path(glob));
        let is_list = globs.len() > 1;
        let has_brackets = globs.iter().any(|glob| with_literal_brackets(glob).is_some());
        let with_literals = (is_list || has_brackets).then(|| {
            let mut globs: Vec<String> = globs.iter().map(|glob| second_reading(glob)).collect();
            if is_list {
                // A name may hold blanks and commas.
                globs.push(second_reading(text.trim()));
            }
            read(&globs).ok()
        });
        match (as_written, with_literals.flatten()) {
            (Err(fault), None) => Err(ToolError::InvalidInput(fault)),
            (as_written, with_literals) => {
                let has_extended_group = globs.iter().any(|glob| walk::has_extended_group(glob));
                Ok(Self { as_written, with_literals, is_list, names_paths, has_extended_group })
            }
        }
    }

    fn read(&self, reading: GlobReading) -> Option<&FilterGlobs> {
        match reading {
            GlobReading::AsWritten => self.as_written.as_ref().ok(),
            GlobReading::WithLiterals => self.with_literals.as_ref(),
        }
    }
}

/// Whether a glob has no wildcard, and names more than a file at any depth.
fn is_path(glob: &str) -> bool {
    glob.contains('/') && !glob.starts_with('!') && !glob.contains(['*', '?', '[', '{', '\\'])
}

fn filter_globs(root: &Path, globs: &[String], are_normal: bool) -> Result<FilterGlobs, String> {
    let invalid = |error: ignore::Error| format!("glob: {error}");
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        builder.add(glob).map_err(invalid)?;
    }
    let matcher = builder.build().map_err(invalid)?;
    Ok(FilterGlobs { matcher, are_normal })
}

/// A glob may begin with an exclamation mark, which is no part of the name.
fn second_reading(glob: &str) -> String {
    let name = glob.strip_prefix('!');
    let read = with_literal_brackets(name.unwrap_or(glob));
    match (name, read) {
        (Some(_), Some(read)) => format!("!{read}"),
        (None, Some(read)) => read,
        (_, None) => glob.to_owned(),
    }
}

fn types(name: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults().select(name);
    builder.build().map_err(|error| {
        let known = builder.definitions();
        let rated =
            known.iter().map(|known| (strsim::jaro_winkler(name, known.name()), known.name()));
        let names: Vec<&str> = text::closest(rated, MIN_SIMILARITY).take(MAX_SUGGESTIONS).collect();
        let hint = if names.is_empty() {
            "; use glob instead".to_owned()
        } else {
            format!("; closest: {}", names.join(", "))
        };
        ToolError::InvalidInput(format!("type: {error}{hint}"))
    })
}

/// Splits a list of globs at white space and at commas outside braces.
fn split(text: &str) -> Vec<&str> {
    let mut globs = Vec::new();
    for word in text.split_whitespace() {
        let (mut depth, mut start) = (0_usize, 0);
        for (index, byte) in word.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                b',' if depth == 0 => {
                    globs.push(&word[start..index]);
                    start = index + 1;
                }
                _ => {}
            }
        }
        globs.push(&word[start..]);
    }
    globs.retain(|glob| !glob.is_empty());
    globs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_globs_outside_braces() {
        assert_eq!(split("*.{ts,tsx}, !*.d.ts\t*.js"), ["*.{ts,tsx}", "!*.d.ts", "*.js"]);
        assert_eq!(split(" , "), [""; 0]);
        assert_eq!(split("{a,{b,c}},d}"), ["{a,{b,c}}", "d}"]);
    }
}
