//! Shows a person the change that a tool would make to a file.

use std::borrow::Cow;

use crate::files::encoding::Encoding;
use crate::files::{FileSnapshot, patch};
use crate::markdown;
use crate::workspace::Target;

/// The file's real path, and the difference between what it holds and `new`, as Markdown.
pub(super) fn shown(target: &Target, current: Option<&FileSnapshot>, new: &[u8]) -> String {
    let path = markdown::code(&target.real_path().display().to_string());
    let by_link = if target.path() == target.real_path() {
        String::new()
    } else {
        format!(" (by the link {})", markdown::code(&target.path().display().to_string()))
    };
    let old = current.map_or(&b""[..], |current| &current.bytes);
    let (old_text, new_text) = (decoded(old, old), decoded(old, new));
    let kind = if current.is_some() { "changes" } else { "makes the new file" };
    let head = format!("{kind} {path}{by_link}\n\n");
    match patch::between(old_text.as_bytes(), new_text.as_bytes()) {
        None => format!(
            "{head}The change is too large to show: {} bytes become {}.\n",
            old.len(),
            new.len()
        ),
        Some(hunks) if hunks.is_empty() && old == new => {
            format!("{head}The contents stay the same: {} bytes.\n", new.len())
        }
        Some(hunks) if hunks.is_empty() => {
            format!(
                "{head}Only the file's form changes: {} bytes become {}.\n",
                old.len(),
                new.len()
            )
        }
        Some(hunks) => format!("{head}{}", markdown::fence("diff", &patch::preview(&hunks))),
    }
}

/// `bytes` as text, in the encoding of the file that holds `current`.
fn decoded<'a>(current: &[u8], bytes: &'a [u8]) -> Cow<'a, str> {
    match Encoding::to_keep(current) {
        Ok(encoding) if !encoding.is_utf_8() => Cow::Owned(encoding.decode(bytes).0.into_owned()),
        _ => String::from_utf8_lossy(bytes),
    }
}
