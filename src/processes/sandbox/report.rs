//! Puts into words what the trials came to.

use super::Outcome;

impl Outcome {
    /// One sentence: the level, or why there is none.
    pub(crate) fn sentence(&self) -> String {
        let failed = self
            .trials
            .iter()
            .filter_map(|trial| Some(format!("{}: {}", trial.level, trial.why.as_ref()?)));
        let failed = failed.collect::<Vec<_>>().join("; ");
        match (self.level, failed.is_empty()) {
            (Some(level), true) => format!("{level} holds what was tried"),
            (Some(level), false) => format!("{level} holds what was tried; {failed}"),
            (None, false) => failed,
            (None, true) => "sandbox.use names no level".to_owned(),
        }
    }

    /// Why there is no level; `None` if there is one.
    pub(crate) fn fault(&self) -> Option<String> {
        self.level.is_none().then(|| self.sentence())
    }

    /// One line for each level that was tried, with what was tried.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.trials
            .iter()
            .map(|trial| {
                let probes = trial.probes.iter().map(|attempt| {
                    let held = if attempt.held { "prevented" } else { "NOT PREVENTED" };
                    format!("{} {held}", attempt.probe)
                });
                let probes: Vec<String> = probes.collect();
                let passed = if trial.passed { "passed" } else { "failed" };
                let told = if probes.is_empty() {
                    trial.why.clone().unwrap_or_default()
                } else {
                    probes.join(", ")
                };
                format!("{} {passed}: {told}", trial.level)
            })
            .collect()
    }
}
