//! Decides whether a page's host may be connected to, and at which addresses. It is resolved once;
//! the connection goes to the addresses that were looked at.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use url::Host;

use super::fetch_error::FetchError;
use super::resolver::Resolver;
use crate::own_endpoints::{OwnEndpoints, plain};
use crate::page_url::PageUrl;
use crate::public_address::{AddressScope, scope};

/// Finds the addresses of pages.
#[derive(Debug)]
pub(super) struct Destinations {
    resolver: Arc<dyn Resolver>,
    own: OwnEndpoints,
}

impl Destinations {
    pub(super) fn new(resolver: Arc<dyn Resolver>, own: OwnEndpoints) -> Self {
        Self { resolver, own }
    }

    /// The addresses that may be connected to for `page`. One that may not refuses the page.
    pub(super) async fn of(&self, page: &PageUrl) -> Result<Vec<SocketAddr>, FetchError> {
        let port = page.port();
        let host = page.parsed_host();
        if self.own.is_upstream(host, port) {
            return Err(FetchError::NotPublic);
        }
        let found = self.resolve(host).await?;
        let found: Vec<_> = found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        let upstream = if page.is_trusted() { self.upstream_addresses().await } else { Vec::new() };
        let is_allowed = |address: &SocketAddr| {
            may_reach(address.ip(), page.is_trusted())
                && !self.own.is_own(*address)
                && !upstream.contains(&plain(*address))
        };
        if found.iter().all(is_allowed) { Ok(found) } else { Err(FetchError::NotPublic) }
    }

    async fn resolve(&self, host: &Host<String>) -> Result<Vec<IpAddr>, FetchError> {
        let name = match host {
            Host::Ipv4(address) => return Ok(vec![IpAddr::V4(*address)]),
            Host::Ipv6(address) => return Ok(vec![IpAddr::V6(*address)]),
            Host::Domain(name) => name,
        };
        // The resolver's reason may name inner servers.
        let found = self.resolver.resolve(name).await.map_err(|_| FetchError::HostNotFound)?;
        if found.is_empty() { Err(FetchError::HostNotFound) } else { Ok(found) }
    }

    /// Another name of a trusted host must not lead to upstream.
    async fn upstream_addresses(&self) -> Vec<SocketAddr> {
        let Some((host, port)) = self.own.upstream() else { return Vec::new() };
        let found = self.resolve(host).await.unwrap_or_default();
        found.into_iter().map(|ip| plain(SocketAddr::new(ip, *port))).collect()
    }
}

fn may_reach(address: IpAddr, is_trusted: bool) -> bool {
    match scope(address) {
        AddressScope::Public => true,
        AddressScope::Private => is_trusted,
        AddressScope::Forbidden => false,
    }
}
