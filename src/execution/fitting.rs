//! Fits answers into the limits of a call and of a round. What is cut out is kept in a file of
//! the session, which the model can read.

use std::sync::Arc;

use crate::blocking::RESOLVING;
use crate::session_files::SessionFiles;
use crate::tools::answer::{AnswerText, Kept};
use crate::tools::session_context::SessionContext;

/// Begins the names of the files.
const KIND: &str = "answer";

/// Hexadecimal digits of the hash in a name.
const DIGITS: usize = 16;

/// Cuts the body of an answer to `max_body` characters.
pub(crate) async fn fit(text: &mut AnswerText, max_body: usize, session: &SessionContext) {
    let kept = match (text.body_to_keep(max_body), &session.files) {
        (Some(body), Some(files)) => keep(body.to_owned(), Arc::clone(files)).await,
        _ => Kept::Nowhere,
    };
    text.fit(max_body, kept);
}

async fn keep(body: String, files: Arc<SessionFiles>) -> Kept {
    match RESOLVING.run(move || files.keep(&stem_of(&body), &body)).await {
        Ok(Ok(path)) => Kept::At(path),
        Ok(Err(error)) => Kept::Not(error.to_string()),
        Err(overloaded) => Kept::Not(overloaded.to_string()),
    }
}

/// Names the file after what it holds: an answer that comes again is kept once, and reads the same
/// to the model.
fn stem_of(body: &str) -> String {
    let hash = blake3::hash(body.as_bytes()).to_hex();
    format!("{KIND}_{}", &hash[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_what_the_file_holds() {
        assert_eq!(stem_of("body"), stem_of("body"));
        assert_ne!(stem_of("body"), stem_of("other"));
    }
}
