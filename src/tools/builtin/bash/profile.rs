//! Asks a login shell for PATH and other variables, as the operator's terminals have them.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::SHELL;
use crate::processes::{Command, Exit, Limits, Runner};

/// A profile that takes longer waits for somebody.
const MAX_TIME: Duration = Duration::from_secs(5);

/// More than all variables take. What comes before them is not looked at.
const MAX_CHARS: usize = 64 << 10;

/// The variables, each on a line behind the mark. HOME stays the server's: paths with `~` lead
/// there.
const SCRIPT: &str = "printf '\\n%s\\n' \"$0\"; \
    for name in PATH USER LOGNAME LANG TZ TMPDIR ${!LC_@}; do \
    if [[ -v $name ]]; then printf '%s=%s\\n' \"$name\" \"${!name}\"; fi; done";

/// Pairs of a name and a value.
pub(super) type Variables = Vec<(String, String)>;

/// The name of the search path.
pub(super) const PATH: &str = "PATH";

/// The variables, of the search path only absolute directories that are not `writable`, under
/// any name. Reads the disk, but no directory's entries.
pub(super) fn without_writable(
    variables: &Variables,
    writable: impl Fn(&Path) -> bool,
) -> Variables {
    let is_safe = |directory: &PathBuf| {
        let real = fs::canonicalize(directory).unwrap_or_else(|_| directory.clone());
        directory.is_absolute() && !writable(directory) && !writable(&real)
    };
    let safe = |path: &str| {
        let directories = env::split_paths(path).filter(is_safe);
        let joined = env::join_paths(directories).ok()?.into_string().ok()?;
        // Without any, no command would be found. PATH then stays as it was.
        (!joined.is_empty()).then_some(joined)
    };
    let kept = variables.iter().filter_map(|(name, value)| {
        let value = if name == PATH { safe(value)? } else { value.clone() };
        Some((name.clone(), value))
    });
    kept.collect()
}

/// Starts the login shell once. `None`, with a warning, where that fails.
pub(super) async fn variables(runner: &Runner, home: &Path) -> Option<Variables> {
    let found = variables_within(runner, home, MAX_TIME).await;
    if let Err(reason) = &found {
        tracing::warn!(reason, "tools.bash.profile: commands run without the login shell's PATH");
    }
    found.ok()
}

async fn variables_within(
    runner: &Runner,
    home: &Path,
    time: Duration,
) -> Result<Variables, String> {
    let mark = Uuid::new_v4().simple().to_string();
    let command = Command {
        program: SHELL.into(),
        arguments: ["--login", "-c", SCRIPT, &mark].map(str::to_owned).to_vec(),
        directory: home.to_owned(),
        confinement: None,
        kept_alive: None,
    };
    let limits = Limits { time: Some(time), output: 1 << 20, shown: MAX_CHARS };
    let finished = runner.run(&command, limits, &CancellationToken::new()).await;
    let finished = finished.map_err(|error| error.to_string())?;
    if !finished.has_succeeded() {
        let how = match finished.exit {
            Some(Exit::Code(code)) => format!("exit code {code}"),
            _ => format!("it did not end within {} s", time.as_secs_f64()),
        };
        return Err(format!("the login shell failed: {how}"));
    }
    let said = finished.output.render(MAX_CHARS, "");
    let (_, lines) = said.rsplit_once(&format!("\n{mark}\n")).ok_or("it told no variables")?;
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.into(), value.into()));
    Ok(lines.lines().filter_map(pair).collect())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::processes::Environment;
    use crate::processes::test_support::program;

    async fn found(profile: &str, time: Duration) -> Result<Variables, String> {
        let home = TempDir::new().unwrap();
        fs::write(home.path().join(".bash_profile"), profile).unwrap();
        let variables = [("HOME".into(), home.path().into()), ("LANG".into(), "C".into())];
        let runner = Runner::new(program(), Environment::allowed(variables), None);
        variables_within(&runner, home.path(), time).await
    }

    #[test]
    fn commands_cannot_put_programs_on_the_search_path() {
        let home = TempDir::new().unwrap();
        let root = home.path().canonicalize().unwrap();
        for name in ["work/bin", "tools"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("work"), root.join("link")).unwrap();
        let directories = ["work/bin", "link", "tools"].map(|name| root.join(name));
        let path = env::join_paths(directories.into_iter().chain(["bin".into()])).unwrap();
        let variables = [("PATH", path.to_str().unwrap()), ("LANG", "C")];
        let variables: Variables =
            variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let kept = without_writable(&variables, |place| place.starts_with(root.join("work")));
        assert_eq!(kept[0].1, root.join("tools").to_str().unwrap());
        assert_eq!(kept[1], variables[1]);
        for path in ["", "a", "relative:bin"] {
            let variables = [("PATH", path), ("LANG", "C")];
            let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let kept = without_writable(&variables.to_vec(), |_| false);
            assert_eq!(kept, variables[1..], "{path}");
        }
    }

    const PLENTY: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn the_variables_of_a_login_shell_are_taken_and_no_others() {
        let profile = "echo noise; PATH=/opt/tools:/bin; export LC_ALL=C.UTF-8 HOME=/x KEY=secret";
        let found = found(profile, PLENTY).await.unwrap();
        let value = |name: &str| {
            let known = found.iter().find(|(known, _)| known == name);
            known.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("PATH"), Some("/opt/tools:/bin"));
        assert_eq!((value("LANG"), value("LC_ALL")), (Some("C"), Some("C.UTF-8")));
        assert_eq!((value("HOME"), value("KEY")), (None, None));
    }

    #[tokio::test]
    async fn a_profile_that_fails_or_waits_gives_nothing() {
        for (profile, reason) in [
            ("exit 3", "the login shell failed: exit code 3"),
            ("exit 0", "it told no variables"),
            ("while :; do :; done", "the login shell failed: it did not end within 0.3 s"),
        ] {
            let time =
                if profile.starts_with("exit") { PLENTY } else { Duration::from_millis(300) };
            assert_eq!(found(profile, time).await, Err(reason.to_owned()), "{profile}");
        }
    }
}
