//! Reads the settings of `[tools]`.

use serde::Deserialize;

use super::builtin::bash;
use crate::file_encodings::EncodingSettings;

/// Characters of all answers of one round. If they have more, the largest are cut first.
const MAX_ROUND_CHARS: usize = 200_000;

/// With less, an answer could show nothing of a file, and the model would never get further.
const MIN_CHARS: usize = 200;

/// Bytes of the files that the server writes for a session.
const SPILL_BYTES: usize = 256 << 20;

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ToolSettings {
    /// The server's own tools that are on, by name or alias. All are on if it is missing.
    pub(crate) enable: Option<Vec<String>>,
    /// The server's own tools that are off.
    pub(crate) disable: Vec<String>,
    /// Tools that are off by default and on here, beside the others.
    pub(crate) extra: Vec<String>,
    /// Which of the client's tools reach the model.
    pub(crate) client_tools: ClientTools,
    /// What to do when a client declares a tool with the name of one of ours.
    pub(crate) name_conflict: NameConflict,
    /// Lowers each tool's own limit on the characters of an answer.
    pub(crate) max_result_chars: Option<usize>,
    /// Characters of all answers of one round together.
    pub(crate) max_round_chars: usize,
    /// Bytes of too long answers and of commands' output that are kept for a session.
    #[serde(with = "crate::units::size")]
    pub(crate) spill_bytes: usize,
    pub(crate) bash: bash::BashSettings,
    pub(crate) files: EncodingSettings,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ClientToolsForm")]
pub(crate) enum ClientTools {
    #[default]
    All,
    None,
    Named(Vec<String>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NameConflict {
    #[default]
    Error,
    /// The client's tool replaces ours.
    Client,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected \"all\", \"none\" or a list of names")]
enum ClientToolsForm {
    Word(String),
    Names(Vec<String>),
}

impl Default for ToolSettings {
    fn default() -> Self {
        Self {
            enable: None,
            disable: Vec::new(),
            extra: Vec::new(),
            client_tools: ClientTools::default(),
            name_conflict: NameConflict::default(),
            max_result_chars: None,
            max_round_chars: MAX_ROUND_CHARS,
            spill_bytes: SPILL_BYTES,
            bash: bash::BashSettings::default(),
            files: EncodingSettings::default(),
        }
    }
}

impl ToolSettings {
    /// The key that cannot be followed, and why.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        let limits = [
            ("tools.max_result_chars", self.max_result_chars.unwrap_or(MIN_CHARS)),
            ("tools.max_round_chars", self.max_round_chars),
        ];
        if let Some((key, _)) = limits.into_iter().find(|(_, chars)| *chars < MIN_CHARS) {
            let why = format!("must be at least {MIN_CHARS}: an answer has to hold part of a line");
            return Some((key, why));
        }
        self.files.fault().map(|why| ("tools.files.encoding", why))
    }
}

impl ClientTools {
    pub(crate) fn allows(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Named(names) => names.iter().any(|one| one == name),
        }
    }
}

impl TryFrom<ClientToolsForm> for ClientTools {
    type Error = String;

    fn try_from(form: ClientToolsForm) -> Result<Self, String> {
        match form {
            ClientToolsForm::Names(names) => Ok(Self::Named(names)),
            ClientToolsForm::Word(word) if word == "all" => Ok(Self::All),
            ClientToolsForm::Word(word) if word == "none" => Ok(Self::None),
            ClientToolsForm::Word(word) => {
                Err(format!("expected \"all\", \"none\" or a list of names, got {word:?}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ToolSettings, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn reads_which_tools_of_the_client_count() {
        let client_tools = |text| read(text).map(|settings| settings.client_tools);
        assert_eq!(client_tools(""), Ok(ClientTools::All));
        assert_eq!(client_tools(r#"client_tools = "none""#), Ok(ClientTools::None));
        let named = ClientTools::Named(vec!["a".to_owned()]);
        assert_eq!(client_tools(r#"client_tools = ["a"]"#), Ok(named.clone()));
        assert!(named.allows("a") && !named.allows("b"));
        assert!(client_tools(r#"client_tools = "some""#).unwrap_err().contains("\"some\""));
        assert!(client_tools("client_tools = 5").unwrap_err().contains("list of names"));
    }

    #[test]
    fn refuses_unknown_keys() {
        assert!(read("colour = true").unwrap_err().contains("colour"));
        assert!(read(r#"name_conflict = "server""#).unwrap_err().contains("client"));
    }
}
