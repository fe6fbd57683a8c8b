//! Matches the hosts of pages with the rules `WebFetch(domain:example.com)`.

/// A host, or all below one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DomainPattern {
    host: String,
    /// Covers the subdomains of the host, and not the host itself.
    is_below: bool,
}

impl DomainPattern {
    /// Reads what stands in the parentheses of a rule.
    pub(super) fn parse(specifier: &str) -> Result<Self, String> {
        let wrong =
            || "write domain: and a host, such as domain:example.com or domain:*.example.com";
        let domain = specifier.strip_prefix("domain:").ok_or_else(wrong)?;
        let (host, is_below) = match domain.strip_prefix("*.") {
            Some(host) => (host, true),
            None => (domain, false),
        };
        let host = host_of(host).filter(|host| !is_below || !host.starts_with('['));
        Ok(Self { host: host.ok_or_else(wrong)?, is_below })
    }

    /// Whether it covers a host in its ASCII form, in lower case.
    pub(super) fn covers(&self, host: &str) -> bool {
        if !self.is_below {
            return self.host == host;
        }
        let subdomain = host.strip_suffix(&self.host).and_then(|rest| rest.strip_suffix('.'));
        subdomain.is_some_and(|name| !name.is_empty())
    }
}

/// The host as requests have it: in lower case, in its ASCII form, without a dot at the end. An
/// IPv6 address is in brackets, which a rule may leave out.
fn host_of(domain: &str) -> Option<String> {
    let address =
        domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(domain);
    if let Ok(address) = address.parse() {
        return Some(url::Host::<String>::Ipv6(address).to_string());
    }
    let host = domain.strip_suffix('.').unwrap_or(domain);
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/\\:@?#%*[]".contains(c);
    if host.is_empty() || host.contains(is_odd) || host.starts_with('.') || host.contains("..") {
        return None;
    }
    let url = url::Url::parse(&format!("http://{host}/")).ok()?;
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let host = url.host_str().filter(|host| !host.ends_with('.'))?;
    // A URL may have `a.com,b.com` for a host. No page has, so a rule for it would hold nothing.
    host.chars().all(is_of_a_name).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_a_host_and_nothing_else() {
        let host = |domain: &str| {
            let parsed = DomainPattern::parse(&format!("domain:{domain}"));
            parsed.map(|pattern| pattern.host).unwrap_or_default()
        };
        assert_eq!(host("EXAMPLE.com."), "example.com");
        assert_eq!(host("*.bücher.example"), "xn--bcher-kva.example");
        assert_eq!(host("127.0.0.1"), "127.0.0.1");
        for loopback in ["[::1]", "::1", "[0:0::0001]"] {
            assert_eq!(host(loopback), "[::1]");
        }
        for wrong in [
            "",
            "*",
            "*.",
            "a/b",
            "a:80",
            "a@b",
            "a b",
            "..",
            "a..b",
            "a*",
            "x.*.y",
            "%41",
            "[::1",
            "::1]",
            "[[::1]]",
            "[::1]:80",
            "*.[::1]",
            "*.::1",
            "[a.b]",
            "a.com,b.com",
            "https://a.com",
            " a.com",
            "a.com;b.com",
            "domain:a.com",
            "a.com|b.com",
            "*.*.com",
        ] {
            assert_eq!(host(wrong), "", "{wrong}");
        }
        assert!(DomainPattern::parse("example.com").is_err());
    }

    #[test]
    fn w31_a_host_is_compared_whole_and_a_subdomain_at_a_dot() {
        let covers = |domain: &str, host: &str| {
            DomainPattern::parse(&format!("domain:{domain}")).unwrap().covers(host)
        };
        assert!(covers("docs.python.org", "docs.python.org"));
        assert!(
            covers("*.python.org", "docs.python.org") && covers("*.python.org", "a.b.python.org")
        );
        for host in ["docs.python.org.evil.com", "evildocs.python.org", "python.org", ".python.org"]
        {
            assert!(!covers("docs.python.org", host), "{host}");
        }
        for host in ["python.org", "evilpython.org", ".python.org", "docs.python.org.evil.com"] {
            assert!(!covers("*.python.org", host), "{host}");
        }
    }
}
