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

/// In lower case, by IDNA, without a dot at its end.
fn normal(domain: &str) -> Result<String, String> {
    let because = || {
        let domain = crate::text::quoted_name(domain);
        format!("\"{domain}\" is no domain; write it as \"example.com\"")
    };
    let domain = domain.trim().trim_start_matches("*.");
    let parsed = Host::parse(domain).map_err(|_| because())?.to_string();
    let parsed = parsed.strip_suffix('.').unwrap_or(&parsed);
    if parsed.is_empty() { Err(because()) } else { Ok(parsed.to_owned()) }
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
        assert!(DomainFilter::new(&own("a b"), &[]).unwrap_err().contains("example.com"));
    }
}
