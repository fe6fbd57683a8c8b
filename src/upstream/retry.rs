//! Decides whether and when to ask upstream again. Pure.

use std::time::Duration;

use super::fault::Fault;
use super::settings::UpstreamSettings;

/// What to do after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    AskAgainAfter(Duration),
    GiveUp,
}

/// Decides about the `failures`-th failure of one round; the first is 1. The caller has made
/// sure that nothing of the round was forwarded and none of its calls ran. `jitter` is a random
/// number from 0 to 1.
pub(crate) fn decide(
    failures: u32,
    fault: &Fault,
    settings: &UpstreamSettings,
    jitter: f64,
) -> Decision {
    if failures > settings.retries || !fault.is_passing() {
        return Decision::GiveUp;
    }
    match fault.retry_after() {
        Some(wait) if wait > settings.retry_max_wait => Decision::GiveUp,
        Some(wait) => Decision::AskAgainAfter(wait.max(backoff(failures, settings, jitter))),
        None => Decision::AskAgainAfter(backoff(failures, settings, jitter)),
    }
}

/// The configured wait, changed by up to a quarter in either direction, so that turns that
/// failed together do not retry together.
fn backoff(failures: u32, settings: &UpstreamSettings, jitter: f64) -> Duration {
    let steps = &settings.backoff;
    let at = usize::try_from(failures).unwrap_or(usize::MAX).saturating_sub(1);
    let step = steps.get(at).or(steps.last()).copied().unwrap_or_default();
    step.mul_f64(0.75 + 0.5 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::error_object::ErrorObject;
    use crate::upstream::fault::Refusal;

    fn status(status: u16, retry_after: Option<u64>) -> Fault {
        Fault::Status(Refusal {
            status,
            error: ErrorObject::default(),
            retry_after: retry_after.map(Duration::from_secs),
            is_keyless: false,
        })
    }

    fn decided(failures: u32, fault: &Fault) -> Decision {
        decide(failures, fault, &UpstreamSettings::default(), 0.5)
    }

    fn wait(millis: u64) -> Decision {
        Decision::AskAgainAfter(Duration::from_millis(millis))
    }

    #[test]
    fn asks_twice_more_with_growing_waits() {
        let fault = Fault::Unreachable("refused".into());
        assert_eq!(decided(1, &fault), wait(500));
        assert_eq!(decided(2, &fault), wait(1500));
        assert_eq!(decided(3, &fault), Decision::GiveUp);
    }

    #[test]
    fn jitter_moves_a_wait_by_a_quarter_at_most() {
        let of =
            |jitter| decide(1, &Fault::Died(String::new()), &UpstreamSettings::default(), jitter);
        assert_eq!(of(0.0), wait(375));
        assert_eq!(of(1.0), wait(625));
        assert_eq!(of(f64::INFINITY), wait(625));
    }

    #[test]
    fn the_last_wait_stands_for_all_further_ones() {
        let settings = UpstreamSettings { retries: 9, ..UpstreamSettings::default() };
        assert_eq!(decide(9, &status(500, None), &settings, 0.5), wait(1500));
        let none = UpstreamSettings { backoff: Vec::new(), ..UpstreamSettings::default() };
        assert_eq!(decide(1, &status(500, None), &none, 0.5), wait(0));
    }

    #[test]
    fn waits_as_upstream_asks_but_not_too_long_and_never_in_a_busy_loop() {
        assert_eq!(decided(1, &status(429, Some(7))), wait(7000));
        assert_eq!(decided(1, &status(429, Some(3600))), Decision::GiveUp);
        assert_eq!(decided(1, &status(429, Some(0))), wait(500));
        assert_eq!(decided(1, &status(429, None)), wait(500));
    }

    #[test]
    fn asks_again_only_where_it_may_help() {
        let frame = |code: &str| {
            Fault::Frame(ErrorObject { code: Some(code.into()), ..ErrorObject::default() })
        };
        for fault in [
            status(500, None),
            status(502, None),
            status(503, None),
            status(504, None),
            status(529, None),
            status(424, None),
            frame("500"),
            frame("None"),
            frame("429"),
            Fault::Reset("reset".into()),
            Fault::Protocol("garbage".into()),
        ] {
            assert_eq!(decided(1, &fault), wait(500), "{fault}");
        }
        for fault in [
            Fault::Tls("unknown issuer".into()),
            Fault::FirstByte(Duration::from_secs(600)),
            Fault::Idle(Duration::from_secs(300)),
            Fault::Redirect(302),
            Fault::NotACompletion("<html>".into()),
            status(400, None),
            status(401, Some(1)),
            status(404, None),
            frame("400"),
        ] {
            assert_eq!(decided(1, &fault), Decision::GiveUp, "{fault}");
        }
    }
}
