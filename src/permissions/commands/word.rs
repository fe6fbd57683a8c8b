//! Defines a word of a command line, as the pieces that bash makes it of.

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text that stays as it is, with its quotes removed.
    Text(String),
    /// An unquoted `*`, `?` or `[`.
    Glob(char),
    /// A `~` that stands for the home directory.
    Home,
    /// `$NAME` or `${NAME}`.
    Variable(String),
    /// An expansion whose value is not known, as written.
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The word as written.
    pub(crate) raw: String,
    /// The word with its quotes removed. Expansions stand there as written.
    pub(crate) unquoted: String,
    pub(super) pieces: Vec<Piece>,
    /// Holds a brace expansion, which makes several words of it.
    pub(super) has_braces: bool,
}

impl Word {
    pub(super) fn new(raw: &str, pieces: Vec<Piece>, has_braces: bool) -> Self {
        let unquoted = pieces.iter().map(Piece::written).collect();
        Self { raw: raw.to_owned(), unquoted, pieces, has_braces }
    }

    /// A word that is its text.
    pub(super) fn plain(text: &str) -> Self {
        Self::new(text, vec![Piece::Text(text.to_owned())], false)
    }

    /// A word whose value is known only when the command runs.
    pub(super) fn unknown(written: &str) -> Self {
        Self::new(written, vec![Piece::Unknown(written.to_owned())], false)
    }

    /// The value of the word, if it is known before the command runs.
    pub(crate) fn literal(&self) -> Option<&str> {
        let is_text = |piece: &Piece| matches!(piece, Piece::Text(_));
        (!self.has_braces && self.pieces.iter().all(is_text)).then_some(&self.unquoted)
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.literal() == Some(text)
    }

    /// Whether the word names a program by an expansion, a pattern, or nothing at all.
    pub(super) fn is_uncertain_name(&self) -> bool {
        self.literal().is_none_or(|name| name.is_empty() || name.contains(char::is_whitespace))
    }

    /// The last component of the word, if its value is known: `rm` of `/bin/rm`.
    pub(super) fn base_name(&self) -> Option<&str> {
        self.literal().map(|name| name.rsplit('/').next().unwrap_or(name))
    }

    /// The name and the value, if the word looks like `NAME=value`.
    pub(super) fn as_assignment(&self) -> Option<(&str, &str)> {
        let (name, value) = self.unquoted.split_once('=')?;
        let bare = name.strip_suffix('+').unwrap_or(name);
        let bare = bare.split_once('[').map_or(bare, |(bare, _)| bare);
        is_name(bare).then_some((name, value))
    }

    /// The word without its first `count` bytes of text, if it begins with as much text.
    pub(super) fn without_prefix(&self, count: usize) -> Option<Self> {
        let Some(Piece::Text(first)) = self.pieces.first() else { return None };
        let rest = first.get(count..)?.to_owned();
        let mut pieces = self.pieces.clone();
        if rest.is_empty() {
            pieces.remove(0);
        } else {
            pieces[0] = Piece::Text(rest);
        }
        Some(Self::new(&self.raw, pieces, self.has_braces))
    }
}

impl Piece {
    fn written(&self) -> String {
        match self {
            Self::Text(text) | Self::Unknown(text) => text.clone(),
            Self::Glob(glob) => glob.to_string(),
            Self::Home => "~".to_owned(),
            Self::Variable(name) => format!("${name}"),
        }
    }
}

/// Whether `text` may be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(is_inner) && text.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}
