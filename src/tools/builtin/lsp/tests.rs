use std::fs;
use std::os::unix::fs::symlink;

use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::lsp::{Answer, Answers, Encoding, Found, FoundPlace, FoundSymbol};
use crate::permissions::{ExcludedPaths, SearchLimits};
use crate::tools::tool::test_support::Workspace;

fn place(path: &std::path::Path, line: u32, character: u32) -> FoundPlace {
    let position = serde_json::from_value(json!({ "line": line, "character": character }));
    FoundPlace { path: Some(path.to_owned()), position: position.unwrap(), symbol: None }
}

fn output(workspace: &Workspace, hidden: &ExcludedPaths, found: Found) -> ToolOutput {
    let rendering = Rendering {
        operation: "findReferences",
        answers: Answers {
            answers: vec![Answer {
                server: "server".to_owned(),
                found,
                encoding: Encoding::Utf16,
                is_still_indexing: true,
                malformed: 2,
            }],
            faults: Vec::new(),
        },
        asked_line: Some((LineColumn { line: 1, column: 5 }, "  def f\t(): \u{202e}x".to_owned())),
        shown_path: Some(workspace.path("a.py")),
        working_dir: workspace.root(),
        hidden: Arc::new(hidden.files(SearchLimits::default())),
    };
    rendering.output(&workspace.context().session.workspace)
}

#[test]
fn places_come_with_their_lines_where_those_may_be_read() {
    let workspace = Workspace::new(&[
        ("a.py", "\u{1f600}\u{1f600} x = 1\n"),
        ("state/key", "secret\n"),
        ("in/b.py", "\n\n  y\n"),
    ]);
    let outside = tempfile::tempdir().unwrap();
    let elsewhere = outside.path().canonicalize().unwrap().join("lib.py");
    fs::write(&elsewhere, "nobody may look\n").unwrap();
    symlink(&elsewhere, workspace.path("link.py")).unwrap();
    let symbol = FoundSymbol { name: "y\n".to_owned(), kind: "variable", depth: 1 };
    let found = Found::Places(vec![
        place(&workspace.path("a.py"), 0, 5),
        FoundPlace { symbol: Some(symbol), ..place(&workspace.path("in/b.py"), 2, 2) },
        place(&workspace.path("state/key"), 0, 0),
        place(&elsewhere, 0, 3),
        place(&workspace.path("link.py"), 0, 0),
        place(&workspace.path("gone.py"), 6, 0),
        FoundPlace { path: None, ..place(&elsewhere, 0, 0) },
    ]);
    let output = output(&workspace, &ExcludedPaths::below(&workspace.path("state")), found);
    let text = output.text.to_string().replace(elsewhere.to_str().unwrap(), "$OUTSIDE");
    assert_snapshot!(text, @r"
    a.py:1:4: 😀😀 x = 1
      in/b.py:3:3 variable y: y
    $OUTSIDE:1:4
    $OUTSIDE:1:1
    gone.py:7:1
    (asked about line 1, column 5: def f (): x)
    (1 left out, in files that may not be read)
    (1 left out, in what is no file)
    (2 left out, which server sent malformed)
    (server may be still indexing the project, so there may be more: ask again later)
    ");
    assert_eq!(
        (&output.structured["result_count"], &output.structured["file_count"]),
        (&json!(5), &json!(4))
    );
}

#[test]
fn a_hundred_places_are_shown_and_all_are_counted() {
    let workspace = Workspace::new(&[("a.py", "x\n")]);
    let many = vec![place(&workspace.path("a.py"), 0, 0); 250];
    let output = output(&workspace, &ExcludedPaths::none(), Found::Places(many));
    let text = output.text.to_string();
    assert_eq!(text.lines().filter(|line| line.starts_with("a.py:1:1: x")).count(), 100);
    assert!(text.contains("(150 more are not shown)"), "{text}");
    assert_eq!(output.structured["result_count"], 250);
}

#[test]
fn nothing_is_said_to_be_nothing() {
    let workspace = Workspace::new(&[]);
    let output = output(&workspace, &ExcludedPaths::none(), Found::Text(String::new()));
    assert!(output.text.to_string().starts_with("server found nothing.\n"), "{}", output.text);
}

fn input(json: serde_json::Value) -> LspInput {
    serde_json::from_value(json).unwrap()
}

#[test]
fn operations_are_known_however_they_are_written() {
    let name = |operation: &str| match input(json!({ "operation": operation })).operation() {
        Ok((name, _)) => name.to_owned(),
        Err(error) => error.to_string(),
    };
    for written in ["goToDefinition", "go_to_definition", "goto_definition", "GOTO-DEFINITION"] {
        assert_eq!(name(written), "goToDefinition");
    }
    assert_eq!(name("document_symbol"), "documentSymbol");
    assert!(name("rename").contains("expected one of goToDefinition, findReferences"));
}

#[test]
fn a_place_is_a_line_and_a_symbol_or_a_character() {
    let workspace = Workspace::new(&[("a.py", "def run(runs):\n")]);
    let file = fs::File::open(workspace.path("a.py")).unwrap();
    let document = lsp::read_document(&workspace.path("a.py"), &file).unwrap();
    let place = |arguments: serde_json::Value| {
        let input = input(arguments);
        let (_, operation) = input.operation().unwrap();
        let place = input.place(operation, Some(&document));
        workspace.text(place.map(|place| ToolOutput::text(format!("{place:?}"))))
    };
    let hover = |more: serde_json::Value| {
        let mut arguments = json!({ "operation": "hover" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        place(arguments)
    };
    assert_snapshot!(hover(json!({ "line": 1, "symbol": "runs" })), @"Some(LineColumn { line: 1, column: 9 })");
    assert_snapshot!(hover(json!({ "line": 1, "character": 900 })), @"Some(LineColumn { line: 1, column: 900 })");
    assert_snapshot!(hover(json!({ "line": 1, "symbol": "walk" })), @"Error: line 1 of $WORKSPACE/a.py has no walk: def run(runs):");
    assert_snapshot!(hover(json!({ "line": 1, "symbol": "Runs" })), @"Error: line 1 of $WORKSPACE/a.py has no Runs: def run(runs):. At character 9 the line has U+0072 (r) where symbol has U+0052 (R)");
    assert_snapshot!(hover(json!({ "line": 3, "character": 1 })), @"Error: $WORKSPACE/a.py has 1 lines, so no line 3");
    assert_snapshot!(hover(json!({ "line": 1 })), @"Error: invalid input: `symbol` or `character` is missing: what is meant on that line");
    assert_snapshot!(hover(json!({})), @"Error: invalid input: `line` is missing: the line of the symbol");
    assert_snapshot!(place(json!({ "operation": "workspaceSymbol", "query": " " })), @"Error: invalid input: `query` is missing: the name to look for");
    assert_snapshot!(place(json!({ "operation": "documentSymbol" })), @"None");
}
