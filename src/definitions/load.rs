//! Reads all definitions of the places that count: which of them hold, and why the others do not.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::agent::{self, AgentDefinition};
use super::skill::{self, SkillDefinition, SkillKind};
use super::source::{Entry, Listing, Source};
use super::{DefinitionOrigin, DefinitionSet, SkippedDefinition};

/// Files of agents.
const MAX_AGENTS: usize = 100;

/// Files of skills and commands together.
const MAX_SKILLS: usize = 200;

/// Directories below `commands`.
const MAX_DEPTH: usize = 4;

/// Skipped files of which each is named.
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
    /// Files that were read, whatever they held.
    agent_files: usize,
    skill_files: usize,
}

impl Loader {
    fn agents_of(&mut self, place: &Place) {
        let Some(listing) = self.list(place, "agents") else { return };
        for entry in listing.entries.iter().filter(|entry| stem(entry).is_some()) {
            let read = || {
                let file = place.source.read(&listing, entry, agent::MAX_BYTES)?;
                AgentDefinition::parse(&file, origin(place, listing.path_of(entry)))
            };
            let path = place.source.whole_path(&listing.path_of(entry));
            let counted = count(place, &mut self.agent_files, MAX_AGENTS);
            match counted.and_then(|()| read()) {
                Ok(agent) => match self.agents.iter().find(|other| other.name == agent.name) {
                    Some(other) => self.skip(path, beaten(&other.origin)),
                    None => self.agents.push(agent),
                },
                Err(reason) => self.skip(path, reason),
            }
        }
    }

    fn skills_of(&mut self, place: &Place) {
        let Some(listing) = self.list(place, "skills") else { return };
        for entry in listing.entries.iter().filter(|entry| entry.may_be_directory()) {
            let path = listing.path_of(entry).join("SKILL.md");
            let mut read = || {
                count(place, &mut self.skill_files, MAX_SKILLS)?;
                let name = entry.name().to_str().ok_or("is not UTF-8 in its name")?;
                let file = place.source.read_in(&listing, entry, c"SKILL.md", skill::MAX_BYTES)?;
                let file = file.ok_or("is not there")?;
                let origin = origin(place, path.clone());
                SkillDefinition::parse(&file, name, SkillKind::Skill, origin)
            };
            let read = read();
            self.add(place, &path, read);
        }
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
            let path = listing.path_of(entry);
            if let Some(stem) = stem(entry).filter(|_| !entry.is_directory()) {
                let name = format!("{prefix}{stem}");
                let read = count(place, &mut self.skill_files, MAX_SKILLS).and_then(|()| {
                    let file = place.source.read(listing, entry, skill::MAX_BYTES)?;
                    let origin = origin(place, path.clone());
                    SkillDefinition::parse(&file, &name, SkillKind::Command, origin)
                });
                self.add(place, &path, read);
            } else if entry.may_be_directory() {
                let name = entry.name().to_string_lossy();
                match below(place, listings, entry) {
                    Ok(below) => {
                        self.note_cut(place, &below, &path);
                        let listings = [listings, &[&below]].concat();
                        self.commands_in(place, &listings, &format!("{prefix}{name}:"));
                    }
                    Err(reason) => self.skip(place.source.whole_path(&path), reason),
                }
            }
        }
    }

    fn add(&mut self, place: &Place, path: &Path, read: Result<SkillDefinition, String>) {
        let path = place.source.whole_path(path);
        match read {
            Ok(skill) => match self.skills.iter().find(|other| other.name == skill.name) {
                Some(other) => self.skip(path, beaten(&other.origin)),
                None => self.skills.push(skill),
            },
            Err(reason) => self.skip(path, reason),
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
                self.skip(path(), reason);
                None
            }
        }
    }

    fn note_cut(&mut self, place: &Place, listing: &Listing, path: &Path) {
        if listing.is_cut {
            let path = place.source.whole_path(path);
            self.skip(path, "has too many entries; not all are looked at".to_owned());
        }
    }

    fn skip(&mut self, path: PathBuf, reason: String) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(SkippedDefinition { path, reason });
        } else {
            self.skipped_more += 1;
        }
    }

    fn finish(self) -> DefinitionSet {
        let Self { mut agents, mut skills, skipped, skipped_more, .. } = self;
        agents.sort_by(|one, other| one.name.cmp(&other.name));
        skills.sort_by(|one, other| one.name.cmp(&other.name));
        let (agents, skills) = (agents.into(), skills.into());
        DefinitionSet { agents, skills, skipped, skipped_more, ..DefinitionSet::default() }
    }
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
fn count(place: &Place, files: &mut usize, most: usize) -> Result<(), String> {
    if !place.is_trusted {
        let root = place.source.root_path().display();
        return Err(format!("ignored (untrusted); run `toolhand trust {root}`"));
    }
    if *files == most {
        return Err(format!("not read: the limit is {most} files"));
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
