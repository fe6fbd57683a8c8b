//! Knows where this server listens and where its upstream is: what is foreign must not lead there.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};

use url::{Host, Url};

/// The endpoints of this server and its upstream. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct OwnEndpoints(Arc<Endpoints>);

#[derive(Debug)]
struct Endpoints {
    /// Where this server listens, once it does.
    listening: OnceLock<SocketAddr>,
    /// Upstream's host and port.
    upstream: Option<(Host<String>, u16)>,
}

impl OwnEndpoints {
    pub(crate) fn new(upstream: &Url) -> Self {
        let host = upstream.host().map(|host| without_dot(host.to_owned()));
        let upstream = host.zip(upstream.port_or_known_default());
        Self(Arc::new(Endpoints { listening: OnceLock::new(), upstream }))
    }

    pub(crate) fn listens_on(&self, address: SocketAddr) {
        // A server listens once.
        let _ = self.0.listening.set(address);
    }

    pub(crate) fn upstream(&self) -> Option<&(Host<String>, u16)> {
        self.0.upstream.as_ref()
    }

    /// Whether upstream is called so.
    pub(crate) fn is_upstream(&self, host: &Host<String>, port: u16) -> bool {
        let host = without_dot(host.clone());
        self.upstream().is_some_and(|(name, at)| *name == host && *at == port)
    }

    /// Whether a connection to this address comes to this server.
    pub(crate) fn is_own(&self, address: SocketAddr) -> bool {
        let Some(own) = self.0.listening.get() else { return false };
        let (address, own) = (plain(address), plain(*own));
        let is_listened_on = address.ip() == own.ip()
            || (own.ip().is_unspecified() && is_of_this_machine(address.ip()));
        address.port() == own.port() && is_listened_on
    }
}

/// An address that IPv6 merely wraps, as the one that it wraps.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A name that ends with a dot is the same one.
fn without_dot(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.trim_end_matches('.').to_owned()),
        address => address,
    }
}

/// Only an address of this machine can be bound to.
fn is_of_this_machine(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_our_own_by_the_port_and_what_is_listened_on() {
        let endpoints = |listening: &str| {
            let endpoints = OwnEndpoints::new(&"http://llm.example/v1".parse().unwrap());
            endpoints.listens_on(listening.parse().unwrap());
            endpoints
        };
        let is_own =
            |listening: &str, address: &str| endpoints(listening).is_own(address.parse().unwrap());
        assert!(is_own("203.0.113.5:8787", "203.0.113.5:8787"));
        assert!(is_own("203.0.113.5:8787", "[::ffff:203.0.113.5]:8787"));
        assert!(!is_own("203.0.113.5:8787", "203.0.113.5:80"));
        assert!(!is_own("203.0.113.5:8787", "203.0.113.6:8787"));
        assert!(is_own("0.0.0.0:8787", "127.0.0.1:8787"));
        let upstream = |host: &str, port| {
            endpoints("127.0.0.1:1").is_upstream(&Host::parse(host).unwrap(), port)
        };
        assert!(upstream("LLM.example", 80) && !upstream("llm.example", 443));
    }
}
