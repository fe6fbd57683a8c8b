//! Finds the agents, skills and commands that files under `.claude` define: the user's, and a
//! trusted workspace's.
//!
//! The files are looked at when a session begins, for each call of Task or Skill and for each
//! typed `/name`, and read again only if one has changed. A skill's text is read when it is used.

mod agent;
mod arguments;
mod frontmatter;
mod load;
mod parsed;
mod skill;
mod source;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub(crate) use self::agent::{AgentDefinition, BUILT_IN_AGENTS};
use self::arguments::put_in as put_in_arguments;
use self::load::{Place, load};
use self::skill::SkillText;
pub(crate) use self::skill::{SkillDefinition, SkillKind};
use self::source::{SeenVersion, Source};
use crate::file_encodings::FileEncodings;
use crate::settings_files::SettingsFiles;
use crate::sync;
use crate::trust::TrustState;
use crate::workspace::{ReadableRoot, Workspace};
use crate::{clock, live_file};

/// Texts that are kept to be logged once.
const MAX_LOGGED: usize = 4_000;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefinitionScope {
    User,
    Workspace,
}

/// The file that defines something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefinitionOrigin {
    pub(crate) scope: DefinitionScope,
    pub(crate) path: PathBuf,
    /// The path below what holds the place: the workspace, or the user's directory.
    below: PathBuf,
}

/// What is defined for the sessions of a workspace.
#[derive(Debug, Default)]
pub(crate) struct DefinitionSet {
    /// Whether the operator trusts the workspace.
    pub(crate) is_trusted: bool,
    /// By name; without the built-in ones.
    pub(crate) agents: Arc<[AgentDefinition]>,
    /// Skills and commands, by name.
    pub(crate) skills: Arc<[SkillDefinition]>,
    pub(crate) skipped: Vec<SkippedDefinition>,
    /// How many more were skipped.
    pub(crate) skipped_more: usize,
    /// What is to be told of files that count.
    pub(crate) remarks: Vec<DefinitionRemark>,
}

/// A file or directory that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkippedDefinition {
    pub(crate) path: PathBuf,
    /// It follows the path.
    pub(crate) reason: String,
    /// It was not looked at, because the workspace is not trusted.
    is_untrusted: bool,
}

/// What of a file that counts was not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefinitionRemark {
    pub(crate) path: PathBuf,
    /// It follows the path.
    pub(crate) text: String,
}

/// A skill that is used.
#[derive(Debug)]
pub(crate) struct OpenedSkill {
    text: SkillText,
    /// The directory with the files beside its text; `None`: a command has none.
    pub(crate) directory: Option<ReadableRoot>,
}

/// The definitions of the server's user and of each workspace.
#[derive(Debug)]
pub(crate) struct Definitions {
    /// `None`: the operator wants the user's not to count.
    user_dir: Option<PathBuf>,
    settings_files: Arc<SettingsFiles>,
    encodings: Arc<FileEncodings>,
    /// By the roots of the workspaces, of which the operator names a few.
    workspaces: Mutex<HashMap<PathBuf, Arc<Mutex<Option<Known>>>>>,
    /// What the log was told of files, so that it is told once.
    logged: Mutex<HashSet<(PathBuf, String)>>,
}

/// The definitions, and the file versions that tell whether they are still current.
#[derive(Debug)]
struct Known {
    set: Arc<DefinitionSet>,
    seen: Vec<(DefinitionScope, Vec<(PathBuf, SeenVersion)>)>,
    /// Whether every change since then would show.
    is_settled: bool,
}

impl Definitions {
    /// `user_dir` holds the user's `agents`, `skills` and `commands`.
    pub(crate) fn new(user_dir: Option<&Path>, settings_files: Arc<SettingsFiles>) -> Self {
        Self {
            user_dir: user_dir.map(Path::to_owned),
            settings_files,
            encodings: Arc::default(),
            workspaces: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    /// Reads the files in these encodings where they do not show their own.
    pub(crate) fn with_encodings(self, encodings: Arc<FileEncodings>) -> Self {
        Self { encodings, ..self }
    }

    /// The encodings that are named for files.
    pub(crate) fn encodings(&self) -> &Arc<FileEncodings> {
        &self.encodings
    }

    /// What counts now in the sessions of this workspace. Blocks.
    pub(crate) fn current(&self, workspace: &Workspace) -> Arc<DefinitionSet> {
        let is_trusted = self.settings_files.trust(workspace) == TrustState::Trusted;
        let known = self.known(workspace);
        // A disk that does not answer holds up only this workspace.
        let mut known = sync::lock(&known);
        let sources = self.sources(workspace);
        let same = known.as_ref().filter(|known| known.holds(is_trusted, &sources));
        if let Some(known) = same {
            return Arc::clone(&known.set);
        }
        let is_trusted_in = |scope| scope == DefinitionScope::User || is_trusted;
        let places = sources.into_iter().map(|source| {
            let is_trusted = is_trusted_in(source.scope);
            Place { source, is_trusted }
        });
        let places: Vec<Place> = places.collect();
        let set = Arc::new(DefinitionSet { is_trusted, ..load(&places) });
        tracing::debug!(
            agents = set.agents.len(),
            skills = set.skills.len(),
            skipped = set.skipped.len(),
            "read the definitions"
        );
        self.log(&set);
        let seen = places.into_iter().map(|place| (place.source.scope, place.source.into_seen()));
        *known = Some(Known::new(Arc::clone(&set), seen.collect()));
        set
    }

    /// Tells the log what does not count, and what is odd in the rest, each once.
    fn log(&self, set: &DefinitionSet) {
        let mut logged = sync::lock(&self.logged);
        if MAX_LOGGED <= logged.len() {
            logged.clear();
        }
        let mut is_new =
            |path: &Path, text: &str| logged.insert((path.to_owned(), text.to_owned()));
        for SkippedDefinition { path, reason, is_untrusted } in &set.skipped {
            if !is_untrusted && is_new(path, reason) {
                tracing::warn!(path = %path.display(), reason, "a definition is left out");
            }
        }
        for DefinitionRemark { path, text } in &set.remarks {
            if is_new(path, text) {
                tracing::warn!(path = %path.display(), remark = text, "a definition is odd");
            }
        }
        let untrusted = set.skipped.iter().filter(|skipped| skipped.is_untrusted).count();
        let first = set.skipped.iter().find(|skipped| skipped.is_untrusted);
        if let Some(SkippedDefinition { path, reason, .. }) = first
            && is_new(path, reason)
        {
            let first = path.display();
            tracing::warn!(%first, reason, count = untrusted, "untrusted definitions are left out");
        }
    }

    /// Tells the log of a file with instructions that says nothing to the model, or is read in a
    /// doubtful way, once.
    pub(crate) fn log_instructions(&self, path: &Path, reason: &str, is_left_out: bool) {
        let is_new = sync::lock(&self.logged).insert((path.to_owned(), reason.to_owned()));
        let path = path.display();
        match (is_new, is_left_out) {
            (false, _) => {}
            (true, true) => tracing::warn!(%path, reason, "a file of instructions is left out"),
            (true, false) => tracing::warn!(%path, reason, "a file of instructions is odd"),
        }
    }

    /// The skill as its file holds it now. Blocks. The error is a sentence.
    pub(crate) fn open_skill(
        &self,
        skill: &SkillDefinition,
        workspace: &Workspace,
    ) -> Result<OpenedSkill, String> {
        let opened = self.source_of(&skill.origin, workspace).and_then(|source| {
            let (file, target) = source.read_path(&skill.origin.below, skill::MAX_BYTES)?;
            let directory = match skill.kind {
                SkillKind::Skill => {
                    let root = ReadableRoot::holding(&target).map_err(|error| error.to_string())?;
                    Some(root)
                }
                SkillKind::Command => None,
            };
            Ok(OpenedSkill { text: SkillText::parse(&file)?, directory })
        });
        opened.map_err(|reason| format!("{}: {reason}", skill.origin.path.display()))
    }

    /// The source that the file is of, if it still counts.
    fn source_of(
        &self,
        origin: &DefinitionOrigin,
        workspace: &Workspace,
    ) -> Result<Source, String> {
        let is_users = origin.scope == DefinitionScope::User;
        if !is_users && self.settings_files.trust(workspace) != TrustState::Trusted {
            return Err("the workspace is not trusted any more".to_owned());
        }
        let mut sources = self.sources(workspace).into_iter();
        let source = sources.find(|source| source.scope == origin.scope);
        source.ok_or_else(|| "is not there any more".to_owned())
    }

    /// The workspace's place, then the user's.
    fn sources(&self, workspace: &Workspace) -> Vec<Source> {
        let source = |scope, root| Source::new(scope, root, Arc::clone(&self.encodings));
        let own = source(DefinitionScope::Workspace, workspace.without_additional());
        let users = self.user_dir.clone().and_then(|user| Workspace::open(vec![user]).ok());
        let users = users.map(|root| source(DefinitionScope::User, root));
        [own].into_iter().chain(users).collect()
    }

    fn known(&self, workspace: &Workspace) -> Arc<Mutex<Option<Known>>> {
        let mut all = sync::lock(&self.workspaces);
        Arc::clone(all.entry(workspace.root().to_owned()).or_default())
    }
}

impl Known {
    fn new(
        set: Arc<DefinitionSet>,
        seen: Vec<(DefinitionScope, Vec<(PathBuf, SeenVersion)>)>,
    ) -> Self {
        let now_ms = clock::now_ms();
        let mut versions = seen.iter().flat_map(|(_, seen)| seen).map(|(_, version)| version);
        let is_settled = versions.all(|version| live_file::is_settled(version, now_ms));
        Self { set, seen, is_settled }
    }

    /// Whether nothing of it has changed.
    fn holds(&self, is_trusted: bool, sources: &[Source]) -> bool {
        self.is_settled
            && self.set.is_trusted == is_trusted
            && self.seen.len() == sources.len()
            && self.seen.iter().zip(sources).all(|((scope, seen), source)| {
                *scope == source.scope
                    && seen.iter().all(|(path, version)| source.version(path) == *version)
            })
    }
}

impl OpenedSkill {
    /// What the model is told: where its files are, what its author meant it for, and its text
    /// with the arguments.
    pub(crate) fn told(&self, arguments: &str) -> String {
        let base = self.directory.as_ref();
        let base =
            base.map(|base| format!("Base directory for this skill: {}", base.path().display()));
        let text = put_in_arguments(&self.text.text, arguments);
        let parts = [base, self.text.intent(), Some(text)];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }
}

impl DefinitionSet {
    pub(crate) fn skill(&self, name: &str) -> Option<&SkillDefinition> {
        let at = self.skills.binary_search_by(|skill| skill.name.as_str().cmp(name));
        at.ok().map(|at| &self.skills[at])
    }
}

#[cfg(test)]
impl Definitions {
    /// Nothing is defined.
    pub(crate) fn none() -> Arc<Self> {
        let settings_files = SettingsFiles::new(None, Path::new("/nowhere"));
        Arc::new(Self::new(None, Arc::new(settings_files)))
    }
}

#[cfg(test)]
impl SkillDefinition {
    pub(crate) fn for_test(name: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: SkillKind::Skill,
            description: description.to_owned(),
            argument_hint: None,
            is_for_model: true,
            is_for_user: true,
            origin: DefinitionOrigin::of_user(PathBuf::new()),
        }
    }
}

#[cfg(test)]
impl DefinitionOrigin {
    fn of_user(path: PathBuf) -> Self {
        Self { scope: DefinitionScope::User, below: PathBuf::new(), path }
    }
}

#[cfg(test)]
mod tests;
