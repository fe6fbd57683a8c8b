//! Watches over a turn until it is over: applies what losing the last subscriber means, and
//! stops the turn when it is told to.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use tokio::time::{Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::shared_turn::{Attendance, DisconnectPolicy, SharedTurn};

/// How long a turn that was told to stop has to interrupt its calls and to record what it did.
/// Then it is aborted: upstream and all processes must be gone within two seconds.
const STOP_LIMIT: Duration = Duration::from_millis(1500);

/// Runs the agent, and keeps the turn until it is over and all its events are taken. Both are one
/// task: most turns need no thread beside the one that began them.
/// `revoked` is cancelled when the client key is.
pub(super) async fn keep(
    turn: Arc<SharedTurn>,
    agent: BoxFuture<'static, ()>,
    revoked: CancellationToken,
) {
    // A panic ends the turn without a terminal event, which the turn tells.
    let mut agent = AssertUnwindSafe(agent).catch_unwind();
    let stopping = async {
        tokio::select! {
            () = revoked.cancelled() => turn.stop.cancel(),
            () = turn.stop.cancelled() => {}
        }
        sleep(STOP_LIMIT).await;
    };
    let mut grace = None;
    let mut attending = pin!(std::future::poll_fn(|context| poll_end(&turn, &mut grace, context)));
    tokio::select! {
        biased;
        _ = &mut agent => {}
        () = &mut attending => {
            // The end of the turn has been told, and the agent ends as well.
            let _ = timeout(STOP_LIMIT, agent).await;
            return;
        }
        () = stopping => {
            tracing::warn!(turn = %turn.identity.id, "a stopped turn did not end, and is aborted");
        }
    }
    drop(agent);
    turn.task_ended();
    attending.await;
}

/// Resolves when the turn is over.
fn poll_end(
    turn: &Arc<SharedTurn>,
    grace: &mut Option<Pin<Box<Sleep>>>,
    context: &mut Context<'_>,
) -> Poll<()> {
    match (turn.poll_attendance(context), turn.policy) {
        (Attendance::Over, _) => return Poll::Ready(()),
        (Attendance::Someone, _) => *grace = None,
        (Attendance::Nobody, DisconnectPolicy::Detach) => {}
        (Attendance::Nobody, DisconnectPolicy::Stop) => turn.stop.cancel(),
        (Attendance::Nobody, DisconnectPolicy::Grace(time)) => {
            let timer = grace.get_or_insert_with(|| Box::pin(sleep(time)));
            if timer.as_mut().poll(context).is_ready() {
                turn.stop.cancel();
            }
        }
    }
    Poll::Pending
}
