//! Looks up the addresses of upstream, from which no page is read.
//!
//! An ordinary page pays little for it: only pages at upstream's port ask, one lookup serves many
//! pages, and one that does not end is waited for once.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::time::{Instant, timeout_at};
use url::Host;

use super::resolver::Resolver;
use crate::sync;

/// How long what was found counts. Names of balanced services change by the minute.
const MAX_AGE: Duration = Duration::from_secs(60);

/// How long pages wait for a lookup. A name service that takes longer is as good as down, and what
/// was found before counts.
const MAX_WAIT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct UpstreamAddresses {
    resolver: Arc<dyn Resolver>,
    /// Upstream's host and port.
    place: Option<(Host<String>, u16)>,
    last: Mutex<Option<Lookup>>,
}

#[derive(Clone, Debug)]
struct Lookup {
    began: Instant,
    /// What was found, or `before` if nothing was.
    found: Shared<BoxFuture<'static, Arc<[IpAddr]>>>,
    /// What the lookup before this one has found.
    before: Arc<[IpAddr]>,
}

impl UpstreamAddresses {
    pub(super) fn new(resolver: Arc<dyn Resolver>, place: Option<(Host<String>, u16)>) -> Self {
        Self { resolver, place, last: Mutex::default() }
    }

    /// The addresses of upstream if it is at `port`, and else none.
    pub(super) async fn at_port(&self, port: u16) -> Arc<[IpAddr]> {
        let Some(lookup) = self.lookup_at(port) else { return self.known_at_port(port) };
        let found = timeout_at(lookup.began + MAX_WAIT, lookup.found).await;
        found.unwrap_or(lookup.before)
    }

    /// The addresses of upstream at `port` that are known without a lookup.
    pub(super) fn known_at_port(&self, port: u16) -> Arc<[IpAddr]> {
        match &self.place {
            Some((Host::Ipv4(address), at)) if *at == port => Arc::new([(*address).into()]),
            Some((Host::Ipv6(address), at)) if *at == port => Arc::new([(*address).into()]),
            _ => Arc::default(),
        }
    }

    /// The last lookup, or a new one if that is too old. `None` if there is nothing to look up.
    fn lookup_at(&self, port: u16) -> Option<Lookup> {
        let Some((Host::Domain(name), at)) = &self.place else { return None };
        if *at != port {
            return None;
        }
        let now = Instant::now();
        let mut last = sync::lock(&self.last);
        if let Some(last) = last.as_ref().filter(|last| now < last.began + MAX_AGE) {
            return Some(last.clone());
        }
        let before = last.as_ref().map(Lookup::newest).unwrap_or_default();
        let found = found_or(Arc::clone(&before), self.resolver.resolve(name)).boxed().shared();
        let lookup = Lookup { began: now, found, before };
        *last = Some(lookup.clone());
        Some(lookup)
    }
}

/// What an answer of the name service says. One that says nothing changes nothing.
async fn found_or(
    before: Arc<[IpAddr]>,
    answer: BoxFuture<'static, io::Result<Vec<IpAddr>>>,
) -> Arc<[IpAddr]> {
    match answer.await {
        Ok(found) if !found.is_empty() => found.into(),
        _ => before,
    }
}

impl Lookup {
    fn newest(&self) -> Arc<[IpAddr]> {
        Arc::clone(self.found.peek().unwrap_or(&self.before))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Gives these answers, one after the other; `None` never comes.
    #[derive(Debug)]
    struct Scripted(Mutex<VecDeque<Option<Vec<IpAddr>>>>);

    impl Resolver for Scripted {
        fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let answer = sync::lock(&self.0).pop_front().expect("one more answer");
            match answer {
                Some(found) => std::future::ready(Ok(found)).boxed(),
                None => std::future::pending().boxed(),
            }
        }
    }

    fn upstream(answers: &[Option<&[&str]>]) -> UpstreamAddresses {
        let parsed = |list: &&[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect();
        let answers = answers.iter().map(|answer| answer.as_ref().map(parsed)).collect();
        let resolver = Arc::new(Scripted(Mutex::new(answers)));
        UpstreamAddresses::new(resolver, Some((Host::parse("llm.example").unwrap(), 443)))
    }

    async fn found(upstream: &UpstreamAddresses) -> String {
        let found = upstream.at_port(443).await;
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[tokio::test(start_paused = true)]
    async fn one_lookup_serves_the_pages_of_a_minute_and_other_ports_ask_nothing() {
        let upstream = upstream(&[Some(&["1.1.1.1"]), Some(&["1.0.0.1"])]);
        assert!(upstream.at_port(80).await.is_empty());
        assert_eq!(found(&upstream).await, "1.1.1.1");
        assert_eq!(found(&upstream).await, "1.1.1.1");
        tokio::time::advance(MAX_AGE).await;
        assert_eq!(found(&upstream).await, "1.0.0.1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_that_fails_or_never_ends_leaves_what_was_found_before() {
        let upstream = upstream(&[Some(&["1.1.1.1"]), Some(&[]), None, None]);
        assert_eq!(found(&upstream).await, "1.1.1.1");
        for _ in 0..3 {
            tokio::time::advance(MAX_AGE).await;
            assert_eq!(found(&upstream).await, "1.1.1.1");
        }
        // It was waited for once.
        let began = Instant::now();
        assert_eq!(found(&upstream).await, "1.1.1.1");
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn an_upstream_that_is_an_address_is_never_looked_up() {
        let resolver = Arc::new(Scripted(Mutex::default()));
        let upstream =
            UpstreamAddresses::new(resolver, Some((Host::parse("[::1]").unwrap(), 4000)));
        let own: IpAddr = "::1".parse().unwrap();
        assert_eq!(*upstream.at_port(4000).await, [own]);
        assert!(upstream.at_port(80).await.is_empty());
    }
}
