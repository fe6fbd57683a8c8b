//! Gives bash a command line that is longer than the kernel lets an argument be.
//!
//! bash reads it from a file in memory, which has no name that another process could find, cannot
//! be changed, and is gone with the shell. The shell evaluates it as it does the text after `-c`:
//! names and line numbers are the same, and standard input stays what it is.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create};

/// `MAX_ARG_STRLEN` of the kernel on the smallest pages, with the zero at the end.
const MAX_ARGUMENT: usize = 128 << 10;

/// Arguments that the kernel takes, and the file that they name.
#[derive(Debug)]
pub(super) struct ReadableArguments<'a> {
    pub(super) arguments: Vec<Cow<'a, str>>,
    /// The program inherits it, so it stays open until that is executed.
    script: Option<File>,
}

/// The arguments of a program, of which bash reads a long script from a file.
pub(super) fn readable<'a>(
    program: &OsStr,
    arguments: &'a [String],
) -> io::Result<ReadableArguments<'a>> {
    let mut readable = ReadableArguments {
        arguments: arguments.iter().map(|argument| argument.as_str().into()).collect(),
        script: None,
    };
    let is_bash = Path::new(program).file_name() == Some(OsStr::new("bash"));
    let index = arguments.iter().position(|argument| argument == "-c").map(|index| index + 1);
    let text = index.and_then(|index| Some((index, arguments.get(index)?)));
    let Some((index, text)) = text.filter(|(_, text)| is_bash && MAX_ARGUMENT <= text.len()) else {
        return Ok(readable);
    };
    let script = script(text)?;
    let number = script.as_raw_fd();
    // The line ends keep bash from replacing itself with the last program.
    readable.arguments[index] = format!("eval \"$(</dev/fd/{number})\" {number}<&-\n\n").into();
    readable.script = Some(script);
    Ok(readable)
}

/// A file that nothing changes. The program that is executed inherits it.
fn script(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("script", MemfdFlags::ALLOW_SEALING)?);
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    file.write_all(text.as_bytes())?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn arguments(text: &str) -> Vec<String> {
        ["--norc", "-c", text, "bash"].map(str::to_owned).to_vec()
    }

    #[test]
    fn only_what_is_too_long_is_read_from_a_file() {
        let fits = arguments(&"x".repeat(MAX_ARGUMENT - 1));
        let readable = readable(OsStr::new("/bin/bash"), &fits).unwrap();
        assert_eq!(readable.arguments, fits);
        assert!(readable.script.is_none());
    }

    #[test]
    fn a_script_cannot_be_changed_or_be_read_by_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let text = "x".repeat(MAX_ARGUMENT);
        let long = arguments(&text);
        let readable = readable(OsStr::new("/bin/bash"), &long).unwrap();
        let file = readable.script.as_ref().unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert!(readable.arguments[2].contains(&format!("/dev/fd/{}", file.as_raw_fd())));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(file.set_len(0).is_err() && (&*file).write_all(b"y").is_err());
    }
}
