//! Tells from pip's words why an installation failed, and what to do about it.

/// A sentence of cause and remedy.
pub(super) fn explain(log: &str) -> &'static str {
    let log = log.to_lowercase();
    let known = FAULTS.iter().find(|fault| fault.words.iter().any(|word| log.contains(word)));
    known.map_or(UNKNOWN, |fault| fault.sentence)
}

const UNKNOWN: &str = "pip or venv failed: the log says why; then start again";

struct Fault {
    /// What pip or venv prints, in lower case.
    words: &'static [&'static str],
    sentence: &'static str,
}

/// The surest first: pip goes on after some faults, and then fails of another.
const FAULTS: [Fault; 6] = [
    Fault {
        words: &["no space left", "disk quota exceeded"],
        sentence: "the disk is full: make room for 750 MB in the state directory (or for pip in \
                   TMPDIR), then start again",
    },
    Fault {
        words: &["do not match the hashes", "hash mismatch"],
        sentence: "a package is not the one that is pinned: leave out the mirror or proxy that \
                   changes it (PIP_INDEX_URL, HTTPS_PROXY), then start again",
    },
    Fault {
        words: &["certificate_verify_failed", "sslerror", "ssl: "],
        sentence: "the package index has a certificate that is not trusted here: name your \
                   authority's file in PIP_CERT, then start again",
    },
    Fault {
        words: &[
            "connection broken by",
            "failed to establish a new connection",
            "name resolution",
            "max retries exceeded",
            "timed out",
            "proxyerror",
            "connection refused",
            "network is unreachable",
            "connectionerror",
            "could not fetch url",
            "could not install packages due to an oserror: httpsconnectionpool",
        ],
        sentence: "the package index cannot be reached: check the network, or name a proxy in \
                   HTTPS_PROXY or a mirror in PIP_INDEX_URL, then start again",
    },
    Fault {
        words: &["http error 4", "http error 5", "client error", "server error"],
        sentence: "the package index refuses to answer: check PIP_INDEX_URL and HTTPS_PROXY, then \
                   start again",
    },
    Fault {
        words: &["no matching distribution", "could not find a version"],
        sentence: "the package index lacks a package for this machine: name another in \
                   PIP_INDEX_URL, then start again",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(log: &str, expected: &str) {
        assert!(explain(log).starts_with(expected), "{log}: {}", explain(log));
    }

    #[test]
    fn the_cause_is_told_from_what_pip_prints() {
        check(
            "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by \
             'NewConnectionError(': [Errno -3] Temporary failure in name resolution')': /a/\n\
             ERROR: Could not find a version that satisfies the requirement a==1 (from versions: \
             none)\nERROR: No matching distribution found for a==1",
            "the package index cannot be reached",
        );
        check(
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on \
             device",
            "the disk is full",
        );
        check(
            "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate \
             verify failed'))': /a/\nafter connection broken by",
            "the package index has a certificate",
        );
        check(
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            "a package is not the one",
        );
        check("ERROR: HTTP error 403 while getting a", "the package index refuses");
        check("ERROR: No matching distribution found for a==1", "the package index lacks");
        check("Killed", "pip or venv failed");
        check("", "pip or venv failed");
    }
}
