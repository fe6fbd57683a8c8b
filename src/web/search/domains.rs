//! Filters results by their domains: exact, or at a dot. Pure.

use url::{Host, Url};

/// The most domains of a filter.
const MAX_DOMAINS: usize = 50;

/// Which domains results may have. At most one of the lists has entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DomainFilter {
    allowed: Vec<String>,
    blocked: Vec<String>,
}

impl DomainFilter {
    /// The error is a sentence for the model.
    pub(crate) fn new(allowed: &[String], blocked: &[String]) -> Result<Self, String> {
        if !allowed.is_empty() && !blocked.is_empty() {
            return Err("give `allowed_domains` or `blocked_domains`, not both".to_owned());
        }
        let read = |domains: &[String]| {
            if domains.len() > MAX_DOMAINS {
                return Err(format!("at most {MAX_DOMAINS} domains can be given"));
            }
            domains.iter().map(|domain| normal(domain)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { allowed: read(allowed)?, blocked: read(blocked)? })
    }

    pub(super) fn allowed(&self) -> &[String] {
        &self.allowed
    }

    pub(super) fn blocked(&self) -> &[String] {
        &self.blocked
    }

    pub(super) fn lets_through(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let host = host.strip_suffix('.').unwrap_or(host);
        let is_of = |domain: &String| {
            let before = host.strip_suffix(domain.as_str());
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        let is_allowed = self.allowed.is_empty() || self.allowed.iter().any(is_of);
        is_allowed && !self.blocked.iter().any(is_of)
    }
}

/// In lower case, by IDNA, without a dot at its end. `.example.com` and `*.example.com` are ways to
/// write a domain and what is below it.
fn normal(domain: &str) -> Result<String, String> {
    let because = || {
        let domain = crate::text::quoted_name(domain);
        format!("\"{domain}\" is no domain; write it as \"example.com\"")
    };
    let domain = domain.trim();
    let domain = domain.strip_prefix("*.").or_else(|| domain.strip_prefix('.')).unwrap_or(domain);
    let host = Host::parse(domain).map_err(|_| because())?;
    let text = host.to_string();
    let text = text.strip_suffix('.').unwrap_or(&text);
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    // A filter of anything else would match no result, and say nothing.
    let is_host = !matches!(host, Host::Domain(_)) || text.split('.').all(is_label);
    if is_host { Ok(text.to_owned()) } else { Err(because()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w31_a_domain_is_exact_or_ends_at_a_dot() {
        let own = |domain: &str| vec![domain.to_owned()];
        let filter = DomainFilter::new(&own("Docs.Python.org."), &[]).unwrap();
        let passes = |filter: &DomainFilter, host: &str| {
            filter.lets_through(&Url::parse(&format!("https://{host}/")).unwrap())
        };
        for host in ["docs.python.org", "DOCS.python.org.", "x.docs.python.org"] {
            assert!(passes(&filter, host), "{host}");
        }
        for host in ["docs.python.org.evil.com", "evildocs.python.org", "python.org"] {
            assert!(!passes(&filter, host), "{host}");
        }
        let blocked = DomainFilter::new(&[], &own("*.bücher.example")).unwrap();
        assert!(!passes(&blocked, "xn--bcher-kva.example") && passes(&blocked, "example"));
        assert!(DomainFilter::new(&own("a.b"), &own("c.d")).unwrap_err().contains("not both"));
    }

    #[test]
    fn a_filter_means_a_domain_or_is_an_error_that_names_it() {
        let filter = |domain: &str| DomainFilter::new(&[domain.to_owned()], &[]);
        let python = filter("docs.python.org").unwrap();
        for domain in [".docs.python.org", "*.docs.python.org", " Docs.Python.org. "] {
            assert_eq!(filter(domain).as_ref(), Ok(&python), "{domain}");
        }
        let loopback = filter("[::1]").unwrap();
        assert!(loopback.lets_through(&Url::parse("http://[::1]:9/").unwrap()));
        for wrong in [
            "",
            "*",
            ".",
            "*.",
            "..a",
            "*.*.a",
            "a.*",
            "a b",
            "a..b",
            "https://a.b/",
            "a.b/c",
            "a:80",
        ] {
            let error = filter(wrong).unwrap_err();
            assert!(error.contains(&format!("\"{wrong}\" is no domain")), "{error}");
        }
    }
}
