//! Finds the projects of a workspace, so that a question about all of it reaches every server.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::detection::DetectedServer;
use super::workspace_files::{WorkspaceEntry, visit_entries};

/// Entries of directories that are looked at.
const MAX_ENTRIES: usize = 20_000;

/// Projects of one server that are asked about. A repository could hold thousands.
const MAX_PROJECTS: usize = 4;

/// A server, and the directory of a project that it is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Project {
    pub(super) server: DetectedServer,
    pub(super) root: PathBuf,
}

/// The files of a workspace that a server may be for.
#[derive(Default)]
struct ServerTraces {
    /// The outermost directories with one of its project files.
    projects: Vec<PathBuf>,
    has_files: bool,
}

/// The projects of each server, those of the first servers first. A server for which every
/// workspace is a project has the workspace; so has one with files and without a project file, and
/// the only server that there is. Reads the disk.
pub(super) fn projects(roots: &[PathBuf], servers: &[DetectedServer]) -> Vec<Project> {
    let Some(workspace) = roots.first() else { return Vec::new() };
    let seen = look(roots, servers);
    let mut found = Vec::new();
    for (server, ServerTraces { projects, has_files }) in servers.iter().zip(seen) {
        let is_workspaces = server.roots.is_empty() || has_files || servers.len() == 1;
        let own =
            if projects.is_empty() && is_workspaces { vec![workspace.clone()] } else { projects };
        found.extend(own.into_iter().map(|root| Project { server: server.clone(), root }));
    }
    found
}

fn look(roots: &[PathBuf], servers: &[DetectedServer]) -> Vec<ServerTraces> {
    let mut seen: Vec<ServerTraces> = servers.iter().map(|_| ServerTraces::default()).collect();
    _ = visit_entries(roots, MAX_ENTRIES, |found| {
        if let WorkspaceEntry::File { name, directory } = found {
            for (server, seen) in servers.iter().zip(&mut seen) {
                seen.note(server, name, directory);
            }
        }
        ControlFlow::<()>::Continue(())
    });
    seen
}

impl ServerTraces {
    fn note(&mut self, server: &DetectedServer, name: &Path, directory: &Path) {
        self.has_files |= server.language_of(name).is_some();
        let is_project = server.is_project_file(name);
        let is_inside = self.projects.iter().any(|project| directory.starts_with(project));
        if is_project && !is_inside && self.projects.len() < MAX_PROJECTS {
            self.projects.push(directory.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn server(name: &str, extension: &str, roots: &[&str]) -> DetectedServer {
        DetectedServer {
            name: name.to_owned(),
            program: format!("/{name}").into(),
            arguments: Vec::new(),
            extensions: vec![(extension.to_owned(), name.to_owned())],
            roots: roots.iter().map(|root| (*root).to_owned()).collect(),
            settings: json!({}),
            initialization: json!({}),
            is_configured: false,
        }
    }

    #[track_caller]
    fn check(files: &[&str], servers: &[DetectedServer], expected: &str) {
        let workspace = tempfile::tempdir().unwrap();
        for file in files {
            let path = workspace.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = projects(&[workspace.path().to_owned()], servers);
        let shown = |project: &Project| {
            let root = project.root.strip_prefix(workspace.path()).unwrap().display();
            format!("{} {root}", project.server.name).trim_end().to_owned()
        };
        let mut shown: Vec<String> = found.iter().map(shown).collect();
        shown.sort();
        assert_eq!(shown.join(", "), expected, "{files:?}");
    }

    #[test]
    fn each_server_with_something_in_the_workspace_has_its_projects() {
        let all = [
            server("rust", ".rs", &["Cargo.toml"]),
            server("node", ".ts", &["package.json"]),
            server("go", ".go", &["go.mod"]),
        ];
        check(&["Cargo.toml", "package.json"], &all, "node, rust");
        check(
            &["back/Cargo.toml", "back/one/Cargo.toml", "front/package.json"],
            &all,
            "node front, rust back",
        );
        check(&["a/go.mod", "b/go.mod"], &all, "go a, go b");
        check(&["tool.go", "deep/x.rs"], &all, "go, rust");
        check(&["README"], &all, "");
        check(&["node_modules/x/package.json", "target/Cargo.toml", ".git/go.mod"], &all, "");
        check(&["README"], &all[..1], "rust");
        let own = [server("own", ".x", &[]), server("go", ".go", &["go.mod"])];
        check(&["go.mod"], &own, "go, own");
    }

    #[test]
    fn of_many_projects_only_some_are_asked_about() {
        let workspace = tempfile::tempdir().unwrap();
        for at in 0..9 {
            let directory = workspace.path().join(at.to_string());
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("go.mod"), "").unwrap();
        }
        let go = [server("go", ".go", &["go.mod"])];
        assert_eq!(projects(&[workspace.path().to_owned()], &go).len(), MAX_PROJECTS);
    }
}
