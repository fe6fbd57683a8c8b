//! Tells whether every part of a line only reads, as far as a list knows it.
//!
//! The list proves nothing: it decides whom to bother. A line of readers runs confined to
//! reading, so a wrong entry costs an error and has no effect.

use std::fmt;

use super::ParsedCommand;
use super::matching::is_harmless;
use super::operands;
use super::part::{Assignment, Part, Redirect, RedirectKind, RedirectTarget};
use super::word::Word;
use super::wrappers::unwrapped;

pub(super) use self::git::check_git;

mod git;
mod packages;
mod programs;
mod xargs;

/// How much is known of a line that may only read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Proven to change nothing, wherever it runs.
    Proven,
    /// Every part of it is on the list of what only reads. Only a confinement makes it so.
    Reader,
    Unknown(NotReading),
}

/// The part of a line that is not known to only read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotReading {
    /// The part as written; empty if it is the whole line.
    pub(crate) part: String,
    pub(crate) why: String,
}

impl fmt::Display for NotReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.part.is_empty() {
            return f.write_str(&self.why);
        }
        write!(f, "`{}`: {}", self.part, self.why)
    }
}

/// Why a part does not count as a reader.
type Why = String;

impl ParsedCommand {
    /// Whether the line is proven to only read, or a reader, or why it is neither. The files that
    /// it names are for the caller to judge, and whether PATH leads its programs to where they
    /// should be.
    pub(crate) fn reading(&self) -> Reading {
        if self.is_read_only() {
            return Reading::Proven;
        }
        if let Some(why) = self.beyond_reading {
            return Reading::unknown("", why);
        }
        if self.parts.is_empty() {
            return Reading::unknown("", "there is nothing to run");
        }
        for part in &self.parts {
            if let Err(why) = check_part(part) {
                return Reading::unknown(part.source.trim(), &why);
            }
        }
        Reading::Reader
    }

    /// Whether a part runs git. It may do so behind wrappers.
    pub(crate) fn runs_git(&self) -> bool {
        self.reached.iter().any(|reached| reached.part.program() == Some("git"))
    }
}

impl Reading {
    pub(crate) fn unknown(part: &str, why: &str) -> Self {
        Self::Unknown(NotReading { part: part.to_owned(), why: why.to_owned() })
    }
}

fn check_part(part: &Part) -> Result<(), Why> {
    if part.is_evaluation {
        return Err("it evaluates text as arithmetic or as the name of a variable".to_owned());
    }
    for assignment in &part.assignments {
        check_assignment(assignment, part.words.is_empty())?;
    }
    for redirect in &part.redirects {
        check_redirect(redirect)?;
    }
    if part.words.is_empty() { Ok(()) } else { check_words(&part.words, Place::Direct) }
}

/// Where the words of a command stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The shell itself runs the program.
    Direct,
    /// Another program runs it.
    Wrapped,
}

fn check_words(words: &[Word], place: Place) -> Result<(), Why> {
    let Some((name, arguments)) = words.split_first() else { return Ok(()) };
    let Some(program) = name.literal().filter(|program| *program == name.raw) else {
        return Err("the name of its program is quoted, or known only when it runs".to_owned());
    };
    if program == "git" {
        // What the shell does for git reaches only the git that it runs itself.
        return match place {
            Place::Direct => check_git(arguments),
            Place::Wrapped => Err("another program runs git".to_owned()),
        };
    }
    if program == "xargs" {
        let inner = xargs::command(arguments)?;
        return check_words(&inner, Place::Wrapped);
    }
    programs::check(program, arguments).or_else(|why| {
        let Some(inner) = unwrapped(words) else { return Err(why) };
        // The keyword `time` runs what a shell would.
        let inner_place = if program == "time" { place } else { Place::Wrapped };
        check_words(&inner, inner_place)
    })?;
    if operands::writes(words) {
        return Err(format!("{program} writes a file with these words, or may"));
    }
    Ok(())
}

/// A variable of the shell alone may have any lower-case name: programs read upper-case ones.
fn check_assignment(assignment: &Assignment, is_alone: bool) -> Result<(), Why> {
    let is_lower = !assignment.name.bytes().any(|byte| byte.is_ascii_uppercase());
    let is_own = is_alone && is_lower && !assignment.name.contains("proxy");
    // It only says where the shell splits its own words.
    let splits = assignment.name == "IFS";
    if is_own || splits || is_harmless(assignment) {
        return Ok(());
    }
    Err(format!("the variable {} may change what a program does", assignment.name))
}

fn check_redirect(redirect: &Redirect) -> Result<(), Why> {
    let is_reading = matches!(redirect.kind, RedirectKind::Read | RedirectKind::Text);
    match redirect.target {
        RedirectTarget::Null
        | RedirectTarget::Descriptor
        | RedirectTarget::Text
        | RedirectTarget::Document(_) => Ok(()),
        RedirectTarget::File(_) if is_reading => Ok(()),
        RedirectTarget::File(_) => Err("it redirects its output to a file".to_owned()),
    }
}

/// Options of a program as `getopt` reads them.
#[derive(Clone, Copy, Debug)]
struct Forbidden {
    /// Letters of the forbidden options.
    short: &'static str,
    /// Letters of other options whose value follows.
    valued: &'static str,
    /// Long names without the dashes. They may be abbreviated.
    long: &'static [&'static str],
}

impl Forbidden {
    /// The first of the words that is one of the options.
    fn first_in<'w>(&self, words: &'w [Word]) -> Option<&'w str> {
        for word in words {
            let text = word.unquoted.as_str();
            if text == "--" {
                return None;
            }
            if self.has(text) {
                return Some(text);
            }
        }
        None
    }

    fn has(&self, text: &str) -> bool {
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split_once('=').map_or(long, |(name, _)| name);
            return !name.is_empty() && self.long.iter().any(|known| known.starts_with(name));
        }
        let Some(letters) = text.strip_prefix('-') else { return false };
        let own = letters.split(|letter| self.valued.contains(letter)).next().unwrap_or_default();
        own.contains(|letter| self.short.contains(letter))
    }
}

#[cfg(test)]
mod tests;
