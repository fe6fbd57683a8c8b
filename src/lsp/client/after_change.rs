//! What a tool that has changed a file adds to its answer.

use serde_json::{Value, json};

use super::diagnostics::{ChangedFindings, Finding};

/// What a server says of a file after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AfterChange {
    Findings {
        server: String,
        findings: ChangedFindings,
    },
    /// It has not answered yet, which is not "nothing is wrong".
    Pending {
        server: String,
    },
}

impl AfterChange {
    /// For programs.
    pub(crate) fn structured(&self) -> Value {
        match self {
            Self::Pending { server } => json!({ "server": server, "pending": true }),
            Self::Findings { server, findings } => {
                let ChangedFindings { new, more, old, malformed } = findings;
                let new: Vec<Value> = new.iter().map(in_json).collect();
                json!({
                    "server": server, "new": new, "more": more, "old": old, "malformed": malformed,
                })
            }
        }
    }

    /// For the model: a first line, and one for each new finding.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self {
            Self::Pending { server } => {
                vec![format!("Diagnostics pending: {server} has not looked at the change yet.")]
            }
            Self::Findings { server, findings } => {
                let head = format!("Diagnostics ({server}): {}", head(findings));
                [head].into_iter().chain(findings.new.iter().map(line)).collect()
            }
        }
    }
}

fn head(findings: &ChangedFindings) -> String {
    let ChangedFindings { new, more, old, malformed } = findings;
    let count = new.len() + more;
    let new = match (count, more) {
        (0, _) => "nothing new".to_owned(),
        (_, 0) => format!("{count} new"),
        _ => format!("{count} new, the first {} shown", new.len()),
    };
    let mut head = new;
    for (count, what) in [(old, "there before"), (malformed, "could not be read")] {
        if 0 < *count {
            head = format!("{head}; {count} {what}");
        }
    }
    head
}

fn in_json(finding: &Finding) -> Value {
    let Finding { severity, place, message, code, .. } = finding;
    json!({
        "severity": severity.word(),
        "line": place.line,
        "column": place.column,
        "message": message,
        "code": code,
    })
}

fn line(finding: &Finding) -> String {
    let Finding { severity, place, message, code, .. } = finding;
    let code = code.as_ref().map(|code| format!(" [{code}]")).unwrap_or_default();
    format!("{}:{} {}: {message}{code}", place.line, place.column, severity.word())
}
