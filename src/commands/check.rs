//! Runs `toolhand check`: prints the settings, where each was set, and what is on and
//! off.

use std::fmt::Write;
use std::process::ExitCode;

use toml::Table;

use super::signals::run_until_stopped;
use super::{Failure, print};
use crate::app::api_state;
use crate::app::services::Services;
use crate::app::{state_dir, workspaces};
use crate::config::keys::Keys;
use crate::config::layers::{SetKey as Set, lookup};
use crate::config::{self, Config, ConfigInput, Loaded};
use crate::permissions::Sandbox;

/// The defaults as text. A test compares them with the program's own.
const EXAMPLE: &str = include_str!("../../toolhand.example.toml");

pub(crate) fn run(given: &ConfigInput) -> Result<ExitCode, Failure> {
    let loaded = config::load(given)?;
    let services = Services::from_config(&loaded)?;
    api_state::forwarded_routes(&loaded)?;
    let state = state_dir::inspect(&loaded.config.server.state_dir)?;
    print(&configuration(&loaded)?);
    print(&parts(&loaded, &services, state));
    run_until_stopped(|_| async {
        let url = &loaded.config.upstream.url;
        match services.upstream.probe().await {
            Ok(()) => {
                print(&format!("upstream: {url} answers\n"));
                Ok(())
            }
            Err(fault) => Err(Failure::new(format!(
                "upstream: {url}: {fault}; check upstream.url and that LiteLLM runs there"
            ))),
        }
    })
}

/// Lists each value that differs from its default, with its source.
fn configuration(loaded: &Loaded) -> Result<String, Failure> {
    let keys = Keys::for_type::<Config>();
    let defaults: Table = EXAMPLE.parse()?;
    let mut text = match &loaded.file {
        Some(path) => format!("configuration: {}\n", path.display()),
        None => "configuration: no file\n".to_owned(),
    };
    for Set { path, value, source } in loaded.layers.given(&keys) {
        if lookup(&defaults, path) != Some(value) {
            writeln!(text, "  {path} = {} ({source})", masked(&value.to_string()))?;
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
fn parts(loaded: &Loaded, services: &Services, state: &str) -> String {
    let Loaded { config, secrets, .. } = loaded;
    let lines = [
        format!("workspace: {}", config.server.workspace.display()),
        format!("state directory: {}, {state}", config.server.state_dir.display()),
        format!("client key: {}", client_key(config, secrets.client_key.is_some())),
        format!("upstream key: {}", if secrets.upstream_key.is_some() { "set" } else { "none" }),
        format!("permission mode: {}", config.permissions.mode.as_str()),
        format!("sandbox: {}", sandbox(config.sandbox.mode)),
        format!("user: {}", user()),
    ];
    let warnings = workspaces::warnings(config, &services.home);
    let warnings = warnings.into_iter().map(|warning| format!("warning: {warning}"));
    let features = api_state::features(config, services);
    let features = features.into_iter().map(|feature| {
        let state = if feature.on { "" } else { "off: " };
        format!("{}: {state}{}", feature.name, feature.why)
    });
    lines.into_iter().chain(warnings).chain(features).collect::<Vec<_>>().join("\n") + "\n"
}

fn client_key(config: &Config, is_in_environment: bool) -> &'static str {
    match (config.auth.required, is_in_environment) {
        (false, _) => "none is asked for; everyone on this machine may use the tools",
        (true, true) => "TOOLHAND_API_KEY",
        (true, false) => "api-key in the state directory, made at the first start",
    }
}

fn sandbox(mode: Sandbox) -> &'static str {
    match mode {
        Sandbox::Auto => {
            "auto, and none is built yet: every command asks (--sandbox off: they run)"
        }
        Sandbox::Required => "required, and none is built yet: every command is refused",
        Sandbox::Off => "off: a command can do all that this user can",
    }
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
