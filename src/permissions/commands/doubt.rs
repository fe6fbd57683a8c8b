//! Defines why a command line is not understood.

use std::fmt;

/// Why not every part of a line is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    Syntax,
    Characters,
    Long,
    ManyParts,
    Deep,
    Slow,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "the command line does not parse",
            Self::Characters => "the command line holds control characters, unusual blanks or braces around foreign letters",
            Self::Long => "the command line is longer than 10,000 characters",
            Self::ManyParts => "the command line has more than 20 parts",
            Self::Deep => "the command line is nested too deep",
            Self::Slow => "the command line takes too long to parse",
        })
    }
}
