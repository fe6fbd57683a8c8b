//! Admits connections within `limits.connections` and `limits.unauthenticated_per_peer`
//! (`docs/threats.md`, H23).
//!
//! A peer that has shown no valid key may keep a few connections. Further ones are
//! probationary: they have a short deadline for their request, get one answer, and stay
//! only if the key was right. So a burst of honest clients passes, a health check is
//! answered, and a flood of silent connections is soon closed. When all connections are
//! in use, a few more are told so.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::errors::{ApiError, ErrorCode};
use crate::limits::Limits;
use crate::sync;

/// When all connections are in use, this many at a time are told so. Others are closed
/// without an answer.
const MAX_TURNED_AWAY: usize = 64;

/// `Retry-After` of a connection that is turned away.
const WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// Counts all connections.
#[derive(Debug)]
pub(super) struct Admissions {
    connections: usize,
    unauthenticated_per_peer: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Admitted and probationary connections.
    all: usize,
    probationary: usize,
    turned_away: usize,
    peers: HashMap<IpAddr, PeerCounts>,
}

#[derive(Debug, Default)]
struct PeerCounts {
    connections: usize,
    /// Connections that have shown a valid key.
    authenticated: usize,
}

/// Admits one connection. Dropping it releases its place.
#[derive(Debug)]
pub(crate) struct Admission {
    admissions: Arc<Admissions>,
    pub(super) peer: IpAddr,
    /// Lock order: the status before the counts.
    status: Mutex<Status>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// All connections were in use. The connection is told so and closed.
    TurnedAway,
    /// Its peer is beyond `limits.unauthenticated_per_peer`.
    Probationary,
    Admitted,
    /// It has shown a valid key.
    Authenticated,
}

impl Admissions {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            connections: limits.connections,
            unauthenticated_per_peer: limits.unauthenticated_per_peer,
            counts: Mutex::default(),
        })
    }

    /// Returns `None` if the connection is closed without an answer.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Arc<Admission>> {
        let mut counts = self.counts();
        let own = counts.peers.get(&peer);
        let is_probationary = own.is_some_and(|own| !self.is_within_limit(own, 1));
        let is_full = counts.all >= self.connections
            // Probationary connections leave half of all places to others.
            || is_probationary && counts.probationary >= self.connections / 2;
        if is_full && counts.turned_away >= MAX_TURNED_AWAY {
            return None;
        }
        let status = if is_full {
            counts.turned_away += 1;
            Status::TurnedAway
        } else {
            counts.all += 1;
            counts.probationary += usize::from(is_probationary);
            counts.peers.entry(peer).or_default().connections += 1;
            if is_probationary { Status::Probationary } else { Status::Admitted }
        };
        Some(Arc::new(Admission { admissions: Arc::clone(self), peer, status: Mutex::new(status) }))
    }

    /// Whether a peer may keep its connections and this many `more`.
    fn is_within_limit(&self, own: &PeerCounts, more: usize) -> bool {
        own.authenticated > 0 || own.connections + more <= self.unauthenticated_per_peer
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        sync::lock(&self.counts)
    }
}

impl Admission {
    /// Whether the first head must come sooner than `limits.header_time`.
    pub(super) fn has_short_deadline(&self) -> bool {
        matches!(*self.status(), Status::TurnedAway | Status::Probationary)
    }

    /// Whether the connection may stay after its first answer. Its probation ends when
    /// any connection of the peer has shown a valid key, or when enough of them have
    /// closed.
    pub(super) fn may_stay(&self) -> bool {
        let mut status = self.status();
        match *status {
            Status::Admitted | Status::Authenticated => return true,
            Status::TurnedAway => return false,
            Status::Probationary => {}
        }
        let mut counts = self.admissions.counts();
        let own = counts.peers.get(&self.peer);
        let may_stay = own.is_some_and(|own| self.admissions.is_within_limit(own, 0));
        if may_stay {
            *status = Status::Admitted;
            counts.probationary -= 1;
        }
        may_stay
    }

    /// Records that a valid key came over this connection.
    pub(super) fn authenticate(&self) {
        let mut status = self.status();
        if matches!(*status, Status::TurnedAway | Status::Authenticated) {
            return;
        }
        let mut counts = self.admissions.counts();
        if *status == Status::Probationary {
            counts.probationary -= 1;
        }
        if let Some(own) = counts.peers.get_mut(&self.peer) {
            own.authenticated += 1;
        }
        *status = Status::Authenticated;
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        sync::lock(&self.status)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let status = *self.status();
        let mut counts = self.admissions.counts();
        if status == Status::TurnedAway {
            counts.turned_away -= 1;
            return;
        }
        counts.all -= 1;
        counts.probationary -= usize::from(status == Status::Probationary);
        if let Some(own) = counts.peers.get_mut(&self.peer) {
            own.connections -= 1;
            own.authenticated -= usize::from(status == Status::Authenticated);
            if own.connections == 0 {
                counts.peers.remove(&self.peer);
            }
        }
    }
}

/// Refuses the requests of a connection for which there was no room. Runs before all
/// routes but the open ones, so that a health check is still answered.
pub(crate) async fn turn_away(request: Request, next: Next) -> Response {
    let admission = request.extensions().get::<Arc<Admission>>();
    if !admission.is_some_and(|admission| *admission.status() == Status::TurnedAway) {
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

        connections[9].authenticate();
        connections[9].authenticate();
        assert_eq!(staying(&connections), 10);
        assert_eq!(admissions.counts().probationary, 0);

        drop(connections.pop());
        connections.extend(admit(&admissions, PEER, 1));
        assert_eq!(staying(&connections), 9);
    }

    #[test]
    fn a_probation_ends_when_others_have_made_room() {
        let admissions = admissions(100, 3);
        let mut connections = admit(&admissions, PEER, 4);
        assert!(!connections[3].may_stay());

        connections.remove(0);

        assert_eq!(staying(&connections), 3);
    }

    #[test]
    fn probationary_connections_leave_half_of_the_places_to_others() {
        let admissions = admissions(10, 1);
        let connections = admit(&admissions, PEER, 20);
        let is_turned_away = |one: &&Arc<Admission>| *one.status() == Status::TurnedAway;

        assert_eq!(connections.iter().filter(is_turned_away).count(), 14);
        assert!(admit(&admissions, OTHER, 1)[0].may_stay());
    }

    #[test]
    fn when_all_is_full_a_few_are_told_and_the_rest_closed() {
        let admissions = admissions(2, 100);
        let mut connections = admit(&admissions, PEER, 2 + MAX_TURNED_AWAY);
        assert!(admissions.admit(PEER).is_none());
        assert_eq!(staying(&connections), 2);

        connections.remove(0);

        assert!(admissions.admit(OTHER).expect("admitted").may_stay());
    }

    #[test]
    fn nothing_is_counted_of_those_who_have_left() {
        let admissions = admissions(10, 1);
        let connections = admit(&admissions, PEER, 20);
        connections[2].authenticate();
        connections[19].authenticate();
        assert!(connections[1].may_stay());
        drop(connections);

        let counts = admissions.counts();
        assert_eq!((counts.all, counts.probationary, counts.turned_away), (0, 0, 0));
        assert!(counts.peers.is_empty());
    }
}
