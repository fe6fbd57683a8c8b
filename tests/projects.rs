//! Runs package managers, build tools and git in bwrap, without a network, in projects that have
//! just begun.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::lsp::real::toolchain;
use crate::lsp::skipped;
use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::environment;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;

/// What the last line of each script says.
const END: &str = "all of it has run";

/// What stands in a workspace before the first command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fresh {
    Nothing,
    Repository,
    /// A repository, and the names that the sandbox keeps from coming.
    OurNames,
}

const ALL: [Fresh; 3] = [Fresh::Nothing, Fresh::Repository, Fresh::OurNames];

/// A package with a script and a dependency, which lies beside it.
const PACKAGE: &str = r#"
mkdir dep
echo '{"name":"dep","version":"1.0.0"}' >dep/package.json
echo 'module.exports = 42' >dep/index.js
echo 'require("fs").writeFileSync("made", String(require("dep")))' >build.js
cat >package.json <<'EOF'
{ "name": "fresh", "version": "1.0.0", "private": true,
  "scripts": { "build": "node build.js", "test": "node --check build.js" },
  "dependencies": { "dep": "file:./dep" } }
EOF
"#;

/// The programs that a script may call.
struct Programs {
    /// Directories on PATH.
    on_path: Vec<PathBuf>,
    /// What they need besides.
    shown: Vec<PathBuf>,
    /// What is written into a directory of its own on PATH: scripts for `sh` by their names.
    wrapped: Vec<(&'static str, String)>,
}

/// The programs of `tests/projects/package.json` and the npm of this machine, and its node.
async fn of_node() -> Programs {
    environment("projects").await;
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/projects/node_modules");
    let modules = modules.canonicalize().expect("npm ci has run");
    let npm = PathBuf::from(output("npm", &["exec", "--call", "printenv npm_execpath"]));
    let node = PathBuf::from(output("node", &["-p", "process.execPath"]));
    let installed = npm.ancestors().nth(2).expect("a package").to_owned();
    let run = |script: &Path| format!("exec node {} \"$@\"", script.display());
    Programs {
        on_path: vec![node.parent().expect("a directory").to_owned()],
        wrapped: vec![
            ("npm", run(&npm)),
            ("yarn1", run(&modules.join("yarn/bin/yarn.js"))),
            ("yarn4", run(&modules.join("@yarnpkg/cli-dist/bin/yarn.js"))),
            ("pnpm", run(&modules.join("pnpm/bin/pnpm.cjs"))),
        ],
        shown: vec![modules, installed],
    }
}

/// The programs of `tests/projects/requirements.txt`, and the Python that they are installed for.
async fn of_python() -> Programs {
    let environment = environment("projects").await.canonicalize().expect("the environment");
    let python = environment.join("bin/python3").canonicalize().expect("an interpreter");
    let lib = fs::read_dir(environment.join("lib")).expect("a directory");
    let packages = lib.flatten().next().expect("one Python").path().join("site-packages");
    let uv = environment.join("bin/uv");
    Programs {
        on_path: vec![packages.join("go/bin")],
        wrapped: vec![
            ("python3", format!("exec {} \"$@\"", python.display())),
            ("uv", format!("exec {} \"$@\"", uv.display())),
            // A new environment has no setuptools, and there is no network to get them.
            (
                "pip-install",
                format!(
                    "PYTHONPATH={} exec .venv/bin/pip install --no-index --no-build-isolation \"$@\"",
                    packages.display()
                ),
            ),
        ],
        shown: vec![environment, python.ancestors().nth(2).expect("a prefix").to_owned()],
    }
}

async fn of_rust() -> Programs {
    let toolchain = toolchain().await;
    let on_path = vec![toolchain.join("bin")];
    Programs { on_path, shown: vec![toolchain], wrapped: Vec::new() }
}

/// Those of the machine.
fn of_system() -> Programs {
    Programs { on_path: Vec::new(), shown: Vec::new(), wrapped: Vec::new() }
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("a program of `make test`");
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A server with an empty home but for the name of a person, a workspace of this kind, and the
/// script as the program `run-it` on PATH.
fn builder(upstream: &Upstream, fresh: Fresh, programs: &Programs, script: &str) -> Builder {
    let mut builder = Server::builder(upstream)
        .config("sandbox.use", r#"["bwrap"]"#)
        .config("sandbox.auto_allow", "true");
    let own = builder.home().join("programs");
    fs::create_dir(&own).expect("a new directory");
    let script = format!("set -e\n{script}\necho {END}");
    let wrapped = programs.wrapped.iter().map(|(name, text)| (*name, text.as_str()));
    for (name, text) in wrapped.chain([("run-it", script.as_str())]) {
        let path = own.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a new file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our own");
    }
    let settings = "[user]\n\tname = Ada\n\temail = ada@example.org\n[alias]\n\tst = status\n";
    fs::write(builder.home().join(".gitconfig"), settings).expect("a new file");
    if fresh != Fresh::Nothing {
        let workspace = builder.workspace();
        output("git", &["init", "--quiet", &workspace.display().to_string()]);
    }
    if fresh == Fresh::OurNames {
        builder = builder.file(".claude/settings.json", "{}").file(".mcp.json", "{}");
    }
    let on_path = [own].into_iter().chain(programs.on_path.iter().cloned());
    let on_path = on_path.chain(["/usr/bin".into(), "/bin".into()]);
    let path = std::env::join_paths(on_path).expect("no colons");
    builder
        .environment("PATH", path.to_str().expect("text"))
        .config("sandbox.readable", &json!(programs.shown).to_string())
}

/// Runs the script in each of these kinds of fresh workspaces, from its first to its last line.
async fn runs_in_bwrap(test: &str, kinds: &[Fresh], programs: &Programs, script: &str) {
    for fresh in kinds {
        let upstream = Upstream::start();
        let server = builder(&upstream, *fresh, programs, script).start().await;
        let status = server.client().get("/toolhand/v1/status").await.json();
        if status["sandbox"]["level"] != "bwrap" {
            return skipped(test, "no bubblewrap");
        }
        let input = json!({ "command": "run-it", "timeout": 300_000 });
        upstream.round(calls(&[("c1", "Bash", input)]));
        upstream.round(says("Done."));
        let answer = server.client().chat(&ask("Run it.")).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let body = upstream.requests().pop().expect("a request").json();
        let messages = body["messages"].as_array().expect("a list");
        let told = messages.last().expect("a message")["content"].as_str().expect("a text");
        assert!(told.contains(END), "{test} in {fresh:?}: {told}");
        let has_ours = server.workspace().join(".mcp.json").exists();
        assert_eq!(has_ours, *fresh == Fresh::OurNames, "{test} in {fresh:?}");
    }
}

#[tokio::test]
async fn npm_runs_in_bwrap_in_fresh_projects() {
    let script = format!(
        "npm init --yes\n{PACKAGE}\nnpm install\nnpm run build\ntest \"$(cat made)\" = 42\n\
         npm test\nnpm ci\nnpm ls\nnpm pack\nnpm version patch --no-git-tag-version"
    );
    runs_in_bwrap("npm_runs_in_bwrap_in_fresh_projects", &ALL, &of_node().await, &script).await;
}

#[tokio::test]
async fn yarn_1_runs_in_bwrap_in_fresh_projects() {
    let script = format!(
        "yarn1 init --yes\n{PACKAGE}\nyarn1 install\nyarn1 run build\n\
         test \"$(cat made)\" = 42\nyarn1 test\nyarn1 install --frozen-lockfile --offline"
    );
    runs_in_bwrap("yarn_1_runs_in_bwrap_in_fresh_projects", &ALL, &of_node().await, &script).await;
}

#[tokio::test]
async fn yarn_4_runs_in_bwrap_in_fresh_projects() {
    let script = format!(
        "yarn4 init --yes\n{PACKAGE}\nyarn4 install\nyarn4 run build\n\
         test \"$(cat made)\" = 42\nyarn4 test\nyarn4 install --immutable"
    );
    runs_in_bwrap("yarn_4_runs_in_bwrap_in_fresh_projects", &ALL, &of_node().await, &script).await;
}

#[tokio::test]
async fn pnpm_runs_in_bwrap_in_fresh_projects() {
    let script = format!(
        "pnpm init\n{PACKAGE}\npnpm install\npnpm run build\ntest \"$(cat made)\" = 42\n\
         pnpm test\npnpm install --frozen-lockfile --offline"
    );
    runs_in_bwrap("pnpm_runs_in_bwrap_in_fresh_projects", &ALL, &of_node().await, &script).await;
}

#[tokio::test]
async fn cargo_runs_in_bwrap_in_fresh_projects() {
    let script = "cargo init --name fresh\ncargo new --lib --vcs none dep\n\
        cargo add --offline --path dep\ncargo build\ntest \"$(cargo run)\" = 'Hello, world!'\n\
        cargo test\ncargo tree\ngit status --short";
    runs_in_bwrap("cargo_runs_in_bwrap_in_fresh_projects", &ALL, &of_rust().await, script).await;
}

#[tokio::test]
async fn uv_runs_in_bwrap_in_fresh_projects() {
    let script = "uv init --name fresh --package\nuv sync\nuv run fresh\nuv lock --check\n\
        uv run python -c 'import fresh'\nuv build --wheel";
    runs_in_bwrap("uv_runs_in_bwrap_in_fresh_projects", &ALL, &of_python().await, script).await;
}

#[tokio::test]
async fn pip_installs_a_fresh_project_in_bwrap() {
    let script = "python3 -m venv .venv\nmkdir -p src/fresh\ntouch src/fresh/__init__.py\n\
        cat >pyproject.toml <<'EOF'\n[build-system]\nrequires = [\"setuptools\"]\n\
        build-backend = \"setuptools.build_meta\"\n[project]\nname = \"fresh\"\nversion = \"1\"\nEOF\n\
        pip-install --editable .\n.venv/bin/python -c 'import fresh'";
    let kinds = [Fresh::Repository];
    runs_in_bwrap("pip_installs_a_fresh_project_in_bwrap", &kinds, &of_python().await, script)
        .await;
}

/// Its standard library is compiled first, as far as it is used.
#[tokio::test]
async fn go_runs_in_bwrap_in_fresh_projects() {
    let script = "go mod init example.org/fresh\nmkdir lib\n\
        printf 'package lib\\nfunc Answer() int { return 42 }\\n' >lib/lib.go\n\
        printf 'package main\\nimport \"example.org/fresh/lib\"\\nfunc main() { println(lib.Answer()) }\\n' \
        >main.go\n\
        go build -o made .\ntest \"$(./made 2>&1)\" = 42\ngo run .\ngo mod tidy\ngofmt -l .";
    let kinds = [Fresh::Nothing];
    runs_in_bwrap("go_runs_in_bwrap_in_fresh_projects", &kinds, &of_python().await, script).await;
}

#[tokio::test]
async fn make_runs_in_bwrap_in_fresh_projects() {
    let script = "printf 'made: made.o\\n\\tcc -o made made.o\\nmade.o: made.c\\n\\tcc -c made.c\\n' \
        >Makefile\n\
        echo 'int main(void) { return 0; }' >made.c\nmake -j2\n./made\nmake\n\
        touch -d 2020-01-01 made.c\ninstall -m 700 made other\nln made hard\nmv hard kept\n\
        cp --preserve=all made other\nrm made.o";
    runs_in_bwrap("make_runs_in_bwrap_in_fresh_projects", &ALL, &of_system(), script).await;
}

#[tokio::test]
async fn a_fresh_project_is_copied_and_packed_in_bwrap() {
    let script = "echo one >a\nmkdir d\necho two >d/b\ncp -r . /tmp/copy\ncp -a . /tmp/other\n\
        test \"$(cat /tmp/copy/d/b)\" = two\ntar cf /tmp/all.tar .\ntar tf /tmp/all.tar\n\
        git init --quiet /tmp/else && cp -r . /tmp/else/\n\
        test -z \"$(find . -name package.json -o -name Jenkinsfile -o -name .npmrc)\"";
    let test = "a_fresh_project_is_copied_and_packed_in_bwrap";
    runs_in_bwrap(test, &ALL, &of_system(), script).await;
}

/// The name of the person is known, and nothing else of their settings.
#[tokio::test]
async fn git_commits_in_bwrap_in_fresh_projects() {
    let script = "test -e .git || git init --quiet --initial-branch=master\n\
        echo one >a\ngit add --all\ngit commit --quiet --message=one\n\
        test \"$(git log --format='%an %ae %cn')\" = 'Ada ada@example.org Ada'\n\
        test -z \"$(git config --global --get alias.st)\"\n\
        git switch --quiet --create other\necho two >>a\ngit commit --quiet --all --message=two\n\
        git switch --quiet -\ngit merge --quiet other\ngit tag v1\n\
        git stash list\ngit gc --quiet\ngit worktree add --quiet tree other\n\
        test -z \"$(git status --short -- a)\"\ngit clone --quiet . clone";
    runs_in_bwrap("git_commits_in_bwrap_in_fresh_projects", &ALL, &of_system(), script).await;
}
