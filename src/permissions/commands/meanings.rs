//! Knows what gives the name of a program another meaning for the rest of the line.

use super::matching::is_harmless;
use super::part::Part;
use super::reach::Reached;

/// Builtins that do so, by variables such as `PATH` too. One that runs any code, such as `source`,
/// needs a rule of its own, which then covers whatever that code does.
const CHANGING: [&str; 16] = [
    "alias",
    "declare",
    "enable",
    "export",
    "getopts",
    "hash",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "shopt",
    "typeset",
    "unset",
];

/// Whether names may mean other programs behind one of the parts.
pub(super) fn change(reached: &[Reached]) -> bool {
    reached.iter().any(|reached| changes(&reached.part))
}

fn changes(part: &Part) -> bool {
    let is_assignment = part.words.is_empty() && !part.assignments.iter().all(is_harmless);
    let sets_variable = || part.words.iter().any(|word| word.unquoted.starts_with("-v"));
    is_assignment
        || part.is_evaluation
        || part.program().is_some_and(|name| {
            // It prints, unless it is told to set a variable.
            CHANGING.contains(&name) && (name != "printf" || sets_variable())
        })
}
