use super::*;

fn trusted(hosts: &[&str]) -> TrustedHosts {
    #[derive(serde::Deserialize)]
    struct Read {
        hosts: TrustedHosts,
    }
    toml::from_str::<Read>(&format!("hosts = {hosts:?}")).unwrap().hosts
}

fn parse(text: &str) -> Result<String, PageUrlError> {
    PageUrl::parse(text, &trusted(&["wiki.local:8080", "10.0.0.7:80"])).map(|url| url.to_string())
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(parse(text), Ok(expected.to_owned()), "{text}");
}

#[track_caller]
fn refused(texts: &[&str], expected: PageUrlError) {
    for text in texts {
        assert_eq!(parse(text), Err(expected), "{text:?}");
    }
}

#[test]
fn http_becomes_https_but_for_trusted_hosts() {
    check("http://example.com/a?b=c#d", "https://example.com/a?b=c#d");
    check("HTTP://Example.COM.", "https://example.com/");
    check(" https://example.com:80/ ", "https://example.com:80/");
    check("http://example.com:443/x", "https://example.com/x");
    check("https://bücher.example/", "https://xn--bcher-kva.example/");
    check("http://wiki.local:8080/x", "http://wiki.local:8080/x");
    check("http://WIKI.local.:8080/x", "http://wiki.local:8080/x");
    check("http://10.0.0.7/", "http://10.0.0.7/");
    check("https://wiki.local/", "https://wiki.local/");
    // Whether these addresses are public is asked later.
    check("http://[::1]/", "https://[::1]/");
    check("http://127.0.0.1/", "https://127.0.0.1/");
}

#[test]
fn w2_w3_w4_w10_w14_addresses_in_an_unusual_form_are_refused() {
    let texts = [
        "http://127.1/",
        "http://127.0.0.1./",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://00000000177.1/",
        "http://0/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://169.254.169.254./",
        "http://①②⑦.0.0.1/",
        "http://127。0。0。1/",
        "http://%31%32%37.0.0.1/",
        "http://127.0.0.0x1:80/",
    ];
    refused(&texts, PageUrlError::Host);
}

#[test]
fn w1_w21_other_unusual_spellings_are_refused() {
    let texts = [
        "http://127.0.1/",
        "http://127.0x0.0.1/",
        "http://0300.0250.1.1/",
        "http://3232235777/",
        "http://0xC0A80101/",
        "http://4294967295/",
        "http://10.1./",
        "http://010.0.0.1:80/",
        "http://1.2.3/",
        "https://256.1.1.1/",
        "https://1.2.3.4.5/",
        "https://127.0.0.1../",
        "https://0x7f.1../",
        "https://example.com../",
        "https://./",
        "https://.example.com/",
        "https://example.0x1/",
        // Addresses of IPv6 with a zone, or in a form of no standard.
        "https://[fe80::1%eth0]/",
        "https://[fe80::1%251]/",
        "https://[::ffff:127.0.0.1%25lo]/",
        "https://[::ffff:0x7f.1]/",
        "https://[::ffff:127.1]/",
        "https://[::1].example.com/",
        "https://::1/",
        "https://[127.0.0.1]/",
        "https://[]/",
        "https://[v1.fe80]/",
        // Ports.
        "https://example.com:65536/",
        "https://example.com:+80/",
        "https://example.com:-1/",
        "https://example.com: 80/",
        "https://example.com:80:80/",
        "https://example.com:https/",
        "https://example.com:８０/",
        // Letters that IDNA reads as plain ones, or not at all.
        "https://ⓛocalhost/",
        "https://ｌｏｃａｌｈｏｓｔ/",
        "https://loca\u{ad}lhost/",
        "https://loca\u{200b}lhost/",
        "https://example。com/",
        "https://bücher。example/",
        "https://\u{212a}ernel.org/",
        "https://exam\u{ff0f}ple.com/",
        "https://bücher.%65xample/",
        "https://a.ｅvil.example/",
        "https://xn--/",
        "https://xn--a.example/",
        "https://xn--localhost-.example/",
        "https://exa'mple.com/",
        "https://exa$mple.com/",
        "https://ex{a}mple.com/",
    ];
    refused(&texts, PageUrlError::Host);
    refused(&["https://example.com:0/", "https://example.com:08080/"], PageUrlError::Port);
}

#[test]
fn spellings_of_which_all_programs_think_the_same_are_read() {
    check("https://example.com:/x", "https://example.com/x");
    check("https://example.com:00443/", "https://example.com/");
    check("https://example.com:0080/", "https://example.com:80/");
    check("http://93.184.216.34:0080/", "https://93.184.216.34/");
    check("http://[2606:4700::1111]:0080/", "https://[2606:4700::1111]/");
    check("https://[2606:4700:0:0::1111]:/", "https://[2606:4700::1111]/");
    check("https://[2606:4700::ABCD]:443/", "https://[2606:4700::abcd]/");
    check("https://[::FFFF:93.184.216.34]/", "https://[::ffff:5db8:d822]/");
    check("https://XN--BCHER-KVA.example./", "https://xn--bcher-kva.example/");
    check("https://Bücher.Example/", "https://xn--bcher-kva.example/");
    check("https://例え.テスト/", "https://xn--r8jz45g.xn--zckzah/");
    check("https://a--b.example/", "https://a--b.example/");
    check("https://1.2.3.4.example/", "https://1.2.3.4.example/");
}

#[test]
fn w15_a_url_with_a_user_is_refused() {
    let texts = [
        "http://user:pass@h/",
        "http://example.com@127.0.0.1/",
        "https://@example.com/",
        "https://:@example.com",
    ];
    refused(&texts, PageUrlError::UserInfo);
}

#[test]
fn w16_w17_w18_what_parsers_read_differently_is_refused() {
    let texts = [
        r"http://127.0.0.1\@example.com/",
        r"http://example.com\@127.0.0.1/",
        r"http:\\127.0.0.1\",
        "http:127.0.0.1",
        "http:/127.0.0.1",
        "http:///127.0.0.1",
        "https:example.com",
        "example.com",
        "//example.com/",
        "",
    ];
    refused(&texts, PageUrlError::Form);
    // The fragment is no part of the host.
    check("http://example.com#@127.0.0.1/", "https://example.com/#@127.0.0.1/");
    check("https://example.com/a\\b", "https://example.com/a/b");
}

#[test]
fn w19_control_characters_are_refused() {
    let texts = [
        "http://exa\tmple.com/",
        "http://exa\nmple.com/",
        "https://example.com/\0",
        "https://example.com/\u{85}",
        "\u{1}https://example.com/",
        "https://example.com/\r\n",
    ];
    refused(&texts, PageUrlError::ControlCharacters);
}

#[test]
fn w20_w21_a_host_is_letters_digits_and_hyphens() {
    let texts = [
        "http://127.0.0.1%00.example.com/",
        "http://attacker.example%00.google.com/",
        "https://exa_mple.com/",
        "https://-a.com/",
        "https://a-.com/",
        "https://a..b/",
        "https://a b.com/",
        "https://exa%6dple.com/",
        "https://*.com/",
        "https://[::1%25eth0]/",
        "https://[::1/",
        "https://h:99999/",
    ];
    refused(&texts, PageUrlError::Host);
    let label = format!("https://{}.com/", "a".repeat(64));
    refused(&[&label, &format!("https://{}b/", "a.".repeat(130))], PageUrlError::Host);
}

#[test]
fn w25_only_http_is_fetched() {
    let texts = [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "data:text/html,x",
        "jar:http://example.com!/x",
        "unix:/run/x",
        "javascript:alert(1)",
        "view-source://example.com/",
    ];
    refused(&texts, PageUrlError::Form);
}

#[test]
fn w26_only_ports_80_and_443_unless_trusted() {
    for port in [22, 25, 6379, 8080, 8787, 11434] {
        refused(&[&format!("http://example.com:{port}/")], PageUrlError::Port);
    }
    refused(&["http://wiki.local:8081/", "http://10.0.0.7:8080/"], PageUrlError::Port);
}

#[test]
fn w32_a_long_query_is_told() {
    let with = |chars: usize| {
        let text = format!("https://example.com/?{}", "q".repeat(chars));
        PageUrl::parse(&text, &TrustedHosts::default()).unwrap().has_long_query()
    };
    assert!(!with(256) && with(257));
    let long = format!("https://example.com/{}", "p".repeat(MAX_CHARS));
    refused(&[&long], PageUrlError::TooLong);
}

#[test]
fn w24_a_redirect_is_parsed_anew() {
    let hosts = trusted(&["wiki.local:8080"]);
    let page = PageUrl::parse("https://example.com/a/b?c#d", &hosts).unwrap();
    let join = |location: &str| -> Result<_, PageUrlError> {
        let target = page.join(location, &hosts)?;
        Ok((target.to_string(), page.may_lead_to(&target), page.is_downgrade(location)))
    };
    let to = |url: &str, follows, downgrade| Ok((url.to_owned(), follows, downgrade));
    assert_eq!(join("x"), to("https://example.com/a/x", true, false));
    assert_eq!(join("/x?u=http://h/"), to("https://example.com/x?u=http://h/", true, false));
    assert_eq!(join("?u=http://h/"), to("https://example.com/a/b?u=http://h/", true, false));
    assert_eq!(join("https://EXAMPLE.com./x"), to("https://example.com/x", true, false));
    assert_eq!(join("https://example.com:80/"), to("https://example.com:80/", false, false));
    assert_eq!(join("https://www.example.com/"), to("https://www.example.com/", false, false));
    assert_eq!(join("//evil.example/"), to("https://evil.example/", false, false));
    assert_eq!(join("http://example.com/"), to("https://example.com/", true, true));
    assert_eq!(join("http://wiki.local:8080/"), to("http://wiki.local:8080/", false, true));
    for refused in [
        "https://u:p@example.com/",
        "ftp://example.com/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        r"\\evil.example/",
        r"/\evil.example/",
        "/\t/evil.example",
        "https://example.com:22/",
        "https://0x7f.1/",
        "//127.1/",
    ] {
        assert!(join(refused).is_err(), "{refused}: {:?}", join(refused));
    }
    let wiki = PageUrl::parse("http://wiki.local:8080/", &hosts).unwrap();
    let upgraded = wiki.join("https://wiki.local:8080/", &hosts).unwrap();
    assert!(wiki.may_lead_to(&upgraded) && !wiki.is_downgrade("https://wiki.local:8080/"));
}
