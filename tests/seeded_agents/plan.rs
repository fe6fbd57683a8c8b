//! Decides what the models of one seed do: the main agent's and those of its subagents, round by
//! round, and how upstream fails meanwhile.

use crate::support::seeded::SeededRandom;

/// Whose model is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Actor {
    Main,
    /// Agents that the main agent starts count from 1; agent 2 starts agent 12.
    Agent(u64),
}

/// A call of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlannedCall {
    /// A command that says that it ran.
    Command {
        /// Whether a rule asks about it.
        asks: bool,
        /// Whether it does not end by itself, if the client is one that leaves.
        stays: bool,
    },
    /// Starts an agent.
    Task(u64),
}

/// What upstream does wrong in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// So many requests are refused.
    Refuses(u32),
    /// So many requests are cut off before the head.
    Resets(u32),
    /// The first answer counts tokens, and dies before a word.
    DiesSilently,
    /// The first answer is empty, in order.
    IsEmpty,
    /// The first answer dies behind its calls, with the last one not sealed.
    DiesAfterCalls,
    /// Dies after text: nobody asks again.
    DiesAfterText,
    /// Refuses the key: nobody asks again.
    RefusesKey,
    /// Sends nothing more, if the client is one that leaves.
    Hangs,
}

/// How a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consent {
    /// By a reply in the conversation.
    Chat,
    /// Over REST, when the turn has ended with the question.
    Rest,
    /// Over REST, while the stream waits.
    Meanwhile,
}

/// What a client that has left does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Return {
    Never,
    /// It sends the same request again, as an SDK does.
    Retries,
    /// It goes on with another message.
    GoesOn,
}

/// After so many events of a stream its client leaves.
pub(super) fn leaves_after(seed: u64) -> Option<usize> {
    let mut random = SeededRandom::new(seed, 1);
    random.happens(25).then(|| 1 + random.below(40))
}

pub(super) fn returns(seed: u64) -> Return {
    *SeededRandom::new(seed, 2).pick(&[Return::Never, Return::Retries, Return::GoesOn])
}

pub(super) fn consent(seed: u64) -> Consent {
    *SeededRandom::new(seed, 3).pick(&[Consent::Chat, Consent::Rest, Consent::Meanwhile])
}

/// The calls of a round. None: the agent has its answer.
pub(super) fn calls(seed: u64, actor: Actor, round: usize) -> Vec<PlannedCall> {
    let mut random = SeededRandom::new(seed, part(actor, 10));
    let rounds = 1 + random.below(if actor == Actor::Main { 2 } else { 3 });
    if rounds <= round {
        return Vec::new();
    }
    let mut random = SeededRandom::new(seed, part(actor, 20 + round as u64));
    let mut calls: Vec<PlannedCall> = Vec::new();
    let commands = match actor {
        Actor::Main => random.below(2),
        Actor::Agent(_) => 1 + random.below(2),
    };
    for _ in 0..commands {
        calls.push(PlannedCall::Command { asks: random.happens(30), stays: random.happens(25) });
    }
    for agent in started(&mut random, actor, round) {
        let place = random.below(calls.len() + 1);
        calls.insert(place, PlannedCall::Task(agent));
    }
    calls
}

/// The agents that a round starts.
fn started(random: &mut SeededRandom, actor: Actor, round: usize) -> Vec<u64> {
    match actor {
        Actor::Main => {
            let first = 1 + 4 * round as u64;
            (first..=first + random.below(3) as u64).collect()
        }
        // Deeper than this no agent starts another one.
        Actor::Agent(number @ ..10) if round == 0 && random.happens(20) => vec![10 + number],
        Actor::Agent(_) => Vec::new(),
    }
}

/// What upstream does wrong in a round of these calls.
pub(super) fn fault(seed: u64, actor: Actor, round: usize, calls: usize) -> Option<Fault> {
    let mut random = SeededRandom::new(seed, part(actor, 40 + round as u64));
    let is_agent = actor != Actor::Main;
    Some(match random.below(100) {
        ..8 => Fault::Refuses(1 + u32::from(random.happens(30))),
        8..14 => Fault::Resets(1 + u32::from(random.happens(30))),
        14..20 => Fault::DiesSilently,
        20..24 => Fault::IsEmpty,
        // A second death in a row would end the turn.
        24..36 if 1 < calls && round.is_multiple_of(2) => Fault::DiesAfterCalls,
        36..38 => Fault::DiesAfterText,
        38..41 if is_agent => Fault::DiesAfterText,
        41..43 if is_agent => Fault::RefusesKey,
        43..44 => Fault::Refuses(3),
        44..52 => Fault::Hangs,
        _ => return None,
    })
}

impl Fault {
    /// Whether the turn of this agent fails.
    pub(super) fn is_fatal(self) -> bool {
        matches!(self, Self::DiesAfterText | Self::RefusesKey | Self::Refuses(3))
    }
}

/// The numbers that decide one thing about an agent.
fn part(actor: Actor, what: u64) -> u64 {
    match actor {
        Actor::Main => what,
        Actor::Agent(number) => 100 * number + what,
    }
}
