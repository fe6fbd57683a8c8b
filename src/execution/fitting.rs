//! Fits answers into the limits of a call and of a round. What is cut out, and what is no text, is
//! kept in a file of the session, which the model can read.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::blocking::RESOLVING;
use crate::session_files::SessionFiles;
use crate::tools::answer::{AnswerText, Kept};
use crate::tools::output::AnswerFile;
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
    match RESOLVING.run(move || files.keep(&stem_of(KIND, body.as_bytes()), &body)).await {
        Ok(Ok(path)) => Kept::At(path),
        Ok(Err(error)) => Kept::Not(error.to_string()),
        Err(overloaded) => Kept::Not(overloaded.to_string()),
    }
}

/// Names the file after what it holds: an answer that comes again is kept once, and reads the same
/// to the model.
fn stem_of(kind: &str, body: &[u8]) -> String {
    let hash = blake3::hash(body).to_hex();
    format!("{kind}_{}", &hash[..DIGITS])
}

/// Keeps the parts of an answer that are neither text nor pictures, and says where each is.
pub(crate) async fn keep_files(
    text: &mut AnswerText,
    files: Vec<AnswerFile>,
    session: &SessionContext,
) {
    for AnswerFile { what, bytes } in files {
        let size = bytes.len();
        let kept = match &session.files {
            None => Err("this session keeps no files".to_owned()),
            Some(files) => keep_bytes(bytes, Arc::clone(files)).await,
        };
        text.close(match kept {
            Ok(path) => format!("[{what}, {size} bytes: kept in {}]", path.display()),
            Err(why) => format!("[{what}, {size} bytes: not kept, {why}]"),
        });
    }
}

async fn keep_bytes(bytes: Bytes, files: Arc<SessionFiles>) -> Result<PathBuf, String> {
    let keep = move || files.keep_bytes(&stem_of("attachment", &bytes), &bytes);
    match RESOLVING.run(keep).await {
        Ok(kept) => kept.map_err(|error| error.to_string()),
        Err(overloaded) => Err(overloaded.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_what_the_file_holds() {
        assert_eq!(stem_of("a", b"body"), stem_of("a", b"body"));
        assert_ne!(stem_of("a", b"body"), stem_of("a", b"other"));
    }
}
