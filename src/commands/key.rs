//! Runs `toolhand key`: makes, lists and revokes client keys.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::flags::ConfigFlag;
use super::{Failure, print_result, say};
use crate::app::client_keys::{ClientKeys, NewKey, StoredKey};
use crate::config;
use crate::config::environment::Variables;

#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a key, and print it: it is shown this once
    Add(AddFlags),
    /// Show the keys, without their secrets
    List {
        #[command(flatten)]
        file: ConfigFlag,
    },
    /// Accept a key no more; its streams end within seconds
    Revoke {
        /// As `key list` shows it
        name: String,
        #[command(flatten)]
        file: ConfigFlag,
    },
}

#[derive(Debug, Args)]
struct AddFlags {
    /// Whose key it is: 1 to 64 letters, digits, dots, underscores, hyphens and @
    name: String,
    /// The widest permission mode of its requests, if the server's is wider
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// The workspace of its requests: a name of server.workspaces
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// How long its turns go on when their client has left, such as 10m
    #[arg(long, value_name = "TIME")]
    disconnect_grace: Option<String>,
    /// Believe its client who the person behind it is
    #[arg(long)]
    trust_forwarded_user: bool,
    #[command(flatten)]
    file: ConfigFlag,
}

pub(crate) fn run(flags: &Flags, variables: &Variables) -> Result<ExitCode, Failure> {
    match &flags.action {
        Action::Add(flags) => add(flags, variables)?,
        Action::List { file } => {
            let keys = ClientKeys::open(&server(file, variables)?.state_dir)?.list()?;
            print_result(&table(&keys))?;
        }
        Action::Revoke { name, file } => {
            let id = ClientKeys::open(&server(file, variables)?.state_dir)?.revoke(name)?;
            say(&format!("revoked {name} ({id})"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn server(file: &ConfigFlag, variables: &Variables) -> Result<config::Server, Failure> {
    Ok(config::server(&file.input(Vec::new(), variables))?)
}

fn add(flags: &AddFlags, variables: &Variables) -> Result<(), Failure> {
    let server = server(&flags.file, variables)?;
    let names = &server.workspaces;
    if let Some(name) = flags.workspace.as_ref().filter(|name| !names.contains_key(*name)) {
        let known: Vec<_> = names.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "it is empty".into() } else { known.join(", ") };
        return Err(Failure::new(format!("{name:?} is not in server.workspaces: {known}")));
    }
    let secret = ClientKeys::open(&server.state_dir)?.add(NewKey {
        name: flags.name.clone(),
        mode: flags.mode.clone(),
        workspace: flags.workspace.clone(),
        disconnect_grace: flags.disconnect_grace.clone(),
        trust_forwarded_user: flags.trust_forwarded_user,
    })?;
    print_result(&format!("{secret}\n"))?;
    say("this key is shown once; a running server accepts it from now on");
    Ok(())
}

fn table(keys: &[StoredKey]) -> String {
    let width = keys.iter().map(|key| key.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for key in keys {
        let mut about = vec![format!("created {}", key.created)];
        let mut add = |name: &str, value: Option<&String>| {
            about.extend(value.map(|value| format!("{name} {value}")));
        };
        add("mode", key.mode.as_ref());
        add("workspace", key.workspace.as_ref());
        add("disconnect grace", key.disconnect_grace.as_ref());
        add("client tools", key.client_tools.as_ref().map(ToString::to_string).as_ref());
        add("revoked", key.revoked.as_ref().map(ToString::to_string).as_ref());
        if key.trust_forwarded_user {
            about.push("forwarded user trusted".to_owned());
        }
        // Writing to a string does not fail.
        _ = writeln!(text, "{:width$}  {}  {}", key.name, key.id, about.join(", "));
    }
    if text.is_empty() {
        "no keys but the first; make one with: toolhand key add NAME\n".into()
    } else {
        text
    }
}
