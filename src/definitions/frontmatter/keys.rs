//! Knows the keys of a frontmatter that are read, and what their values are.

/// What the value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Text,
    Names,
    Number,
    Flag,
}

/// The keys whose values are read.
const KNOWN: [(&str, ValueKind); 11] = [
    ("name", ValueKind::Text),
    ("description", ValueKind::Text),
    ("argument-hint", ValueKind::Text),
    ("model", ValueKind::Text),
    ("permissionMode", ValueKind::Text),
    ("tools", ValueKind::Names),
    ("disallowedTools", ValueKind::Names),
    ("allowed-tools", ValueKind::Names),
    ("maxTurns", ValueKind::Number),
    ("disable-model-invocation", ValueKind::Flag),
    ("user-invocable", ValueKind::Flag),
];

/// What the value of this key is. `None`: it is not read.
pub(super) fn kind_of(key: &str) -> Option<ValueKind> {
    KNOWN.iter().find(|(known, _)| *known == key).map(|(_, kind)| *kind)
}

impl ValueKind {
    /// What a person is to write, behind the word `takes`.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Names => "a list of names, or names with commas between them",
            Self::Number => "a whole number from 1 on",
            Self::Flag => "true or false",
        }
    }
}
