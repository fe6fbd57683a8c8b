//! Connects to addresses that were looked at, and to no others.
//!
//! The HTTP client asks a resolver for the addresses of a name. The one here knows only those that
//! a fetch has put there, so that no second answer of the name service counts.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderMap;
use reqwest::{ClientBuilder, Response};
use tokio::time::Instant;

use super::connect_deadline::{ConnectDeadline, connected_by};
use crate::http_client;
use crate::page_url::PageUrl;
use crate::sync;

/// The clients for pages. A host may be trusted at one port and not at another, so what was found
/// for trusted ones is kept apart.
#[derive(Debug)]
pub(super) struct Connector {
    public: Pinned,
    trusted: Pinned,
}

/// A client with the addresses that it may use.
#[derive(Debug)]
struct Pinned {
    client: reqwest::Client,
    pins: Pins,
}

#[derive(Clone, Debug, Default)]
struct Pins(Arc<Mutex<HashMap<String, Vec<Pin>>>>);

/// The addresses of one fetch that goes on.
#[derive(Debug)]
struct Pin(Arc<[SocketAddr]>);

/// Lets a client connect to the addresses of a fetch, until it is dropped.
#[derive(Debug)]
pub(super) struct PinnedClient {
    client: reqwest::Client,
    pins: Pins,
    host: String,
    addresses: Arc<[SocketAddr]>,
}

impl Connector {
    /// `prepared` adds to the clients, for tests.
    pub(super) fn new(prepared: impl Fn(ClientBuilder) -> ClientBuilder) -> Result<Self, String> {
        let pinned = || {
            let pins = Pins::default();
            let client = http_client::build(Vec::new(), |builder| {
                Ok(prepared(builder)
                    .dns_resolver(Arc::new(pins.clone()))
                    .connector_layer(ConnectDeadline)
                    // What is encoded is counted and decoded by us.
                    .no_gzip()
                    .no_brotli()
                    .no_deflate()
                    .no_zstd()
                    // A connection is made to the addresses of its own fetch.
                    .pool_max_idle_per_host(0))
            })?;
            Ok::<_, String>(Pinned { client, pins })
        };
        Ok(Self { public: pinned()?, trusted: pinned()? })
    }

    /// A client that connects to `addresses` for the host of `page`.
    pub(super) fn pinned(&self, page: &PageUrl, addresses: Vec<SocketAddr>) -> PinnedClient {
        let of_trust = if page.is_trusted() { &self.trusted } else { &self.public };
        // The port is the URL's: another fetch of this host may be at another one.
        let without_port = addresses.into_iter().map(|address| SocketAddr::new(address.ip(), 0));
        let addresses: Arc<[SocketAddr]> = without_port.collect();
        let host = page.host().to_owned();
        let mut pins = sync::lock(&of_trust.pins.0);
        pins.entry(host.clone()).or_default().push(Pin(Arc::clone(&addresses)));
        let (client, pins) = (of_trust.client.clone(), of_trust.pins.clone());
        PinnedClient { client, pins, host, addresses }
    }
}

impl PinnedClient {
    /// Asks for `url`. Fails with a timeout unless it is connected by `deadline`.
    pub(super) async fn get(
        &self,
        url: String,
        headers: HeaderMap,
        deadline: Instant,
    ) -> reqwest::Result<Response> {
        connected_by(deadline, self.client.get(url).headers(headers).send()).await
    }
}

impl Drop for PinnedClient {
    fn drop(&mut self) {
        let mut pins = sync::lock(&self.pins.0);
        if let Some(of_host) = pins.get_mut(&self.host) {
            of_host.retain(|pin| !Arc::ptr_eq(&pin.0, &self.addresses));
            if of_host.is_empty() {
                pins.remove(&self.host);
            }
        }
    }
}

impl Resolve for Pins {
    fn resolve(&self, name: Name) -> Resolving {
        let pins = sync::lock(&self.0);
        let found = pins.get(name.as_str()).and_then(|of_host| of_host.last());
        let found: Option<Vec<SocketAddr>> = found.map(|pin| pin.0.to_vec());
        Box::pin(async move {
            let found = found.ok_or("the host was not looked at")?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
