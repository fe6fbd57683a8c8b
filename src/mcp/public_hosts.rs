//! Connects servers of a workspace to public addresses alone: a repository must not reach into the
//! operator's network, nor to this server or its upstream.

use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;
use url::{Host, Url};

use crate::own_endpoints::OwnEndpoints;
use crate::public_address::{AddressScope, scope};

/// Looks up the host of one server. It has no address where one of them may not be connected to.
#[derive(Clone, Debug)]
pub(super) struct PublicHosts {
    /// The server's. Redirects are not followed.
    port: u16,
    own: OwnEndpoints,
}

/// The host is inside of the operator's network, or nowhere.
#[derive(Debug, thiserror::Error)]
#[error("its address is not public, as that of a workspace's server must be")]
pub(super) struct NotPublic;

impl PublicHosts {
    /// Refuses an address that needs no looking up.
    pub(super) fn for_url(url: &Url, own: OwnEndpoints) -> Result<Self, NotPublic> {
        let host = url.host().ok_or(NotPublic)?.to_owned();
        let port = url.port_or_known_default().ok_or(NotPublic)?;
        let is_upstream = own.is_upstream(&host, port);
        let hosts = Self { port, own };
        let is_allowed = match host {
            Host::Ipv4(address) => hosts.may_reach(address.into()),
            Host::Ipv6(address) => hosts.may_reach(address.into()),
            Host::Domain(_) => true,
        };
        if is_allowed && !is_upstream { Ok(hosts) } else { Err(NotPublic) }
    }

    fn may_reach(&self, address: IpAddr) -> bool {
        let is_public = scope(address) == AddressScope::Public;
        is_public && !self.own.is_own(SocketAddr::new(address, self.port))
    }
}

impl Resolve for PublicHosts {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = self.clone();
        Box::pin(async move {
            let found: Vec<_> = lookup_host((name.as_str(), 0)).await?.collect();
            if !found.iter().all(|address| hosts.may_reach(address.ip())) {
                return Err(NotPublic.into());
            }
            let found: Addrs = Box::new(found.into_iter());
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Result<PublicHosts, NotPublic> {
        let own = OwnEndpoints::new(&"https://llm.example:4000/v1".parse().unwrap());
        own.listens_on("1.2.3.4:8787".parse().unwrap());
        PublicHosts::for_url(&url.parse().unwrap(), own)
    }

    #[test]
    fn m12_an_address_inside_of_the_network_is_refused_however_it_is_written() {
        for url in
            ["http://127.0.0.1", "http://2130706433/", "http://[::1]:80", "http://169.254.169.254"]
        {
            assert!(hosts(url).is_err(), "{url}");
        }
        for url in ["https://x.org", "http://1.1.1.1/mcp"] {
            assert!(hosts(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn m12_this_server_and_its_upstream_are_refused_at_their_public_addresses() {
        for url in ["http://1.2.3.4:8787/", "https://llm.example:4000/", "http://LLM.example:4000"]
        {
            assert!(hosts(url).is_err(), "{url}");
        }
        for url in ["http://1.2.3.4/", "https://llm.example/mcp"] {
            assert!(hosts(url).is_ok(), "{url}");
        }
        // Also where a name leads to it.
        let of_name = hosts("http://x.org:8787").unwrap();
        assert!(!of_name.may_reach("1.2.3.4".parse().unwrap()));
    }

    #[tokio::test]
    async fn m12_a_name_of_an_inner_host_has_no_address() {
        let hosts = hosts("http://localhost").unwrap();
        let fault = hosts.resolve("localhost".parse().unwrap()).await.err().unwrap();
        assert!(fault.downcast_ref::<NotPublic>().is_some(), "{fault}");
    }
}
