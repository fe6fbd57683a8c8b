//! Asks the operator's hooks about tool calls: they may watch, change or block them.
//!
//! The pipeline asks them for every call, but no setting configures a hook yet.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

/// A hook's verdict on a call, given before the permissions judge it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HookVerdict {
    Continue,
    /// Goes on with these arguments, which are validated again.
    Rewrite(Value),
    /// Answers the call with this reason instead of running it.
    #[cfg_attr(not(test), expect(dead_code, reason = "no setting brings a hook yet"))]
    Block(String),
}

/// A program of the operator's that is asked about each call.
pub(crate) trait Hook: Send + Sync {
    fn before_call<'a>(&'a self, tool: &'a str, arguments: &'a Value)
    -> BoxFuture<'a, HookVerdict>;
}

/// The hooks of a turn, in the order in which they are asked.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Vec<Arc<dyn Hook>>);

impl Hooks {
    /// Asks the hooks in order. Each sees the arguments as the one before left them; the first
    /// that blocks decides.
    pub(crate) async fn before_call(&self, tool: &str, arguments: &Value) -> HookVerdict {
        let mut rewritten = None;
        for hook in &self.0 {
            match hook.before_call(tool, rewritten.as_ref().unwrap_or(arguments)).await {
                HookVerdict::Continue => {}
                HookVerdict::Rewrite(arguments) => rewritten = Some(arguments),
                block @ HookVerdict::Block(_) => return block,
            }
        }
        rewritten.map_or(HookVerdict::Continue, HookVerdict::Rewrite)
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hooks", self.0.len())
    }
}

#[cfg(test)]
impl Hooks {
    pub(crate) fn for_test(hooks: Vec<Arc<dyn Hook>>) -> Self {
        Self(hooks)
    }
}
