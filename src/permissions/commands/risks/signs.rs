//! Knows suspicious names, words and variables.

use super::super::globs::may_mean;
use super::super::word::Word;

pub(in crate::permissions::commands) const NETWORK: [&str; 24] = [
    "aria2c", "curl", "dig", "ftp", "host", "http", "lftp", "nc", "ncat", "netcat", "nmap",
    "nslookup", "ping", "rclone", "rsync", "scp", "sftp", "socat", "ssh", "telnet", "tftp", "wget",
    "whois", "xh",
];
pub(in crate::permissions::commands) const NETWORK_GIT: [&str; 6] =
    ["clone", "fetch", "ls-remote", "pull", "push", "submodule"];
pub(super) const PRIVILEGE: [&str; 13] = [
    "chroot", "doas", "mount", "nsenter", "passwd", "pkexec", "run0", "runuser", "setcap", "su",
    "sudo", "umount", "unshare",
];
pub(in crate::permissions::commands) const TAMPERING: [&str; 22] = [
    "at",
    "badblocks",
    "batch",
    "blkdiscard",
    "chattr",
    "crontab",
    "fdisk",
    "insmod",
    "iptables",
    "kill",
    "killall",
    "launchctl",
    "modprobe",
    "nft",
    "parted",
    "pkill",
    "reboot",
    "shred",
    "shutdown",
    "systemctl",
    "useradd",
    "usermod",
];
pub(in crate::permissions::commands) const SHELLS: [&str; 8] =
    ["ash", "bash", "dash", "fish", "ksh", "rbash", "sh", "zsh"];
pub(in crate::permissions::commands) const INTERPRETERS: [&str; 17] = [
    "awk",
    "bun",
    "deno",
    "ed",
    "ex",
    "expect",
    "gawk",
    "gdb",
    "lua",
    "node",
    "osascript",
    "perl",
    "php",
    "python",
    "python3",
    "ruby",
    "vim",
];
pub(super) const EVALUATORS: [&str; 9] =
    [".", "alias", "enable", "eval", "hash", "mapfile", "readarray", "source", "trap"];

/// Whether the text names `/proc/*/environ`, with quotes, patterns or slashes in between.
pub(super) fn names_environment(text: &str) -> bool {
    let plain: String = text.chars().filter(|c| !"'\"\\".contains(*c)).collect();
    let ends = |c: char| c.is_whitespace() || ";|&<>()`".contains(c);
    plain.split(ends).any(|word| {
        let Some((_, below)) = word.split_once("proc/") else { return false };
        let names = below.split('/').filter(|name| !matches!(*name, "" | "."));
        // The first name is the process.
        let mut names = names.skip(1);
        names.any(|name| {
            let is_one_of_several = name.contains('{') && name.contains("environ");
            is_one_of_several || may_mean(name.trim_end_matches(['}', ',', ']']), "environ")
        })
    })
}

/// Quotes and escapes in a name hide it from a reader. `\rm` and `"rm"` do not.
pub(super) fn is_disguised(name: &Word) -> bool {
    if name.raw.contains("$'") || name.raw.contains("$\"") {
        return true;
    }
    if name.unquoted.chars().any(|c| !c.is_ascii() && c.is_alphabetic()) {
        return true;
    }
    let raw = name.raw.strip_prefix('\\').unwrap_or(&name.raw);
    let is_quoted_whole = |quote: char| {
        let inner = raw.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        inner == Some(name.unquoted.as_str())
    };
    raw != name.unquoted && !is_quoted_whole('\'') && !is_quoted_whole('"')
}

/// Variables that make programs load or run something.
pub(in crate::permissions::commands) fn steers_programs(name: &str) -> bool {
    const NAMES: [&str; 32] = [
        "BASH_ENV",
        "BROWSER",
        "EDITOR",
        "ENV",
        "GIT_ASKPASS",
        "GIT_DIR",
        "GIT_EDITOR",
        "GIT_EXEC_PATH",
        "GIT_EXTERNAL_DIFF",
        "GIT_PAGER",
        "GIT_PROXY_COMMAND",
        "GIT_SEQUENCE_EDITOR",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_TEMPLATE_DIR",
        "IFS",
        "LESSOPEN",
        "MAKEFLAGS",
        "NODE_OPTIONS",
        "PAGER",
        "PATH",
        "PERL5OPT",
        "PROMPT_COMMAND",
        "PS4",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "RIPGREP_CONFIG_PATH",
        "RUBYOPT",
        "RUSTC_WRAPPER",
        "SHELL",
        "SSH_ASKPASS",
        "VISUAL",
    ];
    NAMES.contains(&name)
        || name.starts_with("LD_")
        || name.starts_with("DYLD_")
        || name.starts_with("GIT_CONFIG")
}

pub(super) fn sets_user(mode: &str) -> bool {
    let is_symbolic = mode.contains("+s") || mode.contains("=s") || mode.ends_with("u+xs");
    let is_number = mode.len() >= 4 && mode.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let special = mode.len().checked_sub(4).and_then(|at| mode.as_bytes().get(at));
    is_symbolic || (is_number && special.is_some_and(|digit| matches!(digit, b'2' | b'4'..=b'7')))
}

pub(super) fn discards(arguments: &[Word]) -> bool {
    let has = |text: &str| arguments.iter().any(|word| word.unquoted == text);
    let is_forced = has("-f") || arguments.iter().any(|word| word.unquoted.starts_with("--force"));
    (has("push") && (is_forced || has("--delete") || has("--mirror")))
        || (has("reset") && has("--hard"))
        || (has("clean") && !has("-n"))
        || (has("branch") && has("-D"))
        || has("filter-branch")
        || (has("checkout") && has("--"))
}

pub(super) fn configures(arguments: &[Word]) -> bool {
    arguments.iter().any(|word| {
        matches!(word.unquoted.as_str(), "-c" | "config" | "--upload-pack" | "--exec")
            || word.unquoted.starts_with("--config-env")
            || word.unquoted.starts_with("--ext-diff")
            || word.unquoted.starts_with("--open-files-in-pager")
    })
}
