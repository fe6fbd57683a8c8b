//! Decides by a seed which tools the model calls in each round, and what their servers do then.

use crate::support::seeded::SeededRandom;

/// Programs, each one process for everyone.
pub(super) const PROGRAMS: [&str; 4] = ["ash", "elm", "fir", "oak"];

/// Servers over HTTP.
pub(super) const OVER_HTTP: [&str; 2] = ["sea", "web"];

/// The tool that runs alone, and the one that runs beside others.
pub(super) const TOOLS: [&str; 2] = ["do", "see"];

/// A call of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedCall {
    /// The number of this call, which no other one has.
    pub(super) n: u64,
    pub(super) server: &'static str,
    pub(super) tool: &'static str,
    pub(super) behaviour: &'static str,
}

/// What the model may be told when the server does what was planned. Where another call has ended
/// the server, or the machine is slow, it is told that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// This word and the number of the call.
    Word(&'static str),
    /// That there is no answer.
    NoAnswer,
    Anything,
}

/// What servers do, how often of a thousand times, and what the model is to be told.
type Behaviour = (&'static str, usize, Expected);

const DONE: Expected = Expected::Word("done");

const OF_PROGRAMS: &[Behaviour] = &[
    ("answers", 250, DONE),
    ("late", 60, DONE),
    ("twice", 60, DONE),
    ("unknown_first", 60, DONE),
    ("refuses", 50, Expected::Word("refused")),
    ("fails", 50, Expected::Word("failed")),
    ("progress", 50, DONE),
    ("list_changed", 40, DONE),
    ("never", 40, Expected::NoAnswer),
    ("exits", 20, Expected::NoAnswer),
    ("is_killed", 15, Expected::NoAnswer),
    ("dies_twice", 15, Expected::NoAnswer),
    ("answers_and_exits", 20, DONE),
    ("noise", 40, DONE),
    ("long_line", 12, Expected::NoAnswer),
    ("half_line", 18, Expected::NoAnswer),
    ("floods_stderr", 30, DONE),
    ("asks", 50, DONE),
    ("split_text", 40, DONE),
    ("picture", 40, DONE),
    ("blob", 20, DONE),
    ("long_text", 10, DONE),
    ("malformed", 10, Expected::Anything),
];

const OF_HTTP: &[Behaviour] = &[
    ("answers", 270, DONE),
    ("streams", 100, DONE),
    ("twice", 60, DONE),
    ("unknown_first", 60, DONE),
    ("refuses", 50, Expected::Word("refused")),
    ("fails", 50, Expected::Word("failed")),
    ("progress", 100, DONE),
    ("never", 40, Expected::NoAnswer),
    ("never_ends", 20, DONE),
    ("is_broken", 40, Expected::NoAnswer),
    ("is_gone", 30, Expected::NoAnswer),
    ("redirects", 30, Expected::NoAnswer),
    ("is_a_page", 30, Expected::NoAnswer),
    ("resets", 30, Expected::NoAnswer),
    ("closes", 30, Expected::NoAnswer),
    ("stream_ends", 20, Expected::NoAnswer),
    ("half_an_event", 20, Expected::NoAnswer),
    ("endless_body", 10, Expected::NoAnswer),
    ("endless_event", 10, Expected::NoAnswer),
];

/// The calls of each round, at most four in each.
pub(super) fn rounds(seed: u64) -> Vec<Vec<PlannedCall>> {
    let mut random = SeededRandom::new(seed, 1);
    let rounds = 1 + random.below(3) as u64;
    let call = |random: &mut SeededRandom, n: u64| {
        let is_over_http = random.happens(30);
        let servers = if is_over_http { &OVER_HTTP[..] } else { &PROGRAMS[..] };
        let behaviours = if is_over_http { OF_HTTP } else { OF_PROGRAMS };
        let (server, tool) = (*random.pick(servers), *random.pick(&TOOLS));
        PlannedCall { n, server, tool, behaviour: picked(random, behaviours) }
    };
    let round = |round: u64| {
        let calls = 1 + random.below(4) as u64;
        (0..calls).map(|place| call(&mut random, seed * 100 + round * 10 + place)).collect()
    };
    (0..rounds).map(round).collect()
}

fn picked(random: &mut SeededRandom, behaviours: &[Behaviour]) -> &'static str {
    let all = behaviours.iter().map(|(_, times, _)| times).sum();
    let mut left = random.below(all);
    let found = behaviours.iter().find(|(_, times, _)| {
        let is_it = left < *times;
        left = left.saturating_sub(*times);
        is_it
    });
    found.expect("less than all of them").0
}

/// After so many events of a stream its client leaves.
pub(super) fn leaves_after(seed: u64) -> Option<usize> {
    let mut random = SeededRandom::new(seed, 2);
    random.happens(20).then(|| 1 + random.below(20))
}

impl PlannedCall {
    pub(super) fn expected(&self) -> Expected {
        let all = OF_PROGRAMS.iter().chain(OF_HTTP);
        all.clone().find(|(name, ..)| *name == self.behaviour).expect("a known one").2
    }

    /// The name by which the model calls the tool.
    pub(super) fn name(&self) -> String {
        format!("mcp__{}__{}", self.server, self.tool)
    }
}
