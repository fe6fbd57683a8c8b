//! Connects servers of a workspace to public addresses alone: a repository must not reach into the
//! operator's network.

use std::net::IpAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;
use url::{Host, Url};

use crate::public_address::{AddressScope, scope};

/// Looks hosts up. One of which an address is not public has none.
#[derive(Debug)]
pub(super) struct PublicHosts;

/// The host is inside of the operator's network, or nowhere.
#[derive(Debug, thiserror::Error)]
#[error("its address is not public, as that of a workspace's server must be")]
pub(super) struct NotPublic;

impl Resolve for PublicHosts {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<_> = lookup_host((name.as_str(), 0)).await?.collect();
            if !found.iter().all(|address| is_public(address.ip())) {
                return Err(NotPublic.into());
            }
            let found: Addrs = Box::new(found.into_iter());
            Ok(found)
        })
    }
}

/// Refuses an address that needs no looking up.
pub(super) fn expect_public(url: &Url) -> Result<(), NotPublic> {
    let is_allowed = match url.host() {
        Some(Host::Ipv4(address)) => is_public(address.into()),
        Some(Host::Ipv6(address)) => is_public(address.into()),
        Some(Host::Domain(_)) | None => true,
    };
    if is_allowed { Ok(()) } else { Err(NotPublic) }
}

fn is_public(address: IpAddr) -> bool {
    scope(address) == AddressScope::Public
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m12_an_address_inside_of_the_network_is_refused_however_it_is_written() {
        for url in
            ["http://127.0.0.1", "http://2130706433/", "http://[::1]:80", "http://169.254.169.254"]
        {
            assert!(expect_public(&url.parse().unwrap()).is_err(), "{url}");
        }
        for url in ["https://x.org", "http://1.1.1.1/mcp"] {
            assert!(expect_public(&url.parse().unwrap()).is_ok(), "{url}");
        }
    }

    #[tokio::test]
    async fn m12_a_name_of_an_inner_host_has_no_address() {
        let name = "localhost".parse().unwrap();
        let fault = PublicHosts.resolve(name).await.err().unwrap();
        assert!(fault.downcast_ref::<NotPublic>().is_some(), "{fault}");
    }
}
