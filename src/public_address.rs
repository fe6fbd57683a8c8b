//! Decides which addresses may be connected to. Pure.
//!
//! An address may stand inside of another one: mapped, translated or tunnelled. What counts is where
//! the packets go in the end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressScope {
    Public,
    /// Into the operator's network: only for hosts that the operator trusts.
    Private,
    /// For nobody: metadata of clouds, link-local, multicast, and what no host has.
    Forbidden,
}

/// Addresses at which clouds tell machines their keys.
const METADATA: [Ipv4Addr; 4] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(168, 63, 129, 16),
];

const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

pub(crate) fn scope(address: IpAddr) -> AddressScope {
    match address {
        IpAddr::V4(address) => scope_of_v4(address),
        IpAddr::V6(address) => scope_of_v6(address),
    }
}

/// The address to which packets for `address` go in the end, if it stands inside of it.
pub(crate) fn innermost(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => translated(address).map_or(IpAddr::V6(address), IpAddr::V4),
        address @ IpAddr::V4(_) => address,
    }
}

/// By the IANA registry of special addresses.
fn scope_of_v4(address: Ipv4Addr) -> AddressScope {
    let [a, b, c, _] = address.octets();
    if METADATA.contains(&address) {
        return AddressScope::Forbidden;
    }
    match (a, b, c) {
        (10 | 127, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => {
            AddressScope::Private
        }
        (0 | 224.., ..)
        | (169, 254, _)
        | (192, 0, 0 | 2)
        | (192, 88, 99)
        | (198, 18 | 19, _)
        | (198, 51, 100)
        | (203, 0, 113) => AddressScope::Forbidden,
        _ => AddressScope::Public,
    }
}

fn scope_of_v6(address: Ipv6Addr) -> AddressScope {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return scope_of_v4(mapped);
    }
    if address == Ipv6Addr::LOCALHOST {
        return AddressScope::Private;
    }
    // No page of an inner host is meant to be reached through a translator.
    if translated(address).is_some_and(|inner| scope_of_v4(inner) != AddressScope::Public) {
        return AddressScope::Forbidden;
    }
    let segments = address.segments();
    let (first, second) = (segments[0], segments[1]);
    let is_translated = (first, second) == (0x64, 0xff9b) && translated(address).is_some();
    let is_unicast = (0x2000..=0x3fff).contains(&first) && !is_registered(first, second);
    match first {
        0xfc00..=0xfdff if address != METADATA_V6 => AddressScope::Private,
        _ if is_translated || is_unicast => AddressScope::Public,
        _ => AddressScope::Forbidden,
    }
}

/// Whether a network is registered for protocols or documentation. Teredo, `2001:0::`, is not
/// meant.
fn is_registered(first: u16, second: u16) -> bool {
    matches!((first, second), (0x2001, 1..=0x1ff | 0xdb8) | (0x3fff, 0..=0xfff))
}

/// The IPv4 address to which a translator or tunnel of the network would pass packets on: NAT64
/// (RFC 6052), 6to4 (RFC 3056), Teredo (RFC 4380) and ISATAP (RFC 5214).
fn translated(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0x2002, high, low, ..] => Some(of(high, low)),
        [0x2001, 0, .., high, low] => Some(of(!high, !low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => {
            Some(of(high, low))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(addresses: &[&str], expected: AddressScope) {
        for address in addresses {
            assert_eq!(scope(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn public_addresses_are_public() {
        let addresses = [
            "1.1.1.1",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::",
        ];
        check(&addresses, AddressScope::Public);
    }

    #[test]
    fn w1_w6_w12_inner_addresses_are_private() {
        let addresses = [
            "127.0.0.1",
            "127.255.255.255",
            "10.0.0.1",
            "10.255.255.255",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "::1",
            "fc00::1",
            "fdff::1",
        ];
        check(&addresses, AddressScope::Private);
    }

    #[test]
    fn w5_w10_w11_w12_what_no_page_has_is_forbidden() {
        let addresses = [
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "192.0.0.1",
            "168.63.129.16",
            "192.0.2.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "2001:db8::1",
            "2001:10::1",
            "3fff::1",
            "4000::1",
            "5f00::1",
        ];
        check(&addresses, AddressScope::Forbidden);
    }

    #[test]
    fn w7_w8_w9_addresses_inside_of_others_are_seen() {
        check(&["::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1"], AddressScope::Private);
        let forbidden = [
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1.1.1.1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2002:a00:1::1",
            // Teredo, whose client's address is written with all bits turned over.
            "2001:0:101:101::80ff:fffe",
            "fe80::5efe:1.1.1.1",
            "2a00::5efe:127.0.0.1",
            "2a00::200:5efe:10.0.0.1",
        ];
        check(&forbidden, AddressScope::Forbidden);
    }
}
