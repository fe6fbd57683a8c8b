//! Lists the hosts of `web.trusted_hosts`.

use serde::{Deserialize, Deserializer};
use url::{Host, Url};

/// Hosts with a port that the operator trusts: plain http, that port and private addresses are
/// allowed there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrustedHosts(Vec<(Host<String>, u16)>);

impl TrustedHosts {
    pub(crate) fn contains(&self, host: &Host<String>, port: u16) -> bool {
        self.0.iter().any(|(trusted, at)| trusted == host && *at == port)
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host<String>> {
        self.0.iter().map(|(host, _)| host)
    }
}

impl<'de> Deserialize<'de> for TrustedHosts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        let hosts = texts.iter().map(|text| parse(text).map_err(serde::de::Error::custom));
        hosts.collect::<Result<_, _>>().map(Self)
    }
}

fn parse(text: &str) -> Result<(Host<String>, u16), String> {
    let because = || format!("{text:?} is no host with its port; write \"wiki.local:8080\"");
    let (_, port) = text.rsplit_once(':').ok_or_else(because)?;
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(because)?;
    let url = Url::parse(&format!("http://{text}/")).map_err(|_| because())?;
    let has_more = !url.username().is_empty() || url.path() != "/" || url.query().is_some();
    let host = super::plain_host(&url).filter(|_| !has_more).ok_or_else(because)?;
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TrustedHosts, String> {
        #[derive(Deserialize)]
        struct Read {
            hosts: TrustedHosts,
        }
        let read = toml::from_str::<Read>(&format!("hosts = [{text:?}]"));
        read.map(|read| read.hosts).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_trusted_host_is_a_name_or_an_address_with_a_port() {
        let contains = |text: &str, host: &str, port| {
            read(text).unwrap().contains(&Host::parse(host).unwrap(), port)
        };
        assert!(contains("Wiki.Local.:8080", "wiki.local", 8080));
        assert!(contains("127.0.0.1:80", "127.0.0.1", 80));
        assert!(contains("[::1]:9", "[::1]", 9));
        assert!(!contains("wiki.local:8080", "wiki.local", 80));
        assert!(!contains("wiki.local:8080", "x.wiki.local", 8080));
        for text in ["wiki.local", "wiki:0", ":80", "u@h:80", "h:80/x", "*.h:80", "http://h:80"] {
            assert!(read(text).unwrap_err().contains("wiki.local:8080"), "{text}");
        }
    }
}
