//! Knows which commands are made to connect to other machines, so that a person can be told what
//! becomes of them where there is no network. It proves nothing: any program may try.

use super::part::Part;
use super::program_lists::is_listed;
use super::risks::signs::{NETWORK, NETWORK_GIT};
use super::word::Word;
use super::{ParsedCommand, UnparsedCommand};

/// Programs whose every use may connect.
const ALWAYS: [&str; 18] = [
    "apt-key", "aws", "az", "bunx", "flyctl", "gcloud", "gh", "glab", "helm", "heroku", "kubectl",
    "npx", "pipx", "rustup", "twine", "uvx", "vercel", "yt-dlp",
];

/// Commands of programs that download, upload or ask a server.
const COMMANDS: [(&[&str], &[&str]); 13] = [
    (&["git"], &NETWORK_GIT),
    (
        &["npm", "pnpm", "yarn", "bun"],
        &[
            "add", "audit", "ci", "create", "dlx", "i", "info", "init", "install", "login",
            "outdated", "publish", "search", "up", "update", "upgrade", "view",
        ],
    ),
    (&["pip", "pip3"], &["download", "index", "install", "wheel"]),
    (&["uv"], &["add", "lock", "pip", "publish", "sync", "tool"]),
    (&["poetry", "pdm"], &["add", "install", "lock", "publish", "sync", "update"]),
    (&["conda", "mamba", "micromamba"], &["create", "install", "update"]),
    (
        &["cargo"],
        &["add", "fetch", "install", "login", "owner", "publish", "search", "update", "yank"],
    ),
    (&["go"], &["get", "install", "mod"]),
    (
        &["gem", "bundle", "composer"],
        &["fetch", "install", "outdated", "push", "require", "update"],
    ),
    (
        &["apt", "apt-get", "dnf", "yum", "apk", "zypper", "brew"],
        &["add", "dist-upgrade", "download", "install", "update", "upgrade"],
    ),
    (&["docker", "podman"], &["build", "login", "pull", "push", "run"]),
    (&["terraform"], &["apply", "destroy", "init", "plan", "refresh"]),
    (&["dotnet", "nuget"], &["add", "push", "restore"]),
];

impl ParsedCommand {
    /// The first program that is made to connect to another machine, behind wrappers too.
    pub(crate) fn connects(&self) -> Option<&str> {
        self.reached.iter().find_map(|reached| connects(&reached.part))
    }
}

impl UnparsedCommand {
    /// The same, as far as the text shows it.
    pub(crate) fn connects(&self) -> Option<&str> {
        self.fragments.iter().find_map(connects)
    }
}

/// The name of the part's program, if it connects.
fn connects(part: &Part) -> Option<&str> {
    let program = part.words.first().and_then(Word::base_name)?;
    let arguments = &part.words[1..];
    let is_always = NETWORK.contains(&program) || ALWAYS.contains(&program);
    // It installs what the project names.
    let installs = program == "yarn" && arguments.is_empty();
    let connects = is_always || installs || is_listed(&COMMANDS, program, arguments);
    if connects {
        return Some(program);
    }
    let module = module_of_python(program, arguments)?;
    is_listed(&COMMANDS, module, arguments).then_some(module)
}

/// The module that `python -m` runs.
fn module_of_python<'a>(program: &str, arguments: &'a [Word]) -> Option<&'a str> {
    if !program.starts_with("python") {
        return None;
    }
    let after = arguments.iter().skip_while(|word| !word.is("-m")).nth(1)?;
    Some(after.unquoted.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn what_downloads_or_uploads_connects() {
        for (line, program) in [
            ("curl -s http://example.com | jq .", "curl"),
            ("cd x && git -C y fetch --all", "git"),
            ("sudo apt-get -y install jq", "apt-get"),
            ("timeout 5 wget -q example.com", "wget"),
            ("pip install -r requirements.txt", "pip"),
            ("python3 -m pip install x", "pip"),
            ("npm ci", "npm"),
            ("yarn", "yarn"),
            ("npx create-app", "npx"),
            ("cargo add serde", "cargo"),
            ("go mod tidy", "go"),
            ("bash -c 'uv sync'", "uv"),
        ] {
            assert_eq!(parse(line).unwrap().connects(), Some(program), "{line}");
        }
        let unparsed = parse("for i in 1; do curl http://example.com").unwrap_err();
        assert_eq!(unparsed.connects(), Some("curl"));
    }

    #[test]
    fn what_works_on_what_is_there_does_not() {
        for line in [
            "git commit -m fetch-it",
            "cargo build",
            "npm run build",
            "yarn test",
            "pip list",
            "python3 -m pytest",
            "go build ./...",
            "echo curl",
            "touch ~/note.txt && ls -la ~",
        ] {
            assert_eq!(parse(line).unwrap().connects(), None, "{line}");
        }
    }
}
