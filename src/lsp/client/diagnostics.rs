//! Sorts what a server finds wrong with a file into what a change brought and what was there
//! before. Pure.

use std::collections::HashMap;

use gen_lsp_types::Range;
use serde::Deserialize;

use super::lists::Listed;
use super::positions::{self, Encoding, LineColumn};
use super::texts::{MarkedText, TextOrNumber};
use crate::text;

/// Diagnostics of one file that are kept. Nobody reads more, and a server could send without end.
pub(super) const MAX_KEPT: usize = 500;

/// New diagnostics that an answer shows.
const MAX_SHOWN: usize = 20;

/// Characters of a message that are kept.
const MAX_MESSAGE_CHARS: usize = 500;

/// What people are told of a diagnostic. The rest may be very long, and is not read.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Diagnostic {
    range: Range,
    severity: Option<i64>,
    code: Option<TextOrNumber>,
    message: MarkedText,
}

/// A list of a server for one file.
pub(super) type Diagnostics = Listed<Diagnostic, MAX_KEPT>;

/// How bad it is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Severity {
    Error,
    Warning,
    Information,
    Hint,
}

/// Something that a server finds wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) place: LineColumn,
    pub(crate) message: String,
    pub(crate) code: Option<String>,
    /// The text of its line, by which it is known again when the line has moved.
    line: String,
}

/// What a server says of a file after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangedFindings {
    /// What to show, the worst first.
    pub(crate) new: Vec<Finding>,
    /// Those that are left out of `new`.
    pub(crate) more: usize,
    /// Those that were there before.
    pub(crate) old: usize,
    /// Those that are none of the protocol's.
    pub(crate) malformed: usize,
}

/// All that a server finds wrong with a file now.
#[derive(Clone, Debug)]
pub(super) struct Findings {
    pub(super) all: Vec<Finding>,
    /// Those besides that are none of the protocol's.
    pub(super) malformed: usize,
}

impl Diagnostics {
    /// Without what nobody is shown of long messages.
    pub(super) fn shortened(mut self) -> Self {
        let cut = |text: &mut String| {
            let kept = text::first_chars(text, MAX_MESSAGE_CHARS).len();
            text.truncate(kept);
            text.shrink_to_fit();
        };
        for Diagnostic { code, message, .. } in &mut self.items {
            cut(&mut message.value);
            message.language = None;
            if let Some(TextOrNumber(code)) = code {
                cut(code);
            }
        }
        self
    }
}

impl Severity {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "information",
            Self::Hint => "hint",
        }
    }

    /// One that is missing, or none of the protocol's, counts as an error: the text says what
    /// it is.
    fn from_protocol(severity: Option<i64>) -> Self {
        match severity {
            Some(2) => Self::Warning,
            Some(3) => Self::Information,
            Some(4) => Self::Hint,
            _ => Self::Error,
        }
    }
}

/// The findings in a text. Hints are how editors grey out code; nothing is wrong there.
pub(super) fn findings(text: &str, encoding: Encoding, found: &Diagnostics) -> Findings {
    let finding = |diagnostic: &Diagnostic| {
        let place = encoding.to_line_column(text, diagnostic.range.start);
        Finding {
            severity: Severity::from_protocol(diagnostic.severity),
            place,
            message: text::shown_line(&diagnostic.message.value),
            code: diagnostic.code.as_ref().map(|code| text::shown_line(&code.0)),
            line: positions::line(text, place.line).unwrap_or_default().trim().to_owned(),
        }
    };
    let all = found.items.iter().map(finding);
    let all = all.filter(|finding| finding.severity < Severity::Hint).collect();
    Findings { all, malformed: found.malformed }
}

/// Compares with the findings before the change. `None`: nobody knows them, so all count as new.
pub(super) fn changed(before: Option<&[Finding]>, now: Findings) -> ChangedFindings {
    let mut known: HashMap<_, usize> = HashMap::new();
    for finding in before.unwrap_or_default() {
        *known.entry(key(finding)).or_default() += 1;
    }
    let mut is_new = |finding: &Finding| match known.get_mut(&key(finding)) {
        Some(left) if 0 < *left => {
            *left -= 1;
            false
        }
        _ => true,
    };
    let Findings { all: now, malformed } = now;
    let all = now.len();
    let mut new: Vec<Finding> = now.into_iter().filter(|finding| is_new(finding)).collect();
    let old = all - new.len();
    new.sort_by_key(|finding| (finding.severity, finding.place));
    let more = new.len().saturating_sub(MAX_SHOWN);
    new.truncate(MAX_SHOWN);
    ChangedFindings { new, more, old, malformed }
}

fn key(finding: &Finding) -> (Severity, String, Option<String>, String) {
    let Finding { severity, message, code, line, .. } = finding.clone();
    (severity, message, code, line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(text: &str, list: &[(i32, u32, u32, &str)]) -> Findings {
        let list: Vec<serde_json::Value> = list
            .iter()
            .map(|(line, character, severity, message)| {
                let place = json!({ "line": line, "character": character });
                let range = json!({ "start": place, "end": place });
                json!({ "range": range, "severity": severity, "message": message, "code": "c1" })
            })
            .collect();
        let list = serde_json::to_string(&list).unwrap();
        findings(text, Encoding::Utf16, &serde_json::from_str(&list).unwrap())
    }

    fn shown(changed: &ChangedFindings) -> Vec<String> {
        let one = |it: &Finding| format!("{}:{} {}", it.place.line, it.severity.word(), it.message);
        changed.new.iter().map(one).collect()
    }

    #[test]
    fn what_has_only_moved_is_not_new() {
        let before = found("a\nb\n", &[(0, 0, 1, "bad"), (1, 0, 2, "odd")]);
        let now = found("new\na\nb\n", &[(0, 0, 2, "odd"), (1, 0, 1, "bad"), (2, 0, 2, "odd")]);
        let changed = super::changed(Some(&before.all), now);
        assert_eq!((shown(&changed), changed.old), (vec!["1:warning odd".to_owned()], 2));
    }

    #[test]
    fn the_same_again_is_new() {
        let before = found("a\n", &[(0, 0, 1, "bad")]);
        let now = found("a\na\n", &[(0, 0, 1, "bad"), (1, 0, 1, "bad")]);
        let changed = super::changed(Some(&before.all), now);
        assert_eq!((changed.new.len(), changed.old), (1, 1));
    }

    #[test]
    fn errors_come_first_and_hints_not_at_all() {
        let all =
            [(2, 0, 2, "w"), (1, 0, 4, "grey"), (1, 0, 3, "i"), (3, 0, 1, "e"), (0, 0, 9, "?")];
        let changed = super::changed(None, found("1\n2\n3\n4\n", &all));
        assert_eq!(shown(&changed), ["1:error ?", "4:error e", "3:warning w", "2:information i"]);
    }

    #[test]
    fn a_malformed_one_is_counted_and_the_others_are_told() {
        let changed = super::changed(None, found("a\n", &[(-1, 0, 1, "odd"), (0, 0, 1, "bad")]));
        assert_eq!((shown(&changed), changed.malformed), (vec!["1:error bad".to_owned()], 1));
    }

    #[test]
    fn twenty_are_shown_and_the_rest_counted() {
        let many: Vec<_> = (0..700).map(|line| (line, 0, 1, "x\n\ny\u{202e}")).collect();
        let changed = super::changed(None, found("", &many));
        assert_eq!((changed.new.len(), changed.more, changed.old), (20, 480, 0));
        assert!(!changed.new[0].message.contains(['\n', '\u{202e}']));
    }
}
