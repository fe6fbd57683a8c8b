//! Says how a call is made without a question.

use std::fmt;

/// What avoids a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// What the operator can set: the end of a sentence.
    Operator(String),
    /// What the model can call instead, in a sentence.
    Instead(&'static str),
    /// Nothing: each such call is approved by itself.
    Nothing,
}

impl Remedy {
    /// Both are needed.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Operator(first), Self::Operator(second)) => {
                Self::Operator(format!("{first}, and {second}"))
            }
            (Self::Operator(_), other) | (other, _) => other,
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator(how) => write!(f, "The operator can allow it {how}"),
            Self::Instead(sentence) => f.write_str(sentence),
            Self::Nothing => {
                f.write_str("No rule and no mode allows it: a person approves it call by call")
            }
        }
    }
}
