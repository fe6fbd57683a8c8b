//! Keeps the further directories that one session may read: those of the skills that it used.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::bound_directory::{BoundDirectory, DirectoryId};
use super::handles::duplicate;
use super::target::Target;
use super::{Root, Workspace};
use crate::sync;

/// Directories, held open. All agents of a session share them.
#[derive(Debug, Default)]
pub(crate) struct ReadableRoots(Mutex<Vec<Root>>);

/// A directory that was opened to be one of them.
#[derive(Debug)]
pub(crate) struct ReadableRoot(Root);

impl ReadableRoot {
    /// The directory that holds the target.
    pub(crate) fn holding(target: &Target) -> io::Result<Self> {
        let real = target.real_path().parent().unwrap_or(target.real_path()).to_owned();
        let handle = Arc::new(duplicate(target.directory())?);
        Ok(Self(Root { given: real.clone(), real, handle }))
    }

    /// Its path, with every link resolved.
    pub(crate) fn path(&self) -> &Path {
        &self.0.real
    }
}

impl ReadableRoots {
    /// Those of an earlier turn that are still there. Reads the disk.
    pub(crate) fn load(saved: Vec<BoundDirectory>) -> Self {
        let opened = saved.into_iter().filter_map(|bound| {
            let root = Root::open(&bound.path).ok()?;
            let is_it = root.real == bound.path && bound.id.is(&root.id()?);
            is_it.then_some(root)
        });
        Self(Mutex::new(opened.collect()))
    }

    /// For [`Self::load`]. Paths that are not UTF-8 have no form in JSON.
    pub(crate) fn save(&self) -> Vec<BoundDirectory> {
        let bound = |root: &Root| {
            let path = root.real.clone();
            path.to_str()?;
            Some(BoundDirectory { path, id: root.id()? })
        };
        sync::lock(&self.0).iter().filter_map(bound).collect()
    }

    /// Adds a directory. What was opened at its path before gives way.
    pub(crate) fn add(&self, ReadableRoot(root): ReadableRoot) {
        let mut roots = sync::lock(&self.0);
        roots.retain(|other| other.real != root.real);
        roots.push(root);
    }

    /// The workspace together with the directories; `None` if there are none beside it.
    pub(crate) fn join(&self, workspace: &Workspace) -> Option<Workspace> {
        let further = sync::lock(&self.0);
        let is_known = |root: &&Root| workspace.roots.iter().any(|own| own.real == root.real);
        let further: Vec<Root> = further.iter().filter(|root| !is_known(root)).cloned().collect();
        let roots = || [workspace.roots.as_slice(), &further].concat();
        (!further.is_empty()).then(|| Workspace { roots: roots() })
    }
}

impl Root {
    fn id(&self) -> Option<DirectoryId> {
        let metadata = std::fs::File::from(duplicate(&self.handle).ok()?).metadata().ok()?;
        Some(DirectoryId::from_metadata(&metadata))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_in_the_place_of_another_one_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        for name in ["ws", "skill", "other"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        fs::write(path.join("skill/SKILL.md"), "x").unwrap();
        let workspace = Workspace::open(vec![path.join("ws")]).unwrap();
        let holding = Workspace::open(vec![path.clone()]).unwrap();
        let target = holding.resolve(&path.join("skill/SKILL.md")).unwrap();
        let roots = ReadableRoots::default();
        assert!(roots.join(&workspace).is_none());
        roots.add(ReadableRoot::holding(&target).unwrap());
        roots.add(ReadableRoot::holding(&target).unwrap());
        let joined = roots.join(&workspace).unwrap();
        assert_eq!(joined.real_roots().count(), 2);
        assert!(joined.resolve(&path.join("skill/SKILL.md")).is_ok());
        assert!(joined.resolve(&path.join("other")).is_err());

        let again = ReadableRoots::load(roots.save());
        assert!(again.join(&workspace).is_some());
        fs::rename(path.join("skill"), path.join("moved")).unwrap();
        fs::rename(path.join("other"), path.join("skill")).unwrap();
        assert!(ReadableRoots::load(roots.save()).join(&workspace).is_none());
        assert!(roots.join(&workspace).unwrap().resolve(&path.join("skill/SKILL.md")).is_ok());
    }
}
