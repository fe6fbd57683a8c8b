//! Holds the environment variables of a process.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// The variables of a process.
#[derive(Clone, Default)]
pub(crate) struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// The variables of this process.
    pub(crate) fn from_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The value, unless it is empty: an empty variable counts as unset.
    pub(crate) fn get(&self, name: &str) -> Option<&OsString> {
        self.0.get(&OsString::from(name)).filter(|value| !value.is_empty())
    }

    /// These variables, overridden by `more`.
    pub(crate) fn with(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.iter()
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl IntoIterator for Variables {
    type Item = (OsString, OsString);
    type IntoIter = std::collections::btree_map::IntoIter<OsString, OsString>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Hides the values, which may be secrets.
impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}
