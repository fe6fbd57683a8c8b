//! Checks that a file or directory is ours alone, by its owner and mode.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// Permission bits with which the group or others may write.
const WRITE: u32 = 0o022;
/// Permission bits with which the group or others may do anything.
const ANYTHING: u32 = 0o077;
/// Permission bits that the owner needs to use a directory.
const USE: u32 = 0o700;

/// The owner and mode of a file. An error is worded to follow the file's name, and ends
/// with the `remedy` if the mode is at fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ownership {
    owner: u32,
    mode: u32,
    we: u32,
}

impl Ownership {
    pub(crate) fn new(owner: u32, mode: u32) -> Self {
        Self { owner, mode, we: rustix::process::geteuid().as_raw() }
    }

    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self::new(metadata.uid(), metadata.mode())
    }

    /// Refuses a file of another user.
    pub(crate) fn expect_ours(self) -> Result<(), String> {
        let Self { owner, we, .. } = self;
        if owner == we {
            return Ok(());
        }
        Err(format!("belongs to user {owner}, and we are user {we}"))
    }

    /// Refuses a file of another user, but not root's: root could change ours as well.
    pub(crate) fn expect_ours_or_roots(self) -> Result<(), String> {
        if self.owner == 0 { Ok(()) } else { self.expect_ours() }
    }

    /// Refuses a file that another user may change.
    pub(crate) fn refuse_other_writers(self, remedy: &str) -> Result<(), String> {
        self.refuse_if(self.mode & WRITE != 0, "others may write it", remedy)
    }

    /// Refuses a file that another user may read or change.
    pub(crate) fn refuse_other_readers(self, remedy: &str) -> Result<(), String> {
        self.refuse_if(self.mode & ANYTHING != 0, "others may read it", remedy)
    }

    /// Refuses a directory that we may not list, change or enter.
    pub(crate) fn expect_usable(self, remedy: &str) -> Result<(), String> {
        self.refuse_if(self.mode & USE != USE, "is not ours to use", remedy)
    }

    fn refuse_if(self, is_wrong: bool, reason: &str, remedy: &str) -> Result<(), String> {
        if !is_wrong {
            return Ok(());
        }
        Err(format!("{reason} (mode {:03o}); {remedy}", self.mode & 0o777))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned_by(owner: u32) -> Ownership {
        Ownership { owner, mode: 0o600, we: 1000 }
    }

    #[test]
    fn someone_elses_is_refused() {
        let refused = Err("belongs to user 7, and we are user 1000".to_owned());
        assert_eq!(owned_by(7).expect_ours(), refused);
        assert_eq!(owned_by(7).expect_ours_or_roots(), refused);
        assert!(owned_by(0).expect_ours().is_err());
        assert_eq!(owned_by(0).expect_ours_or_roots(), Ok(()));
        assert_eq!(owned_by(1000).expect_ours(), Ok(()));
    }

    #[test]
    fn others_may_do_what_the_mode_says() {
        let check = |mode: u32, writers: &str, readers: &str| {
            let ownership = Ownership { mode, ..owned_by(1000) };
            let shown = |result: Result<(), String>| result.err().unwrap_or_default();
            assert_eq!(shown(ownership.refuse_other_writers("mend it")), writers, "{mode:o}");
            assert_eq!(shown(ownership.refuse_other_readers("mend it")), readers, "{mode:o}");
        };
        check(0o100_600, "", "");
        check(0o100_644, "", "others may read it (mode 644); mend it");
        check(
            0o100_602,
            "others may write it (mode 602); mend it",
            "others may read it (mode 602); mend it",
        );
    }
}
