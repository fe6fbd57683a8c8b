//! Puts together what the HTTP face shares.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::services::Services;
use crate::api::auth::{Keys, WrongKeys};
use crate::api::chat::retries::Retries;
use crate::api::chat::validate::Context;
use crate::api::hosts::{AllowedHosts, Origin};
use crate::api::passthrough::Routes;
use crate::api::ready::Readiness;
use crate::api::runs::Runs;
use crate::api::status::{About, Feature, Sandbox};
use crate::api::{App, Settings};
use crate::config::{Config, ConfigError, Loaded};
use crate::permissions;
use crate::sessions::Sessions;

/// The routes that go upstream as they are, by `upstream.passthrough`.
pub(crate) fn forwarded_routes(loaded: &Loaded) -> Result<Routes, ConfigError> {
    let Loaded { config, layers, .. } = loaded;
    Routes::named(&config.upstream.passthrough).map_err(|error| {
        ConfigError::Invalid(layers.located(&format!("upstream.passthrough: {error}")))
    })
}

pub(crate) fn face(
    config: &Config,
    services: &Services,
    forwarded: Routes,
    keys: Keys,
    address: SocketAddr,
    turns_over: CancellationToken,
) -> App {
    App {
        about: about(config, services),
        settings: Settings {
            allow_origins: config.cors.allow_origins.clone(),
            trusted_proxies: config.server.trusted_proxies.clone(),
            forwarded,
        },
        limits: config.limits.clone(),
        hosts: AllowedHosts::new(address, config.server.allowed_hosts.clone()),
        keys,
        wrong_keys: WrongKeys::default(),
        runs: Runs::default(),
        retries: Retries::default(),
        chat: Context {
            toolset: services.toolset.clone(),
            tools: config.tools.clone(),
            limits: config.limits.clone(),
            unknown_fields: config.upstream.unknown_fields,
            mode: services.permissions.mode(),
            workspaces: services.workspaces.clone(),
            max_rounds: config.turns.max_rounds,
            background_models: config.background_models.clone(),
        },
        upstream: Arc::clone(&services.upstream),
        buffers: services.buffers.clone(),
        readiness: Readiness::default(),
        turns: sessions(config, services, turns_over),
    }
}

fn sessions(config: &Config, services: &Services, turns_over: CancellationToken) -> Sessions {
    Sessions {
        upstream: Arc::clone(&services.upstream),
        tool_settings: config.tools.clone(),
        home: services.home.clone(),
        permissions: services.permissions.clone(),
        settings: config.turns.clone(),
        model_rules: config.models.clone().into(),
        prompt: config.prompt.clone(),
        progress: config.progress,
        refusals: Arc::default(),
        buffers: services.buffers.clone(),
        shutdown: turns_over,
    }
}

fn about(config: &Config, services: &Services) -> About {
    About {
        started: Instant::now(),
        workspace: config.server.workspace.clone(),
        permission_mode: services.permissions.mode().to_string(),
        sandbox: sandbox(config.sandbox.mode),
        features: features(config, services),
    }
}

fn sandbox(mode: permissions::Sandbox) -> Sandbox {
    let (mode, why) = match mode {
        permissions::Sandbox::Auto => {
            ("auto", "this version has no sandbox: every command would ask")
        }
        permissions::Sandbox::Required => {
            ("required", "this version has no sandbox: every command is refused")
        }
        permissions::Sandbox::Off => ("off", "the operator does without"),
    };
    Sandbox { mode: mode.to_owned(), level: "none".to_owned(), why: why.to_owned() }
}

/// What is on and what is not, and why.
pub(crate) fn features(config: &Config, services: &Services) -> Vec<Feature> {
    let feature = |name: &str, on: bool, why: &str| Feature {
        name: name.to_owned(),
        on,
        why: why.to_owned(),
    };
    let tools = services.toolset.names().collect::<Vec<_>>().join(", ");
    let forwarded = config.upstream.passthrough.join(", ");
    let origins: Vec<_> = config.cors.allow_origins.iter().map(Origin::as_str).collect();
    let origins = origins.join(", ");
    let listed = |name: &str, on: &str, off: &str| {
        feature(name, !on.is_empty(), if on.is_empty() { off } else { on })
    };
    vec![
        listed("tools", &tools, "tools.enable and tools.disable leave none"),
        listed("forwarded_routes", &forwarded, "upstream.passthrough names none"),
        listed("cors", &origins, "cors.allow_origins names none"),
        feature("sessions", false, "each request is a session of its own in this version"),
        feature("approvals", false, "what would ask is answered with the rule that would allow it"),
    ]
}
