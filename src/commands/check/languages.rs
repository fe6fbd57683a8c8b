//! Prints which language servers there are, and why one is off.

use crate::app::services::Services;
use crate::lsp::LspSettings;
#[cfg(feature = "lsp")]
use crate::lsp::ReportedServer;

#[cfg(not(feature = "lsp"))]
#[expect(clippy::unused_async, reason = "as that of a build with them")]
pub(super) async fn report(_: &LspSettings, _: &Services) -> String {
    "language servers: none: this build has no client of them\n".to_owned()
}

#[cfg(feature = "lsp")]
pub(super) async fn report(settings: &LspSettings, services: &Services) -> String {
    if settings.is_off() {
        return "language servers: none: lsp.enabled is off\n".to_owned();
    }
    let Some(servers) = &services.languages else { return String::new() };
    let report = servers.report(services.permissions.workspace()).await;
    let lines: Vec<String> = report
        .servers
        .into_iter()
        .map(|ReportedServer { name, program, state, .. }| {
            let (word, why) = (state.word().replace('_', " "), state.why());
            format!("  {name}: {word}: {why} ({})", program.display())
        })
        .chain(report.faults.into_iter().map(|fault| format!("  {fault}")))
        .collect();
    if lines.is_empty() {
        return "language servers: none is on PATH, and lsp.servers names none\n".to_owned();
    }
    format!("language servers:\n{}\n", lines.join("\n"))
}
