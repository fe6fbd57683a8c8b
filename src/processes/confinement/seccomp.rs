//! Lists the system calls that a confined command may not use, and compiles them into a
//! filter for the kernel.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use super::{Confinement, Level, Network};

/// Never needed by a build or a test, and each has been a way out of a sandbox: other
/// processes' memory, the kernel's own programs, work that the kernel does outside the filter,
/// keys, and all that changes what a path means.
const DENIED: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    OPEN_TREE_ATTR,
];

/// Their flags and modes are in memory, where a filter cannot look. Programs do without them as on
/// an older kernel: with `clone` and `openat`.
const UNKNOWN: &[c_long] = &[libc::SYS_clone3, libc::SYS_openat2];

/// Shared memory, semaphores and queues that belong to no file: Landlock has no rule for them,
/// and every process of the user reaches them. In bubblewrap they are the command's own.
const SHARED_OBJECTS: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Limits and priorities of a process, by the argument that names it. Landlock lets them through
/// to every process of the user: with a limit of processor time one ends the server. Zero is the
/// caller itself.
const OTHER_PROCESSES: &[(c_long, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Changes of mode. Landlock has no rule for them, so at that level the supervisor makes them,
/// beneath the roots alone. A file that is open for reading is enough for one by descriptor.
const MODES: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
];

/// The bit of a mode by which a program runs as its owner. On a directory it means nothing, so
/// every change to it can be refused.
const SETS_USER: u64 = 0o4000;

/// The same with the bit for the group. On a directory it has another meaning, so a filter, which
/// does not see what the path leads to, refuses it only where a file is made.
const SETS_ID: u64 = 0o6000;

/// Changes of mode, each with the place of the mode.
const MODE_CHANGES: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
];

/// What makes a file with a mode, each with the place of the mode.
const MADE_WITH_MODE: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// What makes a file where its flags say so, each with the place of the flags. The mode stands
/// behind them; without these flags it may be anything.
const OPENED_WITH_MODE: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
    (libc::SYS_openat, 2),
];

/// Changes of owner and of what belongs to a file otherwise, which fail everywhere at that level.
const ATTRIBUTES: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    FILE_SETATTR,
];

/// Changes of extended attributes fail as on a file system that has none: programs that copy
/// files go on without them.
const EXTENDED_ATTRIBUTES: &[c_long] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
];

/// Changes of the times of a file, for which Landlock has no rule. They are refused only to what
/// may change nothing at all: programs that unpack and copy set them.
const TIMES: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_utimensat,
];

// Newer than the constants of libc; the same on every architecture.
pub(in crate::processes) const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const OPEN_TREE_ATTR: c_long = 467;
const FILE_SETATTR: c_long = 469;

/// Puts characters into a terminal's input, as if a person had typed them.
const TYPING: [u64; 2] = [0x5412, 0x541c];
/// `FS_IOC_SETFLAGS`, `FS_IOC_FSSETXATTR`, `FS_IOC_SETVERSION` in both sizes and
/// `FS_IOC_ENABLE_VERITY`: attributes of a file that is open for reading.
const FILE_FLAGS: [u64; 5] = [0x4008_6602, 0x401c_5820, 0x4008_7602, 0x4004_7602, 0x4080_6685];

/// Whoever holds a lease on a file makes everybody else wait who opens it.
const SET_LEASE: u64 = 1024;

/// The bits of a socket's type that are no flags.
const SOCKET_KIND: u64 = 0xf;

/// Any new namespace. A new user namespace gives all capabilities in it. `clone` knows no
/// flag for a time namespace.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Calls of the x32 interface have this bit. The architecture is the same, so the filter would
/// not know them by their numbers.
const X32: u32 = 0x4000_0000;

/// The filters of a confined command. All are in force: the strictest answer counts.
pub(super) fn filters(confinement: &Confinement) -> Result<Vec<BpfProgram>, BackendError> {
    let Confinement { level, network, reads_only, .. } = *confinement;
    let mut calls = refused(level, network)?;
    if level == Level::Landlock && reads_only {
        calls.extend(always(TIMES));
    }
    let refused = filter(calls, refuse(libc::EPERM))?;
    let unknown = filter(always(UNKNOWN), refuse(libc::ENOSYS))?;
    let mut filters = vec![kill_x32(refused), unknown];
    if level == Level::Landlock {
        filters.push(filter(always(EXTENDED_ATTRIBUTES), refuse(libc::EOPNOTSUPP))?);
    }
    Ok(filters)
}

/// What becomes of changes of mode where the supervisor makes them.
#[derive(Debug)]
pub(super) struct ModeFilters {
    /// Hands them over to it.
    pub(super) handed_over: BpfProgram,
    /// Refuses them, where another program has a filter already that hands calls over: there
    /// can be one.
    pub(super) refused: BpfProgram,
}

pub(super) fn mode_filters() -> Result<ModeFilters, BackendError> {
    // The library does not know the answer of handing over: it stands in this one's place.
    let mut handed_over = filter(always(MODES), SeccompAction::Trace(0))?;
    for instruction in &mut handed_over {
        if instruction.code == RETURN && instruction.k == libc::SECCOMP_RET_TRACE {
            instruction.k = libc::SECCOMP_RET_USER_NOTIF;
        }
    }
    Ok(ModeFilters { handed_over, refused: filter(always(MODES), refuse(libc::EPERM))? })
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn filter(rules: Rules, answer: SeccompAction) -> Result<BpfProgram, BackendError> {
    // Calls of another architecture kill the process.
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture)?.try_into()
}

/// These calls, whatever their arguments are.
fn always(calls: &[c_long]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

fn refuse(error: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(error.unsigned_abs())
}

fn refused(level: Level, network: Network) -> Result<Rules, BackendError> {
    let mut rules = always(DENIED);
    rules.insert(libc::SYS_socket, sockets(network)?);
    rules.insert(libc::SYS_socketpair, socket_pairs()?);
    if network == Network::None {
        rules.extend([libc::SYS_connect, libc::SYS_bind].map(|call| (call, Vec::new())));
    }
    let mut requests = TYPING.to_vec();
    if level == Level::Landlock {
        rules.extend(always(ATTRIBUTES));
        rules.extend(always(SHARED_OBJECTS));
        for (call, argument) in OTHER_PROCESSES {
            rules.insert(*call, vec![when(*argument, SeccompCmpOp::Ne, 0)?]);
        }
        // All processes of a group or of the user, and not one alone.
        for (call, one) in
            [(libc::SYS_setpriority, libc::PRIO_PROCESS.into()), (libc::SYS_ioprio_set, 1)]
        {
            rules.entry(call).or_default().push(when(0, SeccompCmpOp::Ne, one)?);
        }
        requests.extend(FILE_FLAGS);
    }
    rules.extend(set_user_id()?);
    let requests = requests.into_iter().map(|request| when(1, SeccompCmpOp::Eq, request));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_fcntl, vec![when(1, SeccompCmpOp::Eq, SET_LEASE)?]);
    let namespaces = NAMESPACES.into_iter().map(|flag| u64::from(flag.unsigned_abs()));
    let namespaces = namespaces.map(|flag| when(0, SeccompCmpOp::MaskedEq(flag), flag));
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Refuses to make a program that runs as its owner for whoever starts it: outside of the sandbox
/// that may be anybody. One that runs as its group can still be made of a file that is there: where
/// the supervisor does not change the modes, it is told.
fn set_user_id() -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    for (call, mode) in MODE_CHANGES {
        let op = SeccompCmpOp::MaskedEq(SETS_USER);
        rules.insert(*call, vec![when(*mode, op, SETS_USER)?]);
    }
    // One rule for each bit: a mask of two is equal only if both are set.
    let bits = [SETS_USER, SETS_ID & !SETS_USER];
    for (call, mode) in MADE_WITH_MODE {
        let refused = bits.map(|bit| when(*mode, SeccompCmpOp::MaskedEq(bit), bit));
        rules.insert(*call, refused.into_iter().collect::<Result<_, _>>()?);
    }
    // The kernel's own bit of O_TMPFILE, the rest of which is O_DIRECTORY.
    let unnamed = libc::O_TMPFILE & !libc::O_DIRECTORY;
    for (call, flags) in OPENED_WITH_MODE {
        let mut refused = Vec::new();
        for flag in [libc::O_CREAT, unnamed].map(|flag| u64::from(flag.unsigned_abs())) {
            for bit in bits {
                let makes = masked(*flags, flag)?;
                refused.push(SeccompRule::new(vec![makes, masked(flags + 1, bit)?])?);
            }
        }
        rules.insert(*call, refused);
    }
    Ok(rules)
}

/// Whether this bit of an argument is set.
fn masked(argument: u8, bit: u64) -> Result<SeccompCondition, BackendError> {
    let length = SeccompCmpArgLen::Dword;
    SeccompCondition::new(argument, length, SeccompCmpOp::MaskedEq(bit), bit)
}

/// No rule refuses every call.
fn sockets(network: Network) -> Result<Vec<SeccompRule>, BackendError> {
    if network == Network::None {
        return Ok(Vec::new());
    }
    let is_not = |family: libc::c_int| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    };
    Ok(vec![SeccompRule::new(vec![is_not(libc::AF_INET)?, is_not(libc::AF_INET6)?])?])
}

/// A pair of streams leads nowhere else. One of datagrams does: each end can send to any socket
/// of the machine whose address it knows.
fn socket_pairs() -> Result<Vec<SeccompRule>, BackendError> {
    let kind = |kind: libc::c_int| {
        when(1, SeccompCmpOp::MaskedEq(SOCKET_KIND), u64::from(kind.unsigned_abs()))
    };
    let family = u64::from(libc::AF_UNIX.unsigned_abs());
    Ok(vec![
        when(0, SeccompCmpOp::Ne, family)?,
        kind(libc::SOCK_DGRAM)?,
        // The kernel makes datagrams of it.
        kind(libc::SOCK_RAW)?,
    ])
}

/// Refuses a call with this argument. The kernel looks at 32 bits of it, so the filter does too.
fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let length = SeccompCmpArgLen::Dword;
    SeccompRule::new(vec![SeccompCondition::new(argument, length, operator, value)?])
}

/// The instruction that gives the answer.
const RETURN: u16 = 0x06;

/// Puts a check of the x32 bit before the program.
fn kill_x32(program: BpfProgram) -> BpfProgram {
    if !cfg!(target_arch = "x86_64") {
        return program;
    }
    let check = [
        // Load the number of the call; if it has the bit, kill, else go on behind that.
        sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
        sock_filter { code: 0x35, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_KILL_PROCESS },
    ];
    check.into_iter().chain(program).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_of_the_list_is_refused_at_each_level() {
        let rules = |level, network| refused(level, network).unwrap();
        for level in [Level::Bwrap, Level::Landlock] {
            for call in DENIED {
                assert_eq!(rules(level, Network::Full).get(call).map(Vec::len), Some(0), "{call}");
            }
        }
        // Mounts that are read-only hold these.
        let bwrap = rules(Level::Bwrap, Network::None);
        assert!(ATTRIBUTES.iter().all(|call| !bwrap.contains_key(call)));
        let landlock = rules(Level::Landlock, Network::None);
        assert!(ATTRIBUTES.iter().all(|call| landlock.contains_key(call)));
    }

    #[test]
    fn changes_of_mode_are_handed_over_and_nothing_else_is() {
        let ModeFilters { handed_over, refused } = mode_filters().unwrap();
        let answers = |program: &BpfProgram| {
            let returns = program.iter().filter(|it| it.code == RETURN).map(|it| it.k);
            returns.collect::<std::collections::BTreeSet<_>>()
        };
        let [kill, allow] = [libc::SECCOMP_RET_KILL_PROCESS, libc::SECCOMP_RET_ALLOW];
        let eperm = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
        assert_eq!(answers(&handed_over), [kill, allow, libc::SECCOMP_RET_USER_NOTIF].into());
        assert_eq!(answers(&refused), [kill, allow, eperm].into());
    }

    #[test]
    fn no_network_refuses_every_socket_and_all_of_it_two_families_only() {
        assert!(sockets(Network::None).unwrap().is_empty());
        assert_eq!(sockets(Network::Full).unwrap().len(), 1);
    }

    #[test]
    fn the_programs_fit_into_the_kernel() {
        for (level, reads_only) in [(Level::Bwrap, false), (Level::Landlock, true)] {
            let network = Network::Full;
            let confinement = Confinement { network, reads_only, ..Confinement::nothing(level) };
            for program in filters(&confinement).unwrap() {
                assert!(3 < program.len() && program.len() < 4096, "{}", program.len());
            }
        }
    }
}
