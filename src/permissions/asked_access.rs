//! Holds an access that a person must approve, and turns it into a permit if the person has
//! approved exactly this effect.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::commands::CommandSummary;
use super::effect::EffectHasher;
use super::{Access, EffectDigest, Grants, Permit, Risk, RuleGrant, SandboxEffect};
use crate::page_url::PageUrl;
use crate::text;
use crate::workspace::{ContentState, Target};

/// An access that the policy asks about, as open handles. It is judged again for each attempt,
/// so a permit never holds a handle that was opened before the person answered.
#[derive(Debug)]
pub(crate) struct AskedAccess {
    pub(super) tool: String,
    pub(super) access: Access,
    /// Why it asks, for a person.
    pub(super) why: Option<String>,
    /// Whether the reason tells what earlier commands have left that other programs obey.
    pub(super) shows_finds: bool,
    /// What would allow it without asking.
    pub(super) remedy: String,
    /// Whether it reaches a place outside the workspace.
    pub(super) is_outside: bool,
    /// The rules that would allow exactly this, if any do.
    pub(super) rule_grant: Option<RuleGrant>,
    /// The wider rules: one `PROGRAM SUBCOMMAND *` for each part of a command, if all have one.
    pub(super) subcommand_grant: Option<RuleGrant>,
    /// What the sandbox does to a command.
    pub(super) sandbox_effects: Vec<SandboxEffect>,
}

impl AskedAccess {
    pub(crate) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Whether the reason tells what earlier commands have left that other programs obey.
    pub(crate) fn shows_finds(&self) -> bool {
        self.shows_finds
    }

    pub(crate) fn remedy(&self) -> &str {
        &self.remedy
    }

    pub(crate) fn is_outside(&self) -> bool {
        self.is_outside
    }

    /// The file or directory, for a preview that is made from what was judged.
    pub(crate) fn target(&self) -> Option<&Arc<Target>> {
        match &self.access {
            Access::Read(target) | Access::Write(target) => Some(target),
            _ => None,
        }
    }

    /// The command, with the directory in which it would run.
    pub(crate) fn command(&self) -> Option<&super::CommandLine> {
        match &self.access {
            Access::Command(command) => Some(&command.command_line),
            _ => None,
        }
    }

    /// What speaks against it, the gravest first.
    pub(crate) fn risks(&self) -> &[Risk] {
        match &self.access {
            Access::Command(command) => command.risks(),
            _ => &[],
        }
    }

    /// What the sandbox does to a command that a person would not expect, the gravest first.
    pub(crate) fn sandbox_effects(&self) -> &[SandboxEffect] {
        &self.sandbox_effects
    }

    /// The rules that would allow exactly this, if any do.
    pub(crate) fn rule_grant(&self) -> Option<&RuleGrant> {
        self.rule_grant.as_ref()
    }

    /// Wider rules that would allow this, if there are any.
    pub(crate) fn subcommand_grant(&self) -> Option<&RuleGrant> {
        self.subcommand_grant.as_ref()
    }

    /// What was found in a command.
    pub(crate) fn command_summary(&self) -> Option<CommandSummary> {
        match &self.access {
            Access::Command(command) => Some(command.summary()),
            _ => None,
        }
    }

    /// Whether it is a command that may go on when nobody waits for it any more.
    pub(crate) fn may_go_on_alone(&self) -> bool {
        matches!(&self.access, Access::Command(command) if command.may_go_on_alone())
    }

    /// The page that would be fetched.
    pub(crate) fn page(&self) -> Option<&PageUrl> {
        match &self.access {
            Access::Fetch(page) => Some(page),
            _ => None,
        }
    }

    /// What it would do, in a line: the command, path, page, query, or the name and the
    /// arguments. `None` for what has its consent alone for an effect.
    pub(crate) fn effect_line(&self, arguments: &Value) -> Option<String> {
        Some(match &self.access {
            Access::Read(target) | Access::Write(target) => printable_path(target.real_path()),
            Access::Search(scope) => printable_path(scope.real_path()),
            Access::Command(command) => command.command_line.line.clone(),
            Access::Named(name) => format!("{name} {arguments}"),
            Access::Fetch(page) => page.url().to_string(),
            Access::WebSearch(query) => query.clone(),
            Access::Mcp(call) => format!("{} of {} {}", call.tool, call.server, call.arguments),
            Access::Consent | Access::Nothing => return None,
        })
    }

    /// Identifies the exact effect: the tool, what the access really leads to, the arguments,
    /// and for an edit the contents that it would replace.
    pub(crate) fn effect(
        &self,
        arguments: &Value,
        contents: Option<&ContentState>,
    ) -> EffectDigest {
        exact_effect(&self.tool, &self.access, arguments, contents)
    }

    /// Identifies what a person allows for a session: the same command in the same directory,
    /// edits of the same file by whatever tool, or the same tool's reading of the same path.
    pub(crate) fn grant(&self) -> Option<EffectDigest> {
        let mut hasher = EffectHasher::new("toolhand session grant");
        match &self.access {
            // It is asked about each time.
            Access::Command(command)
                if command.command_line.outside_sandbox || command.has_critical_removal() =>
            {
                return None;
            }
            Access::Write(_) | Access::Command(_) => {}
            Access::Read(_)
            | Access::Search(_)
            | Access::Named(_)
            | Access::Fetch(_)
            | Access::WebSearch(_)
            | Access::Mcp(_) => {
                hasher.part(self.tool.as_bytes());
            }
            Access::Consent | Access::Nothing => return None,
        }
        self.access.hash(&mut hasher);
        Some(hasher.finish())
    }

    /// The same in words.
    pub(crate) fn grant_covers(&self) -> String {
        match &self.access {
            Access::Write(_) => "any edit of this file".to_owned(),
            Access::Command(_) => "exactly this command, in this directory".to_owned(),
            Access::Read(_) | Access::Search(_) => format!("{} on exactly this path", self.tool),
            Access::Named(name) => format!("{} of {name}", self.tool),
            Access::Fetch(page) => format!("{} of exactly {page}", self.tool),
            Access::WebSearch(_) => format!("{} for exactly this query", self.tool),
            Access::Mcp(_) => format!("{} with exactly these arguments", self.tool),
            Access::Consent | Access::Nothing => String::new(),
        }
    }

    /// The permit, if the effect is now the one that was approved.
    pub(crate) fn approve(
        self,
        approved: &EffectDigest,
        arguments: &Value,
        contents: Option<ContentState>,
    ) -> Result<Permit, Box<Self>> {
        if self.effect(arguments, contents.as_ref()) != *approved {
            return Err(Box::new(self));
        }
        Ok(Permit { approved_contents: contents, ..Permit::new(self.access) })
    }

    /// The permit, if a person allowed the effect for the session.
    pub(crate) fn granted(self, grants: &Grants) -> Result<Permit, Box<Self>> {
        match self.grant() {
            Some(grant) if grants.contains(&grant) => Ok(Permit::new(self.access)),
            _ => Err(Box::new(self)),
        }
    }
}

/// Identifies the exact effect of a call.
pub(super) fn exact_effect(
    tool: &str,
    access: &Access,
    arguments: &Value,
    contents: Option<&ContentState>,
) -> EffectDigest {
    let mut hasher = EffectHasher::new("toolhand exact effect");
    hasher.part(tool.as_bytes());
    access.hash(&mut hasher);
    hasher.contents(contents);
    hasher.json(arguments);
    hasher.finish()
}

impl Access {
    fn hash(&self, hasher: &mut EffectHasher) {
        let (kind, parts) = match self {
            Access::Read(target) => ("read", vec![target.real_path()]),
            Access::Search(scope) => ("search", vec![scope.real_path()]),
            Access::Write(target) => ("write", vec![target.real_path()]),
            Access::Command(command) => {
                let command = &command.command_line;
                hasher.part(command.line.as_bytes());
                hasher.part(&[u8::from(command.outside_sandbox)]);
                ("command", vec![command.directory.as_path(), command.real_directory.as_path()])
            }
            Access::Named(name) => ("named", vec![Path::new(name)]),
            Access::Fetch(page) => ("fetch", vec![Path::new(page.url().as_str())]),
            Access::WebSearch(query) => ("web search", vec![Path::new(query)]),
            Access::Mcp(call) => {
                hasher.part(call.server_identity.as_bytes());
                hasher.json(&call.arguments);
                ("mcp", vec![Path::new(&call.server), Path::new(&call.tool)])
            }
            Access::Consent => ("consent", vec![]),
            Access::Nothing => ("nothing", vec![]),
        };
        hasher.part(kind.as_bytes());
        for part in parts {
            hasher.part(part.as_os_str().as_bytes());
        }
    }
}

fn printable_path(path: &Path) -> String {
    text::printable(path.as_os_str().as_bytes())
}
