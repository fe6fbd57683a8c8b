//! Finds where the files end that a command copies or moves with their directory.

use std::path::PathBuf;

use super::files::CommandFile;

/// The files that a command puts elsewhere together with the directory that they stand in.
#[derive(Clone, Debug, Default)]
pub(in crate::permissions) struct PlacedFiles {
    pub(in crate::permissions) paths: Vec<PathBuf>,
    /// There are more than can be looked at.
    pub(in crate::permissions) is_cut: bool,
}

/// Where the files end that are in directories which the command copies or moves.
pub(super) fn placed(files: &[CommandFile]) -> PlacedFiles {
    let mut placed = PlacedFiles::default();
    let is_copied = |file: &&CommandFile| matches!(file.by.as_str(), "cp" | "mv");
    let copied: Vec<&CommandFile> = files.iter().filter(is_copied).collect();
    for source in copied.iter().filter(|file| !file.is_written() && file.is_directory()) {
        let from = source.leads_to();
        let mut same = copied.iter().filter(|file| file.leads_to() == from);
        let Some(below) = same.find_map(|file| file.below.as_ref()) else {
            placed.is_cut = true;
            continue;
        };
        placed.is_cut |= below.is_cut;
        for target in copied.iter().filter(|file| file.is_written() && file.leads_to() != from) {
            let rests = below.paths.iter().filter_map(|path| path.strip_prefix(from).ok());
            placed.paths.extend(rests.map(|rest| target.named().join(rest)));
        }
    }
    placed
}
