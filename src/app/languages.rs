//! Builds the client of language servers, where this build has one.

use std::sync::Arc;

use crate::config::Config;
use crate::lsp::LanguageServers;
use crate::processes::sandbox::Sandbox;
use crate::processes::{Environment, Runner};
use crate::settings_files::SettingsFiles;

#[cfg(feature = "lsp")]
#[expect(clippy::unnecessary_wraps, reason = "a build without the client has none")]
pub(super) fn servers(
    config: &Config,
    environment: &Environment,
    runner: &Runner,
    sandbox: &Sandbox,
    settings_files: &Arc<SettingsFiles>,
) -> Option<Arc<LanguageServers>> {
    let services = crate::lsp::LanguageServices {
        runner: runner.clone(),
        sandbox: sandbox.clone(),
        is_sandbox_required: config.sandbox.mode == crate::permissions::SandboxMode::Required,
        settings_files: Arc::clone(settings_files),
        search_path: environment.search_path().to_owned(),
    };
    Some(LanguageServers::new(&config.lsp, services))
}

#[cfg(not(feature = "lsp"))]
pub(super) fn servers(
    _: &Config,
    _: &Environment,
    _: &Runner,
    _: &Sandbox,
    _: &Arc<SettingsFiles>,
) -> Option<Arc<LanguageServers>> {
    None
}
