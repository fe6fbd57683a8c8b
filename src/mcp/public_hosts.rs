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
    /// Refuses an address that is written as such, and upstream's name.
    pub(super) async fn for_url(url: &Url, own: OwnEndpoints) -> Result<Self, NotPublic> {
        let host = url.host().ok_or(NotPublic)?.to_owned();
        let port = url.port_or_known_default().ok_or(NotPublic)?;
        let is_upstream = own.is_upstream(&host, port);
        let hosts = Self { port, own };
        let address: Option<IpAddr> = match host {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        };
        let is_allowed = match address {
            Some(address) => hosts.may_reach(address, &hosts.upstream_addresses().await),
            None => true,
        };
        if is_allowed && !is_upstream { Ok(hosts) } else { Err(NotPublic) }
    }

    fn may_reach(&self, address: IpAddr, upstream: &[IpAddr]) -> bool {
        let is_public = scope(address) == AddressScope::Public;
        let is_upstream = upstream.contains(&address.to_canonical());
        is_public && !is_upstream && !self.own.is_own(SocketAddr::new(address, self.port))
    }

    /// Where upstream is, if that is at the server's port.
    async fn upstream_addresses(&self) -> Vec<IpAddr> {
        let Some((host, port)) = self.own.upstream() else { return Vec::new() };
        match host {
            _ if *port != self.port => Vec::new(),
            Host::Ipv4(address) => vec![(*address).into()],
            Host::Ipv6(address) => vec![IpAddr::from(*address).to_canonical()],
            Host::Domain(name) => {
                let found = lookup_host((name.as_str(), 0)).await;
                found.into_iter().flatten().map(|found| found.ip().to_canonical()).collect()
            }
        }
    }
}

impl Resolve for PublicHosts {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = self.clone();
        Box::pin(async move {
            let upstream = hosts.upstream_addresses().await;
            let found: Vec<_> = lookup_host((name.as_str(), 0)).await?.collect();
            if !found.iter().all(|address| hosts.may_reach(address.ip(), &upstream)) {
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

    async fn hosts(url: &str) -> Result<PublicHosts, NotPublic> {
        beside("https://llm.example:4000/v1", url).await
    }

    async fn beside(upstream: &str, url: &str) -> Result<PublicHosts, NotPublic> {
        let own = OwnEndpoints::new(&upstream.parse().unwrap());
        own.listens_on("1.2.3.4:8787".parse().unwrap());
        PublicHosts::for_url(&url.parse().unwrap(), own).await
    }

    #[tokio::test]
    async fn m12_an_address_inside_of_the_network_is_refused_however_it_is_written() {
        for url in
            ["http://127.0.0.1", "http://2130706433/", "http://[::1]:80", "http://169.254.169.254"]
        {
            assert!(hosts(url).await.is_err(), "{url}");
        }
        for url in ["https://x.org", "http://1.1.1.1/mcp"] {
            assert!(hosts(url).await.is_ok(), "{url}");
        }
    }

    #[tokio::test]
    async fn m12_this_server_and_its_upstream_are_refused_at_their_public_addresses() {
        for url in [
            "http://1.2.3.4:8787/",
            "https://llm.example:4000/",
            "http://LLM.example:4000",
            "https://llm.example.:4000/",
        ] {
            assert!(hosts(url).await.is_err(), "{url}");
        }
        for url in ["http://1.2.3.4/", "https://llm.example/mcp"] {
            assert!(hosts(url).await.is_ok(), "{url}");
        }
        // Also where a name leads to it.
        let of_name = hosts("http://x.org:8787").await.unwrap();
        assert!(!of_name.may_reach("1.2.3.4".parse().unwrap(), &[]));
    }

    #[tokio::test]
    async fn m12_upstream_is_refused_under_every_name_and_address() {
        let upstream = "http://8.8.8.8:4000/v1";
        for url in ["http://8.8.8.8:4000", "http://[::ffff:8.8.8.8]:4000", "http://134744072:4000"]
        {
            assert!(beside(upstream, url).await.is_err(), "{url}");
        }
        let of_name = beside(upstream, "http://x.org:4000").await.unwrap();
        let addresses = of_name.upstream_addresses().await;
        assert!(!of_name.may_reach("8.8.8.8".parse().unwrap(), &addresses));
        assert!(of_name.may_reach("1.1.1.1".parse().unwrap(), &addresses));
        let at_another_port = beside(upstream, "http://8.8.8.8/mcp").await.unwrap();
        assert_eq!(at_another_port.upstream_addresses().await, [] as [IpAddr; 0]);
        // Its name is looked up, too.
        let of_name = beside("http://localhost:4000/v1", "http://x.org:4000").await.unwrap();
        assert!(!of_name.upstream_addresses().await.is_empty());
    }

    #[tokio::test]
    async fn m12_a_name_of_an_inner_host_has_no_address() {
        let hosts = hosts("http://localhost").await.unwrap();
        let fault = hosts.resolve("localhost".parse().unwrap()).await.err().unwrap();
        assert!(fault.downcast_ref::<NotPublic>().is_some(), "{fault}");
    }
}
