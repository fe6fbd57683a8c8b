//! Defines the settings of `[web]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use url::{Host, Url};

use crate::page_url::TrustedHosts;
use crate::public_address::{AddressScope, scope};

/// The most results of a search that can be asked for.
const MAX_RESULTS: usize = 20;

/// The longest time that pages are kept. The cache itself refuses 1000 years.
const MAX_CACHE: Duration = Duration::from_secs(365 * 24 * 3600);

/// `[web]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebSettings {
    /// Hosts with a port where plain http, that port and private addresses are allowed.
    pub(crate) trusted_hosts: TrustedHosts,
    /// The upstream model that answers the prompt of `WebFetch`.
    pub(crate) summary_model: Option<String>,
    /// The time to find the addresses of a host and to connect to one.
    #[serde(with = "crate::units::duration")]
    pub(crate) connect_timeout: Duration,
    /// The time for a page with all its redirects.
    #[serde(with = "crate::units::duration")]
    pub(crate) timeout: Duration,
    /// Bytes of a page as it is sent.
    #[serde(with = "crate::units::size")]
    pub(crate) max_bytes: usize,
    /// Bytes of a page when it is decompressed.
    #[serde(with = "crate::units::size")]
    pub(crate) max_decoded: usize,
    /// How long a page is kept. Zero: not at all.
    #[serde(with = "crate::units::duration")]
    pub(crate) cache: Duration,
    pub(crate) search: SearchSettings,
}

/// `[web.search]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SearchSettings {
    pub(crate) provider: Option<Provider>,
    /// Where the provider is; its own address if it is missing.
    pub(crate) url: Option<ProviderUrl>,
    pub(crate) api_key_file: Option<PathBuf>,
    /// The name of a search tool of `LiteLLM`.
    pub(crate) tool: Option<String>,
    /// The most results of one search.
    pub(crate) results: usize,
    /// The most searches of one session.
    pub(crate) per_session: usize,
}

/// Who answers searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Provider {
    Searxng,
    Brave,
    Tavily,
    /// The search tools of upstream.
    Litellm,
}

/// The URL of a provider. It is the operator's, and may be private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderUrl(pub(super) Url);

impl Default for WebSettings {
    fn default() -> Self {
        Self {
            trusted_hosts: TrustedHosts::default(),
            summary_model: None,
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
            max_bytes: 5 << 20,
            max_decoded: 10 << 20,
            cache: Duration::from_secs(15 * 60),
            search: SearchSettings::default(),
        }
    }
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self {
            provider: None,
            url: None,
            api_key_file: None,
            tool: None,
            results: 10,
            per_session: 200,
        }
    }
}

impl WebSettings {
    /// The key that cannot be followed, and why.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        let times = [("web.connect_timeout", self.connect_timeout), ("web.timeout", self.timeout)];
        if let Some((key, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Some((key, "0 would leave no time for an answer".to_owned()));
        }
        let sizes = [("web.max_bytes", self.max_bytes), ("web.max_decoded", self.max_decoded)];
        if let Some((key, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Some((key, "0 would leave nothing of a page".to_owned()));
        }
        if self.cache > MAX_CACHE {
            return Some(("web.cache", "must be a year (\"365d\") or less".to_owned()));
        }
        if self.summary_model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Some(("web.summary_model", "must name a model, or be left out".to_owned()));
        }
        if let Some(host) = self.trusted_hosts.hosts().find(|host| is_out_of_reach(host)) {
            let reason = format!("no page of {host} is ever fetched: take it out");
            return Some(("web.trusted_hosts", reason));
        }
        self.search.fault()
    }
}

/// Whether it is an address that is not connected to, trusted or not.
fn is_out_of_reach(host: &Host<String>) -> bool {
    let address = match host {
        Host::Domain(_) => return false,
        Host::Ipv4(address) => (*address).into(),
        Host::Ipv6(address) => (*address).into(),
    };
    scope(address) == AddressScope::Forbidden
}

impl SearchSettings {
    fn fault(&self) -> Option<(&'static str, String)> {
        if !(1..=MAX_RESULTS).contains(&self.results) {
            return Some(("web.search.results", format!("must be between 1 and {MAX_RESULTS}")));
        }
        let missing = |key, what: &str| Some((key, format!("must be set for {what}")));
        match self.provider {
            Some(Provider::Searxng) if self.url.is_none() => {
                missing("web.search.url", "the provider searxng")
            }
            Some(Provider::Brave) if self.api_key_file.is_none() => {
                missing("web.search.api_key_file", "the provider brave")
            }
            Some(Provider::Tavily) if self.api_key_file.is_none() => {
                missing("web.search.api_key_file", "the provider tavily")
            }
            Some(Provider::Litellm) if self.tool.as_ref().is_none_or(String::is_empty) => {
                missing("web.search.tool", "the provider litellm")
            }
            _ => None,
        }
    }
}

impl FromStr for ProviderUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXAMPLE: &str = "write it as \"http://127.0.0.1:8888/\"";
        let url = Url::parse(text).map_err(|error| format!("{text:?}: {error}; {EXAMPLE}"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(format!("{text:?} is no http or https URL; {EXAMPLE}"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL must hold no user or password: the key has its own file".into());
        }
        Ok(Self(url))
    }
}

impl fmt::Display for ProviderUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for ProviderUrl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_with_which_nothing_can_work_are_faults() {
        let fault = |text: &str| {
            let settings: WebSettings = toml::from_str(text).unwrap();
            settings.fault().map(|(key, why)| format!("{key} {why}")).unwrap_or_default()
        };
        assert_eq!(fault(""), "");
        assert_eq!(fault("search.results = 21"), "web.search.results must be between 1 and 20");
        for (provider, key) in [
            ("searxng", "web.search.url"),
            ("brave", "web.search.api_key_file"),
            ("tavily", "web.search.api_key_file"),
            ("litellm", "web.search.tool"),
        ] {
            let fault = fault(&format!("search.provider = {provider:?}"));
            assert_eq!(fault, format!("{key} must be set for the provider {provider}"));
        }
        for (text, key) in [
            ("cache = \"9000000h\"", "web.cache"),
            ("timeout = \"0s\"", "web.timeout"),
            ("connect_timeout = \"0\"", "web.connect_timeout"),
            ("max_bytes = \"0\"", "web.max_bytes"),
            ("max_decoded = \"0\"", "web.max_decoded"),
            ("summary_model = \" \"", "web.summary_model"),
            ("trusted_hosts = [\"169.254.169.254:80\"]", "web.trusted_hosts"),
        ] {
            let fault = fault(text);
            assert!(fault.starts_with(key), "{text}: {fault}");
        }
        assert_eq!(fault("cache = \"365d\"\ntrusted_hosts = [\"10.0.0.1:80\", \"[::1]:9\"]"), "");
        for text in ["x = 1", "search.x = 1", "search.url = \"http://u:p@h/\"", "timeout = 5"] {
            assert!(toml::from_str::<WebSettings>(text).is_err(), "{text}");
        }
    }
}
