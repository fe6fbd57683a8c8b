//! Reads and writes `grants.toml`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::value::Datetime;

use super::{GrantHolder, RuleGrant};
use crate::clock;
use crate::ids::{KeyId, Scope};
use crate::named_file::{located, ours};
use crate::permissions::owned_tools::OwnedTools;
use crate::permissions::rules::Rules;
use crate::workspace::BoundDirectory;

pub(super) const NAME: &str = "grants.toml";
/// Locked by whoever changes the file.
const LOCK: &str = "grants.lock";

/// Thousands of rules of the usual length.
pub(super) const MAX_BYTES: u64 = 4 << 20;

const HEADER: &str = "# Rules that people made of approvals. The server adds to this file, and reads \
                      it at once when it\n# has changed: take a rule back by deleting its whole \
                      entry.\n\n";

/// What to do about a file that cannot be read. It follows the reason.
const REMEDY: &str = "no rule that people kept holds until it is mended or deleted";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stored {
    grants: Vec<StoredGrant>,
}

/// A rule as it is kept. An unknown field is an error: it could have been a bound.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredGrant {
    key: String,
    /// Of the person behind a frontend that is trusted to name one: the scope, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    person: Option<String>,
    rule: Spanned<String>,
    /// The directory in which commands must run for it to count.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
    /// What the MCP server of the rule was started as when a person kept it.
    #[serde(rename = "started_as", skip_serializing_if = "Option::is_none")]
    server_identity: Option<String>,
    created: Datetime,
    workspace: BoundDirectory,
}

/// A rule that was read.
#[derive(Debug)]
pub(crate) struct KeptGrant {
    pub(crate) key: KeyId,
    scope: Scope,
    pub(crate) workspace: BoundDirectory,
    pub(crate) directory: Option<PathBuf>,
    server_identity: Option<String>,
    pub(crate) rule: String,
    pub(crate) created: Datetime,
    /// The rule alone.
    pub(super) rules: Rules,
}

impl StoredGrant {
    /// Those that the grant of a person adds.
    pub(super) fn new(holder: &GrantHolder, grant: &RuleGrant) -> Vec<Self> {
        let is_keys_own = holder.scope == Scope::new(&holder.key, None);
        let person = (!is_keys_own).then(|| hex(holder.scope));
        let one = |rule: &String| Self {
            key: holder.key.as_str().to_owned(),
            person: person.clone(),
            rule: Spanned::new(0..0, rule.clone()),
            directory: grant.directory.clone(),
            server_identity: grant.server_identity.clone(),
            created: clock::datetime(),
            workspace: grant.workspace.clone(),
        };
        grant.rules.iter().map(one).collect()
    }

    /// Whether both allow the same, whenever they were made.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let Self { key, person, rule, directory, workspace, server_identity, .. } = self;
        (key, person, rule.get_ref()) == (&other.key, &other.person, other.rule.get_ref())
            && (directory, workspace) == (&other.directory, &other.workspace)
            && *server_identity == other.server_identity
    }

    pub(super) fn is_of(&self, key: &KeyId, workspace: &Path) -> bool {
        self.key == key.as_str() && self.workspace.path == workspace
    }

    fn read(self, path: &Arc<Path>, known: &OwnedTools) -> Result<KeptGrant, String> {
        let Self { key, person, rule, directory, server_identity, created, workspace } = self;
        let key = KeyId::new(&key);
        let scope = match person {
            Some(person) => {
                let bytes = blake3::Hash::from_hex(&person);
                Scope::from_bytes(*bytes.map_err(|_| "person is no hash".to_owned())?.as_bytes())
            }
            None => Scope::new(&key, None),
        };
        let rule = rule.into_inner();
        let rules = parse_rule(&rule, path, known)?;
        Ok(KeptGrant { key, scope, workspace, directory, server_identity, rule, created, rules })
    }
}

impl KeptGrant {
    pub(super) fn is_held_by(&self, holder: &GrantHolder) -> bool {
        self.key == holder.key && self.scope == holder.scope
    }

    /// Whether it counts for a call of this MCP server, or of none. A rule of an MCP tool that does
    /// not say what its server was started as, as those of earlier versions, counts for no server.
    pub(super) fn is_for_server(&self, identity: Option<&str>) -> bool {
        !self.names_mcp_tool()
            || (identity.is_some() && self.server_identity.as_deref() == identity)
    }

    /// Whether it never counts, since nobody knows which server it was made for.
    pub(crate) fn misses_its_server(&self) -> bool {
        self.names_mcp_tool() && self.server_identity.is_none()
    }

    fn names_mcp_tool(&self) -> bool {
        self.rule.trim_start().starts_with("mcp__")
    }
}

/// An allow rule that stands in the file.
pub(super) fn parse_rule(
    rule: &str,
    path: &Arc<Path>,
    known: &OwnedTools,
) -> Result<Rules, String> {
    if rule.chars().any(char::is_control) {
        return Err("a rule has a control character".to_owned());
    }
    let mut rules = Rules::default();
    known.lend(|known| rules.add("allow", rule, known)).map_err(|error| error.to_string())?;
    rules.come_from(path, None);
    // It is as narrow as what a person saw.
    rules.make_literal();
    Ok(rules)
}

/// The entries of the file. The error follows its name.
pub(super) fn entries(text: &str) -> Result<Vec<StoredGrant>, String> {
    let stored: Result<Stored, _> = toml::from_str(text);
    Ok(stored.map_err(|error| with_remedy(&located(text, &error)))?.grants)
}

/// What the entries say.
pub(super) fn parse(
    text: &str,
    path: &Arc<Path>,
    known: &OwnedTools,
) -> Result<Vec<KeptGrant>, String> {
    let read = entries(text)?.into_iter().map(|entry| {
        let line = text[..entry.rule.span().start].matches('\n').count() + 1;
        let read = entry.read(path, known);
        read.map_err(|reason| with_remedy(&format!("line {line}: {reason}")))
    });
    read.collect()
}

pub(super) fn with_remedy(reason: &str) -> String {
    ours::with_remedy(reason, REMEDY)
}

/// Replaces the file in one step. `Ok(false)`: it would be too large to be read again.
pub(super) fn write(directory: &File, grants: Vec<StoredGrant>) -> io::Result<bool> {
    let text = toml::to_string(&Stored { grants }).map_err(io::Error::other)?;
    let text = format!("{HEADER}{text}");
    if MAX_BYTES < text.len() as u64 {
        return Ok(false);
    }
    ours::replace(directory, NAME, &text).map(|()| true)
}

/// Waits for whoever changes the file at the moment.
pub(super) fn lock(directory: &File) -> io::Result<File> {
    ours::lock(directory, LOCK)
}

fn hex(scope: Scope) -> String {
    blake3::Hash::from_bytes(*scope.as_bytes()).to_hex().to_string()
}
