//! Keeps how each hook failed last, in the state directory, so that `toolhand check` can tell it
//! while a server runs and after.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use toml::value::Datetime;

use super::settings::HookSetting;
use crate::blocking::RESOLVING;
use crate::clock;
use crate::named_file::ours;
use crate::sync;
use crate::text::{first_chars, shown_line};

/// The file in the state directory.
const NAME: &str = "hook-failures.toml";

/// More hooks than anyone sets up.
const MAX_KEPT: usize = 100;

/// Some lines of a hook's last words.
const MAX_FAULT_CHARS: usize = 1000;

/// Far more than the file can have.
const MAX_BYTES: u64 = 1 << 20;

/// The last failure of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HookFailure {
    /// The command that failed; a changed command clears the failure.
    command: String,
    pub(super) fault: String,
    pub(super) at: Datetime,
}

/// The failures by the places of their hooks: `hooks[0]`.
type Failures = BTreeMap<String, HookFailure>;

/// The failures of the hooks that a server runs.
#[derive(Debug, Default)]
pub(crate) struct HookFailures {
    /// `None`: nothing is kept.
    state_dir: Option<PathBuf>,
    /// `None`: the file was not read yet.
    kept: Mutex<Option<Failures>>,
}

impl HookFailures {
    pub(crate) fn in_state_dir(state_dir: &Path) -> Self {
        Self { state_dir: Some(state_dir.to_owned()), kept: Mutex::default() }
    }

    /// How this hook failed last, if it did. Blocks.
    pub(super) fn of(&self, label: &str, hook: &HookSetting) -> Option<HookFailure> {
        let mut kept = sync::lock(&self.kept);
        let failure = self.loaded(&mut kept).get(label)?;
        (failure.command == hook.command).then(|| failure.clone())
    }

    /// Notes how a run of the hook ended: `None` is well.
    pub(super) async fn note(
        self: &Arc<Self>,
        label: &str,
        hook: &HookSetting,
        fault: Option<&str>,
    ) {
        if fault.is_none() && self.is_known_to_be_well(label) {
            return;
        }
        let (failures, label, command) = (Arc::clone(self), label.to_owned(), hook.command.clone());
        let fault = fault.map(str::to_owned);
        let keep = move || failures.keep(&label, command, fault.as_deref());
        if let Err(overloaded) = RESOLVING.run(keep).await {
            tracing::warn!(%overloaded, "the failure of a hook is not kept");
        }
    }

    fn is_known_to_be_well(&self, label: &str) -> bool {
        // While a failure is written, this waits for no disk: the pool does.
        let Ok(kept) = self.kept.try_lock() else { return false };
        kept.as_ref().is_some_and(|failures| !failures.contains_key(label))
    }

    /// Blocks.
    fn keep(&self, label: &str, command: String, fault: Option<&str>) {
        let mut kept = sync::lock(&self.kept);
        let failures = self.loaded(&mut kept);
        let is_changed = match fault {
            None => failures.remove(label).is_some(),
            Some(fault) => {
                let fault = first_chars(&shown_line(fault), MAX_FAULT_CHARS).to_owned();
                let failure = HookFailure { command, fault, at: clock::datetime() };
                insert(failures, label, failure)
            }
        };
        if is_changed && let Err(error) = self.write(failures) {
            tracing::warn!(%error, "the failures of hooks cannot be kept");
        }
    }

    fn loaded<'a>(&self, kept: &'a mut Option<Failures>) -> &'a mut Failures {
        kept.get_or_insert_with(|| self.read().unwrap_or_default())
    }

    /// A file that cannot be read tells nothing; the next failure makes it anew.
    fn read(&self) -> Option<Failures> {
        let directory = ours::open_ours(self.state_dir.as_deref()?).ok()?;
        let text = ours::read_text(&directory, NAME, MAX_BYTES).ok()??;
        toml::from_str(&text).ok()
    }

    fn write(&self, failures: &Failures) -> Result<(), String> {
        let Some(state_dir) = &self.state_dir else { return Ok(()) };
        let text = toml::to_string(failures).map_err(|error| error.to_string())?;
        let directory = ours::open_ours(state_dir)?;
        ours::replace(&directory, NAME, &text).map_err(|error| error.to_string())
    }
}

/// Whether the failure is news, and there was room for it.
fn insert(failures: &mut Failures, label: &str, failure: HookFailure) -> bool {
    let before = failures.get(label);
    let is_known = before.is_some_and(|before| {
        (&before.fault, &before.command) == (&failure.fault, &failure.command)
    });
    let has_room = before.is_some() || failures.len() < MAX_KEPT;
    if is_known || !has_room {
        return false;
    }
    failures.insert(label.to_owned(), failure);
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn hook(command: &str) -> HookSetting {
        toml::from_str(&format!("event = \"PreToolUse\"\ncommand = \"{command}\"")).unwrap()
    }

    #[tokio::test]
    async fn a_failure_is_kept_until_the_hook_runs_well_or_is_another_one() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let server = Arc::new(HookFailures::in_state_dir(directory.path()));
        let told = |label: &str, command: &str| {
            let kept = HookFailures::in_state_dir(directory.path());
            kept.of(label, &hook(command)).map(|failure| failure.fault)
        };
        assert_eq!(told("hooks[0]", "a"), None);
        server.note("hooks[0]", &hook("a"), Some("ended with code 1:\nno \u{1b}[31mkey")).await;
        assert_eq!(told("hooks[0]", "a").as_deref(), Some("ended with code 1: no [31mkey"));
        assert_eq!(told("hooks[0]", "b"), None, "another program");
        assert_eq!(told("hooks[1]", "a"), None, "another place");
        server.note("hooks[0]", &hook("a"), None).await;
        assert_eq!(told("hooks[0]", "a"), None);
    }

    #[tokio::test]
    async fn what_cannot_be_read_or_written_hinders_no_hook() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(directory.path().join(NAME), "{").unwrap();
        let server = Arc::new(HookFailures::in_state_dir(directory.path()));
        assert_eq!(server.of("hooks[0]", &hook("a")), None);
        server.note("hooks[0]", &hook("a"), Some("failed")).await;
        let nowhere = Arc::new(HookFailures::in_state_dir(&directory.path().join("missing")));
        nowhere.note("hooks[0]", &hook("a"), Some("failed")).await;
        assert!(nowhere.of("hooks[0]", &hook("a")).is_some());
        assert!(HookFailures::default().of("hooks[0]", &hook("a")).is_none());
    }
}
