//! Explains the verdict on a command line to the operator, and runs nothing.

use super::commands::Reading;
use super::judge::{AllowedBy, PolicyVerdict};
use super::{Access, AccessRequest, Mode, Permissions, Refusal, Risk, SandboxEffect};
use crate::processes::confinement::Level;

/// What becomes of a command, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExplainedVerdict {
    /// `allow`, `ask` or `deny`.
    pub(crate) verdict: &'static str,
    /// The rule, list or mode that decides.
    pub(crate) because: String,
    /// What would allow it, if a person is asked.
    pub(crate) remedy: Option<String>,
    /// Whether it is a reader, or which part is none and why, unless that is what decides.
    pub(crate) reading: Option<String>,
    pub(crate) risks: Vec<Risk>,
    /// What the sandbox does to it, unless it is refused or could only read.
    pub(crate) sandbox_effects: Vec<SandboxEffect>,
}

/// What is known of the line's reading, for the operator.
fn told_reading(reading: &Reading) -> String {
    match reading {
        Reading::Proven => "a reader: it is proven to read only".to_owned(),
        Reading::Reader => {
            "a reader: every part of it is on the list of what only reads".to_owned()
        }
        Reading::Unknown(not_reading) => format!("no reader: {not_reading}"),
    }
}

impl Permissions {
    /// Judges a command of the tool in the workspace's own directory, without grants.
    pub(crate) async fn explain(
        &self,
        tool: &str,
        line: String,
    ) -> Result<ExplainedVerdict, Refusal> {
        let mut permissions = self.clone();
        permissions.policy.confined = self.confined().await;
        let tool = tool.to_owned();
        let explain = move |current: Self| {
            let directory = current.workspace.root().to_owned();
            let request =
                AccessRequest::Command { line, directory, outside_sandbox: false, lacked: None };
            let access = current.open(&tool, request)?;
            Ok(current.explained(&tool, &access))
        };
        permissions.with_current(explain).await
    }

    fn explained(&self, tool: &str, access: &Access) -> ExplainedVerdict {
        let policy = &self.policy;
        let (risks, reading) = match access {
            Access::Command(command) => {
                (command.risks().to_vec(), Some(told_reading(command.analysis().reading())))
            }
            _ => (Vec::new(), None),
        };
        let mode = policy.mode;
        let mut sandbox_effects = self.sandbox_effects(access);
        let mut reading = reading;
        let (verdict, because, remedy) = match policy.judge(tool, self.effect_of(access)) {
            PolicyVerdict::Deny(why) => {
                sandbox_effects.clear();
                ("deny", why, None)
            }
            PolicyVerdict::Allow(by) => {
                if by.only_reads() {
                    sandbox_effects.clear();
                }
                reading = reading.filter(|_| !by.only_reads());
                ("allow", self.allowed_by(by, tool, access), None)
            }
            PolicyVerdict::Ask { why, remedy } => {
                let asks = if mode == Mode::DontAsk { "denies what would ask" } else { "asks" };
                let because = match why {
                    Some(why) => format!("{why}; the mode {mode} {asks}"),
                    None => format!("the mode {mode} {asks}, and no rule allows it"),
                };
                let verdict = if mode == Mode::DontAsk { "deny" } else { "ask" };
                (verdict, because, Some(remedy.to_string()))
            }
        };
        ExplainedVerdict { verdict, because, remedy, reading, risks, sandbox_effects }
    }

    fn allowed_by(&self, by: AllowedBy, tool: &str, access: &Access) -> String {
        match (by, access) {
            (AllowedBy::OnlyReads, _) => "it is proven to read only".to_owned(),
            (AllowedBy::ConfinedToReading, _) => {
                let level = self.policy.confined.level.map_or("", Level::name);
                format!(
                    "it is a reader: every part of it only reads, and {level} confines it to that"
                )
            }
            (AllowedBy::Sandbox, _) => "sandbox.auto_allow is on, and it runs in bwrap".to_owned(),
            (AllowedBy::Rules, Access::Command(command)) => {
                let rules = self.policy.rules_allowing(tool, command.analysis());
                let rules = rules.iter().map(|rule| format!("`{}` in {}", rule.text, rule.place()));
                rules.collect::<Vec<_>>().join(", ")
            }
            (AllowedBy::Rules, _) => "a rule in permissions.allow".to_owned(),
            (AllowedBy::Mode, _) => format!("the mode {}", self.policy.mode),
        }
    }
}
