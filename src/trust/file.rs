//! Reads and writes `trust.toml`.

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};

use crate::named_file::{located, ours};
use crate::workspace::BoundDirectory;

pub(super) const NAME: &str = "trust.toml";
/// Locked by the command that changes the list.
const LOCK: &str = "trust.lock";

/// Thousands of directories.
pub(super) const MAX_BYTES: u64 = 4 << 20;

const HEADER: &str = "# Directories whose settings files count whole. `toolhand trust` writes this \
                      file, and a running server reads it at once.\n\n";

/// What to do about a list that cannot be read. It follows the reason.
const REMEDY: &str =
    "nothing is trusted until it is mended, or deleted and the directories are trusted again";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stored {
    trusted: Vec<BoundDirectory>,
}

/// The list. The error follows the name of the file.
pub(super) fn read(directory: &File) -> Result<Vec<BoundDirectory>, String> {
    let text =
        ours::read_text(directory, NAME, MAX_BYTES).map_err(|reason| with_remedy(&reason))?;
    text.map_or_else(|| Ok(Vec::new()), |text| parse(&text))
}

pub(super) fn parse(text: &str) -> Result<Vec<BoundDirectory>, String> {
    let stored: Result<Stored, _> = toml::from_str(text);
    let stored = stored.map_err(|error| with_remedy(&located(text, &error)))?;
    Ok(stored.trusted)
}

pub(super) fn with_remedy(reason: &str) -> String {
    ours::with_remedy(reason, REMEDY)
}

/// Replaces the file in one step.
pub(super) fn write(directory: &File, list: Vec<BoundDirectory>) -> io::Result<()> {
    let text = toml::to_string(&Stored { trusted: list }).map_err(io::Error::other)?;
    ours::replace(directory, NAME, &format!("{HEADER}{text}"))
}

/// Waits for commands that change the list at the moment.
pub(super) fn lock(directory: &File) -> io::Result<File> {
    ours::lock(directory, LOCK)
}
