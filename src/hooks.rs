//! Runs hooks: programs that are called at an event, and may block or change what
//! follows from it.
//!
//! All hooks of an event run at the same time on the same input. What their programs print is
//! read in [`answer`], and several answers are combined in [`outcome`].

mod answer;
mod event;
mod failures;
mod launch;
mod matcher;
mod outcome;
mod public_json;
mod settings;
#[cfg(test)]
mod tests;
mod workspace;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures::future::join_all;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub(crate) use self::answer::HookDecision;
pub(crate) use self::event::HookEvent;
pub(crate) use self::failures::HookFailures;
pub(crate) use self::launch::HookPrograms;
pub(crate) use self::outcome::HookOutcome;
pub(crate) use self::public_json::ReadHooks;
pub(crate) use self::settings::{HookSetting, HookSource};
pub(crate) use self::workspace::{faults_of, users_fault};

use self::answer::HookAnswer;
use self::launch::HookPlace;
use crate::settings_files::SettingsFiles;
use crate::workspace::Workspace;

/// The hooks of a turn, in the order of the configuration.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    all: Arc<[LabelledHook]>,
    /// `None` where there are no hooks.
    programs: Option<Arc<HookPrograms>>,
    /// Where further hooks are read from for a turn.
    files: Option<Arc<SettingsFiles>>,
    /// Why hooks of settings files cannot be read. Nobody knows what they would deny, so every
    /// call asks.
    faults: Arc<[String]>,
}

#[derive(Clone)]
struct LabelledHook {
    /// Its place in the settings, for the log and for people: `hooks[0]`.
    label: String,
    setting: HookSetting,
}

/// What every hook is told besides its event, and where it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookScene<'a> {
    /// `None` for a turn without a session.
    pub(crate) session: Option<&'a str>,
    pub(crate) workspace: &'a Workspace,
    pub(crate) working_dir: &'a Path,
    pub(crate) mode: &'a str,
    pub(crate) cancelled: &'a CancellationToken,
}

impl Hooks {
    /// `settings` in the order of the configuration.
    pub(crate) fn new(settings: Vec<HookSetting>, programs: HookPrograms) -> Self {
        let label = |(index, setting)| LabelledHook { label: format!("hooks[{index}]"), setting };
        let hooks = settings.into_iter().enumerate().map(label).collect();
        Self { all: hooks, programs: Some(Arc::new(programs)), ..Self::default() }
    }

    /// Whether a hook runs at this event for something of these names: a tool's own and its
    /// aliases, or the kind of the event.
    pub(crate) fn fires(&self, event: HookEvent, names: &[&str]) -> bool {
        self.asks_because_of_faults(event) || self.at(event, names).next().is_some()
    }

    /// Runs all hooks of the event at the same time and combines what they say. `members` are
    /// what the event tells besides the scene.
    pub(crate) async fn run(
        &self,
        event: HookEvent,
        names: &[&str],
        scene: HookScene<'_>,
        members: Map<String, Value>,
    ) -> HookOutcome {
        let Some(programs) = &self.programs else { return HookOutcome::default() };
        let mut hooks = self.at(event, names).peekable();
        if hooks.peek().is_none() && !self.asks_because_of_faults(event) {
            return HookOutcome::default();
        }
        let input = input(event, &scene, members);
        let place = HookPlace {
            workspace: scene.workspace,
            // The directory of a session that has ended is gone.
            session: scene.session.filter(|_| event != HookEvent::SessionEnd),
            cancelled: scene.cancelled,
        };
        let runs = hooks.map(|hook| programs.run(&hook.setting, &hook.label, &input, place));
        let mut answers = join_all(runs).await;
        if self.asks_because_of_faults(event) {
            answers.extend(self.faults.iter().map(|fault| HookAnswer::asks(fault)));
        }
        HookOutcome::combine(answers)
    }

    /// Lists each hook on a line, and below it what of it has no effect and how it failed last.
    /// `tools` are the names and aliases of all tools. Blocks.
    pub(crate) fn listed(&self, tools: &[&str]) -> Vec<String> {
        let failures = self.programs.as_ref().map(|programs| &programs.failures);
        let mut lines = Vec::new();
        for LabelledHook { label, setting } in self.all.iter() {
            // The label of one from a settings file begins with the file.
            lines.push(match &setting.source {
                HookSource::Operator => format!("{label}: {setting}, from the {}", setting.source),
                HookSource::User(_) | HookSource::Workspace(_) => format!("{label}: {setting}"),
            });
            let without = setting.without_effect().into_iter();
            lines.extend(without.map(|why| format!("  without effect: {why}")));
            let unknown = setting.unknown_tools(tools);
            lines.extend(unknown.map(|name| match in_other_case(name, tools) {
                Some(tool) => format!("  never runs for {name}: write {tool}"),
                None => format!("  never runs for {name}: there is no such tool"),
            }));
            if let Some(failure) = failures.and_then(|failures| failures.of(label, setting)) {
                lines.push(format!("  failed at {}: {}", failure.at, failure.fault));
            }
        }
        lines
    }

    fn asks_because_of_faults(&self, event: HookEvent) -> bool {
        event == HookEvent::PreToolUse && !self.faults.is_empty()
    }

    fn at<'a>(
        &'a self,
        event: HookEvent,
        names: &'a [&str],
    ) -> impl Iterator<Item = &'a LabelledHook> {
        self.all.iter().filter(move |LabelledHook { setting, .. }| {
            setting.event == event && (!event.has_matcher() || setting.matcher.matches(names))
        })
    }
}

/// The tool that the name would be with other capitals.
fn in_other_case<'t>(name: &str, tools: &[&'t str]) -> Option<&'t str> {
    tools.iter().copied().find(|tool| tool.eq_ignore_ascii_case(name))
}

/// The JSON that a hook reads, with a line end behind it: some programs read lines.
fn input(event: HookEvent, scene: &HookScene<'_>, members: Map<String, Value>) -> String {
    let mut all = Map::new();
    all.insert("session_id".to_owned(), scene.session.unwrap_or_default().into());
    all.insert("cwd".to_owned(), scene.working_dir.to_string_lossy().into());
    all.insert("permission_mode".to_owned(), scene.mode.into());
    all.insert("hook_event_name".to_owned(), event.name().into());
    all.extend(members);
    let mut text = Value::Object(all).to_string();
    text.push('\n');
    text
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hooks", self.all.len())
    }
}
