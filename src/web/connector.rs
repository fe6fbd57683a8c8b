//! Connects to addresses that were looked at, and to no others.
//!
//! The HTTP client asks a resolver for the addresses of a name, in the task of its request. The
//! resolver here knows only those that the request brings along, so that neither a second answer
//! of the name service counts nor what another fetch has found.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderMap;
use reqwest::{ClientBuilder, Response};
use tokio::time::Instant;

use super::connect_deadline::{ConnectDeadline, connected_by};
use crate::http_client;
use crate::page_url::PageUrl;

tokio::task_local! {
    static RESOLVED: ResolvedHost;
}

/// The client for pages.
#[derive(Debug)]
pub(super) struct Connector(reqwest::Client);

/// A host with the addresses that may be connected to for it.
#[derive(Clone, Debug)]
struct ResolvedHost {
    host: String,
    addresses: Vec<SocketAddr>,
}

/// Answers with the addresses that the request of this task has brought along.
#[derive(Debug)]
struct ResolvedBefore;

impl Connector {
    /// `prepared` adds to the client, for tests.
    pub(super) fn new(prepared: impl Fn(ClientBuilder) -> ClientBuilder) -> Result<Self, String> {
        let client = http_client::build(Vec::new(), |builder| {
            Ok(prepared(builder)
                .dns_resolver(Arc::new(ResolvedBefore))
                .connector_layer(ConnectDeadline)
                // What is encoded is counted and decoded by us.
                .no_gzip()
                .no_brotli()
                .no_deflate()
                .no_zstd()
                // A connection is made to the addresses of its own fetch.
                .pool_max_idle_per_host(0))
        })?;
        Ok(Self(client))
    }

    /// Asks for `page` at one of `addresses`. Fails with a timeout unless it is connected by
    /// `deadline`.
    pub(super) async fn get(
        &self,
        page: &PageUrl,
        addresses: Vec<SocketAddr>,
        headers: HeaderMap,
        deadline: Instant,
    ) -> reqwest::Result<Response> {
        let resolved = ResolvedHost { host: page.host().to_owned(), addresses };
        let request = self.0.get(page.without_fragment()).headers(headers).send();
        connected_by(deadline, RESOLVED.scope(resolved, request)).await
    }
}

impl Resolve for ResolvedBefore {
    fn resolve(&self, name: Name) -> Resolving {
        let resolved = RESOLVED.try_get().ok().filter(|resolved| resolved.host == name.as_str());
        Box::pin(async move {
            let resolved = resolved.ok_or("the host was not looked at")?;
            Ok(Box::new(resolved.addresses.into_iter()) as Addrs)
        })
    }
}
