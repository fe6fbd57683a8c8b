//! Knows which commands are about other machines or other programs of this one. A sandbox without
//! a network makes them fail, and one with a network lets them act there: its being there answers
//! no question about them.

use super::ParsedCommand;
use super::part::Part;
use super::program_lists::is_listed;
use super::risks::signs::{NETWORK, NETWORK_GIT, TAMPERING};
use super::word::Word;

/// Programs that are about nothing else.
const ALWAYS: [&str; 12] = [
    "aws",
    "az",
    "flyctl",
    "gcloud",
    "gh",
    "glab",
    "heroku",
    "kubectl",
    "helm",
    "terraform",
    "twine",
    "vercel",
];

/// Commands of programs that publish, or have another program act. What only builds from
/// downloaded packages is not among them.
const COMMANDS: [(&[&str], &[&str]); 6] = [
    (&["git"], &NETWORK_GIT),
    (&["cargo"], &["login", "owner", "publish", "yank"]),
    (
        &["npm", "pnpm", "yarn"],
        &["deprecate", "dist-tag", "login", "owner", "publish", "unpublish"],
    ),
    (&["pip", "pip3"], &["install", "uninstall"]),
    (&["uv"], &["publish"]),
    (
        &["docker", "podman"],
        &["exec", "kill", "login", "push", "restart", "rm", "run", "start", "stop", "up", "down"],
    ),
];

impl ParsedCommand {
    /// The first part that reaches out, as written.
    pub(crate) fn reaches_out(&self) -> Option<&str> {
        self.first_part(reaches_out)
    }
}

fn reaches_out(part: &Part) -> bool {
    let Some(program) = part.words.first().and_then(Word::base_name) else { return false };
    let is_always = [&NETWORK[..], &TAMPERING, &ALWAYS].iter().any(|list| list.contains(&program));
    is_always || is_listed(&COMMANDS, program, &part.words[1..])
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn what_acts_elsewhere_reaches_out() {
        for line in [
            "git push",
            "git -C x pull",
            "curl https://example.com",
            "/usr/bin/ssh host",
            "make && cargo publish",
            "docker compose up -d",
            "docker run --rm alpine",
            "pip install requests",
            "kill 1",
            "sh -c 'npm publish'",
            "ls | xargs gh api",
        ] {
            assert!(parse(line).unwrap().reaches_out().is_some(), "{line}");
        }
        for line in [
            "git commit -m push-it",
            "cargo build",
            "npm ci",
            "uv sync",
            "docker compose config",
            "docker build -t app .",
            "echo curl",
        ] {
            assert!(parse(line).unwrap().reaches_out().is_none(), "{line}");
        }
    }
}
