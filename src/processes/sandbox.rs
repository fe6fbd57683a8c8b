//! Chooses the level of the sandbox by trying what it must prevent, and confines commands at
//! that level.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use serde::Serialize;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use self::denied::Denied;
pub(crate) use self::denied::{DeniedPaths, FindDenied, Secrets};
use self::shown::ConfiguredPlaces;
pub(crate) use self::trial::Trial;
use super::confinement::{
    Confinement, DirectoryAbove, Level, Mask, MaskKind, Mounted, Network, Shown,
};
use super::control_files::{ControlFiles, Finds, LookBefore, Survey};
use super::git_identity::{self, GitIdentity};
use super::handles;
use super::linked_repository::LinkedRepository;
use super::masks::Masks;
use super::mounts;
use super::placeholders::{Placeholders, Sweeper};
use super::places;
use super::runner::{KeptAlive, Runner};
use crate::text::printable_path;

mod denied;
mod outline;
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
    /// The list of the placeholders that are there, for whoever removes them after this server
    /// was killed.
    pub(crate) placeholders: Option<PathBuf>,
}

/// What a command may do with the files that it is shown, and whether somebody has approved it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Read,
    WriteUnapproved,
    Write,
}

/// What a command is shown.
#[derive(Debug)]
struct ShownPlaces {
    /// What is writable besides repositories of roots. Control files are looked for there.
    roots: Vec<PathBuf>,
    writable: Vec<Shown>,
    /// What lies in nothing that is writable.
    readable: Vec<Shown>,
    /// Handles on what is writable.
    opened: Vec<OwnedFd>,
}

/// What protects the files that a command is shown.
#[derive(Debug, Default)]
struct Held {
    placeholders: Placeholders,
    masks: Masks,
    before: LookBefore,
    is_cut: bool,
}

/// How often the files of a workspace are looked at anew that were exchanged meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// The name of a session's directory for its commands' temporary files.
const TEMPORARY: &str = "tmp";

/// A confinement, with the directory that it needs for as long as it is in use.
#[derive(Debug)]
pub(crate) struct Confined {
    pub(crate) confinement: Arc<Confinement>,
    /// There are more files than were looked through for what rules deny.
    pub(crate) is_cut: bool,
    /// Looks at the roots again when the command has ended. `None`: it can only read.
    pub(crate) watch: Option<WorkspaceWatch>,
    sandbox: Sandbox,
    view: View,
    guard: Arc<Guard>,
}

/// What a command is to see, and what it may do there.
#[derive(Clone, Debug)]
struct View {
    level: Level,
    right: Right,
    roots: Vec<PathBuf>,
    session: Option<String>,
    /// A directory besides the roots, in which the program keeps files of its own.
    kept: Option<PathBuf>,
}

/// Knows what other programs obeyed below the roots before a command, and looks again when the
/// command has ended.
#[derive(Debug)]
pub(crate) struct WorkspaceWatch {
    sandbox: Sandbox,
    roots: Vec<PathBuf>,
    before: LookBefore,
}

impl WorkspaceWatch {
    /// What the command has made or changed that other programs obey. Reads the disk.
    pub(crate) fn finds(&self) -> Finds {
        self.before.finds(self.sandbox.control_files(&self.roots))
    }
}

/// What must stay until the last process of the command has ended.
#[derive(Debug)]
struct Guard {
    _placeholders: Placeholders,
    _temporary: Option<TempDir>,
    /// The roots and what is masked. While they are open, no other file gets their numbers.
    _opened: Vec<OwnedFd>,
}

impl Confined {
    /// The same for another start, with all files as they are now.
    pub(crate) async fn renewed(&self) -> io::Result<Self> {
        self.sandbox.confine_in(self.view.clone()).await
    }

    /// What the runner holds until the last process of the command has ended.
    pub(crate) fn guard(&self) -> KeptAlive {
        KeptAlive::new(self.guard.clone())
    }

    /// The paths of what the command has left.
    #[cfg(test)]
    pub(crate) fn changed_control_files(&self) -> Vec<PathBuf> {
        self.watch.as_ref().map(|watch| watch.finds().paths()).unwrap_or_default()
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
    sweeper: Sweeper,
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
        let sweeper = Sweeper::new(settings.placeholders.clone(), runner.supervisor());
        Self(Arc::new(Parts {
            sweeper,
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

    /// Like [`Self::confine`], for a program that has a directory of its own: what it keeps there it
    /// finds at its next start.
    pub(crate) async fn confine_with_kept(
        &self,
        roots: Vec<PathBuf>,
        kept: PathBuf,
    ) -> io::Result<Option<Confined>> {
        let Some(level) = self.level().await else { return Ok(None) };
        let view = View { level, right: Right::Write, roots, session: None, kept: Some(kept) };
        self.confine_in(view).await.map(Some)
    }

    /// Like [`Self::confine`], for a command that nobody has approved: files that may hold secrets
    /// are closed to it, where the level can.
    pub(crate) async fn confine_unapproved(
        &self,
        roots: Vec<PathBuf>,
        session: Option<&str>,
    ) -> io::Result<Option<Confined>> {
        self.confine_for(Right::WriteUnapproved, roots, session).await
    }

    /// Like [`Self::confine_unapproved`], for a command that may read and change nothing at all: no root, no
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
        let session = session.map(str::to_owned);
        let view = View { level, right, roots, session, kept: None };
        self.confine_in(view).await.map(Some)
    }

    async fn confine_in(&self, view: View) -> io::Result<Confined> {
        let sandbox = self.clone();
        // It looks for control files below the roots.
        let confine = move || {
            let mut attempts = 0;
            loop {
                attempts += 1;
                let confined = sandbox.confine_at(&view);
                let is_exchanged = confined.as_ref().is_err_and(is_exchanged);
                if !is_exchanged || MAX_ATTEMPTS <= attempts {
                    return confined;
                }
            }
        };
        tokio::task::spawn_blocking(confine).await.map_err(io::Error::other)?
    }

    fn confine_at(&self, view: &View) -> io::Result<Confined> {
        let View { level, right, .. } = *view;
        let shown = self.shown(view.roots.iter().map(PathBuf::as_path));
        let ShownPlaces { roots, mut writable, readable, mut opened } = shown;
        // Nothing in it is obeyed by other programs.
        let kept = view.kept.as_deref().and_then(|kept| shown::opened(&Shown::as_it_is(kept)));
        if let Some((kept, handle)) = kept.filter(|(kept, _)| !shown::is_within(kept, &writable)) {
            writable.push(kept);
            opened.push(handle);
        }
        let reads_only = right == Right::Read;
        let network = if reads_only { Network::None } else { self.0.settings.network };
        let base = base(&self.0.runner, level, network);
        let mut held = Held::default();
        let mut masks = Vec::new();
        let mut above = Vec::new();
        let mut mounted = Vec::new();
        if level == Level::Bwrap {
            let shown: Vec<Shown> = writable.iter().chain(&readable).cloned().collect();
            held = self.protect(right, &roots, &shown)?;
            masks = masked(&held.masks, &shown, &mut opened)?;
            above = directories_above(&held.masks, &shown, &mut opened)?;
            mounted = mounted_below(&writable)?;
        } else if !reads_only {
            // It has rules that allow, and none that deny.
            held.before = LookBefore::of_open(&mut self.control_files(&roots));
        }
        let (temporary, own) = self.temporary(view.session.as_deref())?;
        let temporary = temporary.into();
        let confinement = Confinement {
            reads_only,
            writable,
            readable,
            temporary,
            masks,
            above,
            mounted,
            ..base
        };
        let guard = Guard { _placeholders: held.placeholders, _temporary: own, _opened: opened };
        let watch = WorkspaceWatch { sandbox: self.clone(), roots, before: held.before };
        Ok(Confined {
            confinement: Arc::new(confinement),
            is_cut: held.is_cut,
            watch: (!reads_only).then_some(watch),
            sandbox: self.clone(),
            view: view.clone(),
            guard: Arc::new(guard),
        })
    }

    /// Masks the control files, and what rules deny. A command that only reads cannot change
    /// control files, and is denied what may hold secrets.
    fn protect(&self, right: Right, roots: &[PathBuf], shown: &[Shown]) -> io::Result<Held> {
        let secrets = if right == Right::Write { Secrets::Shown } else { Secrets::Denied };
        let denied = self.0.denied.below(roots, secrets);
        let closed = self.closed(&denied, shown)?;
        if right == Right::Read {
            let mut masks = Masks::default();
            for path in &closed {
                masks.add(path, MaskKind::Closed);
            }
            return Ok(Held { masks: masks.pruned(), is_cut: denied.is_cut, ..Held::default() });
        }
        let mut before = LookBefore::default();
        let (placeholders, masks) = Placeholders::hold(&self.0.sweeper, || {
            let mut found = self.control_files(roots);
            before = LookBefore::of_protected(&mut found);
            for path in denied.editing.iter().flat_map(|path| nearest_reachable(path)) {
                found.deny_writing(&path);
            }
            for path in &closed {
                found.close(path);
            }
            found.masks.pruned()
        });
        Ok(Held { placeholders, masks, before, is_cut: denied.is_cut })
    }

    /// What commands may write, with the repositories of these roots, and what they may read
    /// besides. What has vanished, or has become a link, is left out.
    fn shown<'a>(&self, roots: impl Iterator<Item = &'a Path>) -> ShownPlaces {
        let places = self.places();
        let all = roots.map(Shown::as_it_is).chain(places.writable.iter().cloned());
        let (all, mut opened): (Vec<Shown>, Vec<OwnedFd>) =
            all.filter_map(|place| shown::opened(&place)).unzip();
        let roots: Vec<PathBuf> = all.iter().map(|shown| shown.from.path().to_owned()).collect();
        let mut writable = shown::outermost(&all);
        for linked in self.linked(&roots) {
            let opens = shown::opened(&Shown::as_it_is(&linked.directory));
            let (shown, handle) = opens.unzip();
            writable.extend(shown);
            opened.extend(handle);
        }
        let readable = places.readable.iter().chain(self.0.of_login.get().into_iter().flatten());
        let readable = readable.filter_map(|place| Some(shown::opened(place)?.0)).collect();
        let readable = without(readable, &writable);
        ShownPlaces { roots, writable, readable, opened }
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
        let of_person = git_identity::named_by_person(&self.0.runner.environment().home());
        ControlFiles::find(roots, self.linked(roots), of_person, &self.0.survey)
    }

    /// The repositories of these roots that lie in none of them, and not in the server's state: a
    /// session could make one in its own directory for temporary files.
    fn linked(&self, roots: &[PathBuf]) -> Vec<LinkedRepository> {
        let hidden = &self.0.settings.hidden;
        let mut all = LinkedRepository::of_all(roots);
        all.retain(|linked| !hidden.iter().any(|it| linked.directory.starts_with(it)));
        all
    }

    /// Watches these roots for a command that runs outside of any sandbox.
    pub(crate) async fn watch(&self, roots: Vec<PathBuf>) -> io::Result<WorkspaceWatch> {
        let sandbox = self.clone();
        let look = move || {
            let writable = sandbox.places().writable.iter().map(|place| place.from.path());
            let all = roots.iter().map(PathBuf::as_path).chain(writable);
            let roots: Vec<PathBuf> = all.map(Path::to_owned).collect();
            let before = LookBefore::of_open(&mut sandbox.control_files(&roots));
            WorkspaceWatch { sandbox, roots, before }
        };
        tokio::task::spawn_blocking(look).await.map_err(io::Error::other)
    }

    /// What rules deny to reading, and the state directory, if a command is shown it.
    fn closed(&self, denied: &DeniedPaths, shown: &[Shown]) -> io::Result<Vec<PathBuf>> {
        let mut closed = Vec::new();
        for path in &denied.reading {
            match nearest_reachable(path) {
                Ok(path) => closed.push(path),
                // A link that leads nowhere is there still.
                Err(error) if is_gone(&error) && path.is_symlink() => {}
                Err(error) if is_gone(&error) => return Err(error),
                Err(_) => {}
            }
        }
        closed.extend(self.0.settings.hidden.iter().flat_map(fs::canonicalize));
        closed.retain(|path| !shown::paths_inside(path, shown).is_empty());
        Ok(closed)
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

/// The masks at each path where a command finds what they are about, outer ones first, and what
/// they are about opened.
fn masked(masks: &Masks, shown: &[Shown], opened: &mut Vec<OwnedFd>) -> io::Result<Vec<Mask>> {
    let mut list = Vec::new();
    for (path, kind) in masks.iter() {
        let handle = match handles::open(path) {
            Ok(handle) => handle,
            // It has gone meanwhile, and what was to be closed may be elsewhere now.
            Err(error) if is_gone(&error) && kind != MaskKind::Closed => continue,
            Err(error) => return Err(named(path, error)),
        };
        let id = handles::id(&handle)?;
        let places = shown::paths_inside(path, shown).into_iter();
        list.extend(places.map(|place| Mask { place: place.into(), kind, id }));
        opened.push(handle);
    }
    Ok(list)
}

/// The directories above masks that have none themselves, at each path where a command finds them.
/// Whoever may write has a mask on each.
fn directories_above(
    masks: &Masks,
    shown: &[Shown],
    opened: &mut Vec<OwnedFd>,
) -> io::Result<Vec<DirectoryAbove>> {
    let masked: HashSet<&Path> = masks.iter().map(|(path, _)| path).collect();
    let mut looked_at = HashSet::new();
    let mut list = Vec::new();
    for (path, _) in masks.iter() {
        let is_shown_above = |directory: &Path| {
            let is_below = |root: &Path| directory != root && directory.starts_with(root);
            shown.iter().any(|shown| is_below(shown.from.path()))
        };
        for directory in path.ancestors().skip(1).take_while(|above| is_shown_above(above)) {
            if masked.contains(directory) || !looked_at.insert(directory) {
                continue;
            }
            let handle = match handles::open(directory) {
                Ok(handle) => handle,
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(named(directory, error)),
            };
            let id = handles::id(&handle)?;
            let places = shown::paths_inside(directory, shown).into_iter();
            list.extend(places.map(|place| DirectoryAbove { place: place.into(), id }));
            opened.push(handle);
        }
    }
    Ok(list)
}

/// The real path of a file; where this user cannot enter the directory that holds it, of the
/// nearest one above that can be reached. A command could change its mode.
fn nearest_reachable(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            path.parent().map_or(Err(error), nearest_reachable)
        }
        reached => reached,
    }
}

/// The machine's own mounts below these places, where a command finds them.
fn mounted_below(writable: &[Shown]) -> io::Result<Vec<Mounted>> {
    let mut below = Vec::new();
    for Mounted { at, what } in mounts::current()?.iter() {
        for place in shown::paths_inside(at.path(), writable) {
            below.push(Mounted { at: place.into(), what: what.clone() });
        }
    }
    Ok(below)
}

/// The error with the path that it is about, where another attempt is of no use.
fn named(path: &Path, error: io::Error) -> io::Error {
    if is_exchanged(&error) {
        return error;
    }
    let path = printable_path(path);
    io::Error::new(error.kind(), format!("{path}: {error}"))
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Whether between two looks at a path a link has come, or what was there has gone.
fn is_exchanged(error: &io::Error) -> bool {
    [Errno::LOOP, Errno::NOTDIR, Errno::NOENT]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
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
    let home = runner.environment().home();
    let is_empty = level == Level::Bwrap;
    let git_settings = is_empty.then(|| GitIdentity::of_person(&home).settings()).flatten();
    Confinement { network, home: home.into(), git_settings, ..Confinement::nothing(level) }
}
