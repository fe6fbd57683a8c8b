//! Lists what is not run as it stands, or not on an empty machine, each with its reason.

use super::blocks::Block;

/// How an exception is checked without being run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// It is a picture.
    Nothing,
    /// The packages that it installs are those of the test environment.
    Packages,
}

/// Blocks that are not run: how they begin, why, and what is checked instead.
const NOT_RUN: &[(&str, &str, Check)] = &[
    (" any OpenAI client", "a drawing", Check::Nothing),
    (" HTTP request ", "a drawing", Check::Nothing),
    ("{\n  \"permissions\": {", "a settings file; a unit test reads it", Check::Nothing),
    ("---\nname: reviewer\n", "an agent's file; a unit test reads it", Check::Nothing),
    ("---\ndescription: Prepares a release.", "a skill; a unit test reads it", Check::Nothing),
    ("npm install", "needs a registry; the test environment has pinned versions", Check::Packages),
    (
        "pip install openai-agents",
        "needs a registry; the test environment has pinned versions",
        Check::Packages,
    ),
];

/// What a block needs that a reader has and an empty machine has not.
pub(super) struct Setup {
    /// A text in this block, and in no other.
    contains: &'static str,
    /// Run in the terminal before the block.
    pub(super) script: &'static str,
    /// A server that runs beside it.
    pub(super) service: Option<&'static str>,
}

const SETUPS: &[Setup] = &[
    // The reader's own configuration of LiteLLM.
    Setup {
        contains: "make up ARGS=\"--litellm-config my.yaml\"",
        script: "cp litellm-config.yaml my.yaml",
        service: None,
    },
    // The reader's own directory, and a LiteLLM that runs already: the demo model
    // speaks the same protocol.
    Setup {
        contains: "TOOLHAND_UPSTREAM_API_KEY=",
        script: "mkdir -p ~/project",
        service: Some("toolhand demo-model --listen 127.0.0.1:4000"),
    },
];

/// Programs that replace those of the same name, as shell scripts. `PROGRAM` is the
/// tested binary, `MCP` and `SDK` are environments of the tests.
pub(super) const PROGRAMS: &[(&str, &str)] = &[
    // The repository is here already, and nothing is fetched.
    ("git", r#"[ "$*" = "clone REPOSITORY toolhand" ] && cp -r ~/repository toolhand"#),
    // `cargo test` has built the program already. Everything else asks the real one.
    (
        "cargo",
        r#"case "$*" in
  "build --locked") mkdir -p target/debug && ln -sfn PROGRAM target/debug/toolhand ;;
  *) PATH="${PATH#"$HOME/bin:"}" exec cargo "$@" ;;
esac"#,
    ),
    // The environment of the MCP servers is here already, and pip finds the package in it.
    (
        "python3",
        r#"case "$*" in
  "-m venv $HOME/mcp") ln -sfn MCP "$HOME/mcp" ;;
  *) exec SDK/bin/python3 "$@" ;;
esac"#,
    ),
    // Open WebUI is a gigabyte of packages. What it does first is to fetch the models.
    (
        "open-webui",
        r#"[ "$*" = serve ] && exec python3 -c '
import os, urllib.request
request = urllib.request.Request(os.environ["OPENAI_API_BASE_URL"] + "/models")
request.add_header("Authorization", "Bearer " + os.environ["OPENAI_API_KEY"])
print(urllib.request.urlopen(request).read().decode())'"#,
    ),
];

pub(super) fn check_of(block: &Block) -> Option<Check> {
    let found = NOT_RUN.iter().find(|(begins, _, _)| block.text.starts_with(begins));
    found.map(|(_, _, check)| *check)
}

pub(super) fn setup_of(block: &Block) -> Option<&'static Setup> {
    SETUPS.iter().find(|setup| block.text.contains(setup.contains))
}

/// The texts by which both tables recognise their blocks.
pub(super) fn marks() -> impl Iterator<Item = &'static str> {
    let not_run = NOT_RUN.iter().map(|(begins, _, _)| *begins);
    not_run.chain(SETUPS.iter().map(|setup| setup.contains))
}
