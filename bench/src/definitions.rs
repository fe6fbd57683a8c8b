//! Measures what many skills and agents of files add to the requests of a session.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::client::{Client, ask};
use super::process::{self, Process};
use super::report::{Bound, Report, median};
use super::upstream::{self, FIRST_WORD, PLAIN, STEPS, Upstream};

const SKILLS: usize = 200;
const AGENTS: usize = 100;
/// Servers whose first request is measured.
const SERVERS: usize = 15;
/// Later requests of a session.
const REPEATS: usize = 101;

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path()).expect("files");
    let with = format!("claude_user_dir = '{}'\n", directory.path().display());
    let without = "claude_user_dir = \"none\"\n";
    // As long a prompt, so that only what the definitions cost makes a difference.
    let words = directory.path().join("words");
    fs::create_dir(&words).expect("a directory");
    fs::write(words.join("AGENTS.md"), lines()).expect("a file");
    let (mut first, mut later) = ([Vec::new(), Vec::new()], Vec::new());
    for number in 0..SERVERS {
        for (at, settings) in [with.as_str(), without].into_iter().enumerate() {
            let server = process::server(&upstream.url(), settings).await;
            first[at].push(request(&server, 1).await.remove(0));
            if number == 0 {
                let path = process::this_path();
                let server = match at {
                    0 => server,
                    _ => process::server_in(&path, &upstream.url(), settings, &words).await,
                };
                request(&server, 1).await;
                later.push(median(request(&server, REPEATS).await));
            }
        }
    }
    let [with, without] = first.map(median);
    let detail = format!("{with:.3} ms, {without:.3} ms without; {SKILLS} skills, {AGENTS} agents");
    let what = "skills and agents, a server's first request";
    report.milliseconds(what, with - without, Bound::AtMost(5.0), detail);
    let (with, without) = (later[0], later[1]);
    let detail = format!("{with:.3} ms, {without:.3} ms with as long a prompt");
    report.ratio("skills and agents, a later request", with / without, Bound::AtMost(1.15), detail);
}

fn write(directory: &Path) -> std::io::Result<()> {
    let mut text = String::new();
    for line in 0..40 {
        let _ = writeln!(text, "{line}. Look at one thing, and then at the next one.");
    }
    for number in 0..SKILLS {
        let skill = directory.join(format!("skills/skill-{number}"));
        fs::create_dir_all(&skill)?;
        let head = format!(
            "---\nname: skill-{number}\ndescription: Does task {number}, when asked.\n---\n"
        );
        fs::write(skill.join("SKILL.md"), head + &text)?;
    }
    fs::create_dir_all(directory.join("agents"))?;
    for number in 0..AGENTS {
        let head = format!(
            "---\nname: agent-{number}\ndescription: Knows field {number}.\ntools: Read, Grep, Glob\n---\n"
        );
        fs::write(directory.join(format!("agents/agent-{number}.md")), head + &text)?;
    }
    Ok(())
}

/// What the prompt says of them.
fn lines() -> String {
    let mut text = String::new();
    for number in 0..SKILLS {
        let _ = writeln!(text, "- skill-{number}: Does task {number}, when asked.");
    }
    for number in 0..AGENTS {
        let _ = writeln!(text, "- agent-{number}: Knows field {number}.");
    }
    text
}

/// The times to the first word of so many requests, in milliseconds. The first begins a session,
/// and the others go on with one.
async fn request(server: &Process, count: usize) -> Vec<f64> {
    let mut body = ask(STEPS, true, "none");
    let question = json!({ "role": "user", "content": format!("{PLAIN}say twenty words.") });
    body["messages"] = if count == 1 {
        json!([question])
    } else {
        json!([question, { "role": "assistant", "content": upstream::text() }, question])
    };
    Client::connect(server.address, &body).await.times_until(FIRST_WORD, count).await
}
