//! What becomes of everyday commands in each mode and at each level: `docs/everyday.md`.

use serde::Deserialize;

use super::*;

/// The commands of `tests/corpus/everyday.json`.
#[derive(Deserialize)]
struct Everyday {
    reads: Vec<String>,
    builds_and_edits: Vec<String>,
    should_ask: Vec<String>,
}

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It runs, confined to reading.
    Reads,
    Runs,
    Asks,
    Denied,
}

impl Outcome {
    fn letter(self) -> char {
        match self {
            Self::Reads => 'r',
            Self::Runs => 'a',
            Self::Asks => '?',
            Self::Denied => 'x',
        }
    }

    fn is_unasked(self) -> bool {
        matches!(self, Self::Reads | Self::Runs)
    }
}

/// From tight to wide.
const MODES: [Mode; 5] =
    [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions];

/// A sandbox, or that there is none.
struct Column {
    name: &'static str,
    change: Situation,
}

const COLUMNS: [Column; 5] = [
    Column { name: "bwrap", change: |ground| ground.at_level(Level::Bwrap, false) },
    Column { name: "bwrap, `auto_allow`", change: |ground| ground.at_level(Level::Bwrap, true) },
    Column { name: "landlock", change: |ground| ground.at_level(Level::Landlock, false) },
    Column { name: "none", change: Ground::without_sandbox },
    Column { name: "off", change: |ground| ground },
];

/// A project without secrets.
fn project() -> Ground {
    let ground = Ground::new().without_state();
    for name in ["ws/.env", "ws/alias", "ws/link"] {
        fs::remove_file(ground.path(name)).unwrap();
    }
    for name in ["ws/README.md", "ws/src/main.rs", "ws/package.json", "ws/log.txt", "ws/a.txt"] {
        fs::write(ground.path(name), "x").unwrap();
    }
    ground
}

/// The outcomes of one line: for each column those of each mode.
type Row = [[Outcome; MODES.len()]; COLUMNS.len()];

async fn outcome(ground: &Ground, permissions: &Permissions, line: &str) -> Outcome {
    let request = AccessRequest::Command {
        line: line.to_owned(),
        directory: ground.path("ws"),
        outside_sandbox: false,
        lacked: None,
    };
    let judged = permissions.judge("Bash", AccessKind::Command, request, &Grants::default()).await;
    match judged {
        Ok(Judgement::Permitted(permit)) if permit.reads_only() => Outcome::Reads,
        Ok(Judgement::Permitted(_)) => Outcome::Runs,
        Ok(Judgement::Asks(_)) => Outcome::Asks,
        Err(_) => Outcome::Denied,
    }
}

async fn rows(lines: &[String]) -> Vec<Row> {
    let mut rows = vec![[[Outcome::Denied; MODES.len()]; COLUMNS.len()]; lines.len()];
    for (column, Column { change, .. }) in COLUMNS.iter().enumerate() {
        let mut ground = change(project());
        for (mode, name) in MODES.iter().enumerate() {
            ground.mode = *name;
            let permissions = ground.permissions();
            for (row, line) in rows.iter_mut().zip(lines) {
                row[column][mode] = outcome(&ground, &permissions, line).await;
            }
        }
    }
    rows
}

const HEADING: &str = "# Everyday commands, and what becomes of them

Made by `UPDATE_EVERYDAY=1 cargo test --lib everyday`, from the commands of `tests/corpus/everyday.json` in a project without
secrets and without rules. Each cell has a letter for each mode: plan, dontAsk, default, acceptEdits, bypassPermissions.

| letter | the command |
|---|---|
| `r` | runs unasked, confined to reading |
| `a` | runs unasked, with what the sandbox leaves it |
| `?` | asks a person |
| `x` | is denied |

The columns are the levels of the [sandbox](sandbox.md): bwrap, the same with `sandbox.auto_allow`, landlock, none although one
is wanted, and `sandbox.mode = \"off\"`.
";

fn section(title: &str, lines: &[String], rows: &[Row]) -> String {
    let names = COLUMNS.map(|column| column.name).join(" | ");
    let mut text = format!("\n## {title}\n\n| command | {names} |\n|---|---|---|---|---|---|\n");
    for (line, row) in lines.iter().zip(rows) {
        let line = line.replace('|', "\\|");
        let _ = write!(text, "| `{line}` |");
        for cell in row {
            let letters: String = cell.iter().map(|outcome| outcome.letter()).collect();
            let _ = write!(text, " `{letters}` |");
        }
        text.push('\n');
    }
    text
}

#[tokio::test]
async fn g7_everyday_commands_have_the_verdicts_of_the_table() {
    let everyday = include_str!("../../../../tests/corpus/everyday.json");
    let everyday: Everyday = serde_json::from_str(everyday).unwrap();
    let Everyday { reads, builds_and_edits, should_ask } = everyday;
    assert_eq!((reads.len(), builds_and_edits.len(), should_ask.len()), (87, 47, 16));
    let reading = rows(&reads).await;
    let building = rows(&builds_and_edits).await;
    let dangerous = rows(&should_ask).await;
    let mut table = HEADING.to_owned();
    table.push_str(&section("They only read", &reads, &reading));
    table.push_str(&section("They build and edit", &builds_and_edits, &building));
    table.push_str(&section("They should ask", &should_ask, &dangerous));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/everyday.md");
    if std::env::var_os("UPDATE_EVERYDAY").is_some() {
        fs::write(path, &table).unwrap();
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    assert!(written == table, "docs/everyday.md is old: UPDATE_EVERYDAY=1 makes it anew");

    let default = 2;
    let asking = |column: usize| {
        let asks = |(_, row): &(&String, &Row)| !row[column][default].is_unasked();
        let lines = reads.iter().zip(&reading).filter(asks);
        lines.map(|(line, _)| line.as_str()).collect::<Vec<_>>()
    };
    let (bwrap, landlock) = (asking(0), asking(2));
    assert!(bwrap.len() <= 3, "{bwrap:?}");
    assert!(landlock.len() <= 8, "{landlock:?}");
    for (line, row) in should_ask.iter().zip(&dangerous) {
        check_dangerous(line, row);
    }
}

/// A dangerous command never runs unasked but in the mode for it, however well it is held.
fn check_dangerous(line: &str, row: &Row) {
    for (cell, Column { name, .. }) in row.iter().zip(COLUMNS) {
        for (outcome, mode) in cell.iter().zip(MODES) {
            let is_edit = mode == Mode::AcceptEdits && line == "rm -rf node_modules";
            let is_accepted = is_edit || mode == Mode::BypassPermissions;
            assert!(is_accepted || !outcome.is_unasked(), "`{line}` at {name} in {mode}");
        }
    }
}
