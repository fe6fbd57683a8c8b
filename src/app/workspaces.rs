//! Warns of workspaces that contain too much.

use std::path::{Path, PathBuf};

use crate::config::Config;

/// One line for each workspace or additional directory that is `/`, the home directory,
/// or a directory around the state directory.
pub(crate) fn warnings(config: &Config, home: &Path) -> Vec<String> {
    let server = &config.server;
    let first = ("the workspace".to_owned(), &server.workspace);
    let named =
        server.workspaces.iter().map(|(name, path)| (format!("the workspace {name}"), path));
    let further = config.permissions.additional_directories.iter();
    let further = further.map(|path| ("an additional directory".to_owned(), path));
    let all = [first].into_iter().chain(named).chain(further);
    all.filter_map(|(what, path)| Some(format!("{what} {}", fault(path, home, &server.state_dir)?)))
        .collect()
}

fn fault(workspace: &Path, home: &Path, state: &Path) -> Option<String> {
    let (workspace, home, state) = (real(workspace), real(home), real(state));
    if workspace == Path::new("/") {
        return Some("is / : tools may reach every file of this machine".into());
    }
    if workspace == home {
        return Some(format!(
            "is your home directory, {}: tools may reach all that is in it, keys and start files \
             too",
            home.display()
        ));
    }
    state.starts_with(&workspace).then(|| {
        format!(
            "holds the state directory, {}: commands may reach the server's keys there",
            state.display()
        )
    })
}

/// Resolves the links in the part of the path that exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_too_much_is_named_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        for name in ["home/project", "home/.local/share/toolhand", "home/project-state"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(base.join("home"), base.join("me")).unwrap();
        let check = |workspace: &str, state: &str, expected: Option<&str>| {
            let found = fault(&base.join(workspace), &base.join("home"), &base.join(state));
            let is_so = match (&found, expected) {
                (Some(found), Some(expected)) => found.contains(expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_so, "{workspace} {state}: {found:?}");
        };
        let usual = "home/.local/share/toolhand";
        check("home/project", usual, None);
        check("home/project", "home/project-state", None);
        check("/", usual, Some("is / "));
        check("home", usual, Some("home directory"));
        check("me/../home/.", usual, Some("home directory"));
        check("me", usual, Some("home directory"));
        check("home/.local", usual, Some("holds the state directory"));
        check("home/project", "me/project/not/yet", Some("holds the state directory"));
    }
}
