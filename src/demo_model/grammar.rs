//! Parses a sentence into rounds of tool calls.
//!
//! Commands joined by "and" are called in one round; those after "then" in the next.
//! Arguments may be quoted. Verbs may be in upper or lower case.

mod clause;
mod command;
mod word;

use std::collections::HashSet;

use serde_json::{Value, json};

use self::clause::clauses;

/// A tool call that the sentence asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// What a clause asks for.
#[derive(Debug)]
enum Command {
    Call(Call),
    /// Takes two rounds, because an edit needs the file read first.
    Replace {
        file: String,
        old: String,
        new: String,
    },
    /// Takes two rounds: plan mode is entered, then the plan is shown.
    Plan(String),
}

/// The calls of `sentence`, round by round. The error is the part that was not
/// understood.
pub(super) fn rounds(sentence: &str) -> Result<Vec<Vec<Call>>, String> {
    let mut groups: Vec<Vec<Command>> = Vec::new();
    for clause in clauses(sentence)? {
        let commands = clause.commands().ok_or_else(|| clause.text().to_owned())?;
        match groups.last_mut() {
            Some(group) if !clause.is_next_round => group.extend(commands),
            _ => groups.push(commands),
        }
    }
    Ok(schedule(groups))
}

/// Assigns the groups to rounds. A group takes as many rounds as its longest command.
fn schedule(groups: Vec<Vec<Command>>) -> Vec<Vec<Call>> {
    let mut rounds = Vec::new();
    let mut read = HashSet::new();
    for group in groups {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for command in group {
            match command {
                Command::Call(call) => {
                    read.extend(file_read(&call));
                    first.push(call);
                }
                Command::Plan(what) => {
                    first.push(call("EnterPlanMode", json!({})));
                    let plan = format!("# Plan\n\n1. Look at what is there.\n2. {what}\n");
                    second.push(call("ExitPlanMode", json!({ "plan": plan })));
                }
                Command::Replace { file, old, new } => {
                    if read.insert(file.clone()) {
                        first.push(call("Read", json!({ "file_path": file })));
                    }
                    let input = json!({ "file_path": file, "old_string": old, "new_string": new });
                    second.push(call("Edit", input));
                }
            }
        }
        rounds.extend([first, second].into_iter().filter(|round| !round.is_empty()));
    }
    rounds
}

fn file_read(call: &Call) -> Option<String> {
    let file = call.arguments.get("file_path")?.as_str()?;
    (call.tool == "Read").then(|| file.to_owned())
}

fn call(tool: &str, arguments: Value) -> Call {
    Call { tool: tool.to_owned(), arguments }
}

#[cfg(test)]
mod tests;
