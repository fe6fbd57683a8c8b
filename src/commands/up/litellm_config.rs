//! Makes the configuration that LiteLLM is started with: the operator's own file, or the entries
//! of ours that can work here.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::error::UpError;
use super::models::ModelChoice;
use super::{DEMO_BASE, models};
use crate::config::environment::Variables;
use crate::named_file;
use crate::secret::Secret;
use crate::upstream::ModelHints;

/// The configuration of LiteLLM that comes with toolhand.
const SHIPPED: &str = include_str!("../../../litellm-config.yaml");

/// Larger than any list of models.
const MAX_CONFIG: u64 = 1 << 20;

/// The configuration that LiteLLM is started with.
pub(super) struct LitellmConfig {
    pub(super) path: PathBuf,
    pub(super) yaml: String,
    /// The models that cannot work here, a line for each missing variable.
    pub(super) left_out: Vec<String>,
    /// The same for clients that ask for such a model.
    pub(super) model_hints: ModelHints,
    /// What LiteLLM gets of the variables.
    pub(super) variables: Variables,
}

impl LitellmConfig {
    /// The file that the operator named, unchanged; otherwise our own without the entries that
    /// cannot work here, written into `directory`.
    pub(super) fn new(
        named: Option<&Path>,
        directory: &Path,
        variables: &Variables,
    ) -> Result<Self, UpError> {
        if let Some(path) = named {
            let fault = |error| UpError::file(path, error);
            let (yaml, _) = named_file::read(path, MAX_CONFIG).map_err(fault)?;
            let yaml = String::from_utf8_lossy(&yaml).into_owned();
            // LiteLLM runs in another directory, so the path must be absolute.
            let path = path.canonicalize().map_err(fault)?;
            let origins = models::origins(&yaml);
            let offered = origins.keys().cloned().collect();
            let model_hints = ModelHints { offered, origins, ..ModelHints::default() };
            let variables = models::without_blanks(variables, &yaml);
            let model_hints = with_keys(model_hints, &variables);
            return Ok(Self { path, yaml, left_out: Vec::new(), model_hints, variables });
        }
        let variables = models::without_blanks(variables, SHIPPED);
        let chosen = shipped(&variables);
        let path = write_config(directory, &chosen.yaml)?;
        let left_out = chosen.hints();
        let model_hints = with_keys(chosen.model_hints(), &variables);
        Ok(Self { path, left_out, model_hints, yaml: chosen.yaml, variables })
    }
}

/// The hints, with the keys that no error may repeat.
fn with_keys(mut hints: ModelHints, variables: &Variables) -> ModelHints {
    for origin in hints.origins.values_mut() {
        let values = origin.variables.iter().filter_map(|name| variables.get(name));
        origin.keys = values.map(|value| Secret::new(value.to_string_lossy())).collect();
    }
    hints
}

/// The models that our own configuration would offer with these variables, and those that it would
/// leave out.
pub(in crate::commands) fn shipped_hints(variables: &Variables) -> ModelHints {
    shipped(&models::without_blanks(variables, SHIPPED)).model_hints()
}

/// Selects the part of our own configuration that can work with these variables.
fn shipped(variables: &Variables) -> ModelChoice {
    let is_set = |name: &str| name == DEMO_BASE || variables.get(name).is_some();
    models::choose(SHIPPED, is_set)
}

fn write_config(directory: &Path, yaml: &str) -> Result<PathBuf, UpError> {
    let path = directory.join("config.yaml");
    let mut options = fs::OpenOptions::new();
    let file = options.create(true).write(true).truncate(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(yaml.as_bytes()));
    written.map_err(|error| UpError::file(&path, error))?;
    Ok(path)
}
