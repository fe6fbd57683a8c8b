//! Defines the permission modes, which decide the calls that no rule decides.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Ordered from the strictest to the widest, so that `<` means stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub(crate) enum Mode {
    /// Allows reading only.
    Plan,
    /// Denies a call that would need an approval.
    DontAsk,
    #[default]
    Default,
    /// Allows editing in the workspace as well.
    AcceptEdits,
    /// Allows every call except those with a deny or ask rule.
    BypassPermissions,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ModeError {
    #[error(
        "{0:?} is no permission mode: it is \"default\", \"acceptEdits\", \"dontAsk\", \"plan\" or \"bypassPermissions\""
    )]
    Unknown(String),
    #[error(
        "a request may only tighten the permission mode: it is \"{current}\" here, and \"{wanted}\" lets more through"
    )]
    Widens { current: Mode, wanted: Mode },
}

impl Mode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::BypassPermissions => "bypassPermissions",
        }
    }

    /// Returns `wanted`, if it is not wider than this mode.
    pub(crate) fn tightened(self, wanted: Self) -> Result<Self, ModeError> {
        if wanted <= self { Ok(wanted) } else { Err(ModeError::Widens { current: self, wanted }) }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(name: &str) -> Result<Self, ModeError> {
        match name {
            "plan" => Ok(Self::Plan),
            "dontAsk" => Ok(Self::DontAsk),
            "default" => Ok(Self::Default),
            "bypassPermissions" => Ok(Self::BypassPermissions),
            "acceptEdits" => Ok(Self::AcceptEdits),
            _ => Err(ModeError::Unknown(name.to_owned())),
        }
    }
}

impl From<Mode> for &'static str {
    fn from(mode: Mode) -> Self {
        mode.as_str()
    }
}

impl TryFrom<String> for Mode {
    type Error = ModeError;

    fn try_from(name: String) -> Result<Self, ModeError> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_may_only_be_tightened() {
        assert_eq!(Mode::Default.tightened(Mode::Plan), Ok(Mode::Plan));
        assert_eq!(Mode::Default.tightened(Mode::Default), Ok(Mode::Default));
        assert_eq!(Mode::BypassPermissions.tightened(Mode::DontAsk), Ok(Mode::DontAsk));
        let error = Mode::DontAsk.tightened(Mode::Default).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a request may only tighten the permission mode: it is \"dontAsk\" here, \
             and \"default\" lets more through"
        );
    }

    #[test]
    fn names_the_modes_that_exist() {
        let modes =
            [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions];
        for mode in modes {
            assert_eq!(mode.as_str().parse(), Ok(mode));
        }
        assert!(modes.is_sorted());
        assert!("yolo".parse::<Mode>().unwrap_err().to_string().contains("\"dontAsk\""));
    }
}
