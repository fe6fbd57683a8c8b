//! Tests that rules apply to a tool by the access that it declares, and that it gets no other.

use serde_json::Map;

use super::*;
use crate::permissions::{AccessRequest, KnownTool, McpAccess, Permit};
use crate::tools::tool::{Tool, erase};

/// Defines a tool that no rule names, with the access that it declares and the one that it asks
/// for.
macro_rules! tool {
    ($type:ident, $access:ident, $request:expr) => {
        struct $type;

        impl Tool for $type {
            type Input = Map<String, Value>;
            const NAME: &'static str = stringify!($type);
            const ACCESS: AccessKind = AccessKind::$access;
            const DESCRIPTION: &'static str = "Does something.";

            fn access_request(&self, _: &Self::Input, context: &CallContext) -> AccessRequest {
                $request(context)
            }

            fn headline(&self, _: &Self::Input) -> String {
                String::new()
            }

            async fn execute(
                &self,
                _: Self::Input,
                _: Permit,
                _: CallContext,
            ) -> Result<ToolOutput, ToolError> {
                Ok(ToolOutput::text("shown"))
            }
        }
    };
}

tool!(Preview, Read, a_file);
tool!(Peek, None, a_file);
tool!(Look, Mcp, |_| of_server(true));
tool!(Change, Mcp, |_| of_server(false));

fn a_file(context: &CallContext) -> AccessRequest {
    AccessRequest::Read(context.resolve(Some("a.txt".as_ref())))
}

/// A use of an MCP server, which the operator may have marked as reading.
fn of_server(is_read_only: bool) -> AccessRequest {
    let (server, tool) = ("s".to_owned(), "do".to_owned());
    let (server_identity, arguments) = ("1".into(), json!({}));
    AccessRequest::Mcp(McpAccess { server, server_identity, tool, arguments, is_read_only })
}

impl Ground {
    /// Has the two tools of files alone, and these deny rules.
    fn denying(rules: &[&str]) -> Self {
        let mut ground = Self::new();
        let tools = Toolset::new(vec![erase(Preview), erase(Peek)]);
        let known: Vec<KnownTool<'_>> = tools.tools().iter().map(|tool| tool.known()).collect();
        let settings = permissions::PermissionSettings {
            mode: Mode::BypassPermissions,
            deny: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            ..permissions::PermissionSettings::default()
        };
        let workspace = Arc::clone(ground.pipeline.permissions.workspace());
        let permissions =
            Permissions::new(&settings, &known, SandboxMode::Off, workspace, ExcludedPaths::none());
        ground.pipeline.permissions = permissions.unwrap();
        ground.pipeline.tools = tools;
        ground
    }
}

#[tokio::test]
async fn a_new_file_tool_does_not_slip_past_a_rule_against_reading() {
    let free = Ground::denying(&[]);
    assert_eq!(free.call("Preview", "{}").await, "shown");
    let denied = Ground::denying(&["Read"]);
    let offered = denied.pipeline.tools.without_denied(&denied.pipeline.permissions.denied_tools());
    assert_eq!(offered.names().collect::<Vec<_>>(), ["Peek"]);
    let answer = denied.call("Preview", "{}").await;
    assert!(answer.starts_with("Error: not permitted: the rule `Read`"), "{answer}");
}

#[tokio::test]
async fn a_tool_that_declares_less_than_it_does_never_runs() {
    for rules in [&[][..], &["Read"]] {
        let answer = Ground::denying(rules).call("Peek", "{}").await;
        assert!(answer.starts_with("Error: not permitted: Peek declares"), "{answer}");
    }
}

#[tokio::test]
async fn what_may_change_something_has_an_effect() {
    let mut ground = Ground::new();
    let has_effect = async |ground: &Ground, name: &str, input: Value| {
        let call = ToolCall { id: "call_1".into(), name: name.into(), input };
        let admitted = ground.pipeline.admit(call).unwrap();
        match ground.pipeline.judge(admitted, &ground.context, None).await {
            Judged::Permitted(call) => call.has_effect(),
            _ => panic!("{name} is not permitted"),
        }
    };
    for (name, input, expected) in [
        ("Read", json!({ "file_path": "a.txt" }), false),
        ("Glob", json!({ "pattern": "*" }), false),
        ("Write", json!({ "file_path": "b.txt", "content": "" }), true),
        ("Bash", json!({ "command": "ls" }), true),
    ] {
        assert_eq!(has_effect(&ground, name, input).await, expected, "{name}");
    }
    ground.pipeline.tools = Toolset::new(vec![erase(Look), erase(Change)]);
    assert!(!has_effect(&ground, "Look", json!({})).await);
    assert!(has_effect(&ground, "Change", json!({})).await);
}

#[tokio::test]
async fn every_tool_reaches_for_what_it_declares() {
    let ground = Ground::new();
    for tool in ground.pipeline.tools.tools() {
        let call = Arc::clone(tool).parse(smallest(tool.input_schema())).unwrap();
        let reached = call.access_request(&ground.context).kind();
        let may_need_none = matches!(tool.access(), AccessKind::Consent | AccessKind::Fetch)
            && reached == AccessKind::None;
        assert!(reached == tool.access() || may_need_none, "{}", tool.name());
    }
}

/// The smallest value that fits the schema.
fn smallest(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str().unwrap() {
        "string" => json!("x"),
        "array" => {
            let items = usize::try_from(schema["minItems"].as_u64().unwrap_or(1)).unwrap();
            vec![smallest(&schema["items"]); items].into()
        }
        "object" => {
            let required = schema["required"].as_array().into_iter().flatten();
            let member = |name: &Value| {
                let name = name.as_str().unwrap();
                (name.to_owned(), smallest(&schema["properties"][name]))
            };
            required.map(member).collect::<Map<_, _>>().into()
        }
        _ => json!(1),
    }
}
