//! Reads and writes `trust.toml`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

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

/// The list as it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Stored {
    pub(super) trusted: Vec<BoundDirectory>,
    /// The digest of the `.mcp.json` that was trusted with a directory, by its path in the list.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) mcp_json: BTreeMap<PathBuf, String>,
}

/// The list. The error follows the name of the file.
pub(super) fn read(directory: &File) -> Result<Stored, String> {
    let text =
        ours::read_text(directory, NAME, MAX_BYTES).map_err(|reason| with_remedy(&reason))?;
    text.map_or_else(|| Ok(Stored::default()), |text| parse(&text))
}

pub(super) fn parse(text: &str) -> Result<Stored, String> {
    toml::from_str(text).map_err(|error| with_remedy(&located(text, &error)))
}

pub(super) fn with_remedy(reason: &str) -> String {
    ours::with_remedy(reason, REMEDY)
}

/// Replaces the file in one step.
pub(super) fn write(directory: &File, list: &Stored) -> io::Result<()> {
    let text = toml::to_string(list).map_err(io::Error::other)?;
    ours::replace(directory, NAME, &format!("{HEADER}{text}"))
}

/// Waits for commands that change the list at the moment.
pub(super) fn lock(directory: &File) -> io::Result<File> {
    ours::lock(directory, LOCK)
}
