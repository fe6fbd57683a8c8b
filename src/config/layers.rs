//! Merges the layers of settings key by key, later ones over earlier ones, and records
//! where each key was set.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::ConfigError;
use super::keys::Keys;
use crate::text::one_line;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    File { path: PathBuf, line: usize },
    Environment(String),
    Flag(&'static str),
}

/// A value set by a flag or a variable.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) path: String,
    pub(crate) value: Value,
    pub(crate) source: Source,
}

/// The merged values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    values: Table,
    /// By the path as it is shown, such as `models[0].match`.
    sources: BTreeMap<String, Source>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

impl Layers {
    /// Adds the settings of the file at `path`, after checking that each key is known.
    pub(crate) fn add_file(
        &mut self,
        keys: &Keys,
        path: &Path,
        text: &str,
    ) -> Result<(), ConfigError> {
        let bad = |error: &toml::de::Error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            ConfigError::Syntax {
                at: Source::File { path: path.to_owned(), line },
                reason: one_line(error.message()),
            }
        };
        let spanned = DeTable::parse(text).map_err(|error| bad(&error))?;
        let values: Table = toml::from_str(text).map_err(|error| bad(&error))?;
        FileKeys { keys, path, text, sources: &mut self.sources }.table(
            spanned.get_ref(),
            "",
            "",
        )?;
        merge(&mut self.values, values);
        Ok(())
    }

    /// Sets one known key.
    pub(crate) fn set(&mut self, setting: Setting) {
        let names: Vec<&str> = setting.path.split('.').collect();
        let nested = names.iter().rev().fold(setting.value, |value, name| {
            Value::Table(Table::from_iter([((*name).to_owned(), value)]))
        });
        if let Value::Table(table) = nested {
            merge(&mut self.values, table);
        }
        self.sources.insert(setting.path, setting.source);
    }

    /// Where `path`, or the table around it, was set.
    pub(crate) fn source(&self, path: &str) -> Option<&Source> {
        let mut path = path;
        loop {
            if let Some(source) = self.sources.get(path) {
                return Some(source);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// Puts the place where the key was set before a message that begins with the key.
    pub(crate) fn located(&self, message: &str) -> String {
        let key = message.split(": ").next().unwrap_or_default();
        match self.source(key) {
            Some(source) => format!("{source}: {message}"),
            None => message.to_owned(),
        }
    }

    /// Whether exactly this key was set.
    #[cfg(test)]
    pub(crate) fn sets(&self, path: &str) -> bool {
        self.sources.contains_key(path)
    }

    /// Each value that was set. Lists and open tables are one value.
    pub(crate) fn given<'l>(&'l self, keys: &'l Keys) -> impl Iterator<Item = SetKey<'l>> {
        keys.iter().filter_map(|key| {
            let value = lookup(&self.values, &key.path)?;
            Some(SetKey { path: &key.path, value, source: self.source_within(&key.path)? })
        })
    }

    fn source_within(&self, path: &str) -> Option<&Source> {
        self.sources.get(path).or_else(|| {
            let inner = self.sources.iter().find(|(inner, _)| inner.starts_with(path));
            inner.map(|(_, source)| source)
        })
    }

    /// Deserializes the values into settings.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        serde_path_to_error::deserialize(Value::Table(self.values.clone())).map_err(|error| {
            let key = error.path().to_string();
            ConfigError::BadValue {
                at: self.source(&key).cloned(),
                key,
                reason: one_line(error.inner().message()),
            }
        })
    }
}

/// A value that was set, with its source.
#[derive(Debug)]
pub(crate) struct SetKey<'l> {
    pub(crate) path: &'l str,
    pub(crate) value: &'l Value,
    pub(crate) source: &'l Source,
}

/// The value at `path` in `table`.
pub(crate) fn lookup<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
    match path.split_once('.') {
        Some((first, rest)) => lookup(table.get(first)?.as_table()?, rest),
        None => table.get(path),
    }
}

/// Checks the keys of a file, and records their lines.
struct FileKeys<'f> {
    keys: &'f Keys,
    path: &'f Path,
    text: &'f str,
    sources: &'f mut BTreeMap<String, Source>,
}

impl FileKeys<'_> {
    /// `at` is the table's path as it is shown; `known` is its path in [`Keys`].
    fn table(&mut self, table: &DeTable<'_>, at: &str, known: &str) -> Result<(), ConfigError> {
        for (name, value) in table {
            let join = |path: &str| match path {
                "" => name.get_ref().to_string(),
                path => format!("{path}.{}", name.get_ref()),
            };
            let (at, known) = (join(at), join(known));
            let line = line_of(self.text, name.span().start);
            let source = Source::File { path: self.path.to_owned(), line };
            if !self.keys.knows(&known) {
                let hint = self.keys.nearest(&known).map(str::to_owned);
                return Err(ConfigError::UnknownKey { at: source, key: at, hint });
            }
            self.sources.insert(at.clone(), source);
            self.value(value, &at, &known)?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        at: &str,
        known: &str,
    ) -> Result<(), ConfigError> {
        match value.get_ref() {
            DeValue::Table(table) => self.table(table, at, known),
            DeValue::Array(elements) => {
                elements.iter().enumerate().try_for_each(|(index, element)| {
                    self.value(element, &format!("{at}[{index}]"), &format!("{known}[]"))
                })
            }
            _ => Ok(()),
        }
    }
}

/// Merges tables key by key, and replaces other values.
fn merge(base: &mut Table, over: Table) {
    for (name, value) in over {
        match (base.get_mut(&name), value) {
            (Some(Value::Table(base)), Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(name, value);
            }
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    before.matches('\n').count() + 1
}
