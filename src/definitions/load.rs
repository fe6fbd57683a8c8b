//! Reads all definitions of the places that count: which of them hold, and why the others do not.

use std::ffi::{CStr, OsStr};
use std::path::{Path, PathBuf};

use super::agent::{self, AgentDefinition};
use super::parsed::ParsedDefinition;
use super::skill::{self, SkillDefinition, SkillKind};
use super::source::{Entry, Listing, Source};
use super::{DefinitionOrigin, DefinitionRemark as Remark, DefinitionSet, SkippedDefinition};
use crate::encoding::DecodedText;

/// Files of agents.
const MAX_AGENTS: usize = 100;

/// Files of skills and commands together.
const MAX_SKILLS: usize = 200;

/// Directories below `agents`, `skills` and `commands`.
const MAX_DEPTH: usize = 4;

/// Skipped files of which each is named, and remarks on others.
const MAX_SKIPPED: usize = 500;

/// A place, and whether its files count.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) source: Source,
    pub(super) is_trusted: bool,
}

/// Reads the places; what the first ones define beats what the later ones do.
pub(super) fn load(places: &[Place]) -> DefinitionSet {
    let mut loader = Loader::default();
    for place in places {
        loader.agents_of(place);
    }
    for place in places {
        loader.skills_of(place);
    }
    for place in places {
        loader.commands_of(place);
    }
    loader.finish()
}

#[derive(Debug, Default)]
struct Loader {
    agents: Vec<AgentDefinition>,
    skills: Vec<SkillDefinition>,
    skipped: Vec<SkippedDefinition>,
    skipped_more: usize,
    remarks: Vec<Remark>,
    /// Files that were read, whatever they held.
    agent_files: usize,
    skill_files: usize,
}

impl Loader {
    fn agents_of(&mut self, place: &Place) {
        if let Some(listing) = self.list(place, "agents") {
            self.agents_in(place, &[&listing]);
        }
    }

    /// The agents of the last directory, and of those below it. Their names are their own.
    fn agents_in(&mut self, place: &Place, listings: &[&Listing]) {
        let Some(listing) = listings.last() else { return };
        for entry in &listing.entries {
            if let Some(stem) = stem(entry).filter(|_| !entry.is_directory()) {
                let path = listing.path_of(entry);
                let read = count(place, &mut self.agent_files, MAX_AGENTS).and_then(|()| {
                    let file = place.source.read(listing, entry, agent::MAX_BYTES)?;
                    let origin = origin(place, path.clone());
                    doubted(&file, AgentDefinition::parse(&file.text, &stem, origin))
                });
                self.add_agent(place.source.whole_path(&path), read);
            } else if let Some(below) = self.descend(place, listings, entry) {
                self.agents_in(place, &[listings, &[&below]].concat());
            }
        }
    }

    fn add_agent(
        &mut self,
        path: PathBuf,
        read: Result<ParsedDefinition<AgentDefinition>, Unread>,
    ) {
        let Some(agent) = self.parsed(&path, read) else { return };
        match self.agents.iter().find(|other| other.name == agent.name) {
            Some(other) => self.skip(path, Unread::fault(beaten(&other.origin))),
            None => self.agents.push(agent),
        }
    }

    fn skills_of(&mut self, place: &Place) {
        let Some(listing) = self.list(place, "skills") else { return };
        for entry in &listing.entries {
            let path = place.source.whole_path(&listing.path_of(entry));
            if !entry.may_be_directory() {
                if stem(entry).is_some_and(|stem| !stem.eq_ignore_ascii_case("readme")) {
                    let why = "is a file; a skill is a directory with a file SKILL.md in it";
                    self.skip(path, Unread::fault(why));
                }
            } else if !self.skills_at(place, &[&listing], entry) {
                self.skip(path.join("SKILL.md"), Unread::fault("is not there"));
            }
        }
    }

    /// The skill of a directory, or those of the directories below it. Returns whether there was
    /// any, read or not.
    fn skills_at(&mut self, place: &Place, listings: &[&Listing], entry: &Entry) -> bool {
        let Some(listing) = listings.last() else { return false };
        let name = entry.name().to_str().ok_or_else(|| Unread::fault("is not UTF-8 in its name"));
        let counted = count(place, &mut self.skill_files, MAX_SKILLS);
        let file = counted.and_then(|()| Ok(skill_file(place, listing, entry)?));
        let (file, file_name) = match file {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.skill_files -= 1;
                return self.skills_below(place, listings, entry);
            }
            Err(why) => {
                let path = listing.path_of(entry).join("SKILL.md");
                self.add_skill(place, &path, Err(why));
                return true;
            }
        };
        let path = listing.path_of(entry).join(file_name);
        let read = name.and_then(|name| {
            let origin = origin(place, path.clone());
            doubted(&file, SkillDefinition::parse(&file.text, name, SkillKind::Skill, origin))
        });
        self.add_skill(place, &path, read);
        true
    }

    fn skills_below(&mut self, place: &Place, listings: &[&Listing], entry: &Entry) -> bool {
        // A link to what is no directory has nothing below it.
        let below = if entry.is_directory() {
            self.descend(place, listings, entry)
        } else {
            below(place, listings, entry).ok()
        };
        let Some(below) = below else { return entry.is_directory() };
        let listings = [listings, &[&below]].concat();
        let mut is_any = false;
        for entry in below.entries.iter().filter(|entry| entry.may_be_directory()) {
            is_any |= self.skills_at(place, &listings, entry);
        }
        is_any
    }

    fn commands_of(&mut self, place: &Place) {
        if let Some(listing) = self.list(place, "commands") {
            self.commands_in(place, &[&listing], "");
        }
    }

    /// The commands of the last directory, and of those below it, whose names stand in front.
    fn commands_in(&mut self, place: &Place, listings: &[&Listing], prefix: &str) {
        let Some(listing) = listings.last() else { return };
        for entry in &listing.entries {
            if let Some(stem) = stem(entry).filter(|_| !entry.is_directory()) {
                let path = listing.path_of(entry);
                let name = format!("{prefix}{stem}");
                let read = count(place, &mut self.skill_files, MAX_SKILLS).and_then(|()| {
                    let file = place.source.read(listing, entry, skill::MAX_BYTES)?;
                    let origin = origin(place, path.clone());
                    let kind = SkillKind::Command;
                    doubted(&file, SkillDefinition::parse(&file.text, &name, kind, origin))
                });
                self.add_skill(place, &path, read);
            } else if let Some(below) = self.descend(place, listings, entry) {
                let name = entry.name().to_string_lossy();
                let listings = [listings, &[&below]].concat();
                self.commands_in(place, &listings, &format!("{prefix}{name}:"));
            }
        }
    }

    fn add_skill(
        &mut self,
        place: &Place,
        path: &Path,
        read: Result<ParsedDefinition<SkillDefinition>, Unread>,
    ) {
        let path = place.source.whole_path(path);
        let Some(skill) = self.parsed(&path, read) else { return };
        match self.skills.iter().find(|other| other.name == skill.name) {
            Some(other) => self.skip(path, Unread::fault(beaten(&other.origin))),
            None => self.skills.push(skill),
        }
    }

    /// The definition of a file, if it could be read. Keeps what is to be told of the file.
    fn parsed<D>(&mut self, path: &Path, read: Result<ParsedDefinition<D>, Unread>) -> Option<D> {
        match read {
            Ok(ParsedDefinition { definition, remarks }) => {
                let room = MAX_SKIPPED.saturating_sub(self.remarks.len());
                let remarks = remarks.into_iter().take(room);
                let path = path.to_owned();
                self.remarks.extend(remarks.map(|text| Remark { path: path.clone(), text }));
                Some(definition)
            }
            Err(why) => {
                self.skip(path.to_owned(), why);
                None
            }
        }
    }

    /// The directory that the last one lists under this name, if it is one.
    fn descend(&mut self, place: &Place, listings: &[&Listing], entry: &Entry) -> Option<Listing> {
        let path = listings.last()?.path_of(entry);
        if !entry.may_be_directory() {
            return None;
        }
        match below(place, listings, entry) {
            Ok(below) => {
                self.note_cut(place, &below, &path);
                Some(below)
            }
            Err(why) => {
                self.skip(place.source.whole_path(&path), Unread::fault(why));
                None
            }
        }
    }

    fn list(&mut self, place: &Place, name: &str) -> Option<Listing> {
        let path = || place.source.whole_path(&place.source.path_of(name));
        match place.source.list(name) {
            Ok(listing) => {
                let listing = listing?;
                self.note_cut(place, &listing, &place.source.path_of(name));
                Some(listing)
            }
            Err(reason) => {
                self.skip(path(), Unread::fault(reason));
                None
            }
        }
    }

    fn note_cut(&mut self, place: &Place, listing: &Listing, path: &Path) {
        if listing.is_cut {
            let path = place.source.whole_path(path);
            self.skip(path, Unread::fault("has too many entries; not all are looked at"));
        }
    }

    fn skip(&mut self, path: PathBuf, why: Unread) {
        if self.skipped.len() < MAX_SKIPPED {
            let Unread { reason, is_untrusted } = why;
            self.skipped.push(SkippedDefinition { path, reason, is_untrusted });
        } else {
            self.skipped_more += 1;
        }
    }

    fn finish(self) -> DefinitionSet {
        let Self { mut agents, mut skills, skipped, skipped_more, remarks, .. } = self;
        agents.sort_by(|one, other| one.name.cmp(&other.name));
        skills.sort_by(|one, other| one.name.cmp(&other.name));
        let (agents, skills) = (agents.into(), skills.into());
        let is_trusted = false;
        DefinitionSet { is_trusted, agents, skills, skipped, skipped_more, remarks }
    }
}

/// Why a file does not count.
struct Unread {
    reason: String,
    /// It is a file of a workspace that is not trusted, and was not looked at.
    is_untrusted: bool,
}

impl Unread {
    fn fault(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_untrusted: false }
    }
}

impl From<String> for Unread {
    fn from(reason: String) -> Self {
        Self::fault(reason)
    }
}

/// What was read of a file, with what is to be told of its encoding.
fn doubted<D>(
    file: &DecodedText,
    read: Result<ParsedDefinition<D>, String>,
) -> Result<ParsedDefinition<D>, Unread> {
    let mut parsed = read?;
    parsed.remarks.extend(file.doubt.clone());
    Ok(parsed)
}

/// The names of a skill's file. Other programs take it in small letters as well.
const SKILL_FILES: [(&CStr, &str); 2] = [(c"SKILL.md", "SKILL.md"), (c"skill.md", "skill.md")];

/// The file of a skill in this directory, with its name.
fn skill_file(
    place: &Place,
    listing: &Listing,
    entry: &Entry,
) -> Result<Option<(DecodedText, &'static str)>, String> {
    for (name, text) in SKILL_FILES {
        if let Some(file) = place.source.read_in(listing, entry, name, skill::MAX_BYTES)? {
            return Ok(Some((file, text)));
        }
    }
    Ok(None)
}

/// The name of a Markdown file without its ending.
fn stem(entry: &Entry) -> Option<String> {
    let stem = OsStr::to_string_lossy(entry.name()).strip_suffix(".md").map(str::to_owned);
    stem.filter(|stem| !stem.is_empty())
}

/// The directory that the last one lists under this name.
fn below(place: &Place, listings: &[&Listing], entry: &Entry) -> Result<Listing, String> {
    let [.., listing] = listings else { return Err("is not there".to_owned()) };
    if listings.len() > MAX_DEPTH {
        return Err(format!("is more than {MAX_DEPTH} deep"));
    }
    let below = place.source.list_in(listing, entry)?;
    if listings.iter().any(|above| above.is_same(&below)) {
        return Err("is a link to a directory above it".to_owned());
    }
    Ok(below)
}

/// Counts a file that is to be read.
fn count(place: &Place, files: &mut usize, most: usize) -> Result<(), Unread> {
    if !place.is_trusted {
        let root = place.source.root_path().display();
        let reason = format!("ignored (untrusted); run `toolhand trust {root}`");
        return Err(Unread { reason, is_untrusted: true });
    }
    if *files == most {
        return Err(Unread::fault(format!("not read: the limit is {most} files")));
    }
    *files += 1;
    Ok(())
}

fn beaten(by: &DefinitionOrigin) -> String {
    format!("overridden by {}, which has the same name", by.path.display())
}

fn origin(place: &Place, below: PathBuf) -> DefinitionOrigin {
    let path = place.source.whole_path(&below);
    DefinitionOrigin { scope: place.source.scope, path, below }
}
