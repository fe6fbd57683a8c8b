//! Checks a settings file before it is written: an edit must not break what decides about
//! permissions.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::encoding;
use crate::settings_files::SettingsContents;
use crate::workspace::Target;

/// The types of the public settings format. Keys that it does not name are let through.
const SCHEMA: &str = include_str!("settings_guard/settings.schema.json");

/// Violations that one answer lists.
const MAX_VIOLATIONS: usize = 5;

/// Characters of one violation.
const MAX_VIOLATION: usize = 300;

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    let schema: Value = serde_json::from_str(SCHEMA).expect("our own schema is JSON");
    let options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
    options.build(&schema).expect("our own schema compiles")
});

/// What is wrong with a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingsFault {
    /// It cannot be parsed.
    Syntax(String),
    /// It has keys or types that it must not have.
    Violations(String),
}

/// Validates the server's own configuration, as at its start.
pub(crate) type ConfigurationCheck = Arc<dyn Fn(&str) -> Result<(), SettingsFault> + Send + Sync>;

/// Knows the settings files, and checks what would be written to them.
#[derive(Clone, Default)]
pub(crate) struct SettingsGuard {
    configuration: Option<(PathBuf, ConfigurationCheck)>,
}

/// The format of a settings file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Toml,
}

impl SettingsGuard {
    /// `path` is the file that the server was started with, if there is one: it need not be named
    /// `toolhand.toml`.
    pub(crate) fn new(path: Option<&Path>, check: ConfigurationCheck) -> Self {
        let path = path.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        Self { configuration: Some((path.unwrap_or_default(), check)) }
    }

    /// The refusal of a change that would break a settings file. A file that is broken already may
    /// be changed: mending may take several edits. The text that is returned then warns.
    pub(crate) fn check(
        &self,
        target: &Target,
        before: Option<&[u8]>,
        after: &[u8],
    ) -> Result<Option<String>, String> {
        let Some(format) = self.format_of(target) else { return Ok(None) };
        let Err(fault) = self.fault(format, after) else { return Ok(None) };
        let path = target.path().display();
        if before.is_some_and(|before| self.fault(format, before).is_err()) {
            let still = fault.reason();
            return Ok(Some(format!(
                "Warning: {path} is still no valid settings file, as it was none before: {still}"
            )));
        }
        Err(match fault {
            SettingsFault::Syntax(error) => {
                format!("Edit would create invalid {format} in {path}: {error}")
            }
            SettingsFault::Violations(violations) => {
                let what = if format == Format::Toml { " TOML" } else { "" };
                format!("Edit violates{what} settings schema for {path}: {violations}")
            }
        })
    }

    fn fault(&self, format: Format, bytes: &[u8]) -> Result<(), SettingsFault> {
        let syntax = |error: &dyn fmt::Display| SettingsFault::Syntax(error.to_string());
        let text = encoding::exact_text(bytes.to_vec());
        let text = text.map_err(|reason| syntax(&format_args!("it {reason}")))?;
        match (format, &self.configuration) {
            (Format::Json, _) => json_fault(&text),
            (Format::Toml, Some((_, check))) => check(&text),
            (Format::Toml, None) => Ok(()),
        }
    }

    /// By its name or where it leads: a link gives a file another name.
    fn format_of(&self, target: &Target) -> Option<Format> {
        let names = [target.real_path(), target.path()];
        let is_own = |path: &Path| self.configuration.as_ref().is_some_and(|(own, _)| own == path);
        if names.into_iter().any(is_settings_json) {
            return Some(Format::Json);
        }
        let is_toml = |path: &Path| is_named(path, &["toolhand.toml"]) || is_own(path);
        names.into_iter().any(is_toml).then_some(Format::Toml)
    }
}

/// Upper and lower case are the same on some file systems.
fn is_settings_json(path: &Path) -> bool {
    let is_inside = path.parent().is_some_and(|parent| is_named(parent, &[".claude"]));
    is_inside && is_named(path, &["settings.json", "settings.local.json"])
}

fn is_named(path: &Path, names: &[&str]) -> bool {
    path.file_name().is_some_and(|name| names.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

fn json_fault(text: &str) -> Result<(), SettingsFault> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| SettingsFault::Syntax(error.to_string()))?;
    let mut errors = VALIDATOR.iter_errors(&value);
    let mut violations: Vec<String> = errors
        .by_ref()
        .take(MAX_VIOLATIONS)
        .map(|error| {
            let place = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
            let text = format!("{}{}{error}", place, if place.is_empty() { "" } else { ": " });
            text.chars().take(MAX_VIOLATION).collect()
        })
        .collect();
    if errors.next().is_some() {
        violations.push("and more".to_owned());
    }
    // What the schema cannot say, such as a member that is there twice.
    if violations.is_empty()
        && let Err(fault) = SettingsContents::parse(text)
    {
        violations.push(fault);
    }
    if violations.is_empty() {
        Ok(())
    } else {
        Err(SettingsFault::Violations(violations.join("; ")))
    }
}

impl SettingsFault {
    fn reason(&self) -> &str {
        match self {
            Self::Syntax(reason) | Self::Violations(reason) => reason,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
        })
    }
}

impl fmt::Debug for SettingsGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.configuration.as_ref().map(|(path, _)| path);
        f.debug_struct("SettingsGuard").field("configuration", &path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace::Workspace;

    fn checked(name: &str, before: Option<&str>, after: &str) -> Result<Option<String>, String> {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        fs::create_dir(root.join(".claude")).unwrap();
        let own = root.join("own.conf");
        fs::write(&own, "").unwrap();
        let check: ConfigurationCheck = Arc::new(|text| match text {
            "[" => Err(SettingsFault::Syntax("unclosed table".into())),
            "a = 1" => Err(SettingsFault::Violations("unknown key a".into())),
            _ => Ok(()),
        });
        let guard = SettingsGuard::new(Some(&own), check);
        let target =
            Workspace::open(vec![root.clone()]).unwrap().resolve(&root.join(name)).unwrap();
        let told = guard.check(&target, before.map(str::as_bytes), after.as_bytes());
        let short = |text: String| text.replace(&root.display().to_string(), "~");
        told.map(|warning| warning.map(short)).map_err(short)
    }

    fn refused(name: &str, after: &str) -> String {
        checked(name, Some("{}"), after).unwrap_err()
    }

    const SHARED: &str = ".claude/settings.json";

    #[test]
    fn an_edit_that_breaks_a_settings_file_is_refused() {
        for name in [SHARED, ".claude/settings.local.json", ".claude/SETTINGS.json"] {
            let error = format!("Edit would create invalid JSON in ~/{name}: EOF while parsing");
            assert!(refused(name, "{").starts_with(&error), "{}", refused(name, "{"));
        }
        let wrong = refused(SHARED, r#"{"permissions": {"allow": "Read"}}"#);
        let expected =
            "Edit violates settings schema for ~/.claude/settings.json: permissions.allow: ";
        assert!(wrong.starts_with(expected), "{wrong}");
        for wrong in [
            "[]",
            r#"{"permissions": {"deny": [1]}}"#,
            r#"{"permissions": {"deny": []}, "permissions": {}}"#,
            r#"{"env": {"A": 1}}"#,
            r#"{"hooks": {"Stop": {}}}"#,
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": 1}]}]}}"#,
        ] {
            assert!(refused(SHARED, wrong).contains("settings schema"), "{wrong}");
        }
    }

    #[test]
    fn keys_that_the_schema_does_not_know_are_let_through() {
        for text in [
            "{}",
            r#"{"newest": {"a": 1}, "permissions": {"allow": ["Read(a)"], "later": 1}}"#,
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": 5}]}]}}"#,
        ] {
            assert_eq!(checked(SHARED, None, text), Ok(None), "{text}");
        }
        assert_eq!(checked("settings.json", None, "{"), Ok(None), "it is not under .claude");
        assert_eq!(checked(".claude/notes.json", None, "{"), Ok(None));
    }

    #[test]
    fn a_broken_file_may_be_mended_in_steps() {
        assert_eq!(checked(SHARED, Some("{"), "{}"), Ok(None));
        let warning = checked(SHARED, Some("{"), "[]").unwrap().unwrap();
        assert!(warning.starts_with("Warning: ~/.claude/settings.json is still no"), "{warning}");
        assert!(checked(SHARED, None, "{").is_err(), "a new file was not broken before");
    }

    #[test]
    fn our_own_configuration_is_checked_by_whatever_name() {
        for name in ["toolhand.toml", "own.conf"] {
            let error = format!("Edit would create invalid TOML in ~/{name}: unclosed table");
            assert_eq!(refused(name, "["), error);
            let error = format!("Edit violates TOML settings schema for ~/{name}: unknown key a");
            assert_eq!(refused(name, "a = 1"), error);
            assert_eq!(checked(name, None, ""), Ok(None));
        }
    }
}
