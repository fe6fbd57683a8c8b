//! Lists the rules that people made of approvals.

use std::path::Path;

use crate::permissions::{KeptGrant, KeptGrants};
use crate::text::printable;
use crate::workspace::directory_there;

/// All rules that are kept, with what keeps them from counting. Nothing where there are none.
pub(super) fn report(kept: &KeptGrants) -> String {
    let path = kept.path().display();
    match kept.list() {
        Ok(grants) if grants.is_empty() => String::new(),
        Ok(grants) => {
            let head = format!("kept rules: {} in {path}\n", grants.len());
            grants.iter().map(line).fold(head, |text, line| text + &line + "\n")
        }
        Err(reason) => format!("kept rules: {path}: {}\n", printable(reason.as_bytes())),
    }
}

fn line(grant: &KeptGrant) -> String {
    let KeptGrant { key, workspace, directory, rule, created, .. } = grant;
    let shown = |path: &Path| printable(path.to_string_lossy().as_bytes());
    let (key, place) = (printable(key.as_str().as_bytes()), shown(&workspace.path));
    let commands = match directory {
        Some(directory) if *directory != workspace.path => {
            format!(", for commands in {}", shown(directory))
        }
        _ => String::new(),
    };
    let note = match directory_there(&workspace.path) {
        Some(found) if workspace.id.is(&found) && grant.misses_its_server() => {
            "; no effect: it does not say what its MCP server is started as; delete it, and allow \
             the tool again when it asks"
        }
        Some(found) if workspace.id.is(&found) => "",
        Some(_) => "; no effect: another directory is there now",
        None => "; no effect: the workspace is not there",
    };
    let rule = printable(rule.as_bytes());
    format!("  {rule} for the key {key} in {place}{commands}, since {created}{note}")
}
