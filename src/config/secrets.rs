//! Collects the keys that the server was given, and checks what keys look like.

use std::path::Path;

use super::ConfigError;
use super::environment::Variables;
use super::file;
use crate::mcp::ValueSource;
use crate::secret::Secret;

/// The variable with a key for clients.
pub(crate) const CLIENT_KEY: &str = "TOOLHAND_API_KEY";
/// The variable with the key for upstream.
pub(crate) const UPSTREAM_KEY: &str = "TOOLHAND_UPSTREAM_API_KEY";

/// A shorter key could be guessed.
const MIN_CLIENT_KEY: usize = 8;

/// The keys from the environment and from files.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "each is a key")]
pub(crate) struct Secrets {
    pub(crate) client_key: Option<Secret>,
    pub(crate) upstream_key: Option<Secret>,
    /// The search provider's.
    pub(crate) search_key: Option<Secret>,
}

/// Where the values of MCP servers come from.
pub(crate) struct McpValues<'a>(pub(crate) &'a Variables);

impl ValueSource for McpValues<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).and_then(|value| value.to_str()).map(str::to_owned)
    }

    fn file(&self, path: &str) -> Result<Secret, String> {
        file::read_secret(Path::new(path)).map_err(|error| error.to_string())
    }
}

/// Collects the keys of the environment and of `upstream.api_key_file` and
/// `web.search.api_key_file`.
pub(crate) fn collect(
    variables: &Variables,
    upstream_key_file: Option<&Path>,
    search_key_file: Option<&Path>,
) -> Result<Secrets, ConfigError> {
    let upstream_key = match (secret(variables, UPSTREAM_KEY)?, upstream_key_file) {
        (None, Some(path)) => Some(file::read_secret(path)?),
        (given, _) => given,
    };
    let search_key = search_key_file.map(|path| {
        let named = |error| ConfigError::Invalid(format!("web.search.api_key_file: {error}"));
        file::read_secret(path).map_err(named)
    });
    let search_key = search_key.transpose()?;
    Ok(Secrets { client_key: client_key(variables)?, upstream_key, search_key })
}

/// The client key in the environment.
pub(crate) fn client_key(variables: &Variables) -> Result<Option<Secret>, ConfigError> {
    let client_key = secret(variables, CLIENT_KEY)?;
    if let Some(key) = &client_key {
        refuse_short(key)
            .map_err(|reason| ConfigError::Invalid(format!("{CLIENT_KEY} {reason}")))?;
    }
    Ok(client_key)
}

/// Refuses a client key that is too short.
pub(crate) fn refuse_short(key: &Secret) -> Result<(), String> {
    match key.expose().len() {
        length if length < MIN_CLIENT_KEY => {
            Err(format!("is too short: a client key has at least {MIN_CLIENT_KEY} characters"))
        }
        _ => Ok(()),
    }
}

fn secret(variables: &Variables, name: &str) -> Result<Option<Secret>, ConfigError> {
    let Some(value) = variables.get(name) else { return Ok(None) };
    match value.to_str().and_then(Secret::sendable) {
        None => Err(ConfigError::Invalid(format!("{name} holds characters that no key has"))),
        key => Ok(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x12_a_client_key_is_not_short_and_upstreams_may_be() {
        let given = |key: &str| Variables::from_iter([(CLIENT_KEY, key), (UPSTREAM_KEY, "sk")]);
        let secrets = collect(&given("th-12345"), None, None).unwrap();
        assert_eq!(secrets.client_key, Some(Secret::new("th-12345")));
        assert_eq!(secrets.upstream_key, Some(Secret::new("sk")));

        let error = collect(&given("th-1234"), None, None).unwrap_err().to_string();
        assert_eq!(error, "TOOLHAND_API_KEY is too short: a client key has at least 8 characters");
    }

    #[test]
    fn an_empty_key_is_none_and_an_unsendable_one_is_named_but_not_shown() {
        let empty = Variables::from_iter([(CLIENT_KEY, "")]);
        assert_eq!(collect(&empty, None, None).unwrap().client_key, None);

        let broken = Variables::from_iter([(CLIENT_KEY, "th-\n1")]);
        let error = collect(&broken, None, None).unwrap_err().to_string();
        assert_eq!(error, "TOOLHAND_API_KEY holds characters that no key has");
    }
}
