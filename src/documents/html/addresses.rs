//! Reads which other addresses a page names for itself: where it leads on to, and its canonical one.

use dom_query::Document;
use serde::{Deserialize, Serialize};
use url::Url;

/// Longer ones are not told.
const MAX_BYTES: usize = 2_000;

/// The addresses, none of which is the page's own. They are the page's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedAddresses {
    /// Where a `meta` element sends the reader.
    pub(crate) leads_to: Option<String>,
    /// The page's own one, if it was read at another.
    pub(crate) canonical: Option<String>,
}

impl NamedAddresses {
    /// Those of the head of an answer: its `Refresh`, and its `Link` headers. `own` is the address of
    /// the page.
    pub(crate) fn of_headers<'h>(
        refresh: Option<&str>,
        links: impl IntoIterator<Item = &'h str>,
        own: &Url,
    ) -> Self {
        let named = |target: &str| named(target, Some(own), Some(own));
        let canonical = links.into_iter().find_map(canonical_link);
        Self {
            leads_to: refresh.and_then(|refresh| named(target_of_refresh(refresh)?)),
            canonical: canonical.and_then(named),
        }
    }

    /// With those of others, where these name none.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            leads_to: self.leads_to.or(others.leads_to),
            canonical: self.canonical.or(others.canonical),
        }
    }

    /// Must be read before the head of the page is taken out. `base` is what targets are relative
    /// to, and `own` the address of the page.
    pub(super) fn of(document: &Document, base: Option<&Url>, own: Option<&str>) -> Self {
        let own = own.and_then(|own| Url::parse(own).ok());
        let named = |target: &str| named(target, base, own.as_ref());
        let refreshes = document.select("meta[http-equiv][content]");
        let refresh = refreshes
            .nodes()
            .iter()
            .find(|meta| meta.attr_or("http-equiv", "").trim().eq_ignore_ascii_case("refresh"));
        let refresh = refresh.map(|meta| meta.attr_or("content", ""));
        let links = document.select("link[rel][href]");
        let canonical = links.nodes().iter().find(|link| {
            let rel = link.attr_or("rel", "");
            rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("canonical"))
        });
        Self {
            leads_to: refresh.and_then(|content| named(target_of_refresh(&content)?)),
            canonical: canonical.and_then(|link| named(&link.attr_or("href", ""))),
        }
    }
}

/// The address, if it is one of the web and not the page's own.
fn named(target: &str, base: Option<&Url>, own: Option<&Url>) -> Option<String> {
    let target = target.trim();
    let mut url = match base {
        Some(base) => base.join(target).ok()?,
        None => Url::parse(target).ok()?,
    };
    let is_readers = matches!(url.scheme(), "http" | "https") && url.username().is_empty();
    if target.is_empty() || !is_readers || url.password().is_some() {
        return None;
    }
    let shown = url.to_string();
    url.set_fragment(None);
    let is_own = own.is_some_and(|own| {
        let mut own = own.clone();
        own.set_fragment(None);
        own == url
    });
    (!is_own && shown.len() <= MAX_BYTES).then_some(shown)
}

/// The target of the link that is the canonical one, of those in a header such as
/// `</a>; rel="canonical", </b>; rel=next`.
fn canonical_link(header: &str) -> Option<&str> {
    header.split('<').skip(1).find_map(|link| {
        let (target, parameters) = link.split_once('>')?;
        let is_canonical = parameters.split([';', ',']).any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            let words = value.trim().trim_matches(['"', '\'']).split_ascii_whitespace();
            let mut words = words.filter(|word| word.eq_ignore_ascii_case("canonical"));
            name.trim().eq_ignore_ascii_case("rel") && words.next().is_some()
        });
        is_canonical.then_some(target)
    })
}

/// The target in `5; url='x'`, as browsers read it: a number, a sign between, and `url=` before the
/// target, which may be missing.
fn target_of_refresh(content: &str) -> Option<&str> {
    let content = content.trim_start();
    let behind = content.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if behind.len() == content.len() {
        return None;
    }
    let behind = behind.trim_start();
    let behind = behind.strip_prefix([';', ',']).unwrap_or(behind).trim_start();
    let target = behind
        .get(..3)
        .filter(|word| word.eq_ignore_ascii_case("url"))
        .and_then(|_| behind[3..].trim_start().strip_prefix('=').map(str::trim_start));
    let target = target.unwrap_or(behind);
    let quote = target.chars().next().filter(|c| matches!(c, '"' | '\''));
    let target = match quote {
        Some(quote) => target[1..].split(quote).next().unwrap_or_default(),
        None => target,
    };
    let target = target.trim();
    (!target.is_empty()).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::super::parsing::{self, Syntax};
    use super::*;

    const OWN: &str = "https://example.com/a/page";

    fn of(html: &str) -> NamedAddresses {
        let document = parsing::parse(html, Syntax::Html);
        NamedAddresses::of(&document, Url::parse(OWN).ok().as_ref(), Some(OWN))
    }

    #[test]
    fn outside_23_a_refresh_says_where_the_page_leads() {
        for content in [
            "0; url=/b",
            "0;URL='/b'",
            "5,url=\"/b\"",
            " 0.5 ; Url = /b ",
            "0 /b",
            "0;/b",
            "0; url='/b' and more",
        ] {
            let content = content.replace('"', "&quot;");
            let html = format!("<meta http-equiv=Refresh content=\"{content}\">");
            let leads_to = of(&html).leads_to;
            assert_eq!(leads_to.as_deref(), Some("https://example.com/b"), "{content}");
        }
        let inside = "<head><noscript><meta http-equiv=refresh content='0;url=/b'></noscript>";
        assert_eq!(of(inside).leads_to.as_deref(), Some("https://example.com/b"));
        for content in ["", "5", "url=/b", "0; url=", "0; url=javascript:x()", "0; url=page#x"] {
            let html = format!("<meta http-equiv=refresh content=\"{content}\">");
            assert_eq!(of(&html).leads_to, None, "{content}");
        }
        let credentials = "<meta http-equiv=refresh content='0; url=https://me:key@b.example/'>";
        assert_eq!(of(credentials).leads_to, None);
    }

    #[test]
    fn outside_23_24_headers_name_the_same_addresses() {
        let own = Url::parse(OWN).unwrap();
        let of = |refresh: Option<&str>, links: &[&str]| {
            let found = NamedAddresses::of_headers(refresh, links.iter().copied(), &own);
            (found.leads_to.unwrap_or_default(), found.canonical.unwrap_or_default())
        };
        let b = "https://example.com/b";
        for refresh in ["0; url=/b", "5;URL='https://example.com/b'", "0, /b"] {
            assert_eq!(of(Some(refresh), &[]), (b.to_owned(), String::new()), "{refresh}");
        }
        for refresh in ["", "5", "0; url=page", "0; url=javascript:x()", "url=/b"] {
            assert_eq!(of(Some(refresh), &[]).0, "", "{refresh}");
        }
        for links in [
            &["</b>; rel=\"canonical\""][..],
            &["</a>; rel=next, <https://example.com/b>;rel=canonical; type=text/html"],
            &["</a>; rel=preload", "</b>; title=x; REL='nofollow Canonical'"],
        ] {
            assert_eq!(of(None, links), (String::new(), b.to_owned()), "{links:?}");
        }
        for links in
            [&["</b>; rel=next"][..], &["/b; rel=canonical"], &["</b"], &["<page>; rel=canonical"]]
        {
            assert_eq!(of(None, links).1, "", "{links:?}");
        }
    }

    #[test]
    fn outside_24_a_canonical_address_is_told_unless_it_is_the_pages() {
        let canonical =
            |href: &str| of(&format!("<link rel='x Canonical' href='{href}'>")).canonical;
        assert_eq!(canonical("/b").as_deref(), Some("https://example.com/b"));
        assert_eq!(canonical("https://b.example/").as_deref(), Some("https://b.example/"));
        for own in [OWN, "page", "page#part", "", "data:text/html,x"] {
            assert_eq!(canonical(own), None, "{own}");
        }
        assert_eq!(of("<link rel=stylesheet href=/b>").canonical, None);
    }
}
