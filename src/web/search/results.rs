//! Chooses among what a provider has found. Pure.

use std::collections::HashSet;

use url::Url;

use super::SearchResult;
use super::domains::DomainFilter;
use crate::text;

const MAX_TITLE_CHARS: usize = 200;
const MAX_SNIPPET_CHARS: usize = 500;
const MAX_URL_CHARS: usize = 2_000;

/// A result as the provider gives it.
#[derive(Clone, Debug)]
pub(super) struct RawResult {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) snippet: String,
}

/// The first results of the domains that are wanted, one a URL, on one line each and without
/// characters that nobody sees.
pub(super) fn chosen(
    found: Vec<RawResult>,
    domains: &DomainFilter,
    max: usize,
) -> Vec<SearchResult> {
    let mut known = HashSet::new();
    let results = found.into_iter().filter_map(|found| {
        let url = link(&found.url).filter(|url| domains.lets_through(url))?;
        let title = text::shown_line(&found.title);
        let title = if title.is_empty() { url.host_str().unwrap_or_default() } else { &title };
        let snippet = text::shown_line(&found.snippet);
        Some(SearchResult {
            title: text::first_chars(title, MAX_TITLE_CHARS).to_owned(),
            snippet: text::first_chars(&snippet, MAX_SNIPPET_CHARS).to_owned(),
            url,
        })
    });
    results.filter(|result| known.insert(result.url.clone())).take(max).collect()
}

/// A link to a page, without its fragment.
fn link(text: &str) -> Option<Url> {
    let mut url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    url.set_fragment(None);
    (url.as_str().len() <= MAX_URL_CHARS && !has_user).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_links_of_the_domains_one_each() {
        let found = |url: &str, title: &str| RawResult {
            title: title.to_owned(),
            url: url.to_owned(),
            snippet: format!("a\nb\u{200b} {}", "x".repeat(600)),
        };
        let list = vec![
            found("https://a.com/1#x", "One\u{e0041}\ntitle"),
            found("https://a.com/1", "again"),
            found("javascript:alert(1)", "no"),
            found("file:///etc/passwd", "no"),
            found("https://u:p@a.com/", "no"),
            found("nonsense", "no"),
            found("http://b.com/", ""),
            found("https://evil.com/", "blocked"),
            found("https://c.com/", "third"),
        ];
        let blocked = DomainFilter::new(&[], &["evil.com".to_owned()]).unwrap();
        let chosen = chosen(list, &blocked, 3);
        let shown: Vec<_> = chosen.iter().map(|one| format!("{} {}", one.title, one.url)).collect();
        assert_eq!(
            shown,
            ["One title https://a.com/1", "b.com http://b.com/", "third https://c.com/"]
        );
        assert!(chosen.iter().all(|one| one.snippet.starts_with("a b xx")));
        assert!(chosen.iter().all(|one| one.snippet.chars().count() == MAX_SNIPPET_CHARS));
    }
}
