//! Programs of the operator's that watch, change or stop tool calls.
//!
//! The stage stands in the pipeline and is run for every call; no setting brings
//! a hook yet.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

/// What the hooks say of a call before it is judged by the permissions.
#[derive(Debug, PartialEq)]
pub(crate) enum HookVerdict {
    Continue,
    Rewrite(Value),
    #[cfg_attr(not(test), expect(dead_code, reason = "no setting brings a hook yet"))]
    Block(String),
}

/// One hook.
pub(crate) trait Hook: Send + Sync {
    fn before_call<'a>(&'a self, tool: &'a str, arguments: &'a Value)
    -> BoxFuture<'a, HookVerdict>;
}

#[derive(Clone, Default)]
pub(crate) struct Hooks(Vec<Arc<dyn Hook>>);

impl Hooks {
    /// Asks one hook after the other, each seeing what the one before made of the
    /// call; the first that blocks decides.
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
