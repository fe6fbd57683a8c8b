//! Fits answers into the limits of a call and of a round. What is cut out is kept in a file of
//! the session, which the model can read.

use std::io::{self, Write as _};
use std::sync::Arc;

use crate::blocking::RESOLVING;
use crate::session_files::SessionFiles;
use crate::tools::answer::{AnswerText, Kept};
use crate::tools::tool::SessionContext;

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
    match RESOLVING.run(move || write(&body, &files)).await {
        Ok(Ok(kept)) => kept,
        Ok(Err(error)) => Kept::Not(error.to_string()),
        Err(overloaded) => Kept::Not(overloaded.to_string()),
    }
}

/// Writes the body into a file that is named after what it holds: an answer that comes again is
/// kept once, and reads the same to the model.
fn write(body: &str, files: &Arc<SessionFiles>) -> io::Result<Kept> {
    if files.max_bytes() < body.len() as u64 {
        return Err(io::Error::other("it is longer than tools.spill_bytes"));
    }
    let hash = blake3::hash(body.as_bytes()).to_hex();
    let stem = format!("{KIND}_{}", &hash[..DIGITS]);
    let mut created = match files.create(&stem, body.len() as u64) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let path = files.path_of(&stem);
            let is_whole = files.open(&path)?.metadata()?.len() == body.len() as u64;
            return if is_whole { Ok(Kept::At(path)) } else { Err(error) };
        }
        created => created?,
    };
    match created.file.write_all(body.as_bytes()) {
        Ok(()) => Ok(Kept::At(created.path.clone())),
        Err(error) => {
            created.remove();
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::session_files::test_support::session_files;

    #[test]
    fn an_answer_that_comes_again_is_kept_once() {
        let state_dir = tempfile::tempdir().unwrap();
        let files = session_files(state_dir.path(), 1000);
        let first = write("body", &files).unwrap();
        assert_eq!(write("body", &files).unwrap(), first);
        let Kept::At(path) = first else { panic!("{first:?}") };
        assert_eq!(fs::read(&path).unwrap(), b"body");
        assert_ne!(write("other", &files).unwrap(), Kept::At(path.clone()));
        fs::write(&path, "changed").unwrap();
        assert!(write("body", &files).is_err());
        let too_long = write(&"x".repeat(1001), &files).unwrap_err();
        assert_eq!(too_long.to_string(), "it is longer than tools.spill_bytes");
    }
}
