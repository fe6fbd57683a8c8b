//! Defines the settings of `[upstream]`: address, key and timeouts.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use serde::{Deserialize, Deserializer};

use super::model_hints::ModelHints;

/// `[upstream]`. `toolhand.example.toml` has the reasons for the defaults.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct UpstreamSettings {
    pub(crate) url: BaseUrl,
    pub(crate) api_key_file: Option<PathBuf>,
    /// A PEM file with certificates to trust in addition to the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// The URL of a proxy. The environment's proxies are not used.
    pub(crate) proxy: Option<String>,
    #[serde(with = "crate::units::duration")]
    pub(crate) connect_timeout: Duration,
    /// The time until the response head. LiteLLM sends it together with the model's first
    /// event.
    #[serde(with = "crate::units::duration")]
    pub(crate) first_byte_timeout: Duration,
    /// The time without any byte.
    #[serde(with = "crate::units::duration")]
    pub(crate) idle_timeout: Duration,
    /// The time without data, while comments come.
    #[serde(with = "crate::units::duration")]
    pub(crate) comment_timeout: Duration,
    /// How long `[DONE]` may be missing after the last data behind a `finish_reason`.
    #[serde(with = "crate::units::duration")]
    pub(crate) end_timeout: Duration,
    pub(crate) retries: u32,
    /// The waits before the first, second, … retry. The last one also applies to all further
    /// retries.
    #[serde(with = "crate::units::durations")]
    pub(crate) backoff: Vec<Duration>,
    /// The longest `Retry-After` that is waited for.
    #[serde(with = "crate::units::duration")]
    pub(crate) retry_max_wait: Duration,
    /// For each model, the models to ask instead, in order, when it cannot be reached.
    pub(crate) fallbacks: BTreeMap<String, Vec<String>>,
    pub(crate) unknown_fields: UnknownFields,
    /// The routes under `/v1` that are forwarded unchanged, with everything beneath them.
    pub(crate) passthrough: Vec<String>,
    /// Not a setting: `up` fills it in, since it starts upstream itself.
    #[serde(skip)]
    pub(crate) model_hints: Arc<ModelHints>,
}

/// What happens to a request field that the server does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UnknownFields {
    Forward,
    Refuse,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self {
            url: "http://127.0.0.1:4000/v1".parse().expect("the default is a URL"),
            api_key_file: None,
            ca_file: None,
            proxy: None,
            connect_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(300),
            comment_timeout: Duration::from_secs(600),
            end_timeout: Duration::from_secs(5),
            retries: 2,
            backoff: vec![Duration::from_millis(500), Duration::from_millis(1500)],
            retry_max_wait: Duration::from_secs(30),
            fallbacks: BTreeMap::new(),
            unknown_fields: UnknownFields::Forward,
            passthrough: ["completions", "embeddings", "moderations", "rerank", "audio", "images"]
                .map(str::to_owned)
                .to_vec(),
            model_hints: Arc::default(),
        }
    }
}

/// The base URL that routes such as `/chat/completions` are appended to.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BaseUrl(Url);

impl BaseUrl {
    /// The URL of `route`, which begins with a slash and may have a query.
    pub(crate) fn join(&self, route: &str) -> Url {
        let (path, query) = match route.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (route, None),
        };
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path().trim_end_matches('/')));
        url.set_query(query);
        url
    }
}

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXAMPLE: &str = "write it as \"http://127.0.0.1:4000/v1\"";
        let url = Url::parse(text).map_err(|error| format!("{text:?}: {error}; {EXAMPLE}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(format!("{text:?} is no http or https URL; {EXAMPLE}"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL must hold no user or password: the key has its own file".into());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("{text:?} must end with its path; {EXAMPLE}"));
        }
        Ok(Self(url))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl<'de> Deserialize<'de> for BaseUrl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_appended_to_the_base() {
        let join = |base: &str, route: &str| {
            base.parse::<BaseUrl>().unwrap().join(route).as_str().to_owned()
        };
        assert_eq!(
            join("http://h:4000/v1", "/chat/completions"),
            "http://h:4000/v1/chat/completions"
        );
        assert_eq!(join("https://h/x/v1/", "/models?a=b%20c"), "https://h/x/v1/models?a=b%20c");
        assert_eq!(join("http://h", "/models"), "http://h/models");
        assert_eq!(join("http://h/v1", "//evil/x"), "http://h/v1//evil/x");
    }

    #[test]
    fn what_is_no_base_url_is_refused_with_an_example() {
        for text in ["", "localhost:4000", "ftp://h/", "/v1", "http://h/v1?x=1"] {
            let error = text.parse::<BaseUrl>().unwrap_err();
            assert!(error.contains("http://127.0.0.1:4000/v1"), "{error}");
        }
        assert!("http://u:p@h/v1".parse::<BaseUrl>().unwrap_err().contains("password"));
    }

    #[test]
    fn reads_every_key() {
        let settings: UpstreamSettings = toml::from_str(
            r#"
            url = "https://litellm.example/v1"
            backoff = ["1ms", "2s"]
            unknown_fields = "refuse"
            fallbacks = { "a" = ["b", "c"] }
            "#,
        )
        .unwrap();
        assert_eq!(settings.url.to_string(), "https://litellm.example/v1");
        assert_eq!(settings.backoff, [Duration::from_millis(1), Duration::from_secs(2)]);
        assert_eq!(settings.unknown_fields, UnknownFields::Refuse);
        assert_eq!(settings.fallbacks["a"], ["b", "c"]);
        assert!(toml::from_str::<UpstreamSettings>("urls = 1").is_err());
    }
}
