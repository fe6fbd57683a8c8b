//! Defines a client key: what its requests may do, and since when no more.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::ids::KeyId;
use crate::permissions::Mode;
use crate::tools::settings::ClientTools;

/// Whose request it is. In the extensions of every request that has passed
/// [`super::auth::require_key`].
#[derive(Clone, Debug)]
pub(crate) struct ClientKey {
    pub(crate) id: KeyId,
    /// The widest mode of its requests, if the server's is wider.
    pub(crate) mode: Option<Mode>,
    /// The workspace of its requests, by the name in `server.workspaces`.
    pub(crate) workspace: Option<String>,
    /// In place of `turns.disconnect_grace`.
    pub(crate) disconnect_grace: Option<Duration>,
    /// Whether a header may name the person behind the client.
    pub(crate) trust_forwarded_user: bool,
    /// In place of `tools.client_tools`.
    pub(crate) client_tools: Option<ClientTools>,
    /// Cancelled within seconds after the key was revoked, also without a request.
    pub(crate) revoked: CancellationToken,
}

impl ClientKey {
    /// A key that is bound by the server's settings only.
    pub(crate) fn unrestricted(id: KeyId) -> Self {
        Self {
            id,
            mode: None,
            workspace: None,
            disconnect_grace: None,
            trust_forwarded_user: false,
            client_tools: None,
            revoked: CancellationToken::new(),
        }
    }

    /// Stands for every client of a server that asks for no key.
    pub(crate) fn nobody() -> Self {
        Self::unrestricted(KeyId::nobody())
    }
}

/// A client key that is accepted, with the hash by which it is known.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) client: Arc<ClientKey>,
    pub(crate) sha256: [u8; 32],
}

impl Key {
    pub(crate) fn from_secret(id: &str, secret: &str) -> Self {
        let client = Arc::new(ClientKey::unrestricted(KeyId::new(id)));
        Self { client, sha256: hash(secret.as_bytes()) }
    }
}

/// Keys are random, so that a fast hash does.
pub(crate) fn hash(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}
