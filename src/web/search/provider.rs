//! Knows how each provider is asked, and how it answers. Pure.

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Value, json};
use url::Url;

use super::super::settings::Provider;
use super::Query;
use super::results::RawResult;
use crate::secret::Secret;

/// Where and how searches are asked for.
#[derive(Debug)]
pub(super) struct Endpoint {
    provider: Provider,
    url: Url,
    key: Option<(HeaderName, HeaderValue)>,
}

/// A request of a search.
#[derive(Debug)]
pub(super) struct SearchRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Option<Value>,
}

/// Where a provider is when nothing else is set, if it has a place of its own.
pub(super) fn own_url(provider: Provider) -> Option<Url> {
    let url = match provider {
        Provider::Brave => "https://api.search.brave.com/res/v1/web/search",
        Provider::Tavily => "https://api.tavily.com/search",
        Provider::Searxng | Provider::Litellm => return None,
    };
    Some(Url::parse(url).expect("it is a URL"))
}

impl Endpoint {
    /// `url` is the whole address for brave and tavily, the base for the others.
    pub(super) fn new(
        provider: Provider,
        url: &Url,
        tool: &str,
        key: Option<&Secret>,
    ) -> Result<Self, String> {
        let mut url = url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            match provider {
                Provider::Searxng => _ = path.push("search"),
                Provider::Litellm => _ = path.push("search").push(tool),
                Provider::Brave | Provider::Tavily => {}
            }
        }
        let key = key.map(|key| header(provider, key)).transpose()?;
        Ok(Self { provider, url, key })
    }

    pub(super) fn key(&self) -> Option<(HeaderName, HeaderValue)> {
        self.key.clone()
    }

    pub(super) fn request(&self, query: &Query, results: usize) -> SearchRequest {
        let (allowed, blocked) = (query.domains.allowed(), query.domains.blocked());
        let mut url = self.url.clone();
        let mut body = match self.provider {
            Provider::Searxng => {
                let text = with_sites(&query.text, allowed);
                url.query_pairs_mut().append_pair("q", &text).append_pair("format", "json");
                return SearchRequest { method: Method::GET, url, body: None };
            }
            Provider::Brave => {
                let text = with_sites(&query.text, allowed);
                url.query_pairs_mut()
                    .append_pair("q", &text)
                    .append_pair("count", &results.to_string())
                    .append_pair("text_decorations", "false");
                return SearchRequest { method: Method::GET, url, body: None };
            }
            Provider::Tavily | Provider::Litellm => {
                json!({ "query": query.text, "max_results": results })
            }
        };
        let names: &[(&str, &[String])] = match self.provider {
            Provider::Tavily => &[("include_domains", allowed), ("exclude_domains", blocked)],
            _ => &[("search_domain_filter", allowed)],
        };
        for (name, domains) in names {
            if !domains.is_empty() {
                body[*name] = json!(domains);
            }
        }
        SearchRequest { method: Method::POST, url, body: Some(body) }
    }

    /// What an answer lists. `None` if it is no list, such as an error that says 200.
    pub(super) fn results(&self, answer: &[u8]) -> Option<Vec<RawResult>> {
        let answer: Value = serde_json::from_slice(answer).ok()?;
        if answer.get("error").is_some_and(|error| !error.is_null()) {
            return None;
        }
        let list = match self.provider {
            // Brave leaves the member out where nothing was found.
            Provider::Brave => match answer.get("web") {
                None if answer.get("type")? == "search" => return Some(Vec::new()),
                web => web?.get("results")?,
            },
            _ => answer.get("results")?,
        };
        let snippet = match self.provider {
            Provider::Searxng | Provider::Tavily => "content",
            Provider::Brave => "description",
            Provider::Litellm => "snippet",
        };
        let text =
            |result: &Value, name| result.get(name).and_then(Value::as_str).map(str::to_owned);
        let found = list.as_array()?.iter().filter_map(|result| {
            Some(RawResult {
                title: text(result, "title").unwrap_or_default(),
                url: text(result, "url")?,
                snippet: text(result, snippet).unwrap_or_default(),
            })
        });
        Some(found.collect())
    }
}

fn header(provider: Provider, key: &Secret) -> Result<(HeaderName, HeaderValue), String> {
    let (name, text) = match provider {
        Provider::Brave => {
            (HeaderName::from_static("x-subscription-token"), key.expose().trim().to_owned())
        }
        _ => (AUTHORIZATION, format!("Bearer {}", key.expose().trim())),
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| "web.search: the key holds characters that no header can carry".to_owned())?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// A query that asks engines for these sites alone. What they answer is filtered all the same.
fn with_sites(query: &str, allowed: &[String]) -> String {
    let sites: Vec<_> = allowed.iter().map(|domain| format!("site:{domain}")).collect();
    match sites.len() {
        0 => query.to_owned(),
        _ => format!("{query} {}", sites.join(" OR ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::domains::DomainFilter;
    use super::*;

    fn endpoint(provider: Provider, url: &str) -> Endpoint {
        let key = Secret::new("k3y-of-search".to_owned());
        Endpoint::new(provider, &Url::parse(url).unwrap(), "web", Some(&key)).unwrap()
    }

    fn request(provider: Provider, url: &str, allowed: &[&str], blocked: &[&str]) -> String {
        let own = |domains: &[&str]| domains.iter().map(|d| (*d).to_owned()).collect::<Vec<_>>();
        let domains = DomainFilter::new(&own(allowed), &own(blocked)).unwrap();
        let query = Query { text: "rust & more".to_owned(), domains };
        let SearchRequest { method, url, body } = endpoint(provider, url).request(&query, 5);
        format!("{method} {url} {}", body.unwrap_or_default())
    }

    #[test]
    fn each_provider_is_asked_in_its_way() {
        insta::assert_snapshot!(
            [
                request(Provider::Searxng, "http://s:8888/", &["a.com", "b.com"], &[]),
                request(Provider::Searxng, "http://s/x", &[], &["a.com"]),
                request(Provider::Brave, own_url(Provider::Brave).unwrap().as_str(), &[], &[]),
                request(Provider::Tavily, own_url(Provider::Tavily).unwrap().as_str(), &[], &["c.d"]),
                request(Provider::Litellm, "http://l:4000/v1", &["a.com"], &[]),
            ]
            .join("\n"),
            @r#"
        GET http://s:8888/search?q=rust+%26+more+site%3Aa.com+OR+site%3Ab.com&format=json null
        GET http://s/x/search?q=rust+%26+more&format=json null
        GET https://api.search.brave.com/res/v1/web/search?q=rust+%26+more&count=5&text_decorations=false null
        POST https://api.tavily.com/search {"query":"rust & more","max_results":5,"exclude_domains":["c.d"]}
        POST http://l:4000/v1/search/web {"query":"rust & more","max_results":5,"search_domain_filter":["a.com"]}
        "#
        );
        let header = |provider| {
            let (name, value) = endpoint(provider, "http://h/").key().unwrap();
            assert!(value.is_sensitive());
            format!("{name}: {}", value.to_str().unwrap())
        };
        assert_eq!(header(Provider::Brave), "x-subscription-token: k3y-of-search");
        assert_eq!(header(Provider::Litellm), "authorization: Bearer k3y-of-search");
    }

    #[test]
    fn an_answer_is_a_list_or_nothing() {
        let count = |provider, answer: Value| {
            let found = endpoint(provider, "http://h/").results(answer.to_string().as_bytes());
            found.map(|found| found.len())
        };
        let result = json!({"title": "t", "url": "https://h/", "content": "c"});
        assert_eq!(count(Provider::Searxng, json!({"results": [result]})), Some(1));
        assert_eq!(count(Provider::Tavily, json!({"results": []})), Some(0));
        assert_eq!(count(Provider::Brave, json!({"web": {"results": [result, {}]}})), Some(1));
        assert_eq!(count(Provider::Brave, json!({"type": "search"})), Some(0));
        assert_eq!(count(Provider::Litellm, json!({"results": [result, 5]})), Some(1));
        for answer in [json!({"error": {"message": "no key"}}), json!([]), json!("x"), json!({})] {
            for provider in
                [Provider::Searxng, Provider::Brave, Provider::Tavily, Provider::Litellm]
            {
                assert_eq!(count(provider, answer.clone()), None, "{answer}");
            }
        }
        let both = json!({"error": "expired", "results": [result]});
        assert_eq!(count(Provider::Searxng, both), None);
    }
}
