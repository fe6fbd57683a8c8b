//! Looks whether a workspace may have files that a server is for, so that a server that has
//! nothing to do there is not offered.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::detection::DetectedServer;
use super::workspace_files::{WorkspaceEntry, visit_entries};
use crate::sync;

/// Entries of directories that are looked at. In a larger workspace there may be anything.
const MAX_ENTRIES: usize = 5_000;

/// How long it counts that nothing is there. That something is there counts for ever: the tools
/// of a session change as seldom as they can, since a change costs the cache of its prompt.
const MAX_AGE_OF_NOTHING: Duration = Duration::from_secs(10);

/// Verdicts that are kept.
const MAX_KEPT: usize = 64;

/// The roots of a workspace, and the names of servers.
type Asked = (Vec<PathBuf>, Vec<String>);

#[derive(Debug, Default)]
pub(super) struct Presence(Mutex<HashMap<Asked, Verdict>>);

#[derive(Clone, Copy, Debug)]
struct Verdict {
    is_there: bool,
    since: Instant,
}

impl Presence {
    /// Whether the workspace may have files of one of the servers. In doubt it has. Reads the
    /// disk.
    pub(super) fn may_be_of_use(&self, roots: Vec<PathBuf>, servers: &[DetectedServer]) -> bool {
        let names = servers.iter().map(|server| server.name.clone()).collect();
        let asked = (roots, names);
        let is_current = |it: &&Verdict| it.is_there || it.since.elapsed() < MAX_AGE_OF_NOTHING;
        if let Some(verdict) = sync::lock(&self.0).get(&asked).filter(is_current) {
            return verdict.is_there;
        }
        let since = Instant::now();
        let is_there = may_have_files(&asked.0, servers);
        let mut kept = sync::lock(&self.0);
        if MAX_KEPT <= kept.len() {
            kept.clear();
        }
        kept.insert(asked, Verdict { is_there, since });
        is_there
    }
}

fn may_have_files(roots: &[PathBuf], servers: &[DetectedServer]) -> bool {
    let mut has_files = false;
    let looked = visit_entries(roots, MAX_ENTRIES, |found| match found {
        WorkspaceEntry::File { name, .. } if !servers.iter().any(|server| server.is_for(name)) => {
            has_files = true;
            ControlFlow::Continue(())
        }
        // Where it is not known, there may be anything.
        WorkspaceEntry::File { .. } | WorkspaceEntry::Unknown => ControlFlow::Break(()),
    });
    // What an empty workspace will have, nobody knows.
    looked.is_break() || !has_files
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn clangd() -> DetectedServer {
        DetectedServer {
            name: "clangd".to_owned(),
            program: "/clangd".into(),
            arguments: Vec::new(),
            extensions: vec![(".c".to_owned(), "c".to_owned())],
            roots: vec!["CMakeLists.txt".to_owned()],
            settings: json!({}),
            initialization: json!({}),
            is_configured: false,
        }
    }

    fn verdict(files: &[&str]) -> bool {
        let workspace = tempfile::tempdir().unwrap();
        for file in files {
            let path = workspace.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        may_have_files(&[workspace.path().to_owned()], &[clangd()])
    }

    #[test]
    fn a_server_is_of_use_where_a_file_of_its_may_be() {
        assert!(verdict(&["a.py", "deep/down/below/x.c"]));
        assert!(verdict(&["README", "CMakeLists.txt"]));
        assert!(!verdict(&["a.py", "x.cc", ".c"]));
        assert!(!verdict(&["a.py", ".git/x.c", "node_modules/x.c", "target/x.c"]));
    }

    #[test]
    fn in_doubt_a_server_is_of_use() {
        assert!(verdict(&[]), "it is empty");
        assert!(verdict(&[".git/config"]), "it is as good as empty");
        let many: Vec<String> = (0..=MAX_ENTRIES).map(|number| format!("{number}.py")).collect();
        assert!(verdict(&many.iter().map(String::as_str).collect::<Vec<_>>()));
        assert!(may_have_files(&["/no/such/directory".into()], &[clangd()]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_comes_is_seen_a_little_later_and_one_that_goes_is_not() {
        let workspace = tempfile::tempdir().unwrap();
        fs::write(workspace.path().join("a.py"), "").unwrap();
        let presence = Presence::default();
        let look = || presence.may_be_of_use(vec![workspace.path().to_owned()], &[clangd()]);
        assert!(!look());
        fs::write(workspace.path().join("a.c"), "").unwrap();
        assert!(!look());
        tokio::time::advance(MAX_AGE_OF_NOTHING).await;
        assert!(look());
        fs::remove_file(workspace.path().join("a.c")).unwrap();
        tokio::time::advance(MAX_AGE_OF_NOTHING).await;
        assert!(look());
    }
}
