//! Decides whether a language server may start. Pure.
//!
//! It runs the code of the repository: build scripts, macros, plug-ins. It must be confined, or
//! the operator must have trusted the repository or configured the server.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

/// What speaks for or against it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances<'a> {
    pub(super) workspace: &'a Path,
    pub(super) sandbox: SandboxHere,
    pub(super) is_trusted: bool,
    /// Whether the operator's configuration names the server.
    pub(super) is_configured: bool,
}

/// The sandbox of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SandboxHere {
    Holds,
    None,
    /// None, and nothing may run without it.
    NoneButRequired,
}

/// How a server may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LspConfinement {
    Confined,
    Unconfined,
}

/// Why a server may not start. It follows the name of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MayNotStart(String);

impl fmt::Display for MayNotStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) fn may_start(circumstances: Circumstances<'_>) -> Result<LspConfinement, MayNotStart> {
    let Circumstances { workspace, sandbox, is_trusted, is_configured } = circumstances;
    match sandbox {
        SandboxHere::Holds => return Ok(LspConfinement::Confined),
        SandboxHere::NoneButRequired => {
            return Err(MayNotStart("needs the sandbox, and none holds here".to_owned()));
        }
        SandboxHere::None if is_trusted || is_configured => return Ok(LspConfinement::Unconfined),
        SandboxHere::None => {}
    }
    let workspace = workspace.display();
    Err(MayNotStart(format!(
        "would run code of the workspace, and no sandbox holds here: `toolhand trust {workspace}`, \
         or a server in [lsp.servers], lets it"
    )))
}

/// The settings of rust-analyzer where it must not run what the repository brings. The operator's
/// own go above them.
pub(super) fn without_code_of_the_repository(settings: &Value) -> Value {
    let mut quiet = json!({
        "cargo": { "buildScripts": { "enable": false }, "autoreload": true },
        "procMacro": { "enable": false },
        "checkOnSave": false,
    });
    overlay(&mut quiet, settings);
    quiet
}

fn overlay(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                overlay(below.entry(name).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(sandbox: SandboxHere, is_trusted: bool, is_configured: bool) -> String {
        let circumstances =
            Circumstances { workspace: Path::new("/ws"), sandbox, is_trusted, is_configured };
        match may_start(circumstances) {
            Ok(rule) => format!("{rule:?}"),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn something_holds_a_server_or_the_operator_vouches_for_it() {
        for (is_trusted, is_configured) in [(false, false), (false, true), (true, true)] {
            assert_eq!(judged(SandboxHere::Holds, is_trusted, is_configured), "Confined");
            let refused = judged(SandboxHere::NoneButRequired, is_trusted, is_configured);
            assert_eq!(refused, "needs the sandbox, and none holds here");
        }
        assert_eq!(judged(SandboxHere::None, true, false), "Unconfined");
        assert_eq!(judged(SandboxHere::None, false, true), "Unconfined");
        assert!(judged(SandboxHere::None, false, false).contains("`toolhand trust /ws`"));
    }

    #[test]
    fn the_operators_settings_go_above_ours() {
        let settings = json!({ "cargo": { "buildScripts": { "enable": true } }, "x": [1] });
        let quiet = without_code_of_the_repository(&settings);
        assert_eq!(quiet["cargo"]["buildScripts"]["enable"], true);
        assert_eq!(quiet["procMacro"]["enable"], false);
        assert_eq!((&quiet["checkOnSave"], &quiet["x"]), (&json!(false), &json!([1])));
    }
}
