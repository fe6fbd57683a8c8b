//! Measures judging and its proofs, for `make bench` and `make soak` alone.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    AccessKind, AccessRequest, ExcludedPaths, KnownTool, PermissionSettings, Permissions,
    SandboxMode,
};
use crate::settings_files::SettingsFiles;
use crate::workspace::Workspace;

const KNOWN: [KnownTool<'_>; 2] = [
    KnownTool { name: "Read", aliases: &[], access: AccessKind::Read },
    KnownTool { name: "Bash", aliases: &[], access: AccessKind::Command },
];

/// What is judged again and again.
#[derive(Clone, Copy, Debug)]
pub enum Judged<'a> {
    /// A command line.
    Command(&'a str),
    /// A file of the workspace, by its path below it.
    Read(&'a str),
}

/// How long each of `runs` judgements takes under these deny rules, from the request to the
/// verdict. `None` if the rules or the directory are wrong.
#[expect(clippy::disallowed_methods, reason = "measures what runs no async code")]
pub fn judging(
    workspace: &Path,
    deny: &[String],
    judged: Judged<'_>,
    runs: usize,
) -> Option<Vec<Duration>> {
    let settings = PermissionSettings { deny: deny.to_vec(), ..PermissionSettings::default() };
    let workspace = Arc::new(Workspace::open(vec![workspace.to_owned()]).ok()?);
    let directory = workspace.root().to_owned();
    let excluded = ExcludedPaths::below(Path::new("/nonexistent"));
    let permissions =
        Permissions::new(&settings, &KNOWN, SandboxMode::Off, workspace, excluded).ok()?;
    let permissions = permissions.with_search_path("/usr/bin:/bin".as_ref());
    // No settings file is there: a look at each of them is what they cost.
    let files = Arc::new(SettingsFiles::new(None, Path::new("/nonexistent")));
    let permissions = permissions.with_settings_files(files, &KNOWN).ok()?;
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let (tool, request) = match judged {
            Judged::Command(line) => {
                let (line, directory) = (line.to_owned(), directory.clone());
                (
                    "Bash",
                    AccessRequest::Command {
                        line,
                        directory,
                        outside_sandbox: false,
                        lacked: None,
                    },
                )
            }
            Judged::Read(path) => ("Read", AccessRequest::Read(directory.join(path))),
        };
        let start = Instant::now();
        let current = permissions.clone().current();
        let verdict =
            current.open(tool, request).and_then(|access| current.judge_opened(tool, access));
        times.push(start.elapsed());
        drop(std::hint::black_box(verdict));
    }
    Some(times)
}

/// Whether the line is proven to change nothing, where nothing confines it. Takes up to 50 ms.
pub fn is_proven_read_only(line: &str) -> bool {
    super::commands::parse(line).is_ok_and(|parsed| parsed.is_read_only())
}
