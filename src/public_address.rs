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

const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
];

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
    let is_inner = |inner: Ipv4Addr| scope_of_v4(inner) != AddressScope::Public;
    if translated(address).is_some_and(is_inner) || teredo_server(address).is_some_and(is_inner) {
        return AddressScope::Forbidden;
    }
    let segments = address.segments();
    let (first, second) = (segments[0], segments[1]);
    // Not the prefix `64:ff9b:1::`, which each network uses in its own way (RFC 8215).
    let is_translated = matches!(segments, [0x64, 0xff9b, 0, 0, 0, 0, ..]);
    let is_unicast = (0x2000..=0x3fff).contains(&first) && !is_registered(first, second);
    match first {
        0xfc00..=0xfdff if !METADATA_V6.contains(&address) => AddressScope::Private,
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

/// The server that a relay of Teredo sends its first packets to (RFC 4380).
fn teredo_server(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.octets() {
        [0x20, 0x01, 0, 0, a, b, c, d, ..] => Some(Ipv4Addr::new(a, b, c, d)),
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

    /// The first and the last address of each network that no page has, by the registries of IANA.
    #[test]
    fn w9_w11_w12_the_edges_of_special_networks_are_forbidden() {
        let forbidden = [
            ("0.0.0.1", "0.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("198.18.0.0", "198.19.255.254"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "239.255.255.254"),
            ("240.0.0.0", "255.255.255.254"),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
            ("64:ff9b:1::5efe:101:101", "64:ff9b:0:1:0:5efe:101:101"),
            ("64:ff9b::1:0:0", "64:ff9b:ffff::1"),
            ("100::", "100::ffff:ffff:ffff:ffff"),
            ("100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff"),
            ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff"),
            ("2001:10::", "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:20::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ];
        for (first, last) in forbidden {
            check(&[first, last], AddressScope::Forbidden);
        }
        let around = ["3fff:1000::", "2001:200::", "2001:db7::", "2001:db9::", "192.88.98.255"];
        check(&around, AddressScope::Public);
    }

    #[test]
    fn w9_inner_addresses_are_seen_wherever_they_stand_inside() {
        let forbidden = [
            "64:ff9b::10.0.0.1",
            "64:ff9b::192.168.0.1",
            "64:ff9b::198.51.100.7",
            "2002:a00:1::",
            "2002:c0a8:101:ffff:ffff:ffff:ffff:ffff",
            "2002:ac10:1::93.184.216.34",
            "2002:6440:1::",
            "2002:e000:1::",
            // Teredo: the client, with all bits turned over, and the server.
            "2001:0:5db8:d822::f5ff:fffe",
            "2001:0:5db8:d822::3f57:fefe",
            "2001:0:7f00:1::a247:27dd",
            "2001:0:a00:1:0:ffff:a247:27dd",
            "2001::5db8:d822",
        ];
        check(&forbidden, AddressScope::Forbidden);
        check(&["2001:0:5db8:d822::a247:27dd", "2002:5db8:d822::1"], AddressScope::Public);
        check(&["::ffff:100.64.0.1", "::ffff:172.31.0.1"], AddressScope::Private);
        let metadata =
            ["fd20:ce::254", "fd00:42::42", "fd00:c1::a9fe:a9fe", "::ffff:168.63.129.16"];
        check(&metadata, AddressScope::Forbidden);
    }
}
