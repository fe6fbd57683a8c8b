//! Kills the server at random moments of turns with effects, and at every write of its database.
//! Nothing that was acknowledged is lost, nothing runs twice, and every restart serves.

use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::after;
use super::scenario::{AGAIN, Kind, Scenario};
use crate::support::disk::{Disk, Fault};
use crate::support::seeded::SeededRandom;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// Kills of each of the three kinds. `make soak` runs more.
const RUNS: usize = 100;

/// The longest time from the request to the kill. A turn of these takes about as long, so that
/// kills fall before, into and behind it.
const LONGEST: Duration = Duration::from_millis(120);

/// Of the writes of a turn, every so many is the last one. `make soak` takes each.
const STEP: u32 = 9;

#[tokio::test]
async fn r8_kills_in_turns_with_commands_lose_and_repeat_nothing() {
    at_random(Kind::Commands, RUNS).await;
}

#[tokio::test]
async fn r8_kills_in_mixed_turns_lose_and_repeat_nothing() {
    at_random(Kind::Mixed, RUNS).await;
}

#[tokio::test]
async fn r8_kills_in_suspended_turns_lose_and_repeat_nothing() {
    at_random(Kind::Suspended, RUNS).await;
}

/// Between decision and intent, intent and run, run and round: each lies between two writes.
#[tokio::test]
async fn d1_a_kill_at_any_write_of_a_resumed_turn_loses_and_repeats_nothing() {
    at_each_write(Kind::Suspended, 3).await;
}

#[tokio::test]
async fn d1_a_kill_at_any_write_of_an_agents_resumed_turn_loses_and_repeats_nothing() {
    at_each_write(Kind::Agent, 3).await;
}

#[tokio::test]
async fn d1_a_kill_at_any_write_of_any_turn_loses_and_repeats_nothing() {
    for kind in [Kind::Plain, Kind::Commands, Kind::Detached, Kind::Mixed, Kind::Asking] {
        at_each_write(kind, STEP).await;
    }
}

pub(crate) async fn at_random(kind: Kind, runs: usize) {
    let upstream = Upstream::start();
    // Its directories outlive each server that uses them.
    let mut home = Server::start(&upstream).await;
    home.stop();
    let start = || kind.settings(after(&upstream, &home)).start();
    let mut server = start().await;
    for number in 0..runs {
        let mut random = SeededRandom::new(17, u64::try_from(number).expect("small"));
        let scenario = Scenario::begin(kind, number, &server, &home, &upstream).await;
        let micros = random.below(usize::try_from(LONGEST.as_micros()).expect("small"));
        // The kill's moment is random on purpose. Nothing that is asserted depends on it.
        let kill = async {
            tokio::time::sleep(Duration::from_micros(u64::try_from(micros).expect("small"))).await;
            kill_process(server.pid(), Signal::KILL).expect("our child is there");
        };
        let request = scenario.request();
        let client = scenario.client(&server);
        let (heard, ()) = futures::join!(client.try_chat(&request), kill);
        server.stop();
        server = start().await;
        scenario.check(&server, &upstream, heard.as_ref(), *random.pick(&AGAIN)).await;
    }
    upstream.forget_script();
}

/// Kills before, or in the middle of, the first write of the turn, then the one `step` later, up
/// to its last.
pub(crate) async fn at_each_write(kind: Kind, step: u32) {
    let upstream = Upstream::start();
    let disk = Disk::new();
    let mut home = Server::start(&upstream).await;
    home.stop();
    let start = || disk.under(kind.settings(after(&upstream, &home))).start();
    let mut server = start().await;
    let mut kills = 0;
    for number in 0.. {
        let scenario = Scenario::begin(kind, number, &server, &home, &upstream).await;
        let random = &mut SeededRandom::new(18, u64::try_from(number).expect("small"));
        let fault = if random.happens(50) { Fault::Kill } else { Fault::Tear };
        disk.plan(fault, u32::try_from(number).expect("small") * step);
        let heard = scenario.client(&server).try_chat(&scenario.request()).await;
        let was_hit = disk.was_hit();
        disk.mend();
        if was_hit {
            kills += 1;
            server.stop();
            server = start().await;
        }
        scenario.check(&server, &upstream, heard.as_ref(), AGAIN[number % AGAIN.len()]).await;
        if !was_hit && heard.is_some() {
            break;
        }
    }
    assert!(1 < kills, "{kind:?}: {kills} kills");
    upstream.forget_script();
}
