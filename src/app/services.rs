//! Everything below the face, built once from the settings.

use crate::config::Config;
use crate::tools;
use crate::tools::builtin;
use crate::tools::toolset::Toolset;
use crate::tools::walk::Hidden;

/// What the face, and the commands, work with.
#[derive(Debug)]
pub(crate) struct Services {
    /// What the operator left on.
    pub(crate) toolset: Toolset,
}

/// Why the settings make no server, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error("{key}: no tool is named {name}{hint}")]
    NoSuchTool { key: &'static str, name: String, hint: String },
}

impl Services {
    pub(crate) fn new(config: &Config) -> Result<Self, ServiceError> {
        let all = Toolset::new(builtin::list(&builtin::Services { hidden: Hidden::nothing() }));
        Ok(Self { toolset: enabled(&all, &config.tools)? })
    }
}

/// Without the tools that are off. A name that is none is an error: what was to be
/// off would stay on.
fn enabled(all: &Toolset, settings: &tools::Settings) -> Result<Toolset, ServiceError> {
    let kept = match &settings.enable {
        Some(names) => {
            refuse_unknown(all, "tools.enable", names)?;
            all.only(names)
        }
        None => all.clone(),
    };
    refuse_unknown(all, "tools.disable", &settings.disable)?;
    Ok(kept.without(&settings.disable))
}

fn refuse_unknown(all: &Toolset, key: &'static str, names: &[String]) -> Result<(), ServiceError> {
    let Some(name) = all.unknown(names).first().map(|name| (*name).to_owned()) else {
        return Ok(());
    };
    let hint = all.closest(&name).first().map(|near| format!("; did you mean {near}?"));
    Err(ServiceError::NoSuchTool { key, name, hint: hint.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(settings: &str, expected: &str) {
        let config = Config { tools: toml::from_str(settings).unwrap(), ..Config::default() };
        let shown = match Services::new(&config) {
            Ok(services) => services.toolset.names().collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn tools_are_on_unless_they_are_off() {
        check("enable = [\"Glob\"]", "Glob");
        check("enable = [\"Glob\", \"Grep\"]\ndisable = [\"Glob\"]", "Grep");
        check("enable = []", "");
    }

    #[test]
    fn a_name_that_is_no_tool_is_an_error() {
        check("disable = [\"Grepp\"]", "tools.disable: no tool is named Grepp; did you mean Grep?");
        check("enable = [\"Glbo\"]", "tools.enable: no tool is named Glbo; did you mean Glob?");
    }
}
