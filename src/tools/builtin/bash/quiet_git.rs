//! Writes what bash runs before a line that uses git to read, so that git runs no program that the
//! repository names.
//!
//! Variables reach every git. No setting turns off all drivers of differences, so a function gives
//! the git that bash itself runs the options for it.

/// A setting of git.
struct Setting(&'static str, &'static str);

/// They weigh more than the files of the repository and of the user.
const SETTINGS: [Setting; 8] = [
    // A program that is asked what has changed.
    Setting("core.fsmonitor", "false"),
    // A directory of the workspace that looks like a repository does not become one.
    Setting("safe.bareRepository", "explicit"),
    Setting("core.hooksPath", "/dev/null"),
    // Signatures are shown by a program that is named in the configuration.
    Setting("log.showSignature", "false"),
    Setting("gpg.program", "false"),
    Setting("gpg.ssh.program", "false"),
    Setting("gpg.x509.program", "false"),
    Setting("core.pager", "cat"),
];

/// The text that stands before the line, in the same line.
pub(super) fn prelude() -> String {
    let count = SETTINGS.len();
    let mut text = format!("export GIT_PAGER=cat GIT_OPTIONAL_LOCKS=0 GIT_CONFIG_COUNT={count}");
    for (index, Setting(key, value)) in SETTINGS.iter().enumerate() {
        let setting = format!(" GIT_CONFIG_KEY_{index}={key} GIT_CONFIG_VALUE_{index}={value}");
        text.push_str(&setting);
    }
    text.push_str("; ");
    text.push_str(FUNCTION);
    text.push_str("; ");
    text
}

/// Gives the commands that show differences the options which turn drivers off. Options of git
/// itself stay before the command; of `stash` and `reflog`, so does the word after it.
const FUNCTION: &str = "git() { local own=(--no-pager) command=(); \
    while :; do case ${1-} in -C) own+=(-C \"${2-}\"); shift; shift;; \
    -P|--no-pager) shift;; *) break;; esac; done; \
    case \"${1-} ${2-}\" in 'stash list'|'stash show'|'reflog show') \
    command=(\"$1\" \"$2\" --no-ext-diff --no-textconv); shift; shift;; \
    'reflog list'|'reflog exists') ;; \
    'diff '*|'diff-files '*|'diff-index '*|'diff-tree '*|'range-diff '*|\
    'log '*|'show '*|'reflog '*|'blame '*) \
    command=(\"$1\" --no-ext-diff --no-textconv); shift;; esac; \
    command git \"${own[@]}\" \"${command[@]}\" \"$@\"; }";
