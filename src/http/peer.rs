//! Determines the address that a request comes from.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address at the other end of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl Peer {
    /// The client's address. Behind trusted proxies it is the last address in
    /// `X-Forwarded-For` that is not one of them.
    pub(super) fn client_address(self, headers: &HeaderMap, trusted_proxies: &[IpAddr]) -> IpAddr {
        if !trusted_proxies.contains(&self.0) {
            return self.0;
        }
        let hops: Vec<&str> = headers
            .get_all(FORWARDED_FOR)
            .iter()
            .flat_map(|list| list.to_str().unwrap_or_default().split(','))
            .collect();
        hops.iter()
            .rev()
            .map_while(|hop| hop.trim().parse().ok())
            .find(|hop| !trusted_proxies.contains(hop))
            .unwrap_or(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_addresses_count_only_behind_a_proxy_of_ours() {
        let [proxy, client, other] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED_FOR, "9.9.9.9, 10.0.0.2, 10.0.0.1".parse().unwrap());

        assert_eq!(Peer(other).client_address(&headers, &[proxy]), other);
        assert_eq!(Peer(proxy).client_address(&headers, &[proxy]), client);
        assert_eq!(Peer(proxy).client_address(&HeaderMap::new(), &[proxy]), proxy);
    }
}
