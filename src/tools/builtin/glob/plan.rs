//! Splits a pattern into the directory to search and the glob to match below it.

use std::path::{Path, PathBuf};

use super::GlobInput;
use crate::tools::tool::{CallContext, ToolError};
use crate::tools::walk::{PathGlob, with_literal_brackets};

/// Characters that make a part of a pattern a glob, not a plain name.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// The directory to search, and the glob to match below it.
#[derive(Debug, PartialEq)]
pub(super) struct GlobPlan {
    pub(super) base: PathBuf,
    /// Empty if the pattern names the base itself.
    pattern: String,
    /// The plain directories at the beginning of the pattern. Nothing outside them can match.
    pub(super) inside: Vec<String>,
}

impl GlobPlan {
    /// Splits the pattern. If its leading plain directories are absolute or hold `~` or `..`,
    /// they are resolved as a path, which becomes the directory to search.
    pub(super) fn from_input(input: &GlobInput, context: &CallContext) -> Self {
        let base = context.resolve(input.path.as_deref());
        let mut pattern = input.pattern.clone();
        if pattern.ends_with('/') {
            pattern.push_str("**");
        }
        let parts: Vec<&str> = pattern.split('/').collect();
        if let [name] = parts[..]
            && !is_special_directory(name)
        {
            return Self { base, pattern: format!("**/{name}"), inside: Vec::new() };
        }
        let last = parts[parts.len() - 1];
        let last_is_directory = matches!(last, "." | "..") || parts.len() == 1;
        let end = if last_is_directory { parts.len() } else { parts.len() - 1 };
        let plain = parts[..end].iter().take_while(|part| !part.contains(SPECIAL)).count();
        let (plain_path, rest) = parts.split_at(plain);
        let rest: Vec<&str> = rest.iter().copied().filter(|part| !is_empty_part(part)).collect();
        let is_from_home = plain_path.first() == Some(&"~");
        if pattern.starts_with('/') || is_from_home || plain_path.contains(&"..") {
            let plain_path = format!("{}/", plain_path.join("/"));
            let base = if pattern.starts_with('/') || is_from_home {
                context.resolve(Some(Path::new(&plain_path)))
            } else {
                crate::workspace::absolute(&base, Path::new(&plain_path))
            };
            return Self { base, pattern: rest.join("/"), inside: Vec::new() };
        }
        let inside: Vec<String> = plain_path
            .iter()
            .filter(|part| !is_empty_part(part))
            .map(|part| (*part).to_owned())
            .collect();
        let pattern = inside.iter().map(String::as_str).chain(rest).collect::<Vec<_>>().join("/");
        Self { base, pattern, inside }
    }

    pub(super) fn compile(&self) -> Result<Matchers, ToolError> {
        if self.pattern.split('/').any(|part| part == "..") {
            return Err(ToolError::InvalidInput(
                "the glob has `..` behind a wildcard; put it first, or set path".to_owned(),
            ));
        }
        let with_literals = with_literal_brackets(&self.pattern);
        let with_literals = with_literals.and_then(|glob| PathGlob::compile(&glob).ok());
        match PathGlob::compile(&self.pattern) {
            Ok(matcher) => Ok(Matchers { as_written: Ok(matcher), with_literals }),
            Err(fault) if with_literals.is_some() => {
                Ok(Matchers { as_written: Err(fault), with_literals })
            }
            Err(fault) => Err(ToolError::InvalidInput(fault)),
        }
    }

    /// Whether the pattern names files, so that an ignored one with such a name is meant.
    pub(super) fn names_files(&self) -> NamesFiles {
        let name = self.pattern.strip_prefix("**/").unwrap_or(&self.pattern);
        NamesFiles {
            as_written: !name.contains(SPECIAL),
            with_literals: !name.contains(['*', '?', '\\']),
        }
    }

    pub(super) fn is_base_itself(&self) -> bool {
        self.pattern.is_empty()
    }

    /// The greatest depth of a match. `None` if it is unlimited.
    pub(super) fn max_depth(&self) -> Option<usize> {
        // Slashes in braces count as well. The result may be too large, which is harmless.
        (!self.pattern.contains("**")).then(|| self.pattern.matches('/').count() + 1)
    }
}

/// A glob in its two readings.
#[derive(Debug)]
pub(super) struct Matchers {
    /// Why the glob is none, if so.
    pub(super) as_written: Result<PathGlob, String>,
    /// Matches names with brackets and braces as well.
    pub(super) with_literals: Option<PathGlob>,
}

/// Whether a glob has no wildcards, in each of its readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamesFiles {
    pub(super) as_written: bool,
    pub(super) with_literals: bool,
}

/// Whether a pattern without a slash is a path, not a name to find at any depth.
fn is_special_directory(name: &str) -> bool {
    matches!(name, "." | ".." | "~")
}

fn is_empty_part(part: &str) -> bool {
    matches!(part, "" | ".")
}
