//! Names the events at which hooks run, and what each of them lets a hook do.

use std::fmt;

use serde::Deserialize;

/// When a hook runs. The names are those of the public protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum HookEvent {
    /// Before a call is judged.
    PreToolUse,
    /// After a call that succeeded.
    PostToolUse,
    /// After a call that failed.
    PostToolUseFailure,
    /// Before a person is asked about a call.
    PermissionRequest,
    /// Before a prompt goes to the model.
    UserPromptSubmit,
    /// When the model has its answer.
    Stop,
    SubagentStop,
    /// Before the first prompt of a session.
    SessionStart,
    /// When a session has been deleted.
    SessionEnd,
    /// When a person is asked.
    Notification,
}

/// Events of the public protocol whose parts do not exist here, so that a hook of theirs would
/// never run.
pub(super) const FOREIGN_EVENTS: [&str; 18] = [
    "ConfigChange",
    "CwdChanged",
    "Elicitation",
    "ElicitationResult",
    "FileChanged",
    "InstructionsLoaded",
    "PermissionDenied",
    "PostCompact",
    "PostToolBatch",
    "PreCompact",
    "Setup",
    "StopFailure",
    "SubagentStart",
    "TaskCompleted",
    "TaskCreated",
    "TeammateIdle",
    "WorktreeCreate",
    "WorktreeRemove",
];

impl HookEvent {
    pub(super) const ALL: [Self; 10] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::PermissionRequest,
        Self::UserPromptSubmit,
        Self::Stop,
        Self::SubagentStop,
        Self::SessionStart,
        Self::SessionEnd,
        Self::Notification,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::PermissionRequest => "PermissionRequest",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::Notification => "Notification",
        }
    }

    /// The event of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Whether a hook decides here whether something happens at all.
    pub(super) fn is_gate(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PermissionRequest | Self::UserPromptSubmit)
    }

    /// Whether a hook decides here about a call, in front of it.
    pub(super) fn decides_on_call(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PermissionRequest)
    }

    /// Whether plain text on standard output is context for the model.
    pub(super) fn takes_plain_context(self) -> bool {
        matches!(self, Self::UserPromptSubmit | Self::SessionStart)
    }

    /// Whether a matcher is matched with the names of a tool.
    pub(super) fn matches_tools(self) -> bool {
        self.decides_on_call() || matches!(self, Self::PostToolUse | Self::PostToolUseFailure)
    }

    /// Whether a matcher has something to match: the tool, or the kind of the event.
    pub(super) fn has_matcher(self) -> bool {
        !matches!(self, Self::UserPromptSubmit | Self::Stop)
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
