//! Forgets sessions that are old, or too many, in steps that take no longer than a commit.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};
use tokio::time::Instant;

use super::super::rows::{ForgottenSession, TurnStatus};
use super::super::settings::StoreSettings;
use super::super::{SessionHold, SessionsInUse};
use super::changes;
use super::columns::{self, number_of};
use super::schema::entry_seqs;
use crate::ids::SessionId;
use crate::store::ANSWER_WINDOW;

/// Entries that one step removes, and about how many of their bytes.
const MAX_ENTRIES: i64 = 256;
const MAX_BYTES: i64 = 1 << 20;

/// Sessions that one step looks at. The next step goes on behind them.
const MAX_CANDIDATES: usize = 256;

/// The clock has jumped if it went so much ahead of the time that passed.
const STEP: Duration = Duration::from_secs(60 * 5);

/// How long a clock that has jumped must stay where it is before sessions are deleted by it.
const DOUBT: Duration = Duration::from_secs(3600);

/// After a pause of this length at the start, the clock may as well be wrong.
const LONG_PAUSE: Duration = Duration::from_secs(3600 * 7 * 24);

/// What is left to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There may be more, now.
    More,
    Done,
}

/// How far the sessions were looked at, from the one on that was unused longest. However many may
/// not be forgotten, so the steps come to those behind them.
#[derive(Debug)]
pub(super) struct Progress {
    /// The number of the last session's use.
    used: i64,
}

impl Default for Progress {
    fn default() -> Self {
        Self { used: i64::MIN }
    }
}

/// Tells the age of sessions, and notices when the clock is set.
#[derive(Debug)]
pub(super) struct Clock {
    wall_ms: i64,
    seen: Instant,
    doubted_until: Option<Instant>,
    /// The time that was sure last, and when that was.
    counted_from: (i64, Instant),
}

/// What a step may take for the time of day, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    /// The time by which sessions are too old. `None` while the clock is in doubt.
    pub(super) trusted_ms: Option<i64>,
    /// The time by which questions expire.
    pub(super) expiry_ms: i64,
}

impl Clock {
    /// `newest_ms`: when a session was last used.
    pub(super) fn new(wall_ms: i64, newest_ms: Option<i64>, now: Instant) -> Self {
        let pause = newest_ms.map_or(0, |newest| wall_ms.saturating_sub(newest));
        let is_long = millis(LONG_PAUSE) < pause;
        // While no server ran, the clock may have been set.
        let counted_from = (newest_ms.unwrap_or(wall_ms).min(wall_ms), now);
        Self { wall_ms, seen: now, doubted_until: is_long.then(|| now + DOUBT), counted_from }
    }

    pub(super) fn read(&mut self, wall_ms: i64, now: Instant) -> ClockReading {
        let trusted_ms = self.trusted(wall_ms, now);
        ClockReading { trusted_ms, expiry_ms: self.counted(wall_ms, now) }
    }

    /// The time without the jumps of the last day.
    fn counted(&self, wall_ms: i64, now: Instant) -> i64 {
        let (from_ms, from) = self.counted_from;
        let passed = now.saturating_duration_since(from);
        if ANSWER_WINDOW <= passed { wall_ms } else { wall_ms.min(from_ms + millis(passed)) }
    }

    /// The time in milliseconds since 1970, unless it is in doubt. A clock that was set back
    /// deletes too little, which is harmless.
    fn trusted(&mut self, wall_ms: i64, now: Instant) -> Option<i64> {
        let passed = millis(now.saturating_duration_since(self.seen));
        if passed + millis(STEP) < wall_ms.saturating_sub(self.wall_ms) {
            self.doubted_until = Some(now + DOUBT);
            self.counted_from = (self.counted(self.wall_ms, self.seen), self.seen);
        }
        (self.wall_ms, self.seen) = (wall_ms, now);
        match self.doubted_until {
            Some(until) if now < until => None,
            _ => {
                self.doubted_until = None;
                Some(wall_ms)
            }
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The time of the last use of a session, for [`Clock::new`].
pub(super) fn newest_use(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT updated_ms FROM sessions WHERE id IS NOT NULL ORDER BY used DESC LIMIT 1";
    connection.query_row(sql, [], |row| row.get(0)).optional()
}

/// The sessions that one step forgets, each held so that nobody uses it meanwhile.
#[derive(Debug, Default)]
pub(super) struct RetentionStep {
    in_use: Option<Arc<dyn SessionsInUse>>,
    holds: Vec<Box<dyn SessionHold>>,
    /// Whether a session was passed over that somebody used.
    pub(super) has_met_used: bool,
    pub(super) forgotten: Vec<ForgottenSession>,
}

impl RetentionStep {
    /// `in_use` knows which sessions are used; without it none is.
    pub(super) fn new(in_use: Option<Arc<dyn SessionsInUse>>) -> Self {
        Self { in_use, ..Self::default() }
    }

    /// Whether nobody uses the session, nor will until this is dropped.
    fn hold(&mut self, session: &SessionId) -> bool {
        let Some(in_use) = &self.in_use else { return true };
        let hold = in_use.try_hold(session);
        let is_held = hold.is_some();
        self.has_met_used |= !is_held;
        self.holds.extend(hold);
        is_held
    }
}

/// Does a bounded piece of work, and adds the sessions that it forgets.
pub(super) fn step(
    connection: &Connection,
    settings: &StoreSettings,
    now: ClockReading,
    progress: &mut Progress,
    retention_step: &mut RetentionStep,
) -> rusqlite::Result<Step> {
    if sweep(connection)? {
        return Ok(Step::More);
    }
    let is_full = settings.max_bytes < used_bytes(connection)?;
    let oldest_kept = now.trusted_ms.map(|now| now.saturating_sub(millis(settings.retention)));
    let limits = Limits { is_full, oldest_kept_ms: oldest_kept, valid_ms: now.expiry_ms };
    match next_to_forget(connection, limits, progress, retention_step)? {
        Found::Session(id) => {
            retention_step.forgotten.extend(changes::forget(connection, &id)?);
            Ok(Step::More)
        }
        Found::NoneYet => Ok(Step::More),
        Found::Nothing => {
            remove_prompts(connection)?;
            *progress = Progress::default();
            Ok(Step::Done)
        }
    }
}

/// The bytes of the database that hold something.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok((pages * pragma("page_size")?).unsigned_abs())
}

/// What a step has found to forget.
enum Found {
    Session(SessionId),
    /// No session among those that the step looked at, and there may be more behind them.
    NoneYet,
    /// No session up to the end.
    Nothing,
}

/// The limits of one retention step.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Whether the store is over its size: any session may go.
    is_full: bool,
    /// Sessions used before this time are too old. `None`: none is too old.
    oldest_kept_ms: Option<i64>,
    /// The time by which questions expire, [`ClockReading::expiry_ms`].
    valid_ms: i64,
}

/// The session that was unused longest of those behind `progress`, if it is to be forgotten. None
/// that is used, or waits for a person or a client, is.
fn next_to_forget(
    connection: &Connection,
    Limits { is_full, oldest_kept_ms, valid_ms }: Limits,
    progress: &mut Progress,
    retention_step: &mut RetentionStep,
) -> rusqlite::Result<Found> {
    let mut oldest = connection.prepare_cached(
        "SELECT seq, id, updated_ms, used FROM sessions WHERE id IS NOT NULL AND ?1 < used \
         ORDER BY used",
    )?;
    let mut rows = oldest.query([progress.used])?;
    for _ in 0..MAX_CANDIDATES {
        let Some(row) = rows.next()? else { return Ok(Found::Nothing) };
        let is_old =
            oldest_kept_ms.is_some_and(|kept| row.get(2).is_ok_and(|used: i64| used < kept));
        if !is_full && !is_old {
            return Ok(Found::Nothing);
        }
        progress.used = row.get(3)?;
        let id = columns::id(row, 1, SessionId::parse)?;
        if !is_needed(connection, row.get(0)?, valid_ms)? && retention_step.hold(&id) {
            return Ok(Found::Session(id));
        }
    }
    Ok(Found::NoneYet)
}

/// Whether a turn of the session runs, or somebody can still answer it: a person one of its
/// questions, the server a decision that no turn has taken up, or the client a call of its own. The
/// parents are listed once: looking for the next turn of each takes the square of the turns.
pub(super) const IS_NEEDED: &str = "\
    WITH parents AS MATERIALIZED \
    (SELECT n.parent FROM turns n WHERE n.session = ?1 AND n.parent IS NOT NULL) \
    SELECT EXISTS (SELECT 1 FROM turns t WHERE t.session = ?1 AND \
    (t.status = ?3 OR \
    t.status = ?4 AND \
    (EXISTS (SELECT 1 FROM approvals a WHERE a.turn = t.seq AND a.decision IS NULL AND \
    ?2 < a.expires_ms) OR \
    t.id NOT IN parents AND \
    (NOT EXISTS (SELECT 1 FROM approvals a WHERE a.turn = t.seq) OR \
    EXISTS (SELECT 1 FROM approvals a WHERE a.turn = t.seq AND ?2 < a.expires_ms))) OR \
    t.status = ?5 AND \
    ?6 < (SELECT s.updated_ms FROM sessions s WHERE s.seq = ?1) AND t.id NOT IN parents))";

/// Asks [`IS_NEEDED`].
pub(super) fn is_needed(
    connection: &Connection,
    session: i64,
    now_ms: i64,
) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(IS_NEEDED)?;
    statement.query_row(needed_parameters(session, now_ms), |row| row.get(0))
}

/// The parameters of [`IS_NEEDED`].
pub(super) fn needed_parameters(session: i64, now_ms: i64) -> [i64; 6] {
    let [running, suspended, awaits_client] =
        [TurnStatus::Running, TurnStatus::Suspended, TurnStatus::AwaitsClient].map(number_of);
    let asked_before = now_ms.saturating_sub(millis(ANSWER_WINDOW));
    [session, now_ms, running, suspended, awaits_client, asked_before]
}

/// Removes a piece of what belongs to a forgotten session. Returns whether there was one.
fn sweep(connection: &Connection) -> rusqlite::Result<bool> {
    let number = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    let mut session =
        connection.prepare_cached("SELECT seq FROM sessions WHERE id IS NULL LIMIT 1")?;
    let Some(session) = session.query_row([], number).optional()? else { return Ok(false) };
    let mut budget = Budget { entries: MAX_ENTRIES, bytes: MAX_BYTES };
    while !budget.is_spent() {
        let mut turn = connection
            .prepare_cached("SELECT seq, length(body) FROM turns WHERE session = ?1 LIMIT 1")?;
        let turn = turn.query_row([session], |row| Ok((row.get(0)?, row.get(1)?)));
        let Some((turn, bytes)) = turn.optional()? else {
            connection.prepare_cached("DELETE FROM sessions WHERE seq = ?1")?.execute([session])?;
            return Ok(true);
        };
        if remove_entries(connection, turn, &mut budget)? {
            // Its approvals go with it.
            connection.prepare_cached("DELETE FROM turns WHERE seq = ?1")?.execute([turn])?;
            budget.take(bytes);
        }
    }
    Ok(true)
}

/// Removes the prompts that no session has any more.
fn remove_prompts(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "DELETE FROM prompts WHERE NOT EXISTS \
               (SELECT 1 FROM sessions s WHERE s.prompt = prompts.seq)";
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// How much one step may still remove.
struct Budget {
    entries: i64,
    bytes: i64,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.entries <= 0 || self.bytes <= 0
    }

    fn take(&mut self, bytes: i64) {
        // A row has its own costs, however short it is.
        self.entries -= 1;
        self.bytes -= bytes;
    }
}

/// Removes entries of the turn. Returns whether none is left.
fn remove_entries(
    connection: &Connection,
    turn: i64,
    budget: &mut Budget,
) -> rusqlite::Result<bool> {
    let [first, last] = entry_seqs(turn);
    let mut select = connection.prepare_cached(
        "SELECT seq, length(body) FROM entries WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq",
    )?;
    let mut rows = select.query([first, last])?;
    let mut until = None;
    let mut is_empty = true;
    while let Some(row) = rows.next()? {
        if budget.is_spent() {
            is_empty = false;
            break;
        }
        budget.take(row.get(1)?);
        until = Some(row.get::<_, i64>(0)?);
    }
    drop(rows);
    if let Some(until) = until {
        connection
            .prepare_cached("DELETE FROM entries WHERE seq BETWEEN ?1 AND ?2")?
            .execute([first, until])?;
    }
    Ok(is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    #[tokio::test(start_paused = true)]
    async fn d9_a_clock_that_was_set_is_doubted_for_an_hour() {
        let (start, wall) = (Instant::now(), 1_000 * DAY);
        let after = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let mut clock = Clock::new(wall, Some(wall - DAY), start);

        assert_eq!(clock.trusted(wall + 60_000, after(1)), Some(wall + 60_000));
        // A year ahead.
        let ahead = wall + 365 * DAY;
        assert_eq!(clock.trusted(ahead, after(2)), None);
        assert_eq!(clock.trusted(ahead + 60 * 60_000, after(62)), Some(ahead + 60 * 60_000));
        // Set back, it is believed: nothing is older than it was.
        assert_eq!(clock.trusted(wall, after(63)), Some(wall));
        assert_eq!(clock.trusted(wall - DAY, after(64)), Some(wall - DAY));
    }

    #[tokio::test(start_paused = true)]
    async fn d9_a_jump_of_the_clock_shortens_no_questions_day() {
        const HOUR: i64 = 3_600_000;
        let (start, wall) = (Instant::now(), 1_000 * DAY);
        let after = |hours: u64| start + Duration::from_secs(3600 * hours);
        let mut clock = Clock::new(wall, Some(wall - HOUR), start);
        let mut valid = |wall, now| clock.read(wall, now).expiry_ms;

        assert_eq!(valid(wall, start), wall - HOUR, "the server may have been off for no time");
        assert_eq!(valid(wall + 2 * HOUR, after(2)), wall + HOUR);
        // A year ahead: what was asked before keeps its day, and then the clock is right.
        let ahead = wall + 365 * DAY;
        assert_eq!(valid(ahead + 3 * HOUR, after(3)), wall + 2 * HOUR);
        assert_eq!(valid(ahead + 25 * HOUR, after(25)), wall + 24 * HOUR);
        assert_eq!(valid(ahead + 27 * HOUR, after(27)), ahead + 27 * HOUR);
        // Set back, nothing is older than it was.
        assert_eq!(valid(wall + 28 * HOUR, after(28)), wall + 28 * HOUR);
        assert_eq!(valid(wall - DAY, after(29)), wall - DAY);
    }

    #[tokio::test(start_paused = true)]
    async fn d9_a_start_long_after_the_last_use_deletes_nothing_at_once() {
        let (start, wall) = (Instant::now(), 1_000 * DAY);
        let mut clock = Clock::new(wall, Some(wall - 8 * DAY), start);
        assert_eq!(clock.trusted(wall, start), None);
        assert_eq!(clock.trusted(wall + 3_600_000, start + DOUBT), Some(wall + 3_600_000));
        let mut clock = Clock::new(wall, None, start);
        assert_eq!(clock.trusted(wall, start), Some(wall));
    }
}
