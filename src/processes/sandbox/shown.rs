//! Decides which directories a command is shown, so that no command can choose what the next one
//! sees by putting a link in the place of one of them.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::processes::confinement::Shown;
use crate::processes::handles;

/// What the settings name besides the roots, as it was before the first command.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfiguredPlaces {
    pub(super) writable: Vec<Shown>,
    pub(super) readable: Vec<Shown>,
}

impl ConfiguredPlaces {
    /// Reads the disk.
    pub(super) fn resolve(writable: &[PathBuf], readable: &[PathBuf]) -> Self {
        let resolve = |paths: &[PathBuf]| paths.iter().flat_map(|path| resolved(path)).collect();
        Self { writable: resolve(writable), readable: resolve(readable) }
    }
}

/// A place under its real path, and under the one by which programs know it.
fn resolved(path: &Path) -> Vec<Shown> {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut shown = vec![Shown { at: path.into(), ..Shown::as_it_is(&real) }];
    if real != path {
        shown.push(Shown::as_it_is(&real));
    }
    shown
}

/// Opens it, if it is still what it was: there, and no link has taken its place.
pub(super) fn opened(shown: &Shown) -> Option<(Shown, OwnedFd)> {
    let handle = handles::open(shown.from.path()).ok()?;
    let id = handles::id(&handle).ok()?;
    Some((Shown { id: Some(id), ..shown.clone() }, handle))
}

/// Those that lie in no other one.
pub(super) fn outermost(all: &[Shown]) -> Vec<Shown> {
    let is_inner = |inner: &Shown, outer: &Shown| {
        let (at, from) = (inner.at.path(), inner.from.path());
        let (outer_at, outer_from) = (outer.at.path(), outer.from.path());
        (at != outer_at && at.starts_with(outer_at))
            || (from != outer_from && from.starts_with(outer_from))
    };
    let mut kept: Vec<Shown> = Vec::new();
    for shown in all {
        if !kept.contains(shown) && !all.iter().any(|outer| is_inner(shown, outer)) {
            kept.push(shown.clone());
        }
    }
    kept
}

/// Whether a place lies in one that can be written.
pub(super) fn is_within(shown: &Shown, writable: &[Shown]) -> bool {
    writable.iter().any(|outer| {
        [&shown.at, &shown.from].into_iter().any(|place| {
            place.path().starts_with(outer.at.path()) || place.path().starts_with(outer.from.path())
        })
    })
}

/// The paths at which a command finds a file.
pub(super) fn paths_inside(real: &Path, shown: &[Shown]) -> Vec<PathBuf> {
    let inside = shown.iter().filter_map(|shown| {
        let below = real.strip_prefix(shown.from.path()).ok()?;
        let at = shown.at.path();
        // To join nothing would add a slash.
        Some(if below.as_os_str().is_empty() { at.to_owned() } else { at.join(below) })
    });
    let mut inside: Vec<_> = inside.collect();
    inside.sort();
    inside.dedup();
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(at: &str, from: &str) -> Shown {
        Shown { at: Path::new(at).into(), ..Shown::as_it_is(Path::new(from)) }
    }

    #[test]
    fn what_a_command_could_replace_is_not_shown_by_itself() {
        let all = [
            shown("/w", "/w"),
            shown("/w/sub", "/w/sub"),
            shown("/data", "/w/data"),
            shown("/w/link", "/srv/data"),
            shown("/srv/data", "/srv/data"),
            shown("/w", "/w"),
        ];
        assert_eq!(outermost(&all), [shown("/w", "/w"), shown("/srv/data", "/srv/data")]);
        let writable = outermost(&all);
        for (at, from, is_inside) in [
            ("/w/.venv/bin", "/w/.venv/bin", true),
            ("/home/me/bin", "/w/bin", true),
            ("/w/tool", "/opt/tool", true),
            ("/opt/tool", "/opt/tool", false),
            ("/workspace", "/workspace", false),
        ] {
            assert_eq!(is_within(&shown(at, from), &writable), is_inside, "{at}");
        }
    }

    #[test]
    fn a_file_is_found_at_every_path_that_leads_to_it() {
        let all = [shown("/data", "/srv/data"), shown("/srv/data", "/srv/data"), shown("/w", "/w")];
        let paths = paths_inside(Path::new("/srv/data/x"), &all);
        assert_eq!(paths, [Path::new("/data/x"), Path::new("/srv/data/x")]);
        assert_eq!(paths_inside(Path::new("/w"), &all), [Path::new("/w")]);
        assert!(paths_inside(Path::new("/etc"), &all).is_empty());
    }

    #[test]
    fn a_place_that_has_become_a_link_is_not_what_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        let place = Shown::as_it_is(&base.join("a/b"));
        assert!(opened(&place).is_some_and(|(opened, _)| opened.id.is_some()));
        fs::rename(base.join("a"), base.join("c")).unwrap();
        assert!(opened(&place).is_none());
        std::os::unix::fs::symlink("c", base.join("a")).unwrap();
        assert!(opened(&place).is_none());
    }
}
