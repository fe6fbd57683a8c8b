//! Decides whether a page's host may be connected to, and at which addresses. It is resolved once;
//! the connection goes to the addresses that were looked at.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::future::try_join;
use url::Host;

use super::fetch_error::FetchError;
use super::resolver::Resolver;
use super::upstream_addresses::UpstreamAddresses;
use crate::own_endpoints::OwnEndpoints;
use crate::page_url::PageUrl;
use crate::public_address::{AddressScope, innermost, scope};

/// Finds the addresses of pages.
#[derive(Debug)]
pub(super) struct Destinations {
    resolver: Arc<dyn Resolver>,
    own: OwnEndpoints,
    upstream: UpstreamAddresses,
}

impl Destinations {
    pub(super) fn new(resolver: Arc<dyn Resolver>, own: OwnEndpoints) -> Self {
        let upstream = UpstreamAddresses::new(Arc::clone(&resolver), own.upstream().cloned());
        Self { resolver, own, upstream }
    }

    /// The addresses that may be connected to for `page`. One that may not refuses the page.
    pub(super) async fn allowed_addresses(
        &self,
        page: &PageUrl,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        self.refuse_known(page)?;
        let upstream = async { Ok(self.upstream.at_port(page.port()).await) };
        let (found, upstream) = try_join(self.resolve(page.parsed_host()), upstream).await?;
        self.refuse(page, &found, &upstream)?;
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip, page.port())).collect())
    }

    /// Refuses a page of which it shows without a lookup that it may not be connected to.
    pub(super) fn refuse_known(&self, page: &PageUrl) -> Result<(), FetchError> {
        if self.own.is_upstream(page.parsed_host(), page.port()) {
            return Err(FetchError::NotPublic);
        }
        let upstream = self.upstream.known_at_port(page.port());
        address_of(page.parsed_host()).map_or(Ok(()), |ip| self.refuse(page, &[ip], &upstream))
    }

    /// Refuses a page if one of its addresses may not be connected to.
    fn refuse(
        &self,
        page: &PageUrl,
        found: &[IpAddr],
        upstream: &[IpAddr],
    ) -> Result<(), FetchError> {
        let is_allowed = |ip: &IpAddr| {
            let is_upstream =
                upstream.iter().any(|of_upstream| innermost(*of_upstream) == innermost(*ip));
            may_reach(*ip, page.is_trusted())
                && !self.own.is_own(SocketAddr::new(innermost(*ip), page.port()))
                && !is_upstream
        };
        if found.iter().all(is_allowed) { Ok(()) } else { Err(FetchError::NotPublic) }
    }

    async fn resolve(&self, host: &Host<String>) -> Result<Vec<IpAddr>, FetchError> {
        if let Some(address) = address_of(host) {
            return Ok(vec![address]);
        }
        // The resolver's reason may name inner servers.
        let found =
            self.resolver.resolve(&host.to_string()).await.map_err(|_| FetchError::HostNotFound)?;
        if found.is_empty() { Err(FetchError::HostNotFound) } else { Ok(found) }
    }
}

fn may_reach(address: IpAddr, is_trusted: bool) -> bool {
    match scope(address) {
        AddressScope::Public => true,
        AddressScope::Private => is_trusted,
        AddressScope::Forbidden => false,
    }
}

/// The address that a host is written as.
fn address_of(host: &Host<String>) -> Option<IpAddr> {
    match host {
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => Some(IpAddr::V6(*address)),
        Host::Domain(_) => None,
    }
}
