//! Tells the model that a file was written in place.

use super::tool::ToolOutput;
use crate::files::ChangeOutcome;

/// The answer to a change of a file, with a line if the file could not be replaced.
pub(crate) fn answer(outcome: ChangeOutcome<ToolOutput>) -> ToolOutput {
    let ChangeOutcome { mut answer, in_place } = outcome;
    if let Some(why) = in_place {
        answer.text.close(format!(
            "The file was written in place, because {}: it is the same file as before, so its other \
             names show the change too.",
            why.reason()
        ));
    }
    answer
}
