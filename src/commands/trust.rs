//! Runs `toolhand trust` and `toolhand untrust`: whose settings files count whole.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::flags::ConfigFlag;
use super::{Failure, print_result, say};
use crate::config;
use crate::config::environment::Variables;
use crate::settings_files::{self, McpFile};
use crate::text::printable;
use crate::trust::TrustList;
use crate::workspace::{BoundDirectory, Workspace, directory_there};

#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// The workspace: exactly this directory, none above or below it
    #[arg(value_name = "DIR", required_unless_present = "list")]
    directory: Option<PathBuf>,
    /// Show the trusted directories
    #[arg(long, conflicts_with = "directory")]
    list: bool,
    #[command(flatten)]
    file: ConfigFlag,
}

#[derive(Debug, Args)]
pub(crate) struct UntrustFlags {
    /// As `trust --list` shows it; it need not exist any more
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    file: ConfigFlag,
}

pub(crate) fn run(flags: &Flags, variables: &Variables) -> Result<ExitCode, Failure> {
    let list = open(&flags.file, variables)?;
    let Some(directory) = &flags.directory else {
        print_result(&table(&list.list()?))?;
        return Ok(ExitCode::SUCCESS);
    };
    let path = list.add(directory)?;
    let servers = trust_servers(&list, &path)?;
    say(&format!(
        "{} is trusted: the allow rules, directories, hooks and environment of its settings files \
         count from now on, in a running server too; for each session that begins from now on, \
         so do its agents, skills and commands, and what its AGENTS.md and CLAUDE.md import from \
         outside; `toolhand check` shows them",
        path.display()
    ));
    if let Some(servers) = servers {
        say(&servers);
    }
    Ok(ExitCode::SUCCESS)
}

/// Trusts the `.mcp.json` that is there now. Says what that means.
fn trust_servers(list: &TrustList, path: &Path) -> Result<Option<String>, Failure> {
    let workspace = Workspace::open(vec![path.to_owned()])?;
    match McpFile::text_of(&workspace) {
        Ok(None) => Ok(None),
        Ok(Some(text)) => {
            list.add_mcp_file(path, settings_files::digest(&text))?;
            Ok(Some(
                "the MCP servers of its .mcp.json start at the next start of toolhand there, as \
                 long as the file stays as it is now"
                    .to_owned(),
            ))
        }
        Err(reason) => {
            let reason = printable(reason.as_bytes());
            Ok(Some(format!("its .mcp.json is not trusted: {reason}")))
        }
    }
}

pub(crate) fn run_untrust(
    flags: &UntrustFlags,
    variables: &Variables,
) -> Result<ExitCode, Failure> {
    let path = open(&flags.file, variables)?.remove(&flags.directory)?;
    say(&format!(
        "{} is not trusted any more: of its settings files only deny and ask rules count, and in \
         sessions that begin from now on none of its agents, skills, commands and imports from \
         outside",
        path.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn open(file: &ConfigFlag, variables: &Variables) -> Result<TrustList, Failure> {
    let state_dir = config::state_dir(&file.input(Vec::new(), variables))?;
    Ok(TrustList::open(&state_dir)?)
}

fn table(list: &[BoundDirectory]) -> String {
    if list.is_empty() {
        return "no directory is trusted; trust one with: toolhand trust DIR\n".to_owned();
    }
    let line = |trusted: &BoundDirectory| format!("{}{}", trusted.path.display(), note(trusted));
    list.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// Why a directory in the list is not trusted at the moment.
fn note(trusted: &BoundDirectory) -> &'static str {
    let Some(found) = directory_there(&trusted.path) else { return "  (not there)" };
    if trusted.id.is(&found) { "" } else { "  (another directory is there now: not trusted)" }
}
