//! Keeps the permission mode of a session while a turn runs: what the server, the key and the
//! request set, and what a person has chosen since.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::mode::Mode;
use crate::sync;

/// The mode of one session. All permissions of a turn share it, so a change counts for the next
/// call.
#[derive(Debug)]
pub(crate) struct SessionMode {
    bounds: ModeBounds,
    chosen: Mutex<SavedMode>,
    /// Agents of earlier turns heed it.
    newest_turn_plans: Arc<AtomicBool>,
}

/// What bounds the mode of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModeBounds {
    /// The server's mode, or the key's stricter one.
    pub(crate) base: Mode,
    /// What the request asks for; never wider than `base`.
    pub(crate) requested: Option<Mode>,
    /// Whether the model can ask for the approval of a plan, and a person can give it.
    pub(crate) can_approve_plan: bool,
    /// Whether the request goes on with a round that an earlier turn left open.
    pub(crate) resumes: bool,
}

/// What holds for the session beside them. It is kept with a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedMode {
    /// Until a plan is approved.
    planning: bool,
    /// The mode that a person has chosen to go on in, with the approval of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    approved_mode: Option<Mode>,
}

impl SessionMode {
    /// The mode at the start of a turn. A request for the mode plan begins a phase of planning,
    /// unless it resumes a turn: that may be the one in which the plan was approved.
    pub(crate) fn new(bounds: ModeBounds, saved: SavedMode) -> Self {
        let begins = bounds.requests_plan() && !bounds.resumes && bounds.base != Mode::Plan;
        let planning = saved.planning || begins;
        let chosen = Mutex::new(SavedMode { planning, ..saved });
        Self { bounds, chosen, newest_turn_plans: Arc::default() }
    }

    /// The same, told to all turns of the session: this is the newest one.
    pub(crate) fn shared_by(self, newest_turn_plans: Arc<AtomicBool>) -> Self {
        newest_turn_plans.store(self.is_planning(), Ordering::Relaxed);
        Self { newest_turn_plans, ..self }
    }

    /// The mode of a server without a session.
    pub(crate) fn of_server(base: Mode) -> Self {
        let bounds = ModeBounds { base, requested: None, can_approve_plan: false, resumes: false };
        Self::new(bounds, SavedMode::default())
    }

    /// The mode that counts now.
    pub(crate) fn current(&self) -> Mode {
        let SavedMode { planning, approved_mode } = *sync::lock(&self.chosen);
        let ModeBounds { base, requested, .. } = self.bounds;
        if planning || self.newest_turn_plans.load(Ordering::Relaxed) {
            return Mode::Plan;
        }
        // A choice may widen the server's mode, but not one that leaves nothing to a person.
        let mode = approved_mode.filter(|_| base > Mode::DontAsk).unwrap_or(base);
        // The phase that the request has begun, or would begin again, is over.
        let requested = requested.filter(|_| !self.bounds.requests_plan());
        requested.map_or(mode, |requested| mode.min(requested))
    }

    pub(crate) fn is_planning(&self) -> bool {
        self.current() == Mode::Plan
    }

    /// Whether an approved plan ends planning. Not where the server only plans.
    pub(crate) fn can_leave_plan(&self) -> bool {
        sync::lock(&self.chosen).planning && self.bounds.base != Mode::Plan
    }

    /// Whether planning could be ended that begins now.
    pub(crate) fn can_approve_plan(&self) -> bool {
        self.bounds.can_approve_plan
    }

    /// Whether a person has approved a plan, and no other one is made since.
    pub(crate) fn has_approved_plan(&self) -> bool {
        sync::lock(&self.chosen).approved_mode.is_some()
    }

    /// Whether what would ask is denied: also while planning, where the server or the request
    /// asks nobody.
    pub(crate) fn asks_nobody(&self) -> bool {
        let ModeBounds { base, requested, .. } = self.bounds;
        base == Mode::DontAsk || requested == Some(Mode::DontAsk)
    }

    /// The server's mode, or the key's stricter one.
    pub(crate) fn base(&self) -> Mode {
        self.bounds.base
    }

    pub(crate) fn begin_planning(&self) {
        *sync::lock(&self.chosen) = SavedMode { planning: true, approved_mode: None };
        self.newest_turn_plans.store(true, Ordering::Relaxed);
    }

    /// A person has approved a plan, and chosen the mode to go on in.
    pub(crate) fn approve_plan(&self, mode: Mode) {
        *sync::lock(&self.chosen) = SavedMode { planning: false, approved_mode: Some(mode) };
        self.newest_turn_plans.store(false, Ordering::Relaxed);
    }

    /// For the turns that go on from this one; `None` if nobody has chosen anything.
    pub(crate) fn save(&self) -> Option<SavedMode> {
        let saved = *sync::lock(&self.chosen);
        (saved != SavedMode::default()).then_some(saved)
    }
}

impl ModeBounds {
    /// Whether the request begins a phase that an approved plan ends. Where no plan can be
    /// approved, the mode is that of the request alone.
    fn requests_plan(self) -> bool {
        self.requested == Some(Mode::Plan) && self.can_approve_plan
    }
}

impl SavedMode {
    /// What another session finds that goes on from the turn. Planning only tightens; the choice
    /// of a wider mode was made for the session.
    pub(crate) fn for_fork(self) -> Self {
        Self { approved_mode: None, ..self }
    }

    /// The mode of a request that names none. `base` is the server's, or the key's stricter one.
    pub(crate) fn effective_mode(self, base: Mode) -> Mode {
        let bounds = ModeBounds { base, requested: None, can_approve_plan: false, resumes: false };
        SessionMode::new(bounds, self).current()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{AcceptEdits, BypassPermissions, Default as Usual, DontAsk, Plan};

    fn bounds(base: Mode, requested: Option<Mode>) -> ModeBounds {
        ModeBounds { base, requested, can_approve_plan: true, resumes: false }
    }

    fn mode(base: Mode, requested: Option<Mode>, saved: SavedMode) -> SessionMode {
        SessionMode::new(bounds(base, requested), saved)
    }

    fn chosen(mode: Mode) -> SavedMode {
        SavedMode { planning: false, approved_mode: Some(mode) }
    }

    const PLANNING: SavedMode = SavedMode { planning: true, approved_mode: None };

    #[test]
    fn entering_plan_ends_by_an_approved_plan() {
        let mode = mode(Usual, None, SavedMode::default());
        assert_eq!((mode.current(), mode.save()), (Usual, None));
        mode.begin_planning();
        assert_eq!((mode.current(), mode.can_leave_plan()), (Plan, true));
        assert_eq!(mode.save(), Some(PLANNING));
        mode.approve_plan(AcceptEdits);
        assert_eq!((mode.current(), mode.can_leave_plan()), (AcceptEdits, false));
        assert_eq!(mode.save(), Some(chosen(AcceptEdits)));
        mode.begin_planning();
        assert_eq!(mode.save(), Some(PLANNING), "the choice was for the plan before");
    }

    #[test]
    fn a_request_for_plan_lasts_until_a_plan_is_approved() {
        let first = mode(Usual, Some(Plan), SavedMode::default());
        assert_eq!((first.current(), first.can_leave_plan()), (Plan, true));
        let saved = first.save().unwrap();
        assert_eq!(mode(Usual, None, saved).current(), Plan, "a later request says nothing");
        assert_eq!(mode(Usual, Some(Usual), saved).current(), Plan, "and cannot widen it");
        let resumes = ModeBounds { resumes: true, ..bounds(Usual, Some(Plan)) };
        let again = SessionMode::new(resumes, saved);
        assert_eq!(again.current(), Plan, "it is not approved yet");
        again.approve_plan(Usual);
        assert_eq!(again.current(), Usual, "the resuming request does not say plan again");
        assert_eq!(SessionMode::new(resumes, chosen(Usual)).current(), Usual);
        assert_eq!(mode(Usual, Some(Plan), chosen(AcceptEdits)).current(), Plan, "the next does");
    }

    #[test]
    fn where_no_plan_can_be_approved_a_request_plans_for_itself_alone() {
        let alone = ModeBounds { can_approve_plan: false, ..bounds(Usual, Some(Plan)) };
        let mode = SessionMode::new(alone, SavedMode::default());
        assert_eq!((mode.current(), mode.can_leave_plan(), mode.save()), (Plan, false, None));
    }

    #[test]
    fn the_servers_own_plan_ends_by_nothing() {
        for saved in [SavedMode::default(), PLANNING, chosen(AcceptEdits)] {
            let mode = mode(Plan, Some(Plan), saved);
            assert_eq!((mode.current(), mode.can_leave_plan()), (Plan, false), "{saved:?}");
        }
    }

    #[test]
    fn a_choice_widens_but_not_what_asks_nobody_and_requests_only_tighten() {
        assert_eq!(mode(Usual, None, chosen(AcceptEdits)).current(), AcceptEdits);
        assert_eq!(mode(BypassPermissions, None, chosen(Usual)).current(), Usual);
        assert_eq!(mode(DontAsk, None, chosen(AcceptEdits)).current(), DontAsk);
        assert_eq!(mode(Usual, Some(Usual), chosen(AcceptEdits)).current(), Usual);
        assert_eq!(mode(Usual, Some(DontAsk), chosen(AcceptEdits)).current(), DontAsk);
        assert_eq!(mode(AcceptEdits, Some(Usual), SavedMode::default()).current(), Usual);
        assert_eq!(mode(BypassPermissions, Some(BypassPermissions), PLANNING).current(), Plan);
    }

    #[test]
    fn planning_under_dont_ask_asks_nobody() {
        assert!(mode(DontAsk, Some(Plan), SavedMode::default()).asks_nobody());
        assert!(mode(Usual, Some(DontAsk), PLANNING).asks_nobody());
        assert!(!mode(Usual, Some(Plan), SavedMode::default()).asks_nobody());
    }

    #[test]
    fn a_fork_plans_on_and_has_no_wider_mode() {
        assert_eq!(PLANNING.for_fork(), PLANNING);
        assert_eq!(chosen(AcceptEdits).for_fork(), SavedMode::default());
        assert_eq!(chosen(AcceptEdits).effective_mode(Usual), AcceptEdits);
        assert_eq!(PLANNING.effective_mode(BypassPermissions), Plan);
    }
}
