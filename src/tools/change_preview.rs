//! Shows a person the change that a tool would make to a file.

use std::borrow::Cow;

use crate::encoding::Encoding;
use crate::files::patch::{self, DiffPreview, Hunk};
use crate::files::{Declaration, FileSnapshot};
use crate::markdown;
use crate::workspace::Target;

/// The file's real path, and the difference between what it holds and `new`, as Markdown.
pub(super) fn shown(
    target: &Target,
    current: Option<&FileSnapshot>,
    new: &[u8],
    declaration: Option<Declaration>,
) -> String {
    let path = markdown::path(target.real_path());
    let by_link = if target.path() == target.real_path() {
        String::new()
    } else {
        format!(" (by the link {})", markdown::path(target.path()))
    };
    let old = current.map_or(&b""[..], |current| &current.bytes);
    let encoding = Encoding::to_keep(old, declaration.map(Declaration::encoding));
    let encoding = encoding.unwrap_or(Encoding::UTF_8);
    let (old_text, new_text) = (decoded(encoding, old), decoded(encoding, new));
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
        Some(hunks) => {
            let diff = patch::preview(&hunks);
            let shown = markdown::fence("diff", &diff.text);
            format!("{kind} {path}{by_link}{}\n\n{}{shown}", counted(&hunks), cut(&diff))
        }
    }
}

/// Says above the diff how much of it is not shown.
fn cut(diff: &DiffPreview) -> String {
    if diff.hidden == 0 {
        return String::new();
    }
    format!("**The last {} bytes of this change are not shown here.**\n\n", diff.hidden)
}

/// How many lines come and go, where they are so many that some may be out of sight.
fn counted(hunks: &[Hunk]) -> String {
    let added = patch::count_marked(hunks, '+');
    let removed = patch::count_marked(hunks, '-');
    if added + removed <= MANY_LINES {
        return String::new();
    }
    format!(": {added} lines added, {removed} removed")
}

/// From so many changed lines on their number is told.
const MANY_LINES: usize = 20;

/// `bytes` as text.
fn decoded(encoding: Encoding, bytes: &[u8]) -> Cow<'_, str> {
    if encoding.is_utf_8() {
        return String::from_utf8_lossy(bytes);
    }
    Cow::Owned(encoding.decode(bytes).0.into_owned())
}
