//! Finds the commands that a part may run through other programs, for deny and ask rules.
//!
//! It looks at every word that could be the beginning of a command, and at some that are not:
//! an option's value cannot always be told from a program.

use super::part::Part;
use super::word::Word;
use super::wrappers::FROM_INPUT;
use super::{Doubt, fragments, parse_parts};

/// Programs that run their arguments, after options.
const RUNNERS: [&str; 46] = [
    "builtin",
    "busybox",
    "bwrap",
    "choom",
    "chroot",
    "chrt",
    "command",
    "dbus-run-session",
    "doas",
    "entr",
    "env",
    "exec",
    "fakeroot",
    "flock",
    "gdb",
    "ionice",
    "linux32",
    "linux64",
    "ltrace",
    "nice",
    "nohup",
    "nsenter",
    "numactl",
    "parallel",
    "pkexec",
    "prlimit",
    "run0",
    "runcon",
    "runuser",
    "setarch",
    "setpriv",
    "setsid",
    "stdbuf",
    "strace",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "tmux",
    "toybox",
    "uclampset",
    "unshare",
    "valgrind",
    "watch",
    "xargs",
];
/// Of these the command comes after an argument of their own.
const WITH_ARGUMENT: [&str; 5] = ["chroot", "chrt", "flock", "taskset", "timeout"];
const SHELLS: [&str; 9] = ["ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "zsh"];

/// Scripts in scripts: three levels are more than anyone needs.
const MAX_LEVELS: usize = 3;
/// A line of the longest length can hold thousands of words that could be programs.
const MAX_REACHED: usize = 128;
/// Each wrapper in a long line adds another copy of the rest of it.
const MAX_REACHED_BYTES: usize = 400_000;
/// A wrapper with many options can name one script several times, and each is parsed.
const MAX_SCRIPT_BYTES: usize = 20_000;
/// More places in one command where another may begin are made to hide one.
const MAX_STARTS: usize = 8;

/// A command that may run, and the part that runs it.
#[derive(Clone, Debug)]
pub(super) struct Reached {
    pub(super) part: Part,
    pub(super) from: usize,
    /// Stands in a script, so that its directories change within it alone.
    pub(super) level: usize,
}

/// Programs that may run what they are given on standard input, or pass it on to a shell.
const RUNNING_INPUT: [&str; 13] = [
    ".", "at", "batch", "chroot", "crontab", "doas", "eval", "nsenter", "parallel", "source",
    "ssh", "su", "sudo",
];

/// Programs that do so with one of these words, in a container.
const RUNNING_IN_CONTAINERS: [&str; 6] =
    ["buildah", "docker", "kubectl", "lxc", "nerdctl", "podman"];
const RUNNING_WORDS: [&str; 5] = ["attach", "debug", "exec", "run", "start"];

/// The parts, each followed by what it may run.
pub(super) fn reached(parts: &[Part]) -> Result<Vec<Reached>, Doubt> {
    let mut reach = Reach { all: Vec::new(), script_bytes: 0, reached_bytes: 0 };
    for (from, part) in parts.iter().enumerate() {
        reach.add(part.clone(), from, 0)?;
    }
    reach.add_documents(parts)?;
    Ok(reach.all)
}

/// Whether the part may run a text that it is given.
fn runs_input(part: &Part) -> bool {
    if part.has_uncertain_name() {
        return true;
    }
    let Some(name) = part.program() else { return false };
    let runs = |word: &Word| RUNNING_WORDS.iter().any(|running| word.is(running));
    SHELLS.contains(&name)
        || name == "xargs"
        || RUNNING_INPUT.contains(&name)
        || (RUNNING_IN_CONTAINERS.contains(&name) && part.words.iter().any(runs))
}

struct Reach {
    all: Vec<Reached>,
    /// The length of all scripts so far.
    script_bytes: usize,
    /// The length of all words so far, and what keeping them takes.
    reached_bytes: usize,
}

impl Reach {
    fn add(&mut self, part: Part, from: usize, level: usize) -> Result<(), Doubt> {
        self.reached_bytes += part.words.iter().map(|word| word.raw.len() + 16).sum::<usize>();
        if self.all.len() >= MAX_REACHED || self.reached_bytes > MAX_REACHED_BYTES {
            return Err(Doubt::ManyParts);
        }
        if level > MAX_LEVELS {
            return Err(Doubt::Deep);
        }
        let inner = commands_of(&part.words);
        if inner.len() > MAX_STARTS {
            return Err(Doubt::ManyParts);
        }
        let scripts = scripts_of(&part.words);
        let Part { is_substituted, is_repeated, .. } = part;
        self.all.push(Reached { part, from, level });
        for words in inner {
            let part = Part { words, is_substituted, is_repeated, ..Part::default() };
            self.add(part, from, level)?;
        }
        for script in scripts {
            self.add_script(&script, is_repeated, from, level + 1)?;
        }
        Ok(())
    }

    /// Takes the here-documents of a line for scripts if anything in it may run them.
    fn add_documents(&mut self, parts: &[Part]) -> Result<(), Doubt> {
        if !self.all.iter().any(|reached| runs_input(&reached.part)) {
            return Ok(());
        }
        for (from, part) in parts.iter().enumerate() {
            for document in part.documents() {
                self.add_script(document, part.is_repeated, from, 1)?;
            }
        }
        Ok(())
    }

    fn add_script(
        &mut self,
        script: &str,
        is_repeated: bool,
        from: usize,
        level: usize,
    ) -> Result<(), Doubt> {
        self.script_bytes += script.len();
        if self.script_bytes > MAX_SCRIPT_BYTES {
            return Err(Doubt::Deep);
        }
        let parts = parse_parts(script).unwrap_or_else(|_| fragments::fragments(script));
        for part in parts {
            // Indices of the script are not those of the line.
            let is_repeated = is_repeated || part.is_repeated;
            let part = Part { after_success_of: None, is_repeated, ..part };
            self.add(part, from, level)?;
        }
        Ok(())
    }
}

/// The commands that the words hold as further words.
fn commands_of(words: &[Word]) -> Vec<Vec<Word>> {
    let Some((name, arguments)) = words.split_first() else { return Vec::new() };
    match name.base_name() {
        Some("find" | "fd") => executed_by_find(arguments),
        Some(name) if RUNNERS.contains(&name) => {
            let mut starts = starts(arguments, WITH_ARGUMENT.contains(&name));
            if matches!(name, "xargs" | "parallel") {
                for words in &mut starts {
                    words.push(Word::unknown(FROM_INPUT));
                }
            }
            starts
        }
        _ => Vec::new(),
    }
}

/// The words from each place on where the command may begin.
fn starts(arguments: &[Word], has_argument: bool) -> Vec<Vec<Word>> {
    let mut found = Vec::new();
    let mut follows_option = false;
    let mut own_argument = has_argument;
    for (index, word) in arguments.iter().enumerate() {
        let text = word.unquoted.as_str();
        if text.starts_with('-') {
            // A single dash is `-i` to `env`.
            follows_option = text != "--" && text != "-" && !text.contains('=');
            continue;
        }
        if word.as_assignment().is_some() {
            follows_option = false;
            continue;
        }
        found.push(arguments[index..].to_vec());
        if (!follows_option && !std::mem::take(&mut own_argument)) || found.len() > MAX_STARTS {
            break;
        }
        follows_option = false;
    }
    found
}

fn executed_by_find(arguments: &[Word]) -> Vec<Vec<Word>> {
    let is_exec = |word: &Word| {
        matches!(word.literal(), Some("-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X"))
    };
    let begins = arguments.iter().enumerate().filter(|(_, word)| is_exec(word));
    let command = |(index, _): (usize, &Word)| -> Vec<Word> {
        let words = arguments[index + 1..].iter();
        let words = words.take_while(|word| !matches!(word.literal(), Some(";" | "+")));
        words.map(found_file).collect()
    };
    begins.map(command).filter(|words| !words.is_empty()).collect()
}

/// `{}` stands for a file that is not known.
fn found_file(word: &Word) -> Word {
    if word.unquoted.contains("{}") { Word::unknown(&word.raw) } else { word.clone() }
}

/// The texts that the words run as shell code.
fn scripts_of(words: &[Word]) -> Vec<String> {
    let Some((name, arguments)) = words.split_first() else { return Vec::new() };
    let text = |words: &[Word]| super::part::joined(words, |word| &word.unquoted);
    match name.base_name() {
        Some("eval") => {
            let skipped = arguments.iter().take_while(|word| word.is("--")).count();
            vec![text(&arguments[skipped..])]
        }
        Some("trap") => {
            arguments.iter().find(|word| !word.is("--")).map(script).into_iter().collect()
        }
        Some("env") => split_strings(arguments),
        Some("su" | "script" | "runuser") => after_flag(arguments, 'c'),
        Some("watch") => vec![text(after_leading_options(arguments))],
        Some(name) if SHELLS.contains(&name) => after_flag(arguments, 'c'),
        _ => Vec::new(),
    }
}

fn script(word: &Word) -> String {
    word.unquoted.clone()
}

fn after_leading_options(arguments: &[Word]) -> &[Word] {
    let options = arguments.iter().take_while(|word| word.unquoted.starts_with('-')).count();
    &arguments[options..]
}

/// The words after an option such as `-c`, alone or among others (`-lc`), or `--command`. Two
/// of them: the first may be the value of another option.
fn after_flag(arguments: &[Word], flag: char) -> Vec<String> {
    let is_flag = |word: &Word| {
        let text = word.unquoted.as_str();
        let is_short = text.starts_with('-') && !text.starts_with("--") && text.contains(flag);
        is_short || text.starts_with("--command") || text.starts_with("--session-command")
    };
    let Some(index) = arguments.iter().position(is_flag) else { return Vec::new() };
    let joined = arguments[index].unquoted.split_once('=').map(|(_, value)| value.to_owned());
    let rest = arguments[index + 1..].iter();
    let operands = rest.filter(|word| !word.unquoted.starts_with(['-', '+'])).take(2).map(script);
    joined.into_iter().chain(operands).collect()
}

/// `env -S 'text' …`: the text, split at blanks, and what follows it.
fn split_strings(arguments: &[Word]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, word) in arguments.iter().enumerate() {
        let Some(value) = split_string(&word.unquoted) else { continue };
        let mut rest = arguments[index + 1..].iter().map(|word| word.unquoted.as_str());
        let value = if value.is_empty() { rest.next().unwrap_or_default() } else { value };
        // `\_` is a blank, and `\c` ends the text.
        let value = value.replace("\\_", " ");
        let value = value.split_once("\\c").map_or(value.as_str(), |(value, _)| value);
        let words: Vec<_> = std::iter::once(value).chain(rest).collect();
        found.push(words.join(" "));
    }
    found.retain(|text| !text.trim().is_empty());
    found
}

/// What stands in the same word behind the option: `-S…`, `-iS…`, `--split-string=…`, which may
/// be abbreviated.
fn split_string(text: &str) -> Option<&str> {
    const NAME: &str = "split-string";
    let Some(long) = text.strip_prefix("--") else {
        let letters = text.strip_prefix('-')?;
        return letters.split_once('S').map(|(_, value)| value);
    };
    let (name, value) = long.split_once('=').unwrap_or((long, ""));
    (!name.is_empty() && NAME.starts_with(name)).then_some(value)
}
