//! Who gets a connection, and who may keep it.
//!
//! A peer that has shown no valid key keeps a few connections; further ones are
//! on trial: each has to ask quickly, gets its one answer, and stays only when
//! the key was right. So a burst of honest clients passes whole, a health check
//! is answered, and a flood of silent connections is soon gone. Beyond the number
//! of connections in all, a few are still told that there is no room.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::router;
use crate::limits::Limits;
use crate::openai::error::{ApiError, ErrorCode};

/// Beyond the limit of connections, this many at a time are told so; the rest is
/// closed without a word.
const TURNED_AWAY_AT_ONCE: usize = 64;

/// What who is turned away should wait.
const WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// Every connection there is.
#[derive(Debug)]
pub(super) struct Admissions {
    connections: usize,
    unauthenticated_per_peer: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Kept and on trial.
    all: usize,
    on_trial: usize,
    turned_away: usize,
    peers: HashMap<IpAddr, OfPeer>,
}

#[derive(Debug, Default)]
struct OfPeer {
    connections: usize,
    /// Those that have shown a valid key.
    with_key: usize,
}

/// One connection's standing; its place is free when it is dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    admissions: Arc<Admissions>,
    pub(super) peer: IpAddr,
    is_turned_away: bool,
    on_trial: AtomicBool,
    has_shown_key: AtomicBool,
}

impl Admissions {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            connections: limits.connections,
            unauthenticated_per_peer: limits.unauthenticated_per_peer,
            counts: Mutex::default(),
        })
    }

    /// `None` when not even a refusal can be afforded.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Arc<Admission>> {
        let mut counts = self.counts();
        let of_peer = counts.peers.get(&peer);
        let is_stranger = of_peer.is_some_and(|of_peer| !self.is_welcome(of_peer, 1));
        let is_full = counts.all >= self.connections
            // Strangers leave half of all places to others.
            || is_stranger && counts.on_trial >= self.connections / 2;
        if is_full && counts.turned_away >= TURNED_AWAY_AT_ONCE {
            return None;
        }
        if is_full {
            counts.turned_away += 1;
        } else {
            counts.all += 1;
            counts.on_trial += usize::from(is_stranger);
            counts.peers.entry(peer).or_default().connections += 1;
        }
        Some(Arc::new(Admission {
            admissions: Arc::clone(self),
            peer,
            is_turned_away: is_full,
            on_trial: AtomicBool::new(is_stranger && !is_full),
            has_shown_key: AtomicBool::new(false),
        }))
    }

    /// Whether a peer may keep what it has and `more`.
    fn is_welcome(&self, of_peer: &OfPeer, more: usize) -> bool {
        of_peer.with_key > 0 || of_peer.connections + more <= self.unauthenticated_per_peer
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().expect("no holder panics")
    }
}

impl Admission {
    /// Whether it must ask quickly.
    pub(super) fn is_hurried(&self) -> bool {
        self.is_turned_away || self.on_trial.load(Ordering::Relaxed)
    }

    /// Whether it may go on after its first answer. A trial ends when any
    /// connection of the peer has shown a key, or enough of them have gone.
    pub(super) fn may_stay(&self) -> bool {
        if !self.is_hurried() {
            return true;
        }
        let mut counts = self.admissions.counts();
        let of_peer = counts.peers.get(&self.peer);
        let is_welcome = of_peer.is_some_and(|of_peer| self.admissions.is_welcome(of_peer, 0));
        let may_stay = is_welcome && !self.is_turned_away;
        if may_stay && self.on_trial.swap(false, Ordering::Relaxed) {
            counts.on_trial -= 1;
        }
        may_stay
    }

    /// A valid key came over this connection.
    pub(crate) fn key_shown(&self) {
        if self.is_turned_away || self.has_shown_key.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(of_peer) = self.admissions.counts().peers.get_mut(&self.peer) {
            of_peer.with_key += 1;
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut counts = self.admissions.counts();
        if self.is_turned_away {
            counts.turned_away -= 1;
            return;
        }
        counts.all -= 1;
        counts.on_trial -= usize::from(*self.on_trial.get_mut());
        if let Some(of_peer) = counts.peers.get_mut(&self.peer) {
            of_peer.connections -= 1;
            of_peer.with_key -= usize::from(*self.has_shown_key.get_mut());
            if of_peer.connections == 0 {
                counts.peers.remove(&self.peer);
            }
        }
    }
}

/// Who has been turned away hears it, unless it only asks how we are.
pub(crate) async fn turn_away(request: Request, next: Next) -> Response {
    let admission = request.extensions().get::<Arc<Admission>>();
    let is_turned_away = admission.is_some_and(|admission| admission.is_turned_away);
    if !is_turned_away || router::is_open(request.uri().path()) {
        return next.run(request).await;
    }
    let message = "The server has as many connections as it can take. Try again in a moment.";
    ApiError::new(ErrorCode::Overloaded, message).retry_after(Some(WAIT)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn admissions(connections: usize, unauthenticated_per_peer: usize) -> Arc<Admissions> {
        let limits = Limits { connections, unauthenticated_per_peer, ..Limits::default() };
        Admissions::new(&limits)
    }

    fn admit(admissions: &Arc<Admissions>, peer: IpAddr, count: usize) -> Vec<Arc<Admission>> {
        (0..count).map(|_| admissions.admit(peer).expect("admitted")).collect()
    }

    fn staying(connections: &[Arc<Admission>]) -> usize {
        connections.iter().filter(|connection| connection.may_stay()).count()
    }

    #[test]
    fn a_peer_without_a_key_keeps_only_so_many() {
        let admissions = admissions(100, 3);

        let connections = admit(&admissions, PEER, 10);
        let others = admit(&admissions, OTHER, 3);

        assert_eq!((staying(&connections), staying(&others)), (3, 3));
    }

    #[test]
    fn one_key_vouches_for_all_connections_of_a_peer_while_it_stays() {
        let admissions = admissions(100, 3);
        let mut connections = admit(&admissions, PEER, 10);

        connections[9].key_shown();
        connections[9].key_shown();
        assert_eq!(staying(&connections), 10);
        assert_eq!(admissions.counts().on_trial, 0);

        drop(connections.pop());
        connections.extend(admit(&admissions, PEER, 1));
        assert_eq!(staying(&connections), 9);
    }

    #[test]
    fn a_trial_ends_when_others_have_made_room() {
        let admissions = admissions(100, 3);
        let mut connections = admit(&admissions, PEER, 4);
        assert!(!connections[3].may_stay());

        connections.remove(0);

        assert_eq!(staying(&connections), 3);
    }

    #[test]
    fn strangers_leave_half_of_the_places_to_others() {
        let admissions = admissions(10, 1);
        let strangers = admit(&admissions, PEER, 20);

        assert_eq!(strangers.iter().filter(|one| one.is_turned_away).count(), 14);
        assert!(admit(&admissions, OTHER, 1)[0].may_stay());
    }

    #[test]
    fn when_all_is_full_a_few_are_told_and_the_rest_closed() {
        let admissions = admissions(2, 100);
        let mut connections = admit(&admissions, PEER, 2 + TURNED_AWAY_AT_ONCE);
        assert!(admissions.admit(PEER).is_none());
        assert_eq!(staying(&connections), 2);

        connections.remove(0);

        assert!(admissions.admit(OTHER).expect("admitted").may_stay());
    }

    #[test]
    fn nothing_is_counted_of_those_who_have_left() {
        let admissions = admissions(10, 1);
        let connections = admit(&admissions, PEER, 20);
        connections[2].key_shown();
        connections[19].key_shown();
        assert!(connections[1].may_stay());
        drop(connections);

        let counts = admissions.counts();
        assert_eq!((counts.all, counts.on_trial, counts.turned_away), (0, 0, 0));
        assert!(counts.peers.is_empty());
    }
}
