//! Builds HTTP clients that follow no redirect and use no proxy of the environment, also where the
//! system has no certificates.

use reqwest::{Certificate, ClientBuilder};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

/// A client that trusts the system's certificate authorities, or the bundled ones where there are
/// none, and those of `own`. `prepared` adds what is special about it.
pub(crate) fn build(
    own: Vec<CertificateDer<'static>>,
    prepared: impl Fn(ClientBuilder) -> Result<ClientBuilder, String>,
) -> Result<reqwest::Client, String> {
    // An error means that a provider is installed already.
    rustls::crypto::ring::default_provider().install_default().ok();
    let with_system_roots = prepared(builder())?
        .tls_certs_merge(own.iter().filter_map(|der| Certificate::from_der(der).ok()))
        .build();
    with_system_roots.or_else(|_| with_bundled_roots(own, prepared))
}

/// A client with bundled root certificates. Without any system certificates the client could
/// not be built, not even for plain HTTP.
pub(crate) fn with_bundled_roots(
    own: Vec<CertificateDer<'static>>,
    prepared: impl Fn(ClientBuilder) -> Result<ClientBuilder, String>,
) -> Result<reqwest::Client, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(own);
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let client = prepared(builder())?.tls_backend_preconfigured(tls).build();
    client.map_err(|error| format!("no HTTP client can be made: {error}"))
}

/// What all clients share.
fn builder() -> ClientBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .tcp_nodelay(true)
}
