//! Writes to stdout and stderr, and notices when the reader of stdout leaves.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::oneshot;

/// Stdout without a buffer: each piece of the answer is seen at once.
#[derive(Debug)]
pub(super) struct Stdout(File);

impl Stdout {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }

    pub(super) fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Whoever started us may have set it to non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(&self.0, PollFlags::OUT)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Writes to stderr. Ignores errors: nobody may be reading.
pub(super) fn to_stderr(text: &str) {
    let mut stderr = io::stderr().lock();
    drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
}

/// Resolves when nobody can read stdout any more. A write would show it too, but the model
/// may be silent for minutes.
pub(super) fn reader_gone() -> io::Result<oneshot::Receiver<()>> {
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let (gone, waiting) = oneshot::channel();
    // Ends with the program.
    std::thread::Builder::new().spawn(move || {
        // Errors and hang-ups are reported unasked. Files and terminals have none.
        if wait_for(stdout, PollFlags::empty()).is_ok() {
            _ = gone.send(());
        }
    })?;
    Ok(waiting)
}

fn wait_for(file: impl std::os::fd::AsFd, events: PollFlags) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(&file, events)], None) {
            Err(Errno::INTR) => {}
            polled => return polled.map(drop).map_err(io::Error::from),
        }
    }
}
