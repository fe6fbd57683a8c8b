//! Says what would become of a command line.

use std::fmt::Write as _;

use crate::app::services::Services;
use crate::permissions::ExplainedVerdict;

/// The tool that runs commands.
const TOOL: &str = "Bash";

pub(super) async fn explain(services: &Services, line: String) -> Result<String, String> {
    let explained = services.permissions.explain(TOOL, line).await;
    let explained = explained.map_err(|refusal| refusal.to_string())?;
    Ok(told(&explained))
}

fn told(explained: &ExplainedVerdict) -> String {
    let ExplainedVerdict { verdict, because, remedy, reading, risks, sandbox_effects } = explained;
    let mut text = format!("{verdict}: {because}\n");
    if let Some(remedy) = remedy {
        let _ = writeln!(text, "{remedy}");
    }
    if let Some(reading) = reading {
        let _ = writeln!(text, "{reading}");
    }
    for risk in risks {
        let _ = writeln!(text, "risk ({}): {}", risk.severity.as_str(), risk.text);
    }
    for effect in sandbox_effects {
        let _ = writeln!(text, "{}", effect.sentence());
    }
    text
}
