//! Recognises in the output of a command that it met a file which the sandbox closes or keeps as
//! it is, and says how the model can have it read or changed: programs tell a mask in words that
//! mislead.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::output_end::{last_lines, says, words};
use crate::permissions::SecondRun;
use crate::processes::confinement::{Confinement, MaskKind};
use crate::text::printable;

/// What programs say, in lower case, of a file that is closed.
const NOT_READ: [&str; 2] = ["permission denied", "eacces"];

/// What they say of one that is mounted read-only: it can be neither written nor replaced. git
/// replaces its settings file by one that it has written beside it.
const NOT_CHANGED: [&str; 4] =
    ["read-only file system", "erofs", "device or resource busy", "ebusy"];

/// The first path of each kind that the end of the output names as refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MaskedPaths {
    pub(super) closed: Option<PathBuf>,
    pub(super) kept: Option<PathBuf>,
}

impl MaskedPaths {
    /// `directory` is where the command began.
    pub(super) fn met(output: &str, confinement: &Confinement, directory: &Path) -> Self {
        let lines = last_lines(output);
        let met = |kind, words: &[&str]| {
            let refused = lines.iter().filter(|line| says(line, words));
            let mut paths = refused.flat_map(|line| paths_in(line, directory));
            paths.find(|path| is_masked(confinement, path, kind))
        };
        Self {
            closed: met(MaskKind::Closed, &NOT_READ),
            kept: met(MaskKind::ReadOnly, &NOT_CHANGED),
        }
    }

    /// A line for each.
    pub(super) fn notes(&self, is_approved: bool, second: SecondRun) -> Vec<String> {
        let closed = self.closed.as_deref().map(|path| closed(&shown(path), is_approved, second));
        let kept = self.kept.as_deref().map(|path| kept(&shown(path), second));
        closed.into_iter().chain(kept).collect()
    }
}

fn closed(path: &str, is_approved: bool, second: SecondRun) -> String {
    if is_approved {
        return format!(
            "(the sandbox closes {path} to every command: a rule denies reading it, or it is the \
             server's own)"
        );
    }
    format!(
        "(the sandbox closes {path} to commands that nobody has approved, since it may hold \
         secrets, or to all, since a rule denies reading it. If the command has to read it, {})",
        second.advice()
    )
}

fn kept(path: &str, second: SecondRun) -> String {
    let instead = match second {
        SecondRun::AsksAPerson => "Edit and Write ask a person for such a file",
        SecondRun::RunsUnasked => "Edit and Write can change such a file, unless a rule denies it",
        SecondRun::IsRefused => "In this mode nothing can change such a file",
    };
    format!(
        "(the sandbox keeps {path} as it is: other programs obey it, or a rule denies to change it. \
         {instead})"
    )
}

/// What in a line may be a path, also behind the name of an option.
fn paths_in<'a>(line: &'a str, directory: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let parts = words(line).flat_map(|word| word.split('=')).filter(|part| !part.is_empty());
    parts.map(|part| directory.join(part.trim_start_matches("./")))
}

/// Whether such a mask covers the path.
fn is_masked(confinement: &Confinement, path: &Path, kind: MaskKind) -> bool {
    let mut masks = confinement.masks.iter().filter(|mask| mask.kind == kind);
    masks.any(|mask| path.starts_with(mask.place.path()))
}

fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_id::FileId;
    use crate::processes::confinement::{Level, Mask, Network};

    fn told(output: &str) -> String {
        let mask = |place: &str, kind| Mask {
            place: Path::new(place).into(),
            kind,
            id: FileId { device: 1, inode: 1 },
        };
        let masks = vec![
            mask("/w/.env", MaskKind::Closed),
            mask("/w/secrets", MaskKind::Closed),
            mask("/w/.git/config", MaskKind::ReadOnly),
            mask("/w/.git/hooks", MaskKind::ReadOnly),
            mask("/w/.git", MaskKind::Keep),
        ];
        let confinement = Confinement {
            level: Level::Bwrap,
            network: Network::None,
            reads_only: false,
            writable: Vec::new(),
            readable: Vec::new(),
            temporary: Path::new("/state/tmp").into(),
            home: Path::new("/home/me").into(),
            git_settings: None,
            masks,
            above: Vec::new(),
            mounted: Vec::new(),
        };
        MaskedPaths::met(output, &confinement, Path::new("/w"))
            .notes(false, SecondRun::AsksAPerson)
            .join("\n")
    }

    #[test]
    fn a_closed_file_is_named() {
        let said = "error: open(\".env\"): Permission denied\nfatal: adding files failed";
        assert_eq!(
            told(said),
            "(the sandbox closes /w/.env to commands that nobody has approved, since it may hold \
             secrets, or to all, since a rule denies reading it. If the command has to read it, run \
             exactly the same command again: that asks a person)"
        );
        for said in [
            "cat: secrets/key: Permission denied",
            "tar: ./.env: Cannot open: Permission denied",
            "cp: cannot open '/w/.env' for reading: Permission denied",
            "PermissionError: [Errno 13] Permission denied: '.env'",
            "Error: EACCES: permission denied, open '/w/.env'",
        ] {
            assert!(told(said).starts_with("(the sandbox closes /w/"), "{said}: {}", told(said));
        }
    }

    #[test]
    fn a_file_that_is_kept_is_named() {
        let said = "error: could not write config file .git/config: Device or resource busy";
        assert_eq!(
            told(said),
            "(the sandbox keeps /w/.git/config as it is: other programs obey it, or a rule denies to \
             change it. Edit and Write ask a person for such a file)"
        );
        let said = "bash: line 1: .git/hooks/pre-commit: Read-only file system";
        assert!(told(said).starts_with("(the sandbox keeps /w/.git/hooks/pre-commit as it is"));
    }

    #[test]
    fn what_can_be_done_is_told_for_the_mode() {
        let met = MaskedPaths { closed: Some("/w/.env".into()), kept: Some("/w/.envrc".into()) };
        for (second, [of_closed, of_kept]) in [
            (SecondRun::AsksAPerson, ["that asks a person)", "Edit and Write ask a person"]),
            (SecondRun::RunsUnasked, ["it is not held back then)", "Edit and Write can change"]),
            (
                SecondRun::IsRefused,
                ["leave it: in this mode nobody is asked", "In this mode nothing"],
            ),
        ] {
            let notes = met.notes(false, second);
            assert!(notes[0].contains(of_closed) && notes[1].contains(of_kept), "{notes:?}");
        }
    }

    #[test]
    fn what_no_mask_covers_is_refused_by_something_else() {
        for said in [
            "bash: ./deploy.sh: Permission denied",
            "umount: /mnt: Device or resource busy",
            "rm: cannot remove '.git': Device or resource busy",
            ".env: No such file or directory",
            "the tests of .env pass",
            "",
        ] {
            assert_eq!(told(said), "", "{said}");
        }
    }
}
