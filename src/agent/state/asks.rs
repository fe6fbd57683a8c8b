//! Decides when a person is asked about calls, and what follows from the decisions.

use std::time::Duration;

use super::{Phase, TurnEffect, TurnState};
use crate::agent::asking::bare_choice::CodeRequirement;
use crate::agent::asking::codes::codes;
use crate::agent::asking::enclosure::separator;
use crate::agent::beginning::{AskingChannel, Decided};
use crate::agent::events::TurnEvent;
use crate::agent::presenting::{Presented, present};
use crate::agent::record::{Asked, Entry, OpenRound, ShownQuestion};
use crate::execution::ask::{About, Ask, Decision, NoAnswer};
use crate::execution::pipeline::ToolResult;
use crate::execution::schedule::Position;
use crate::ids::ApprovalId;
use crate::openai::chunk::FinishReason;
use crate::store::ANSWER_WINDOW;

/// What the turn has asked.
#[derive(Debug, Default)]
pub(super) struct Asks {
    /// The asks that a person was shown and has not decided.
    open: Vec<Asked>,
    /// What was decided about calls whose turn has not come. It stands if the turn suspends.
    decided: Vec<Asked>,
    wait: Wait,
    /// What the client is told when it is committed.
    held_back: Vec<TurnEvent>,
    /// Whether the round that this turn resumes was told by `messages` before.
    pub(super) was_told: bool,
}

/// The wait for decisions over REST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wait {
    #[default]
    NotBegun,
    Running,
    Over,
}

/// How a person answers an ask, in the order in which they are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AskKind {
    Approval,
    OwnChoices,
    Questions,
}

impl AskKind {
    fn of(ask: &Ask) -> Self {
        match &ask.about {
            About::Questions { .. } => Self::Questions,
            About::Effect(_) if ask.own_choices().is_empty() => Self::Approval,
            About::Effect(_) => Self::OwnChoices,
        }
    }
}

/// How long an approval can be given while the stream waits.
const VALID_WHILE_WAITING: Duration = Duration::from_secs(10 * 60);

/// How much longer a turn waits that denies what is not decided in time: a decision of the last
/// moment is still on its way.
const DECISION_UNDER_WAY: Duration = Duration::from_millis(500);

impl Asks {
    pub(super) fn was_decided(&mut self, asked: Asked) {
        self.decided.push(asked);
    }

    fn is_open(&self, slot: usize, of_agent: Option<&ApprovalId>) -> bool {
        self.open.iter().any(|asked| asked.slot == slot && asked.of_agent.as_ref() == of_agent)
    }
}

impl TurnState {
    /// A call needs a person.
    pub(super) fn asked(
        &mut self,
        position: Position,
        ask: Box<Ask>,
        effects: &mut Vec<TurnEffect>,
    ) {
        let is_possible = self.start.asking.channel != AskingChannel::Nobody;
        let refusal = (!is_possible).then(|| ToolResult::error(&ask.unanswered(NoAnswer::Nobody)));
        self.in_round(effects, |round, _, effects| round.asks(position, ask, refusal, effects));
    }

    /// A person decided over REST while the turn waits.
    pub(super) fn decided(&mut self, decided: Decided, effects: &mut Vec<TurnEffect>) {
        let Decided { approval, decision, .. } = decided;
        let asks = &mut self.asks.open;
        let Some(at) = asks.iter().position(|asked| asked.id == approval) else { return };
        let asked = asks.remove(at);
        let slot = asked.slot;
        if asks.is_empty() {
            // What is asked next has a wait of its own.
            self.asks.wait = Wait::NotBegun;
        }
        if let Some(ask) = &asked.of_agent {
            let resumption = self.round.agent_decided(slot, ask, decision);
            let resumed = resumption.map(|resumption| TurnEffect::ResumeAgent(slot, resumption));
            return effects.extend(resumed);
        }
        effects.extend(self.answered_finds(slot, &decision));
        let is_judged = self.in_round(effects, |round, _, effects| {
            round.decide(slot, approval, &decision, effects)
        });
        if is_judged {
            self.asks.was_decided(asked);
            effects.push(TurnEffect::Decide(slot, decision));
        }
    }

    /// What ends the wait for an answer about what commands have left, if the person was shown
    /// that with a call that is denied. It comes before what starts the next call.
    pub(super) fn answered_finds(&self, slot: usize, decision: &Decision) -> Option<TurnEffect> {
        let may_wait = self.start.pipeline.permissions.waits_on_finds();
        let is_denied = may_wait && matches!(decision, Decision::Deny { .. });
        let call_id = is_denied.then(|| self.round.call_id(slot)).flatten()?;
        Some(TurnEffect::AnswerFinds { call_id })
    }

    /// Called when every effect is carried out, and every call that may start has started.
    /// Nothing happens while calls run. When only calls that ask are left, a person is asked.
    pub(crate) fn settle(&mut self, elapsed: Duration) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        if self.phase != Phase::Answering || self.round.is_busy() || !self.round.has_asks() {
            return effects;
        }
        self.elapsed = elapsed;
        if self.clients_reason.is_some() {
            // The client's own calls come first.
            self.hand_over_to_client(&mut effects);
            return effects;
        }
        let unjudged = self.round.begin_judging_ahead();
        if !unjudged.is_empty() {
            effects.push(TurnEffect::JudgeAhead(unjudged));
            return effects;
        }
        self.announce_asks(&mut effects);
        let wait = self.wait_for_decisions();
        match self.asks.wait {
            Wait::NotBegun if !wait.is_zero() => {
                self.asks.wait = Wait::Running;
                effects.push(TurnEffect::AwaitDecisions(wait));
            }
            Wait::Running => {}
            Wait::NotBegun | Wait::Over => self.suspend(&mut effects),
        }
        effects
    }

    fn denies_what_waits(&self) -> bool {
        self.start.asking.channel == AskingChannel::WaitingRest
    }

    fn wait_for_decisions(&self) -> Duration {
        let wait = self.start.asking.wait.min(VALID_WHILE_WAITING);
        if self.denies_what_waits() { wait + DECISION_UNDER_WAY } else { wait }
    }

    /// A wait that nothing waits for any more does not count.
    pub(super) fn wait_is_over(&mut self, effects: &mut Vec<TurnEffect>) {
        if self.asks.wait != Wait::Running {
            return;
        }
        if !self.denies_what_waits() {
            self.asks.wait = Wait::Over;
            return;
        }
        self.asks.wait = Wait::NotBegun;
        for Asked { slot, ask, .. } in std::mem::take(&mut self.asks.open) {
            let refusal = ToolResult::error(&ask.unanswered(NoAnswer::TooLate));
            self.in_round(effects, |round, _, effects| round.refuse(slot, refusal, effects));
        }
    }

    /// Tells of the asks that the person has not been shown yet: of all approvals with the usual
    /// choices together, and when there are none, of one that is answered in its own way.
    fn announce_asks(&mut self, effects: &mut Vec<TurnEffect>) {
        let asks = self.round.all_asks();
        let first = asks.iter().map(|pending| AskKind::of(pending.ask)).min();
        let mut chosen: Vec<_> =
            asks.into_iter().filter(|asked| Some(AskKind::of(asked.ask)) == first).collect();
        if first != Some(AskKind::Approval) {
            chosen.truncate(1);
        }
        let news =
            chosen.into_iter().filter(|asked| !self.asks.is_open(asked.slot, asked.of_agent));
        let news: Vec<(usize, Option<ApprovalId>, Ask)> =
            news.map(|asked| (asked.slot, asked.of_agent.cloned(), asked.ask.clone())).collect();
        if news.is_empty() {
            return;
        }
        let suspends_at_once = self.start.asking.wait.is_zero() || self.asks.wait == Wait::Over;
        let validity = match suspends_at_once {
            _ if self.denies_what_waits() => self.start.asking.wait.min(VALID_WHILE_WAITING),
            true => ANSWER_WINDOW,
            false => VALID_WHILE_WAITING,
        };
        // All that a wait ends for is denied with its end.
        let shares_wait = self.denies_what_waits() && self.asks.wait == Wait::Running;
        let first = self.asks.open.first().filter(|_| shares_wait);
        let shared_ms = first.map(|asked| asked.expires_ms);
        let mut asked = Vec::new();
        for (slot, of_agent, ask) in news {
            let mut new = Asked { of_agent, ..self.new_asked(slot, ask, validity) };
            new.expires_ms = shared_ms.unwrap_or(new.expires_ms);
            self.asks.open.push(new.clone());
            asked.push(new);
        }
        self.asks.open.sort_by_key(|asked| asked.slot);
        // Nobody is asked what could not be kept.
        let entry = Entry::Asked { asked: asked.clone() };
        effects.push(if suspends_at_once {
            TurnEffect::Record(entry)
        } else {
            TurnEffect::Commit(entry)
        });
        self.asks.held_back.push(TurnEvent::Asked(asked));
    }

    /// Tells what waited for its commit.
    pub(super) fn tell_held_back(&mut self, effects: &mut Vec<TurnEffect>) {
        effects.extend(self.asks.held_back.drain(..).map(TurnEffect::Emit));
    }

    fn now_ms(&self) -> i64 {
        self.start.began_ms.saturating_add(millis(self.elapsed))
    }

    fn new_asked(&self, slot: usize, ask: Ask, validity: Duration) -> Asked {
        let created_ms = self.now_ms();
        let expires_ms = created_ms.saturating_add(millis(validity));
        let id = ApprovalId::random();
        let known = self.asks.open.iter().map(|asked| &asked.id).chain([&id]).cloned();
        // The codes of those before stay the same.
        let code = codes(&known.collect::<Vec<_>>()).pop().unwrap_or_default();
        Asked {
            id,
            code,
            slot,
            of_agent: None,
            ask,
            answered: Vec::new(),
            repeated: None,
            created_ms,
            expires_ms,
        }
    }

    /// Ends the turn with the question. The reply goes on from here.
    fn suspend(&mut self, effects: &mut Vec<TurnEffect>) {
        let mut asked = std::mem::take(&mut self.asks.open);
        let expires_ms = self.now_ms().saturating_add(millis(ANSWER_WINDOW));
        if self.asks.wait == Wait::Over {
            // It can be answered for longer now, and what was decided meanwhile is left out.
            self.asks.held_back.retain(|event| !matches!(event, TurnEvent::Asked(_)));
            let longer = |asked: &Asked| Asked { expires_ms, ..asked.clone() };
            let asked = asked.iter().map(longer).collect();
            self.asks.held_back.push(TurnEvent::Asked(asked));
        }
        let shown = self.shown_text();
        let code_requirement = CodeRequirement::behind(&shown).or(self.start.code_requirement);
        let Presented { text, mut calls } =
            present(&asked, self.start.asking.channel, code_requirement);
        let question = ShownQuestion::new(&text, code_requirement);
        self.say(&shown, &text);
        self.asks.held_back.append(&mut calls.events);
        // Behind those that are asked now, to which the calls point by their places.
        let decided = std::mem::take(&mut self.asks.decided).into_iter();
        asked.extend(decided.filter(|asked| self.round.is_approved(asked.slot)));
        for asked in &mut asked {
            asked.slot = self.round.place_of(asked.slot);
            asked.expires_ms = expires_ms;
        }
        if self.start.include_messages {
            // With what the model said before it, as the client saw it: sent back it is known.
            self.messages.push(calls.message(self.round.said.trim_start()));
        }
        let reason = calls.finish_reason();
        let open = OpenRound {
            asked,
            asked_by: calls.asked_by,
            question: Some(question),
            ..self.open_round()
        };
        self.finish_open(reason, (open, calls.entries), effects);
    }

    /// All text that the client shows in the message which this turn ends.
    fn shown_text(&self) -> String {
        let continued = self.continued.as_ref().map_or("", |continued| &continued.said);
        let before = self.start.shown_before.as_str();
        let mut shown = if before.is_empty() { continued.to_owned() } else { before.to_owned() };
        shown.push_str(&self.said);
        shown.push_str(&self.round.said);
        shown
    }

    /// Sends a question as content, when the end of the turn is committed. Nothing of the text
    /// that is `shown` before it can hide it.
    fn say(&mut self, shown: &str, question: &str) {
        if question.is_empty() {
            return;
        }
        let text = separator(shown) + question;
        self.round.said.push_str(&text);
        self.asks.held_back.push(TurnEvent::Text(text));
    }

    /// The server's calls are done, and the client must answer its own.
    pub(super) fn hand_over_to_client(&mut self, effects: &mut Vec<TurnEffect>) {
        let open = self.open_round();
        let client_calls = self.round.client_entries();
        self.show_open_round(&open, &client_calls);
        let reason = self.clients_reason.unwrap_or(FinishReason::ToolCalls);
        self.finish_open(reason, (open, client_calls), effects);
    }

    fn open_round(&self) -> OpenRound {
        OpenRound {
            message: self.round.assistant(),
            model: self.round.writer().unwrap_or(self.model()).to_owned(),
            has_reasoning: self.round.has_reasoning(),
            calls: self.round.open_calls(),
            asked: Vec::new(),
            asked_by: Vec::new(),
            ends_with: self.ends_with.clone(),
            question: None,
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
