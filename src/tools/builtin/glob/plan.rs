//! Takes a pattern apart: the directory to search, and what to look for from there.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::GlobInput;
use crate::tools::tool::{CallContext, ToolError};

/// What makes a part of a pattern more than a name.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// Where to search, and for what from there.
#[derive(Debug, PartialEq)]
pub(super) struct GlobPlan {
    pub(super) base: PathBuf,
    /// Empty where the pattern names the base itself.
    pattern: String,
    /// The pattern's leading plain directories: nothing outside them can match.
    pub(super) inside: Vec<String>,
}

impl GlobPlan {
    /// The plain directories that a pattern begins with are taken as a path is. Where they
    /// lead elsewhere (absolute, `~`, `..`), that is where to search.
    pub(super) fn from_input(input: &GlobInput, context: &CallContext) -> Self {
        let base = context.resolve(input.path.as_deref());
        let mut pattern = input.pattern.clone();
        if pattern.ends_with('/') {
            pattern.push_str("**");
        }
        let parts: Vec<&str> = pattern.split('/').collect();
        if let [name] = parts[..]
            && !leads(name)
        {
            return Self { base, pattern: format!("**/{name}"), inside: Vec::new() };
        }
        let last = parts[parts.len() - 1];
        let leads_on = matches!(last, "." | "..") || parts.len() == 1;
        let end = if leads_on { parts.len() } else { parts.len() - 1 };
        let plain = parts[..end].iter().take_while(|part| !part.contains(SPECIAL)).count();
        let (way, rest) = parts.split_at(plain);
        let rest: Vec<&str> = rest.iter().copied().filter(|part| !is_nothing(part)).collect();
        let is_from_home = way.first() == Some(&"~");
        if pattern.starts_with('/') || is_from_home || way.contains(&"..") {
            let way = format!("{}/", way.join("/"));
            let base = if pattern.starts_with('/') || is_from_home {
                context.resolve(Some(Path::new(&way)))
            } else {
                crate::workspace::absolute(&base, Path::new(&way))
            };
            return Self { base, pattern: rest.join("/"), inside: Vec::new() };
        }
        let inside: Vec<String> =
            way.iter().filter(|part| !is_nothing(part)).map(|part| (*part).to_owned()).collect();
        let pattern = inside.iter().map(String::as_str).chain(rest).collect::<Vec<_>>().join("/");
        Self { base, pattern, inside }
    }

    pub(super) fn compile(&self) -> Result<GlobMatcher, ToolError> {
        if self.pattern.split('/').any(|part| part == "..") {
            return Err(ToolError::InvalidInput(
                "the glob has `..` behind a wildcard; put it first, or set path".to_owned(),
            ));
        }
        let glob = GlobBuilder::new(&self.pattern).literal_separator(true).build();
        let glob = glob.map_err(|error| ToolError::InvalidInput(error.to_string()))?;
        Ok(glob.compile_matcher())
    }

    pub(super) fn is_base_itself(&self) -> bool {
        self.pattern.is_empty()
    }

    /// How deep a match can lie, where that is known.
    pub(super) fn max_depth(&self) -> Option<usize> {
        // Slashes in braces count as well: that is more than enough.
        (!self.pattern.contains("**")).then(|| self.pattern.matches('/').count() + 1)
    }
}

/// Whether a pattern of one name is a path all the same.
fn leads(name: &str) -> bool {
    matches!(name, "." | ".." | "~")
}

fn is_nothing(part: &str) -> bool {
    matches!(part, "" | ".")
}
