//! Builds the state that the routes share.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::services::Services;
use crate::agent::subagents::AgentServices;
use crate::api::chat::validate::{Context, KeyBounds};
use crate::api::chat::{Chat, DeliveredFailures};
use crate::api::passthrough::Routes;
use crate::api::ready::Readiness;
use crate::api::state::ApiState;
use crate::api::status::{About, Feature, LanguagesAbout};
use crate::config::{Config, ConfigError, Loaded};
use crate::http::auth::{Authenticator, Keys};
use crate::http::hosts::{AllowedHosts, HostPolicy, Origin};
use crate::permissions::{self, Mode};
use crate::session_files::SessionDirectories;
use crate::sessions::Sessions;
use crate::sessions::approval_settings::ApprovalChannel;
use crate::sessions::context_limits::KnownLimits;
use crate::sessions::id_sources::IdSources;
use crate::sessions::pending_names::PendingNames;
use crate::sessions::recorder::Recorders;
use crate::sessions::rest::Rest;
use crate::sessions::running::Running;
use crate::sessions::running::limits::RunLimits;
use crate::sessions::settings::SessionSettings;
use crate::store::Store;
use crate::tools::tasks::{AllTasks, TaskLimits};
use crate::upstream::ModelInfo;

/// The routes of `upstream.passthrough`.
pub(crate) fn forwarded_routes(loaded: &Loaded) -> Result<Routes, ConfigError> {
    let Loaded { config, layers, .. } = loaded;
    Routes::named(&config.upstream.passthrough).map_err(|error| {
        ConfigError::Invalid(layers.located(&format!("upstream.passthrough: {error}")))
    })
}

pub(crate) fn api_state(
    config: &Config,
    services: &Services,
    forwarded: Routes,
    keys: Keys,
    store: Arc<dyn Store>,
    address: SocketAddr,
    turns_over: CancellationToken,
) -> ApiState {
    let hosts = AllowedHosts::new(address, config.server.allowed_hosts.clone());
    let about = about(config, services, !matches!(keys, Keys::NotRequired));
    let authenticator = Authenticator::new(
        keys,
        config.limits.wrong_keys_per_minute,
        config.server.trusted_proxies.clone(),
    );
    let running = Arc::new(Running::new(Arc::clone(&store)));
    let tasks = Arc::new(AllTasks::new(TaskLimits {
        tasks: config.tools.bash.background_tasks,
        agents: config.subagents.max_running,
    }));
    let chat = Chat {
        turns: sessions(config, services, (&store, &running, &tasks), turns_over),
        runs: RunLimits::new(&config.limits),
        memory_budget: services.memory_budget.clone(),
        failures: DeliveredFailures::default(),
    };
    let rest = Rest {
        store,
        running,
        tasks,
        memory_budget: services.memory_budget.clone(),
        tools: services.tools.clone(),
        kept_grants: Arc::clone(&services.kept_grants),
        mode: services.permissions.mode(),
    };
    ApiState {
        hosts: Arc::new(HostPolicy { hosts, origins: config.cors.allow_origins.clone() }),
        authenticator: Arc::new(authenticator),
        chat: Arc::new(chat),
        rest: Arc::new(rest),
        validation: Arc::new(validation(config, services)),
        forwarded: Arc::new(forwarded),
        upstream: Arc::clone(&services.upstream),
        memory_budget: services.memory_budget.clone(),
        limits: Arc::new(config.limits.clone()),
        readiness: Arc::new(Readiness::new(Arc::clone(&services.upstream))),
        about: Arc::new(about),
    }
}

fn validation(config: &Config, services: &Services) -> Context {
    Context {
        catalogue: services.tools.clone(),
        tools: config.tools.clone(),
        limits: config.limits.clone(),
        unknown_fields: config.upstream.unknown_fields,
        mode: services.permissions.mode(),
        workspaces: services.workspaces.clone(),
        max_rounds: config.turns.max_rounds,
        background_models: config.background_models.clone(),
        id_sources: Arc::new(id_sources(&config.sessions)),
        key: KeyBounds::default(),
    }
}

fn sessions(
    config: &Config,
    services: &Services,
    (store, running, tasks): (&Arc<dyn Store>, &Arc<Running>, &Arc<AllTasks>),
    turns_over: CancellationToken,
) -> Sessions {
    let model_rules: Arc<[_]> = config.models.clone().into();
    let info = ModelInfo::new(Arc::clone(&services.upstream));
    let context_limits = KnownLimits::new(Arc::clone(&model_rules), info);
    Sessions {
        agents: Arc::new(AgentServices {
            upstream: Arc::clone(&services.upstream),
            memory_budget: services.memory_budget.clone(),
            model_rules: Arc::clone(&model_rules),
            context_limits: Arc::new(context_limits.clone()),
            turns: config.turns.clone(),
            max_round_chars: config.tools.max_round_chars,
            settings: config.subagents.clone(),
        }),
        upstream: Arc::clone(&services.upstream),
        tool_settings: config.tools.clone(),
        home: services.home.clone(),
        permissions: services.permissions.clone(),
        hooks: services.hooks.clone(),
        definitions: Arc::clone(&services.definitions),
        mcp: services.mcp.clone(),
        settings: config.turns.clone(),
        approval: config.approval.clone(),
        content_address: config.sessions.content_address,
        context_limits,
        model_rules,
        prompt: config.prompt.clone(),
        progress: config.progress,
        memory_budget: services.memory_budget.clone(),
        store: Arc::clone(store),
        running: Arc::clone(running),
        watcher: Arc::default(),
        directories: SessionDirectories::new(
            &config.server.state_dir,
            config.tools.spill_bytes as u64,
        ),
        tasks: Arc::clone(tasks),
        names: PendingNames::default(),
        recorders: Recorders::default(),
        shutdown: turns_over,
    }
}

fn about(config: &Config, services: &Services, auth_required: bool) -> About {
    About {
        started: Instant::now(),
        upstream_url: config.upstream.url.to_string(),
        auth_required,
        workspace: config.server.workspace.clone(),
        permission_mode: services.permissions.mode().to_string(),
        sandbox_mode: sandbox_mode(config.sandbox.mode).to_owned(),
        sandbox: services.sandbox.clone(),
        features: features(config, services),
        mcp: services.mcp.clone(),
        languages: services.languages.clone().map(|servers| LanguagesAbout {
            servers,
            workspace: Arc::clone(services.permissions.workspace()),
        }),
    }
}

fn sandbox_mode(mode: permissions::SandboxMode) -> &'static str {
    match mode {
        permissions::SandboxMode::Auto => "auto",
        permissions::SandboxMode::Required => "required",
        permissions::SandboxMode::Off => "off",
    }
}

fn approvals(config: &Config) -> Feature {
    let (on, why) = match config.approval.channel {
        _ if config.permissions.mode == Mode::DontAsk => {
            (false, "the mode dontAsk denies what would ask")
        }
        ApprovalChannel::None => (false, "approval.channel is none"),
        ApprovalChannel::Rest => (true, "over REST"),
        ApprovalChannel::Conversation => (true, "in the conversation and over REST"),
        ApprovalChannel::Auto => (true, "by the client's tool, in the conversation, and over REST"),
    };
    Feature { name: "approvals".to_owned(), on, why: why.to_owned() }
}

fn id_sources(settings: &SessionSettings) -> IdSources {
    IdSources {
        id_headers: settings.id_headers.clone(),
        user_headers: settings.user_headers.clone(),
    }
}

/// Each feature, whether it is on, and why.
pub(crate) fn features(config: &Config, services: &Services) -> Vec<Feature> {
    let feature = |name: &str, on: bool, why: &str| Feature {
        name: name.to_owned(),
        on,
        why: why.to_owned(),
    };
    let tools = services.tools.built_in().names().collect::<Vec<_>>().join(", ");
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
        feature("sessions", true, "in toolhand.db of the state directory"),
        approvals(config),
    ]
}
