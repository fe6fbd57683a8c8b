//! Runs `toolhand check`: prints the settings, where each was set, and what is on and
//! off.

mod command;
mod definitions;
mod kept_grants;
mod languages;
mod mcp_files;
mod mcp_servers;
mod models;
mod running;
mod settings_files;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use toml::Table;

use super::signals::{Outcome, run_to_outcome};
use super::up::litellm_config::shipped_hints;
use super::{Failure, print, print_result};
use crate::api::status::Feature;
use crate::app::running_server::NotRunning;
use crate::app::services::Services;
use crate::app::{api_state, client_keys, running_server, state_dir, workspaces};
use crate::config::environment::Variables;
use crate::config::keys::Keys;
use crate::config::layers::{SetKey as Set, lookup};
use crate::config::{self, Config, ConfigInput, Loaded, file};
use crate::permissions::{Mode, SandboxMode};
use crate::processes;
use crate::upstream::ModelHints;

/// The defaults as text. A test compares them with the program's own.
const EXAMPLE: &str = include_str!("../../toolhand.example.toml");

/// `line`: a command to judge instead of the rest.
pub(crate) fn run(given: &ConfigInput, line: Option<&str>) -> Result<ExitCode, Failure> {
    let loaded = config::load(given)?;
    let services = Services::from_config(&loaded)?;
    if let Some(line) = line {
        let line = line.to_owned();
        return run_to_outcome(|stop| async move {
            let explained = stop.run_until_cancelled(command::explain(&services, line)).await;
            let Some(explained) = explained else { return Ok(Outcome::Interrupted) };
            print_result(&explained.map_err(Failure::new)?).map(|()| Outcome::Done)
        });
    }
    api_state::forwarded_routes(&loaded)?;
    let state = state_dir::inspect(&loaded.config.server.state_dir)?;
    let keys = client_keys::count(&loaded.config.server.state_dir)?;
    print_result(&configuration(&loaded, given)?)?;
    run_to_outcome(|stop| async move {
        let probed = async {
            let sandbox = sandbox(loaded.config.sandbox.mode, &services.sandbox).await;
            print(&parts(&loaded, &services, state, &sandbox));
            print(&settings_files::report(&services));
            print(&mcp_files::report(&services, &loaded));
            print(&definitions::report(&services, &loaded.config.subagents).await);
            print(&kept_grants::report(&services.kept_grants));
            print(&mcp_servers::report(services.mcp.as_ref(), keys).await);
            print(&languages::report(&loaded.config.lsp, &services).await);
            probe(&loaded, &services, &given.variables).await
        };
        let probed = stop.run_until_cancelled(probed).await;
        probed.map_or(Ok(Outcome::Interrupted), |probed| probed.map(|()| Outcome::Done))
    })
}

/// Asks upstream: directly if it was configured, else through the server that runs here.
async fn probe(loaded: &Loaded, services: &Services, variables: &Variables) -> Result<(), Failure> {
    let Loaded { config, secrets, layers, .. } = loaded;
    let found = running_server::find(&config.server.state_dir);
    print(&match &found {
        Ok(server) => running::describe(server) + "\n",
        Err(NotRunning::Missing) => "server: none runs on this state directory\n".to_owned(),
        Err(reason) => {
            let path = running_server::path(&config.server.state_dir);
            format!("server: none is found: {} {reason}\n", path.display())
        }
    });
    let is_configured = layers.source("upstream.url").is_some();
    if let (Ok(server), false) = (&found, is_configured) {
        // A server that asks for no key has made none.
        let kept = state_dir::kept_key(&config.server.state_dir)?;
        let key = secrets.client_key.as_ref().or(kept.as_ref());
        print(&(running::describe_upstream(server, key).await.map_err(Failure::new)? + "\n"));
        return Ok(());
    }
    let url = &config.upstream.url;
    let fault = match services.upstream.models().await {
        Ok(offered) => {
            let models = models::report(&models::names(&offered), &BTreeMap::new());
            print(&format!("upstream: {url} answers\n{models}\n"));
            return Ok(());
        }
        Err(fault) => fault,
    };
    if !is_configured {
        let ModelHints { offered, left_out, .. } = shipped_hints(variables);
        print(&format!("with `toolhand up`: {}\n", models::report(&offered, &left_out)));
    }
    let remedy = if is_configured {
        "check upstream.url and that LiteLLM runs there"
    } else {
        "this is the default, and no server runs here: start one with `toolhand up`, or name a \
         LiteLLM with --upstream"
    };
    Err(Failure::new(format!("upstream: {url}: {fault}; {remedy}")))
}

/// Lists each value that differs from its default, with its source.
fn configuration(loaded: &Loaded, given: &ConfigInput) -> Result<String, Failure> {
    let keys = Keys::for_type::<Config>();
    let defaults: Table = EXAMPLE.parse()?;
    let mut text = match (&loaded.file, file::own(&given.variables)) {
        (Some(path), _) => format!("configuration: {}\n", path.display()),
        (None, Some(own)) => format!("configuration: no file: {} is not there\n", own.display()),
        (None, None) => "configuration: no file: HOME is not set\n".to_owned(),
    };
    for Set { path, value, source } in loaded.layers.given(&keys) {
        if lookup(&defaults, path) != Some(value) {
            let value = if path == mcp_servers::KEY {
                mcp_servers::names(value)
            } else {
                masked(&value.to_string())
            };
            writeln!(text, "  {path} = {value} ({source})")?;
        }
    }
    Ok(text)
}

/// Hides the credentials in a URL.
fn masked(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    // A password may hold an `@` of its own, so the last one separates it from the host.
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://***@{host}"),
        None => value.to_owned(),
    }
}

/// Lists the parts of the server, warnings, and each feature with the reason why it is on
/// or off.
fn parts(loaded: &Loaded, services: &Services, state: &str, sandbox: &str) -> String {
    let Loaded { config, secrets, .. } = loaded;
    let lines = [
        format!("workspace: {}", config.server.workspace.display()),
        format!("state directory: {}, {state}", config.server.state_dir.display()),
        format!("client key: {}", client_key(config, secrets.client_key.is_some())),
        format!("upstream key: {}", if secrets.upstream_key.is_some() { "set" } else { "none" }),
        format!("address: {}", config.server.listen),
        format!("permission mode: {}", permission_mode(config.permissions.mode)),
        format!("sandbox: {sandbox}"),
        format!("user: {}", user()),
        format!("hooks: {}", hooks(services)),
    ];
    let kept = kept_aside(&config.server.state_dir);
    let warnings = workspaces::warnings(config, &services.home).into_iter().chain(kept);
    let warnings = warnings.map(|warning| format!("warning: {warning}"));
    let features = api_state::features(config, services);
    let features = features.iter().map(sentence);
    lines.into_iter().chain(warnings).chain(features).collect::<Vec<_>>().join("\n") + "\n"
}

/// What a killed server was writing in place and others have changed since.
fn kept_aside(state_dir: &Path) -> Option<String> {
    let (path, count) = state_dir::temp_files(state_dir).kept_aside()?;
    let (files, have) = if count == 1 { ("file", "has") } else { ("files", "have") };
    Some(format!(
        "the old contents of {count} {files} that {have} been changed since a server was killed \
         while it wrote are in {}; remove what is of no use",
        path.display()
    ))
}

/// A feature in words.
fn sentence(feature: &Feature) -> String {
    let subject = match feature.name.as_str() {
        "forwarded_routes" => "passed on to upstream",
        "cors" => "pages that may call this server",
        name => name,
    };
    let none = if feature.on { "" } else { "none: " };
    format!("{subject}: {none}{}", feature.why)
}

fn permission_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "plan: tools may read, and change nothing",
        Mode::DontAsk => "dontAsk: tools may read; writes and commands need an allow rule",
        Mode::Default => "default: tools may read; writes and commands ask a person",
        Mode::AcceptEdits => "acceptEdits: tools may read and write; commands ask a person",
        Mode::BypassPermissions => "bypassPermissions: tools may read, write and run commands",
    }
}

fn client_key(config: &Config, is_in_environment: bool) -> &'static str {
    match (config.auth.required, is_in_environment) {
        (false, _) => "none is asked for; everyone on this machine may use the tools",
        (true, true) => "TOOLHAND_API_KEY",
        (true, false) => "api-key in the state directory, made at the first start",
    }
}

/// The level that the trials found, a line for each of them, and what that means.
async fn sandbox(mode: SandboxMode, sandbox: &processes::sandbox::Sandbox) -> String {
    let (mode, otherwise) = match mode {
        SandboxMode::Off => return "off: a command can do all that this user can".to_owned(),
        SandboxMode::Auto => ("auto", "every command asks (--sandbox off: they run without one)"),
        SandboxMode::Required => ("required", "every command is refused"),
    };
    let outcome = sandbox.outcome().await;
    let head = match outcome.level {
        Some(level) => format!("{mode}: commands run in {level}"),
        None => format!("{mode}, and none holds here: {otherwise}"),
    };
    let trials = outcome.lines().into_iter().map(|line| format!("  {line}"));
    [head].into_iter().chain(trials).collect::<Vec<_>>().join("\n")
}

fn hooks(services: &Services) -> String {
    let snapshot = services.settings_files.snapshot(services.permissions.workspace());
    let mut tools = Vec::new();
    let offered = services.tools.tools();
    for tool in offered.tools() {
        tools.push(tool.name());
        tools.extend(tool.aliases());
    }
    let listed = services.hooks.joined(&snapshot).listed(&tools);
    if listed.is_empty() {
        return "none".to_owned();
    }
    listed.into_iter().flat_map(|line| ["\n  ".to_owned(), line]).collect()
}

fn user() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "root: so is everything the tools do; better start it as a user of its own"
    } else {
        "not root"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_masked() {
        assert_eq!(masked("\"http://me:secret@proxy:1\""), "\"http://***@proxy:1\"");
        assert_eq!(masked("http://me:p@ss@proxy:1"), "http://***@proxy:1");
        assert_eq!(masked("\"http://proxy:1\""), "\"http://proxy:1\"");
        assert_eq!(masked("[\"a@b\"]"), "[\"a@b\"]");
    }
}
