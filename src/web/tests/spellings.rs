//! Spells inner addresses in every way that some program reads, and counts at the connector what
//! is connected to: nothing.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::BoxedStrategy;
use proptest::test_runner::{RngSeed, TestRunner};
use tokio::runtime::Runtime;

use super::*;

/// Spellings of public addresses. If these were not connected to, the count would prove nothing.
const PUBLIC: [&str; 8] = [
    "http://93.184.216.34/",
    "HTTPS://93.184.216.34:443/x?y#z",
    "http://[2606:4700::1111]:80/",
    "http://[::FFFF:1.1.1.1]/",
    "http://[64:ff9b::101:101]/",
    "https://a.public.example",
    "http://A.Public.EXAMPLE.:443/",
    "https://bücher.public.example/",
];

/// What the names of an attacker lead to.
const ANSWERS: [&[&str]; 10] = [
    &["127.0.0.1"],
    &["::1"],
    &["93.184.216.34", "10.0.0.1"],
    &["192.168.0.1", "93.184.216.34"],
    &["2606:4700::1111", "93.184.216.34", "169.254.169.254"],
    &["::ffff:127.0.0.1"],
    &["64:ff9b::a00:1", "1.1.1.1"],
    &["2002:7f00:1::1"],
    &["fe80::1", "fd00:ec2::254"],
    &[],
];

/// Resolves names as an attacker would have them be, always the same.
#[derive(Debug)]
struct Attacker;

impl Resolver for Attacker {
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let number: usize = host.bytes().map(usize::from).sum();
        let answer: &[&str] = match host {
            "wiki.local" => &["127.0.0.1"],
            _ if host.ends_with(".public.example") => &["93.184.216.34", "2606:4700::1111"],
            _ => ANSWERS[number % ANSWERS.len()],
        };
        let addresses = answer.iter().map(|ip| ip.parse().unwrap()).collect();
        Box::pin(async move { Ok(addresses) })
    }
}

/// Digits that some reader takes for those of ASCII.
#[derive(Clone, Copy, Debug)]
enum Digits {
    Ascii,
    FullWidth,
    Circled,
    Bold,
    Superscript,
    /// Each byte as `%31`, dots too.
    Encoded,
}

impl Digits {
    fn spell(self, text: &str) -> String {
        let zero = match self {
            Self::Ascii => return text.to_owned(),
            Self::Encoded => {
                let encoded = text.bytes().map(|byte| format!("%{byte:02x}"));
                return encoded.collect::<Vec<_>>().concat();
            }
            Self::Superscript => {
                let digits: Vec<char> = "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().collect();
                let of = |c: char| c.to_digit(10).map_or(c, |digit| digits[digit as usize]);
                return text.chars().map(of).collect();
            }
            Self::Circled => 0x245f,
            Self::FullWidth => 0xff10,
            Self::Bold => 0x1_d7ce,
        };
        let of = |c: char| match c.to_digit(10) {
            Some(0) if matches!(self, Self::Circled) => '⓪',
            Some(digit) => char::from_u32(zero + digit).unwrap(),
            None => c,
        };
        text.chars().map(of).collect()
    }
}

/// An IPv4 address that is not public.
fn inner_v4() -> impl Strategy<Value = [u8; 4]> {
    prop_oneof![
        any::<[u8; 3]>().prop_map(|[b, c, d]| [127, b, c, d]),
        any::<[u8; 3]>().prop_map(|[b, c, d]| [10, b, c, d]),
        any::<[u8; 3]>().prop_map(|[b, c, d]| [0, b, c, d]),
        (16u8..32, any::<u8>(), any::<u8>()).prop_map(|(b, c, d)| [172, b, c, d]),
        (64u8..128, any::<u8>(), any::<u8>()).prop_map(|(b, c, d)| [100, b, c, d]),
        (18u8..20, any::<u8>(), any::<u8>()).prop_map(|(b, c, d)| [198, b, c, d]),
        (224u8.., any::<[u8; 3]>()).prop_map(|(a, [b, c, d])| [a, b, c, d]),
        any::<[u8; 2]>().prop_map(|[c, d]| [192, 168, c, d]),
        any::<[u8; 2]>().prop_map(|[c, d]| [169, 254, c, d]),
        (
            select(vec![[192, 0, 0], [192, 0, 2], [192, 88, 99], [198, 51, 100], [203, 0, 113]]),
            any::<u8>()
        )
            .prop_map(|([a, b, c], d)| [a, b, c, d]),
        select(vec![
            [127, 0, 0, 1],
            [0, 0, 0, 0],
            [169, 254, 169, 254],
            [100, 100, 100, 200],
            [192, 0, 0, 192],
            [168, 63, 129, 16],
            [255, 255, 255, 255],
        ]),
    ]
}

/// An IPv4 address of one to four numbers, each in any base.
fn v4_host() -> impl Strategy<Value = String> {
    let digits = prop_oneof![
        6 => Just(Digits::Ascii),
        1 => select(vec![
            Digits::FullWidth,
            Digits::Circled,
            Digits::Bold,
            Digits::Superscript,
            Digits::Encoded,
        ]),
    ];
    let count = prop_oneof![3 => Just(4_usize), 2 => 1_usize..4];
    let bases = prop_oneof![2 => Just([0; 4]), 3 => any::<[u8; 4]>()];
    let dot = prop_oneof![6 => Just("."), 1 => select(vec!["。", "．", "｡", "\u{2024}", "%2e"])];
    let inside = prop_oneof![20 => Just(""), 1 => select(vec!["\u{ad}", "\u{200b}", "\u{2060}"])];
    let end = prop_oneof![6 => Just(""), 1 => select(vec![".", "..", "。"])];
    (inner_v4(), count, bases, dot, digits, inside, end).prop_map(
        |(octets, count, bases, dot, digits, inside, end)| {
            let numbers = numbers(octets, count).into_iter().zip(bases);
            let numbers: Vec<String> =
                numbers.map(|(number, base)| in_base(number, base)).collect();
            let mut host = digits.spell(&numbers.join(dot));
            let first = host.chars().next().map_or(0, char::len_utf8);
            host.insert_str(first, inside);
            host + end
        },
    )
}

/// The address as so many numbers: the last one holds what is left.
fn numbers(octets: [u8; 4], count: usize) -> Vec<u32> {
    let (alone, rest) = octets.split_at(count - 1);
    let rest = rest.iter().fold(0, |number, octet| number << 8 | u32::from(*octet));
    alone.iter().copied().map(u32::from).chain([rest]).collect()
}

fn in_base(number: u32, base: u8) -> String {
    match base % 7 {
        0 | 1 => format!("{number}"),
        2 => format!("0{number:o}"),
        3 => format!("0000000{number:o}"),
        4 => format!("0x{number:x}"),
        5 => format!("0X{number:X}"),
        _ => format!("0x000000000{number:x}"),
    }
}

/// An IPv6 address that holds an inner IPv4 address, or is not public itself.
fn v6_host() -> impl Strategy<Value = String> {
    let is_upper = any::<bool>();
    let zone = prop_oneof![20 => Just(""), 1 => select(vec!["%25eth0", "%1", "%eth0"])];
    // Whatever does not begin with the bits 001 is nobody's on the internet.
    let first = prop_oneof![0x1000_u16..0x2000, 0x4000_u16.., 0xfc00_u16..];
    (inner_v4(), 0_u8..20, first, any::<u16>(), is_upper, zone).prop_map(
        |([a, b, c, d], form, first, any, is_upper, zone)| {
            let whole = u32::from_be_bytes([a, b, c, d]);
            let (high, low) = (whole >> 16, whole & 0xffff);
            let (flipped_high, flipped_low) = (high ^ 0xffff, low ^ 0xffff);
            let inner = match form {
                // Mapped, compatible, translated (SIIT).
                0 => format!("::ffff:{a}.{b}.{c}.{d}"),
                1 => format!("::ffff:{high:x}:{low:x}"),
                2 => format!("0:0:0:0:0:ffff:{high:x}:{low:x}"),
                3 => format!("0000:0000:0000:0000:0000:ffff:{high:04x}:{low:04x}"),
                4 => format!("::{a}.{b}.{c}.{d}"),
                5 => format!("::{high:x}:{low:x}"),
                6 => format!("::ffff:0:{a}.{b}.{c}.{d}"),
                // NAT64, and its range for local use.
                7 => format!("64:ff9b::{high:x}:{low:x}"),
                8 => format!("64:ff9b::{a}.{b}.{c}.{d}"),
                9 => format!("64:ff9b:1:{any:x}::{high:x}:{low:x}"),
                // 6to4, Teredo, ISATAP.
                10 => format!("2002:{high:x}:{low:x}::{any:x}"),
                11 => format!("2001:0:{any:x}:1::{flipped_high:x}:{flipped_low:x}"),
                12 => format!("2a00:{any:x}::5efe:{high:x}:{low:x}"),
                13 => format!("2a00:{any:x}::200:5efe:{a}.{b}.{c}.{d}"),
                // For documentation, protocols, and discarding.
                14 => format!("2001:db8:{any:x}::{low:x}"),
                15 => format!("3fff:{:x}::{low:x}", any & 0xfff),
                16 => format!("100::{any:x}:{low:x}"),
                17 => select_short(any).to_owned(),
                _ => format!("{first:x}:{any:x}::{high:x}:{low:x}"),
            };
            let inner = if is_upper { inner.to_uppercase() } else { inner };
            format!("[{inner}{zone}]")
        },
    )
}

fn select_short(number: u16) -> &'static str {
    ["::", "::1", "0:0:0:0:0:0:0:1", "fd00:ec2::254", "fe80::1", "ff02::1"][usize::from(number) % 6]
}

/// A name. [`Attacker`] resolves it.
fn name() -> BoxedStrategy<String> {
    let known = select(vec![
        "localhost",
        "LocalHost.",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "ｌocalhost",
        "a.localhost",
        "metadata.google.internal",
        "xn--bcher-kva.example",
        "bücher.example",
        "public.example.evil.example",
        "localhost%2e",
        "wiki.local",
    ]);
    prop_oneof![
        known.prop_map(str::to_owned),
        inner_v4().prop_map(|[a, b, c, d]| format!("{a}.{b}.{c}.{d}.nip.io")),
        inner_v4().prop_map(|[a, b, c, d]| format!("{a}-{b}-{c}-{d}.sslip.io")),
        "[a-zA-Z]{1,8}(\\.[a-z]{1,8}){1,2}\\.?",
        "[a-z0-9.\\-]{0,30}",
        "\\PC{0,20}",
    ]
    .boxed()
}

fn spelled_url() -> impl Strategy<Value = String> {
    let scheme = prop_oneof![
        6 => select(vec!["http://", "https://", "HTTP://", "hTTps://"]),
        1 => select(vec![
            "http:", "http:/", "http:///", r"http:\\", r"http:/\", "//", r"\\", "ftp://",
            "gopher://", "file://", "ws://", "view-source:http://", "jar:http://", " http://",
            "h\tttp://", "http://http://",
        ]),
    ];
    let before = prop_oneof![
        9 => Just(""),
        1 => select(vec![
            "u@", "u:p@", "example.com@", "example.com:80@", r"a\@", "@", ":@", "a%40b@",
            "\u{200b}", "%00", "\0",
        ]),
    ];
    let after = prop_oneof![
        6 => select(vec!["", "/", ":80/", ":443/x?y#z", "?x", "#@example.com", "?@example.com"]),
        1 => select(vec![
            ":22", ":0", ":08/", ":8787/", ":99999/", ":", ":８０/", "/\0", "/\r\n", ".", "%2e",
            r"\@example.com", "%00.example.com/", ":80@example.com/", "%0d%0a/", " /", "/..;/@",
        ]),
    ];
    let host = prop_oneof![4 => v4_host(), 3 => v6_host(), 2 => name()];
    (scheme, before, host, after).prop_map(|(a, b, c, d)| format!("{a}{b}{c}{d}"))
}

/// Where spellings were refused. A run that never came to an address would prove nothing.
#[derive(Debug, Default)]
struct Refused {
    as_written: Cell<usize>,
    at_addresses: Cell<usize>,
    in_redirects: Cell<usize>,
}

fn one_more(count: &Cell<usize>) {
    count.set(count.get() + 1);
}

/// Where a spelling is refused.
#[derive(Debug, PartialEq)]
enum Refusal {
    AsWritten,
    Fetched(FetchError),
}

/// Fetches through the whole guard, and counts the connections that are asked for.
struct Guarded {
    fetcher: Fetcher,
    trusted: TrustedHosts,
    connections: Connections,
}

impl Guarded {
    fn new(settings: &str, connections: Connections) -> Self {
        let settings: WebSettings = toml::from_str(settings).unwrap();
        let destinations = Destinations::new(Arc::new(Attacker), own_endpoints(UPSTREAM));
        let layer = connections.clone();
        let fetcher =
            Fetcher::new(&settings, destinations, |builder| builder.connector_layer(layer.clone()));
        let trusted = settings.trusted_hosts;
        Self { fetcher: fetcher.unwrap(), trusted, connections }
    }

    /// `None`: it was fetched. A redirect to another host would have been told to the model.
    fn refusal(&self, runtime: &Runtime, url: &str) -> Option<Refusal> {
        let Ok(url) = PageUrl::parse(url, &self.trusted) else { return Some(Refusal::AsWritten) };
        runtime.block_on(self.fetcher.fetch(&url)).err().map(Refusal::Fetched)
    }

    fn connections(&self) -> usize {
        self.connections.made.load(Ordering::Relaxed)
    }
}

/// Redirects every request to the place that is set.
#[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
async fn redirecting(place: Arc<Mutex<String>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let _ = socket.read(&mut request).await;
            let head = format!("302 Found\r\nlocation: {}", sync::lock(&place));
            let _ = socket.write_all(&response(&head, "")).await;
        }
    });
    port
}

/// Tries as many spellings, each hundredth as the target of a redirect. Says what became of them.
fn try_spellings(cases: u32) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let direct = Guarded::new("", Connections::refused());
    let place = Arc::new(Mutex::new(String::new()));
    let port = runtime.block_on(redirecting(place.clone()));
    let wiki = format!("http://wiki.local:{port}/");
    let settings = format!("trusted_hosts = [\"wiki.local:{port}\"]");
    let redirected = Guarded::new(&settings, Connections::default());

    let reaches_public_ones = |before: usize| {
        for (public, number) in PUBLIC.iter().zip(1..) {
            let refusal = direct.refusal(&runtime, public);
            assert_eq!(refusal, Some(Refusal::Fetched(FetchError::Unreachable)), "{public}");
            assert_eq!(direct.connections(), before + number, "{public}");
        }
    };
    reaches_public_ones(0);

    let refused = Refused::default();
    let config = ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let spellings = (spelled_url(), prop_oneof![99 => Just(false), 1 => Just(true)]);
    let tried = TestRunner::new(config).run(&spellings, |(spelling, is_redirect)| {
        if is_redirect {
            let before = redirected.connections();
            sync::lock(&place).clone_from(&spelling);
            let refusal = redirected.refusal(&runtime, &wiki);
            prop_assert!(refusal.is_some(), "{spelling:?} is told");
            prop_assert_eq!(redirected.connections(), before + 1, "{:?}", spelling);
            one_more(&refused.in_redirects);
            return Ok(());
        }
        // Not the count of all, of which one too many would blame every later spelling.
        let before = direct.connections();
        match direct.refusal(&runtime, &spelling) {
            Some(Refusal::AsWritten) => one_more(&refused.as_written),
            Some(Refusal::Fetched(FetchError::NotPublic | FetchError::HostNotFound)) => {
                one_more(&refused.at_addresses);
            }
            other => prop_assert!(false, "{spelling:?}: {other:?}"),
        }
        prop_assert_eq!(direct.connections(), before, "{:?}", spelling);
        Ok(())
    });
    tried.unwrap_or_else(|failure| panic!("{failure}"));

    reaches_public_ones(PUBLIC.len());
    let Refused { as_written, at_addresses, in_redirects } = refused;
    let [written, addresses, redirects] =
        [as_written, at_addresses, in_redirects].map(Cell::into_inner);
    let cases = cases as usize;
    assert_eq!(written + addresses + redirects, cases);
    assert!(cases < 5 * written.min(addresses), "{written} as written, {addresses} at addresses");
    assert!(cases < 200 * redirects, "{redirects} redirects");
    format!(
        "R20: {cases} spellings of inner addresses: {written} refused as written, {addresses} at \
         their addresses, {redirects} as targets of redirects; 0 connections, {} to public ones",
        2 * PUBLIC.len(),
    )
}

#[test]
fn r20_no_spelling_of_an_inner_address_is_connected_to() {
    try_spellings(20_000);
}

#[test]
#[ignore = "takes a minute: make soak"]
#[expect(clippy::print_stdout, reason = "the line is what the run is for")]
fn r20_a_million_spellings_of_inner_addresses_are_not_connected_to() {
    println!("{}", try_spellings(1_000_000));
}
