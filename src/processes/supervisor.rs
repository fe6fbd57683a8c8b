//! Supervises one command, as a process between the server and the command.
//!
//! The supervisor is our own binary, re-executed, and consists of two processes. The
//! *monitor* forks the *reaper*; the reaper starts the command and looks after its tree.
//! If a command kills its parent, it kills the reaper; its orphans then become children
//! of the monitor, which ends them. If it kills both, the server ends the orphans.
//!
//! In bubblewrap the reaper is the first process of the namespace, which nothing in it can kill,
//! and there is no monitor.

pub(super) mod control_group;
mod crowd;
mod handover;
mod launch;
mod long_script;
mod modes;
mod private_memory;
mod reaper;
mod views;

use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::{env, thread};

use rustix::fs::{Mode, OFlags, openat};
use rustix::process::{self, DumpableBehavior, Pid, WaitOptions};
use rustix::stdio;

use super::confinement::{Level, drop_capabilities};
use super::descriptors;
use super::kernel::{self, Fork};
use super::protocol::{self, Input, Job, LaunchStep, Report, StartFailure};
use super::tree;
use reaper::TICK;
use views::ViewError;

/// The hidden command that makes our binary a supervisor.
pub(super) const COMMAND: &str = "__supervise";

/// How many processes a command may have at a time. A large build has a few dozen.
const MAX_PROCESSES: usize = 512;

/// Runs the supervisor if this process was started as one. Must be called first in
/// `main`: a supervisor forks, so it must not have threads.
pub fn supervise_if_asked() -> Option<ExitCode> {
    (env::args_os().nth(1)? == COMMAND).then(|| match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        // The server sees the closed socket; nobody else needs to know.
        Err(_) => ExitCode::FAILURE,
    })
}

fn supervise() -> io::Result<()> {
    // This comes before the process holds anything: otherwise a command of the same user
    // could trace it and send reports in its name. The reaper inherits this, the
    // command's program does not.
    process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    kernel::close_others_on_exec()?;
    kernel::ignore_no_signals();
    let socket = UnixStream::from(stdio::stdin().try_clone_to_owned()?);
    stdio::dup2_stdin(File::open("/dev/null")?)?;
    die_with_bubblewrap()?;
    let is_limited = limit_processes();
    process::set_child_subreaper(Some(process::getpid()))?;
    rustix::thread::set_no_new_privs(true)?;
    rustix::thread::set_name(c"toolhand-run")?;

    if process::getpid() == Pid::INIT {
        // No process of its namespace can kill or stop it, and the kernel ends them with it.
        reaper::begin_session()?;
        rustix::thread::set_name(c"toolhand-idle")?;
        let Some((job, orders)) = take_job(&socket)? else { return Ok(()) };
        return reaper::run(job, orders, socket, is_limited);
    }
    // A fork takes a while, and so is not put off until there is a job.
    let above = process::getpid();
    match kernel::fork()? {
        Fork::Child => {
            reaper::begin_session()?;
            end_with_monitor()?;
            if process::getppid() != Some(above) {
                // It was killed before the kernel knew of the wish.
                return Ok(());
            }
            rustix::thread::set_name(c"toolhand-idle")?;
            control_group::remember_mount();
            let Some((job, orders)) = take_job(&socket)? else { return Ok(()) };
            reaper::run(job, orders, socket, is_limited)
        }
        Fork::Parent(reaper) => monitor(reaper, socket),
    }
}

/// Waits for the job, and puts in place what it says of standard input and of the view. `None`:
/// there is nothing to run.
fn take_job(socket: &UnixStream) -> io::Result<Option<(Job, BufReader<UnixStream>)>> {
    let mut orders = BufReader::new(socket.try_clone()?);
    let Some(job) = protocol::read::<Job>(&mut orders)? else { return Ok(None) };
    rustix::thread::set_name(c"toolhand-run")?;
    outlive_monitor()?;
    protocol::write(&mut &*socket, &Report::Taken)?;
    if matches!(job.input, Input::Nothing) {
        // A bubblewrap that was started ahead has read its arguments from there.
        stdio::dup2_stdout(stdio::stderr())?;
    }
    if matches!(job.input, Input::Pipe) {
        let Some(pipe) = descriptors::receive(socket) else { return Ok(None) };
        stdio::dup2_stdin(pipe)?;
    }
    if let Err(error) = enter_sandbox(&job) {
        let ViewError { error, place } = error;
        let failure = StartFailure { place, ..StartFailure::new(LaunchStep::View, &error) };
        protocol::write(&mut &*socket, &Report::NotStarted(failure))?;
        return Ok(None);
    }
    Ok(Some((job, orders)))
}

/// A reaper without a command has nothing to do where the monitor was killed.
fn end_with_monitor() -> io::Result<()> {
    Ok(process::set_parent_process_death_signal(Some(process::Signal::KILL))?)
}

/// A reaper with a command has something to do where the monitor was killed: see [`reaper`].
fn outlive_monitor() -> io::Result<()> {
    if process::getpid() == Pid::INIT {
        // There is no monitor: it ends with bubblewrap.
        return Ok(());
    }
    Ok(process::set_parent_process_death_signal(None)?)
}

/// Makes sure of what the command will see, and lays down what that takes.
fn enter_sandbox(job: &Job) -> Result<(), ViewError> {
    let Some(confinement) = &job.confinement else { return Ok(()) };
    views::enter(confinement)?;
    if confinement.level == Level::Bwrap {
        drop_capabilities()?;
    }
    Ok(())
}

/// Has the kernel end the whole namespace with bubblewrap's outer half, which the server kills if
/// it must. Elsewhere the parent is a thread of the server, which may end before the server does.
fn die_with_bubblewrap() -> io::Result<()> {
    if process::getpid() == Pid::INIT {
        process::set_parent_process_death_signal(Some(process::Signal::KILL))?;
    }
    Ok(())
}

/// Limits the processes of the namespace that this process is the first one of, and returns
/// whether the kernel does. The server has then handed in its `/proc`: the one inside is
/// read-only. A kernel before 6.14 has one limit for the whole machine and refuses; then the
/// reaper counts.
fn limit_processes() -> bool {
    let number = env::args().nth(2).and_then(|number| number.parse().ok());
    let Some(number) = number.filter(|_| process::getpid() == Pid::INIT) else { return false };
    let proc = kernel::take_descriptor(number);
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let set = |file: &str, value: &str| {
        let file = openat(&proc, file, flags, Mode::empty());
        file.is_ok_and(|file| File::from(file).write_all(value.as_bytes()).is_ok())
    };
    // For root the `/proc` inside is read-only, so the command cannot do this for itself.
    set("self/oom_score_adj", launch::OOM_SCORE);
    set("sys/kernel/pid_max", &MAX_PROCESSES.to_string())
}

/// Waits for the reaper. Ends the tree itself if the reaper could not.
fn monitor(reaper: Pid, mut socket: UnixStream) -> io::Result<()> {
    release_streams()?;
    let status = loop {
        match process::waitpid(Some(reaper), WaitOptions::UNTRACED) {
            // A command may stop its parent. The reaper must run on to end the tree.
            Ok(Some((_, status))) if status.stopped() => {
                process::kill_process(reaper, process::Signal::CONT)?;
            }
            Ok(Some((_, status))) => break status,
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    if status.exit_status() == Some(0) {
        // The server waits for this.
        kernel::exit_now(0);
    }
    while !tree::reap()? {
        tree::signal_all(process::Signal::KILL);
        thread::sleep(TICK);
    }
    protocol::write(&mut socket, &Report::Lost)
}

/// Closes this process's copies of the command's streams, so that they end with the command's
/// processes.
fn release_streams() -> io::Result<()> {
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    stdio::dup2_stdin(&nowhere)?;
    stdio::dup2_stdout(&nowhere)?;
    stdio::dup2_stderr(&nowhere)?;
    Ok(())
}
