//! Finds the addresses of hosts.

use std::fmt;
use std::io;
use std::net::IpAddr;

use futures::future::BoxFuture;

/// Finds the addresses of a host. Tests have one of their own.
pub(crate) trait Resolver: fmt::Debug + Send + Sync {
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug)]
pub(crate) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
