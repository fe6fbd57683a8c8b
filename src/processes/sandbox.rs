//! Chooses the level of the sandbox by trying what it must prevent, and confines commands at
//! that level.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use serde::Serialize;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use self::denied::Denied;
pub(crate) use self::denied::{DeniedPaths, FindDenied};
use self::shown::ConfiguredPlaces;
pub(crate) use self::trial::Trial;
use super::confinement::{Confinement, Level, MaskKind, Network, Shown};
use super::control_files::{ControlFiles, Snapshot, Survey};
use super::masks::Masks;
use super::placeholders::Placeholders;
use super::places;
use super::runner::{KeptAlive, Runner};

mod denied;
mod report;
mod shown;
#[cfg(test)]
mod tests;
mod trial;

/// The operator's words about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SandboxSettings {
    /// The levels that it may be, the first that passes. Empty: no sandbox.
    pub(crate) levels: Vec<Level>,
    pub(crate) network: Network,
    /// Directories besides the roots.
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
    /// What is shown to no command.
    pub(crate) hidden: Vec<PathBuf>,
    /// Where each session has a directory of its own. `None`: temporary files last as long as
    /// the command.
    pub(crate) sessions: Option<PathBuf>,
}

/// What a command may do with the files that it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Read,
    Write,
}

/// The name of a session's directory for its commands' temporary files.
const TEMPORARY: &str = "tmp";

/// A confinement, with the directory that it needs for as long as it is in use.
#[derive(Debug)]
pub(crate) struct Confined {
    pub(crate) confinement: Arc<Confinement>,
    /// There are more files than were looked through for what rules deny.
    pub(crate) is_cut: bool,
    sandbox: Sandbox,
    roots: Vec<PathBuf>,
    /// The control files before the command that nothing protects.
    before: Snapshot,
    /// Those that are links, which no level protects.
    links: Vec<PathBuf>,
    guard: Arc<Guard>,
}

/// What must stay until the last process of the command has ended.
#[derive(Debug)]
struct Guard {
    _placeholders: Placeholders,
    _temporary: Option<TempDir>,
}

impl Confined {
    /// What the runner holds until the last process of the command has ended.
    pub(crate) fn guard(&self) -> KeptAlive {
        KeptAlive::new(self.guard.clone())
    }

    /// The control files that have changed since, where the level cannot protect them. Reads
    /// the disk.
    pub(crate) fn changed_control_files(&self) -> Vec<PathBuf> {
        let now = match self.confinement.level {
            Level::Bwrap => self.links.clone(),
            Level::Landlock => self.sandbox.control_files(&self.roots).present_paths(),
        };
        self.before.changed(&Snapshot::take(&now))
    }
}

/// The sandbox of this server. Its level is found once, by whoever asks first.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    runner: Runner,
    settings: SandboxSettings,
    outcome: OnceCell<Outcome>,
    places: OnceLock<ConfiguredPlaces>,
    /// The directories of programs that a login shell has besides.
    of_login: OnceLock<Vec<Shown>>,
    survey: Survey,
    denied: Denied,
}

/// What the trials came to.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Outcome {
    /// The first level that passed.
    pub(crate) level: Option<Level>,
    /// Every level that was tried, in order.
    pub(crate) trials: Vec<Trial>,
}

impl Sandbox {
    pub(crate) fn new(runner: Runner, settings: SandboxSettings) -> Self {
        Self(Arc::new(Parts {
            runner,
            settings,
            outcome: OnceCell::new(),
            places: OnceLock::new(),
            of_login: OnceLock::new(),
            survey: Survey::default(),
            denied: Denied::default(),
        }))
    }

    /// Says what rules deny. The first one counts.
    pub(crate) fn deny(&self, find: FindDenied) {
        _ = self.0.denied.0.set(find);
    }

    /// Shows commands the programs on the search path of a login shell. The first one counts.
    pub(crate) fn show_programs(&self, path: &OsStr) {
        let home = self.0.runner.environment().home();
        let programs = places::programs(&home, path);
        let programs: Vec<_> = programs.into_iter().filter(|place| may_look(place)).collect();
        _ = self.0.of_login.set(ConfiguredPlaces::resolve(&[], &programs).readable);
    }

    /// Directories besides the roots that commands can write to.
    pub(crate) fn writable(&self) -> &[PathBuf] {
        &self.0.settings.writable
    }

    /// What the trials came to. The first caller waits for them.
    pub(crate) async fn outcome(&self) -> &Outcome {
        let parts = &self.0;
        let readable = &self.places().readable;
        let choose = || trial::choose(&parts.runner, &parts.settings, readable);
        parts.outcome.get_or_init(choose).await
    }

    /// The level at which commands run; `None` where there is no sandbox.
    pub(crate) async fn level(&self) -> Option<Level> {
        self.outcome().await.level
    }

    /// Confines a command of a session to these roots. `None` where there is no sandbox.
    pub(crate) async fn confine(
        &self,
        roots: Vec<PathBuf>,
        session: Option<&str>,
    ) -> io::Result<Option<Confined>> {
        self.confine_for(Right::Write, roots, session).await
    }

    /// Like [`Self::confine`], for a command that may read and change nothing at all: no root, no
    /// directory of the session, and no network, whatever the settings say of it.
    pub(crate) async fn confine_to_reading(
        &self,
        roots: Vec<PathBuf>,
        session: Option<&str>,
    ) -> io::Result<Option<Confined>> {
        self.confine_for(Right::Read, roots, session).await
    }

    async fn confine_for(
        &self,
        right: Right,
        roots: Vec<PathBuf>,
        session: Option<&str>,
    ) -> io::Result<Option<Confined>> {
        let Some(level) = self.level().await else { return Ok(None) };
        let sandbox = self.clone();
        let session = session.map(str::to_owned);
        // It looks for control files below the roots.
        let confine = move || sandbox.confine_at(level, right, &roots, session.as_deref());
        tokio::task::spawn_blocking(confine).await.map_err(io::Error::other)?.map(Some)
    }

    fn confine_at(
        &self,
        level: Level,
        right: Right,
        roots: &[PathBuf],
        session: Option<&str>,
    ) -> io::Result<Confined> {
        let (writable, readable) = self.shown(roots);
        let roots: Vec<PathBuf> =
            writable.iter().map(|shown| shown.from.path().to_owned()).collect();
        let denied = match level {
            Level::Bwrap => self.0.denied.below(&roots),
            // It has rules that allow, and none that deny.
            Level::Landlock => DeniedPaths::default(),
        };
        let writable = shown::outermost(&writable);
        let readable = without(readable, &writable);
        let reads_only = right == Right::Read;
        let network = if reads_only { Network::None } else { self.0.settings.network };
        let base = base(&self.0.runner, level, network);
        let (temporary, guard) = self.temporary(session)?;
        let (placeholders, masks, unprotected) = match level {
            Level::Bwrap => {
                let shown: Vec<Shown> = writable.iter().chain(&readable).cloned().collect();
                self.protect(&roots, &denied, &shown)
            }
            Level::Landlock => {
                let (none, masks) = Placeholders::hold(Masks::default);
                (none, masks, self.control_files(&roots).present_paths())
            }
        };
        let masks = masks.to_list();
        let temporary = temporary.into();
        let confinement = Confinement { reads_only, writable, readable, temporary, masks, ..base };
        Ok(Confined {
            confinement: Arc::new(confinement),
            is_cut: denied.is_cut,
            sandbox: self.clone(),
            roots,
            before: Snapshot::take(&unprotected),
            links: unprotected,
            guard: Arc::new(Guard { _placeholders: placeholders, _temporary: guard }),
        })
    }

    /// Masks the control files, and what rules deny. Returns the links among them too, which
    /// nothing protects.
    fn protect(
        &self,
        roots: &[PathBuf],
        denied: &DeniedPaths,
        shown: &[Shown],
    ) -> (Placeholders, Masks, Vec<PathBuf>) {
        let mut links = Vec::new();
        let (placeholders, masks) = Placeholders::hold(|| {
            let mut found = self.control_files(roots);
            self.hide(denied, shown, &mut found);
            links = found.links;
            found.masks.pruned()
        });
        (placeholders, masks, links)
    }

    /// What commands may write, and what they may read besides. What has vanished, or has become
    /// a link, is left out.
    fn shown(&self, roots: &[PathBuf]) -> (Vec<Shown>, Vec<Shown>) {
        let places = self.places();
        let roots = roots.iter().map(|root| Shown::as_it_is(root));
        let mut writable: Vec<Shown> = roots.chain(places.writable.iter().cloned()).collect();
        writable.retain(shown::is_unchanged);
        let readable = places.readable.iter().chain(self.0.of_login.get().into_iter().flatten());
        (writable, readable.filter(|shown| shown::is_unchanged(shown)).cloned().collect())
    }

    /// Resolved once, before the first command runs.
    fn places(&self) -> &ConfiguredPlaces {
        let Parts { runner, settings, .. } = self.0.as_ref();
        self.0.places.get_or_init(|| {
            let environment = runner.environment();
            let (home, path) = (environment.home(), environment.search_path());
            let is_full = settings.network == Network::Full;
            let mut readable = places::readable(&home, path, is_full, &settings.readable);
            readable.retain(|place| may_look(place));
            ConfiguredPlaces::resolve(&settings.writable, &readable)
        })
    }

    fn control_files(&self, roots: &[PathBuf]) -> ControlFiles {
        ControlFiles::find(roots, &self.0.survey)
    }

    /// Masks what rules deny, and the state directory.
    fn hide(&self, denied: &DeniedPaths, shown: &[Shown], found: &mut ControlFiles) {
        for path in &denied.editing {
            for path in real_paths(path, shown) {
                found.deny_writing(&path);
            }
        }
        for path in denied.reading.iter().chain(&self.0.settings.hidden) {
            for path in real_paths(path, shown) {
                let is_directory = path.is_dir();
                let kind =
                    if is_directory { MaskKind::EmptyDirectory } else { MaskKind::EmptyFile };
                found.masks.add(&path, kind);
            }
        }
    }

    /// The directory for temporary files: the session's, or else one for this command.
    fn temporary(&self, session: Option<&str>) -> io::Result<(PathBuf, Option<TempDir>)> {
        let Some((base, session)) = self.0.settings.sessions.as_ref().zip(session) else {
            let directory = TempDir::with_prefix("toolhand-command-")?;
            return Ok((directory.path().canonicalize()?, Some(directory)));
        };
        let directory = base.join(session).join(TEMPORARY);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok((directory.canonicalize()?, None))
    }
}

/// Where a command finds what a path really is.
fn real_paths(path: &Path, shown: &[Shown]) -> Vec<PathBuf> {
    let real = fs::canonicalize(path);
    real.map(|real| shown::paths_inside(&real, shown)).unwrap_or_default()
}

/// Whether this user may. bubblewrap ends where it may not; a command could not look either.
fn may_look(place: &Path) -> bool {
    access(place, Access::EXISTS) != Err(Errno::ACCESS)
}

/// Those that lie in nothing that is writable.
fn without(readable: Vec<Shown>, writable: &[Shown]) -> Vec<Shown> {
    readable.into_iter().filter(|shown| !shown::is_within(shown, writable)).collect()
}

/// A confinement in which nothing can be reached.
fn base(runner: &Runner, level: Level, network: Network) -> Confinement {
    let home = runner.environment().home().into();
    Confinement { network, home, ..Confinement::nothing(level) }
}
