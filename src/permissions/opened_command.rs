//! Reads a command line against the disk: its parts, the files that it names and what they lead
//! to. The verdict on it is the policy's.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use super::commands::{
    self, BashPattern, CommandSummary, CriticalRemoval, Doubt, OperandPath, ParsedCommand, Place,
    Reading, Risk, UnparsedCommand,
};
use super::path_lists::{PROTECTED, SENSITIVE};
use super::path_pattern::PatternRoots;
use super::secret_files::FoundSecrets;
use crate::workspace::{Target, Workspace};

pub(super) use self::exposed::Exposed;
pub(super) use self::files::{CommandFile, OwnState, UnknownFile};
use self::placed::PlacedFiles;

mod below;
mod changed;
mod expand;
mod exposed;
mod files;
mod placed;
#[cfg(test)]
mod tests;

/// A command, and where it would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) line: String,
    pub(crate) directory: PathBuf,
    /// The directory with every link resolved.
    pub(crate) real_directory: PathBuf,
    /// Whether it is to run outside of the sandbox, where one holds.
    pub(crate) outside_sandbox: bool,
    /// Why it failed when nobody had approved it.
    pub(crate) lacked: Option<Lacked>,
}

/// What a command did without because nobody had approved it, and failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacked {
    /// It was confined to reading. It counts as one that may write.
    Writing,
    /// A file was closed to it that may hold secrets.
    Secrets,
    /// The workspace has more files than are looked through for what has to be closed.
    Look,
}

/// A command with what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct OpenedCommand {
    pub(crate) command_line: CommandLine,
    /// The roots by which it was judged, and to which it is confined.
    pub(crate) workspace: Arc<Workspace>,
    analysis: CommandAnalysis,
}

/// What the policy has to know of a command.
#[derive(Clone, Debug)]
pub(super) struct CommandAnalysis {
    parsed: Result<ParsedCommand, Box<UnparsedCommand>>,
    pub(super) files: Vec<CommandFile>,
    /// Files that are known only when the command runs.
    pub(super) unknown: Vec<UnknownFile>,
    /// What it copies or moves with a directory.
    pub(super) placed: PlacedFiles,
    pub(super) removals: Vec<CriticalRemoval>,
    pub(super) risks: Vec<Risk>,
    /// A program of the line that PATH leads to below a root, where anybody may have put it.
    planted: Option<PathBuf>,
    /// Whether a part of it may run outside of the roots.
    may_leave: bool,
    /// Whether it only reads, as far as that is known.
    reading: Reading,
    /// What a reader could show where the sandbox has no masks.
    pub(super) exposed: Option<Exposed>,
    /// What of a reader may read files that nobody has looked at: there are more directories than
    /// the sandbox finds secrets in.
    pub(super) unseen: Option<String>,
    /// What the words of programs that are not known may name.
    pub(super) possible_files: Vec<PathBuf>,
    pub(super) outside_sandbox: bool,
    /// Why it failed without an approval, which nothing but one can give it.
    pub(super) needs_approval: Option<&'static str>,
    /// A rule that denies to change what the command could make, and that no mount holds.
    pub(super) unheld_rule: Option<String>,
}

/// Where commands run.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) workspace: &'a Arc<Workspace>,
    pub(super) roots: &'a PatternRoots,
    /// Whether the path, or what it leads to, is in the server's own state directory.
    pub(super) is_own_state: &'a dyn Fn(&Path, Option<&Target>) -> bool,
    /// The value of PATH.
    pub(super) search_path: &'a OsStr,
    /// Directories besides the roots that commands can write to.
    pub(super) writable: &'a [PathBuf],
}

impl OpenedCommand {
    /// Reads the disk, and parses for up to 50 ms.
    pub(super) fn open(command_line: CommandLine, surroundings: Surroundings<'_>) -> Self {
        let mut analysis = CommandAnalysis::new(&command_line, surroundings);
        match command_line.lacked {
            Some(Lacked::Writing) => {
                analysis.reading =
                    Reading::unknown("", "it failed when it was confined to reading");
            }
            Some(Lacked::Secrets) => {
                analysis.reading =
                    Reading::unknown("", "a file that may hold secrets was closed to it");
                analysis.needs_approval = Some(
                    "a file that may hold secrets was closed to it when nobody had approved it",
                );
            }
            Some(Lacked::Look) => {
                analysis.needs_approval = Some(
                    "not all files here can be looked through for what has to be closed to it",
                );
            }
            None => {}
        }
        if command_line.outside_sandbox {
            analysis.outside_sandbox = true;
            analysis.risks.insert(0, Risk::outside_sandbox());
        }
        Self { command_line, workspace: Arc::clone(surroundings.workspace), analysis }
    }

    /// Whether the command may go on when nobody waits for it any more. One that only waits is
    /// of no use then, git would keep its locks, and what is not understood might be either.
    pub(crate) fn may_go_on_alone(&self) -> bool {
        self.analysis.parsed.as_ref().is_ok_and(ParsedCommand::may_go_on_alone)
    }

    /// Whether exit code 1 is an answer of the command that has given it, if the shell has reported
    /// no failure of its own.
    pub(crate) fn exit_one_is_an_answer(&self) -> bool {
        self.analysis.parsed.as_ref().is_ok_and(ParsedCommand::exit_one_is_an_answer)
    }

    /// Whether a program of it is made to connect to other machines.
    pub(crate) fn connects(&self) -> bool {
        self.analysis.connects().is_some()
    }

    /// Whether it runs git to read alone. What the repository says of hooks, pagers and drivers then
    /// need not count.
    pub(crate) fn reads_git(&self) -> bool {
        let CommandAnalysis { parsed, reading, .. } = &self.analysis;
        *reading == Reading::Reader && parsed.as_ref().is_ok_and(ParsedCommand::runs_git)
    }

    /// Whether the command changes nothing, with nothing that keeps it from that.
    pub(crate) fn is_proven_to_read(&self) -> bool {
        self.analysis.reading == Reading::Proven
    }

    /// Looks for what a reader could show of the roots, where no mask can hide it.
    pub(super) fn expose(&mut self, shows: impl Fn(&Path) -> bool) {
        if self.analysis.reading == Reading::Reader {
            self.analysis.exposed = exposed::exposed(self.workspace.real_roots(), shows);
        }
    }

    /// Takes out of what a reader would meet in directories the secrets that the sandbox masks.
    /// `masked` reads the disk.
    pub(super) fn mask(
        &mut self,
        is_secret: impl Fn(&Path) -> bool,
        masked: impl FnOnce() -> FoundSecrets,
    ) {
        let CommandAnalysis { reading, files, outside_sandbox, .. } = &mut self.analysis;
        let only_reads = matches!(reading, Reading::Proven | Reading::Reader);
        if !only_reads || *outside_sandbox {
            return;
        }
        let meets_secret = files
            .iter()
            .filter_map(|file| file.below.as_ref())
            .any(|below| below.paths.iter().any(|path| is_secret(path)));
        if !meets_secret {
            return;
        }
        let masked = masked();
        let is_masked = |path: &Path| masked.paths.iter().any(|secret| path.starts_with(secret));
        for below in files.iter_mut().filter_map(|file| file.below.as_mut()) {
            below.paths.retain(|path| !is_secret(path) || !is_masked(path));
        }
    }

    /// Looks whether a reader may read what is in directories that the sandbox does not look
    /// through for secrets. `is_cut` says whether there are any, and reads the disk.
    pub(super) fn look_for_unseen(&mut self, is_cut: impl FnOnce() -> bool) {
        let analysis = &mut self.analysis;
        if analysis.reading == Reading::Reader && !analysis.outside_sandbox {
            analysis.unseen = analysis.reaching().filter(|_| is_cut());
        }
    }

    /// Notes a rule that denies to change what the command could make, and that no mount holds.
    pub(super) fn cannot_hold(&mut self, rule: Option<String>) {
        self.analysis.unheld_rule = rule;
    }

    pub(super) fn files_mut(&mut self) -> &mut [CommandFile] {
        &mut self.analysis.files
    }

    pub(super) fn analysis(&self) -> &CommandAnalysis {
        &self.analysis
    }

    pub(super) fn has_critical_removal(&self) -> bool {
        !self.analysis.removals.is_empty()
    }

    /// The file that the command shows as it is, with every link resolved, if it does nothing
    /// else.
    pub(crate) fn plainly_read(&self) -> Option<&Path> {
        let CommandAnalysis { parsed, files, unknown, .. } = &self.analysis;
        let parsed = parsed.as_ref().ok()?;
        let ([file], []) = (&files[..], &unknown[..]) else { return None };
        (parsed.is_plain_read() && file.is_read()).then_some(file.leads_to())
    }

    /// What was found in it, for the person who approves.
    pub(super) fn summary(&self) -> CommandSummary {
        match &self.analysis.parsed {
            Ok(parsed) => CommandSummary::Commands(parsed.summary()),
            Err(unparsed) => CommandSummary::Doubtful(unparsed.doubt),
        }
    }

    /// What speaks against it, the gravest first, for the person who approves.
    pub(super) fn risks(&self) -> &[Risk] {
        &self.analysis.risks
    }
}

impl CommandAnalysis {
    fn new(command_line: &CommandLine, surroundings: Surroundings<'_>) -> Self {
        let directory = command_line.real_directory.as_path();
        let place = Place { directory, home: &surroundings.roots.home };
        let parsed = commands::parse(&command_line.line);
        match parsed {
            Err(unparsed) => {
                let risks = unparsed.risks();
                let removals = unparsed.critical_removals(&place);
                Self { removals, risks, ..Self::of_parts(Err(unparsed)) }
            }
            Ok(parsed) => {
                let (files, unknown) = files::open(&parsed.operands(&place), surroundings);
                let placed = placed::placed(&files);
                let risks = parsed.risks(&place, &is_sensitive);
                let removals = removals(&parsed, &place, &files);
                let planted = planted(&parsed, &place, surroundings);
                let reading = reading(&parsed, planted.as_deref(), &files, &unknown);
                let possible_files = parsed.possible_files(&place);
                let is_inside = |directory: &Path| {
                    let real = fs::canonicalize(directory);
                    let real = real.unwrap_or_else(|_| commands::normalized(directory));
                    surroundings.roots.below(&real).is_some()
                };
                let may_leave = parsed.may_leave(&place, is_inside);
                let of_parts = Self::of_parts(Ok(parsed));
                Self {
                    files,
                    unknown,
                    placed,
                    removals,
                    risks,
                    planted,
                    may_leave,
                    reading,
                    possible_files,
                    ..of_parts
                }
            }
        }
    }

    fn of_parts(parsed: Result<ParsedCommand, Box<UnparsedCommand>>) -> Self {
        let reading = match &parsed {
            Ok(parsed) => parsed.reading(),
            Err(unparsed) => Reading::unknown("", &unparsed.doubt.to_string()),
        };
        Self {
            parsed,
            reading,
            files: Vec::new(),
            unknown: Vec::new(),
            placed: PlacedFiles::default(),
            removals: Vec::new(),
            risks: Vec::new(),
            planted: None,
            may_leave: false,
            exposed: None,
            unseen: None,
            possible_files: Vec::new(),
            outside_sandbox: false,
            needs_approval: None,
            unheld_rule: None,
        }
    }

    /// What of the line reads files that it does not name one by one. Searches of directories are
    /// walked, and do not count.
    fn reaching(&self) -> Option<String> {
        if let Some(file) = self.unknown.first() {
            return Some(format!("`{}` reads by `{}`", file.by, file.written));
        }
        let is_compared = |file: &&CommandFile| file.by == "diff" && file.is_directory();
        let compared = self.files.iter().find(is_compared).filter(|file| file.below.is_none());
        if let Some(directory) = compared {
            return Some(format!("`diff` reads in {}", directory.named().display()));
        }
        let parsed = self.parsed.as_ref().ok()?;
        parsed.searching().map(|part| format!("`{part}` reads"))
    }

    /// Why not every part of the line is known.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        self.parsed.as_ref().err().map(|unparsed| unparsed.doubt)
    }

    /// Whether a deny or an ask rule covers any part.
    pub(super) fn is_matched_by(&self, pattern: &BashPattern) -> bool {
        match &self.parsed {
            Ok(parsed) => parsed.is_matched_by(pattern),
            Err(unparsed) => unparsed.is_matched_by(pattern),
        }
    }

    /// The program of the workspace that PATH leads to. A rule means one of the machine.
    pub(super) fn planted(&self) -> Option<&Path> {
        self.planted.as_deref()
    }

    /// Whether allow rules together cover every part.
    pub(super) fn is_allowed_by(&self, patterns: &[&BashPattern]) -> bool {
        let Ok(parsed) = &self.parsed else { return false };
        // A rule for a program says nothing of other places than the workspace.
        let is_allowed = if self.may_leave {
            parsed.is_allowed_by_rules(patterns)
        } else {
            parsed.is_allowed_by(patterns)
        };
        self.planted.is_none() && is_allowed
    }

    /// Whether a program's name is known only when the command runs.
    pub(super) fn has_uncertain_name(&self) -> bool {
        self.parsed.as_ref().map_or(true, ParsedCommand::has_uncertain_name)
    }

    /// Whether a deny or an ask rule may cover a part when it runs.
    pub(super) fn may_be_matched_by(&self, pattern: &BashPattern) -> bool {
        self.parsed.as_ref().is_ok_and(|parsed| parsed.may_be_matched_by(pattern))
    }

    /// Whether rules about paths cannot see all files that the line names.
    pub(super) fn has_more_files(&self) -> bool {
        self.doubt().is_some() || self.files.len() == files::MAX_FILES
    }

    /// Whether the line is proven to change nothing, or would be a reader.
    pub(super) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// A part of it that discards what nothing brings back, as written.
    pub(super) fn discards(&self) -> Option<&str> {
        self.parsed.as_ref().ok()?.discards()
    }

    /// A part of it that acts on other machines or programs, as written.
    pub(super) fn reaches_out(&self) -> Option<&str> {
        self.parsed.as_ref().ok()?.reaches_out()
    }

    /// Whether all that it writes is known before it runs.
    pub(super) fn names_what_it_writes(&self) -> bool {
        let is_known = self.parsed.as_ref().is_ok_and(ParsedCommand::names_what_it_writes);
        is_known && self.planted.is_none() && !self.unknown.iter().any(UnknownFile::is_written)
    }

    /// A program of the line that is made to connect to other machines.
    pub(super) fn connects(&self) -> Option<&str> {
        match &self.parsed {
            Ok(parsed) => parsed.connects(),
            Err(unparsed) => unparsed.connects(),
        }
    }

    /// Whether a part runs git.
    pub(super) fn runs_git(&self) -> bool {
        self.parsed.as_ref().is_ok_and(ParsedCommand::runs_git)
    }

    /// Whether the line may show files of a repository that it does not name.
    pub(super) fn shows_repository(&self) -> bool {
        self.parsed.as_ref().is_ok_and(ParsedCommand::shows_repository)
    }

    /// Whether a part runs in another directory than the line.
    pub(super) fn changes_directory(&self) -> bool {
        self.parsed.as_ref().is_ok_and(ParsedCommand::changes_directory)
    }

    /// Whether the line only reads, and changes files that it names.
    pub(super) fn is_plain_edit(&self) -> bool {
        let is_proven = self.parsed.as_ref().is_ok_and(ParsedCommand::is_plain_edit);
        is_proven && self.planted.is_none() && self.unknown.is_empty()
    }

    /// Rules that would allow exactly this line, one for each part; `None` if none can.
    pub(super) fn exact_rules(&self, tool: &str) -> Option<Vec<String>> {
        let patterns = self.parsed.as_ref().ok()?.exact_patterns()?;
        Some(patterns.into_iter().map(|pattern| format!("{tool}({pattern})")).collect())
    }

    /// A rule `PROGRAM SUBCOMMAND *` for each part; `None` if a part has none. None either for a
    /// line that names a sensitive or protected file: whoever approves that one call would allow
    /// the next one with any file.
    pub(super) fn subcommand_rules(&self, tool: &str) -> Option<Vec<String>> {
        let parsed = self.parsed.as_ref().ok()?;
        let is_listed = |word: &str| is_sensitive(&OperandPath::Relative(word.into()));
        if parsed.arguments().any(is_listed) {
            return None;
        }
        let patterns = parsed.subcommand_patterns()?;
        Some(patterns.into_iter().map(|pattern| format!("{tool}({pattern})")).collect())
    }
}

/// What the line is with what its words mean on the disk.
fn reading(
    parsed: &ParsedCommand,
    planted: Option<&Path>,
    files: &[CommandFile],
    unknown: &[UnknownFile],
) -> Reading {
    let reading = parsed.reading();
    if matches!(reading, Reading::Unknown(_)) {
        return reading;
    }
    if let Some(program) = planted {
        let why = format!("PATH leads to {}, where commands can write", program.display());
        return Reading::unknown("", &why);
    }
    if files.iter().any(CommandFile::is_written) || unknown.iter().any(UnknownFile::is_written) {
        return Reading::unknown("", "it writes a file");
    }
    // What is proven names its files.
    if unknown.is_empty() { reading } else { Reading::Reader }
}

/// A redirect to such a path is a risk.
fn is_sensitive(path: &OperandPath) -> bool {
    let path = match path {
        OperandPath::Known(path) | OperandPath::Relative(path) => path.as_path(),
        OperandPath::Pattern(pattern) => Path::new(pattern),
        OperandPath::Unknown(_) => return false,
    };
    [&SENSITIVE, &PROTECTED].iter().any(|list| list.covering(path).is_some())
}

/// The critical removals by the text of the line, and those by what its files lead to.
fn removals(
    parsed: &ParsedCommand,
    place: &Place<'_>,
    files: &[CommandFile],
) -> Vec<CriticalRemoval> {
    let mut removals = parsed.critical_removals(place);
    let removed = files.iter().filter(|file| matches!(file.by.as_str(), "rm" | "rmdir"));
    removals.extend(removed.filter_map(|file| {
        let path = file.leads_to().to_owned();
        let is_critical = commands::is_critical(&path, place);
        let operand = file.named().display().to_string();
        is_critical.then(|| CriticalRemoval { program: file.by.clone(), operand, path })
    }));
    removals
}

/// The first program of the line that PATH leads to where a command may have written it.
fn planted(
    parsed: &ParsedCommand,
    place: &Place<'_>,
    surroundings: Surroundings<'_>,
) -> Option<PathBuf> {
    let Surroundings { roots, search_path, writable, .. } = surroundings;
    let directories = parsed.known_directories(place);
    let found = |name: &str| {
        // A relative directory in PATH is one below that in which the program is started.
        let mut candidates = env::split_paths(search_path).flat_map(|entry| {
            let bases = if entry.is_absolute() { &directories[..1] } else { &directories[..] };
            let programs = bases.iter().map(|base| base.join(&entry).join(name));
            programs.collect::<Vec<_>>()
        });
        candidates.find(|candidate| is_program(candidate))
    };
    let is_planted = |program: &PathBuf| {
        let real = fs::canonicalize(program).unwrap_or_else(|_| program.clone());
        let is_below = |path: &Path| {
            roots.below(path).is_some() || writable.iter().any(|place| path.starts_with(place))
        };
        is_below(program) || is_below(&real)
    };
    let names = parsed.programs_for_rules();
    parsed.programs().chain(names.iter().map(String::as_str)).filter_map(found).find(is_planted)
}

fn is_program(path: &Path) -> bool {
    let metadata = fs::metadata(path);
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
impl OpenedCommand {
    /// A command of which only the text is looked at.
    pub(crate) fn for_test(command_line: CommandLine, workspace: Arc<Workspace>) -> Self {
        let analysis = CommandAnalysis::of_parts(commands::parse(&command_line.line));
        Self { command_line, workspace, analysis }
    }
}

#[cfg(test)]
impl CommandAnalysis {
    /// A line of which only the text is looked at.
    pub(super) fn for_test(line: &str) -> Self {
        Self::of_parts(commands::parse(line))
    }
}
