use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// As Jupyter writes it.
const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title\n",
    "caf\u00e9"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 7,
   "id": "sum",
   "metadata": {"tags": [ 1.10 ]},
   "outputs": [
    {"name": "stdout", "output_type": "stream", "text": ["3\n"]}
   ],
   "source": "1 + 2"
  }
 ],
 "metadata": {"x": 1e2},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

#[track_caller]
fn edited(file: &str, change: CellEdit<'_>) -> String {
    String::from_utf8(edit(file.as_bytes(), change).unwrap().bytes).unwrap()
}

/// Python's `json` writes them.
#[test]
fn what_is_no_number_stays_as_it_is() {
    let before = NOTEBOOK.replace("1e2", "[NaN, -Infinity, \"NaN\"]");
    let change = CellEdit::Replace { cell: "sum", source: "x", kind: None };
    let after = edited(&before, change);
    assert!(after.ends_with(before.split_once("\"metadata\": {\"x\"").unwrap().1));
    assert!(after.contains("\"source\": [\n    \"x\"\n   ]"), "{after}");
}

#[test]
fn a_code_cell_is_replaced_and_loses_its_outputs() {
    let change = CellEdit::Replace { cell: "sum", source: "x = \"é\"\nx", kind: None };
    let text = edited(NOTEBOOK, change);
    let (before, rest) = text.split_once("  },\n").unwrap();
    assert!(NOTEBOOK.starts_with(before));
    assert_snapshot!(rest, @r#"
      {
       "cell_type": "code",
       "execution_count": null,
       "id": "sum",
       "metadata": {"tags": [ 1.10 ]},
       "outputs": [],
       "source": [
        "x = \"é\"\n",
        "x"
       ]
      }
     ],
     "metadata": {"x": 1e2},
     "nbformat": 4,
     "nbformat_minor": 5
    }
    "#);
}

#[test]
fn a_cell_turns_into_another_type() {
    let code = CellEdit::Replace { cell: "intro", source: "1", kind: Some(CellKind::Code) };
    let text = edited(NOTEBOOK, code);
    let cell: Value = serde_json::from_str::<Value>(&text).unwrap()["cells"][0].clone();
    assert_eq!(
        cell,
        json!({
            "cell_type": "code", "execution_count": null, "id": "intro", "metadata": {},
            "outputs": [], "source": ["1"],
        })
    );
    let keys: Vec<_> = cell.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["cell_type", "execution_count", "id", "metadata", "outputs", "source"]);
    let markdown = CellEdit::Replace { cell: "sum", source: "", kind: Some(CellKind::Markdown) };
    let cell = &serde_json::from_str::<Value>(&edited(NOTEBOOK, markdown)).unwrap()["cells"][1];
    assert_eq!(
        *cell,
        json!({ "cell_type": "markdown", "id": "sum", "metadata": { "tags": [1.1] }, "source": [] })
    );
}

#[test]
fn attachments_stay_except_in_code() {
    let text = r#"{"cells":[{"cell_type":"markdown","source":"a","attachments":{"a.png":{}}},{"cell_type":"raw","source":"a"}],"nbformat":4}"#;
    let kept = CellEdit::Replace { cell: "cell-0", source: "b", kind: None };
    assert_eq!(edited(text, kept), text.replacen(r#""a","att"#, r#"["b"],"att"#, 1));
    let code = CellEdit::Replace { cell: "cell-0", source: "b", kind: Some(CellKind::Code) };
    let outcome = edit(text.as_bytes(), code).unwrap();
    assert!(outcome.lost_attachments && !String::from_utf8(outcome.bytes).unwrap().contains("png"));
    let raw = CellEdit::Replace { cell: "cell-1", source: "b", kind: None };
    assert!(edited(text, raw).contains(r#"{"cell_type":"raw","source":["b"]}"#));
}

#[test]
fn cells_are_inserted_behind_another_or_before_all() {
    let insert = |after, kind| CellEdit::Insert { after, source: "a\n", kind };
    let outcome = edit(NOTEBOOK.as_bytes(), insert(Some("intro"), CellKind::Code)).unwrap();
    let again = edit(NOTEBOOK.as_bytes(), insert(Some("intro"), CellKind::Code)).unwrap();
    assert_eq!(again.bytes, outcome.bytes, "the same id every time");
    let text = String::from_utf8(outcome.bytes).unwrap().replace(&outcome.cell, "NEW");
    let (_, rest) = text.split_once("caf").unwrap();
    assert_snapshot!(rest.split_once("\"sum\"").unwrap().0, @r#"
    \u00e9"
       ]
      },
      {
       "cell_type": "code",
       "execution_count": null,
       "id": "NEW",
       "metadata": {},
       "outputs": [],
       "source": [
        "a\n"
       ]
      },
      {
       "cell_type": "code",
       "execution_count": 7,
       "id": 
    "#);
    let first = edit(NOTEBOOK.as_bytes(), insert(None, CellKind::Markdown)).unwrap();
    let text = String::from_utf8(first.bytes).unwrap();
    let new = format!(
        "  {{\n   \"cell_type\": \"markdown\",\n   \"id\": \"{}\",\n   \"metadata\": {{}},\n   \
         \"source\": [\n    \"a\\n\"\n   ]\n  }},\n",
        first.cell
    );
    assert_eq!(text, NOTEBOOK.replacen("  {\n", &(new + "  {\n"), 1));
}

#[test]
fn a_format_without_ids_gets_none() {
    let old = NOTEBOOK.replace("\"nbformat_minor\": 5", "\"nbformat_minor\": 4");
    let change = CellEdit::Insert { after: Some("sum"), source: "", kind: CellKind::Code };
    let outcome = edit(old.as_bytes(), change).unwrap();
    assert_eq!(outcome.cell, "cell-2");
    let text: Value = serde_json::from_slice(&outcome.bytes).unwrap();
    assert_eq!(text["cells"][2].get("id"), None);
}

#[test]
fn a_cell_is_deleted_with_one_comma() {
    let list = |cells: &str| format!("\u{feff}{{\"cells\": [ {cells} ],\n\"nbformat\": 4}}");
    let three = list(r#"{"a":1} , {"b":2} ,{"c":3}"#);
    for (cell, left) in [
        ("cell-0", r#"{"b":2} ,{"c":3}"#),
        ("cell-1", r#"{"a":1} , {"c":3}"#),
        ("cell-2", r#"{"a":1} , {"b":2}"#),
    ] {
        assert_eq!(edited(&three, CellEdit::Delete { cell }), list(left));
    }
    let one = edited(&list("{}"), CellEdit::Delete { cell: "cell-0" });
    assert_eq!(one, "\u{feff}{\"cells\": [],\n\"nbformat\": 4}");
    let insert = CellEdit::Insert { after: None, source: "x", kind: CellKind::Markdown };
    assert_eq!(
        edited(&one, insert),
        "\u{feff}{\"cells\": [{\"cell_type\": \"markdown\", \"metadata\": {}, \"source\": \
         [\"x\"]}],\n\"nbformat\": 4}"
    );
}

/// A layout, as functions from the parts of a notebook to its text.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Jupyter,
    Compact,
    Python,
    Tabs,
    Odd,
}

fn written(cells: &[Value], layout: Layout, minor: u64, mark: bool, tail: &str) -> String {
    let all = json!({ "cells": cells, "metadata": { "k": [1.5, "é"] }, "nbformat": 4,
        "nbformat_minor": minor });
    let pretty = |indent: &[u8]| {
        let mut text = Vec::new();
        let format = serde_json::ser::PrettyFormatter::with_indent(indent);
        let mut writer = serde_json::Serializer::with_formatter(&mut text, format);
        serde::Serialize::serialize(&all, &mut writer).unwrap();
        String::from_utf8(text).unwrap()
    };
    let text = match layout {
        Layout::Jupyter => pretty(b" "),
        Layout::Tabs => pretty(b"\t").replace('\n', "\r\n"),
        Layout::Compact => all.to_string(),
        Layout::Python => {
            let cells: Vec<_> = cells.iter().map(ToString::to_string).collect();
            format!(
                r#"{{"metadata": {{"k": [1.50, "\u00e9"]}}, "nbformat": 4, "cells": [{}], "nbformat_minor": {minor}}}"#,
                cells.join(", ")
            )
        }
        Layout::Odd => {
            let cells: Vec<_> = cells.iter().map(|cell| format!("\n\n  {cell}  ")).collect();
            format!(
                "\n{{ \"nbformat\" :4 , \"cells\"\t:[{}]\n,\n\"nbformat_minor\":{minor} }}",
                cells.join(",")
            )
        }
    };
    format!("{}{text}{tail}", if mark { "\u{feff}" } else { "" })
}

fn any_cell() -> impl Strategy<Value = Value> {
    let id = prop_oneof![
        Just(None),
        "[a-c]".prop_map(Some),
        "cell-[0-3]".prop_map(Some),
        "\\PC{0,5}".prop_map(Some)
    ];
    let kind = prop_oneof![Just("code"), Just("markdown"), Just("raw"), Just("other")];
    (id, kind, "\\PC{0,8}(\n\\PC{0,8})?").prop_map(|(id, kind, source)| {
        let mut cell = json!({ "cell_type": kind, "metadata": { "n": [1, {}] }, "source": source });
        if let Some(id) = id {
            cell["id"] = json!(id);
        }
        if kind == "code" {
            cell["outputs"] = json!([{ "output_type": "stream", "text": ["x\n"] }]);
            cell["execution_count"] = json!(3);
        }
        cell
    })
}

fn any_layout() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Jupyter),
        Just(Layout::Compact),
        Just(Layout::Python),
        Just(Layout::Tabs),
        Just(Layout::Odd)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_byte_outside_of_the_cell_is_kept(
        cells in prop::collection::vec(any_cell(), 0..4),
        layout in any_layout(),
        minor in 4_u64..6,
        mark in any::<bool>(),
        tail in "[\n ]{0,2}",
        mode in 0..3,
        at in 0_usize..4,
        source in "\\PC{0,6}(\n\\PC{0,6})?\n?",
        is_code in any::<bool>(),
    ) {
        let before = written(&cells, layout, minor, mark, &tail);
        let kind = if is_code { CellKind::Code } else { CellKind::Markdown };
        let name = {
            let notebook = Notebook::parse(before.as_bytes()).unwrap();
            notebook.name_of(at).map(std::borrow::Cow::into_owned)
        };
        let change = match (mode, name.as_deref()) {
            (0, Some(cell)) => CellEdit::Replace { cell, source: &source, kind: Some(kind) },
            (1, Some(cell)) => CellEdit::Delete { cell },
            (2, after) => CellEdit::Insert { after, source: &source, kind },
            _ => return Ok(()),
        };
        let outcome = edit(before.as_bytes(), change).unwrap();
        let after = String::from_utf8(outcome.bytes).unwrap();

        let old = Notebook::parse(before.as_bytes()).unwrap();
        let new = Notebook::parse(after.as_bytes()).unwrap();
        let raw = |notebook: &Notebook<'_>| -> Vec<String> {
            notebook.cells.iter().map(|cell| cell.json.get().to_owned()).collect()
        };
        let (mut expected, got) = (raw(&old), raw(&new));
        let place = match change {
            CellEdit::Insert { after: None, .. } => 0,
            CellEdit::Insert { .. } => at + 1,
            _ => at,
        };
        match change {
            CellEdit::Delete { .. } => drop(expected.remove(place)),
            CellEdit::Insert { .. } => expected.insert(place, got[place].clone()),
            CellEdit::Replace { .. } => expected[place].clone_from(&got[place]),
        }
        prop_assert_eq!(&got, &expected, "all other cells are kept");
        // Outside of the list too.
        let (old_list, new_list) = (old.span(old.list.get()), new.span(new.list.get()));
        prop_assert_eq!(&old.text[..old_list.start], &new.text[..new_list.start]);
        prop_assert_eq!(&old.text[old_list.end..], &new.text[new_list.end..]);
        prop_assert_eq!(after.starts_with('\u{feff}'), mark);
        // And between the cells: what was there and what is there now share all but the cell.
        let common = before.bytes().zip(after.bytes()).take_while(|(one, other)| one == other);
        let start = common.count();
        let ends = before.bytes().rev().zip(after.bytes().rev());
        let end = ends.take_while(|(one, other)| one == other).count();
        let removed = before.len().saturating_sub(start + end);
        let limit = match change {
            CellEdit::Insert { .. } if old.cells.is_empty() => old_list.len(),
            CellEdit::Insert { .. } => 0,
            CellEdit::Replace { .. } => old.cells[at].json.get().len(),
            CellEdit::Delete { .. } => old_list.len(),
        };
        prop_assert!(removed <= limit, "{removed} bytes went of {limit}: {before} → {after}");

        if let CellEdit::Delete { .. } = change {
            return Ok(());
        }
        let cell: Value = serde_json::from_str(&got[place]).unwrap();
        let lines = cell["source"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
        prop_assert_eq!(lines.collect::<String>(), source);
        prop_assert_eq!(&cell["cell_type"], if is_code { "code" } else { "markdown" });
        prop_assert_eq!(cell.get("outputs").cloned(), is_code.then(|| json!([])));
        prop_assert_eq!(cell.get("execution_count").cloned(), is_code.then_some(Value::Null));
        if new.name_of(place).is_some() {
            prop_assert_eq!(new.find(&outcome.cell).ok(), Some(place));
        }
    }

    #[test]
    fn whatever_the_bytes_the_result_is_a_notebook_or_nothing_is_done(
        flips in prop::collection::vec((0..NOTEBOOK.len(), any::<u8>()), 0..3),
        cut in prop_oneof![Just(NOTEBOOK.len()), 0..NOTEBOOK.len()],
        mode in 0_usize..3,
    ) {
        let mut file = NOTEBOOK.as_bytes()[..cut].to_vec();
        for (at, byte) in flips {
            if let Some(there) = file.get_mut(at) {
                *there = byte;
            }
        }
        let change = match mode {
            0 => CellEdit::Replace { cell: "cell-1", source: "\u{2028}\"", kind: None },
            1 => CellEdit::Insert { after: Some("cell-0"), source: "a\nb", kind: CellKind::Code },
            _ => CellEdit::Delete { cell: "cell-0" },
        };
        let Ok(outcome) = edit(&file, change) else { return Ok(()) };
        let (before, after) = (Notebook::parse(&file).unwrap(), Notebook::parse(&outcome.bytes));
        let count = [before.cells.len(), before.cells.len() + 1, before.cells.len() - 1];
        prop_assert_eq!(after.unwrap().cells.len(), count[mode]);
    }
}
