//! Starts background tasks, looks at them and stops them, as the model does.

use std::os::unix::fs::symlink;

use regex::Regex;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::sandbox_notes::Home;
use super::*;
use crate::files::ReadState;
use crate::ids::{Scope, SessionId};
use crate::processes::test_support::{OpenGate, marker, processes_with};
use crate::session_files::SessionDirectories;
use crate::tools::builtin::list_tasks::ListTasks;
use crate::tools::builtin::task_output::TaskOutput;
use crate::tools::builtin::task_stop::TaskStop;
use crate::tools::tasks::{AllTasks, KnownTask, SessionTasks, TaskLimits};

const SCOPE: Scope = Scope::from_bytes([7; 32]);

/// A session in a workspace of its own.
struct Ground {
    fixture: Fixture,
    state_dir: TempDir,
    directories: SessionDirectories,
    all: AllTasks,
    session: SessionId,
    revoked: CancellationToken,
}

impl Ground {
    fn new() -> Self {
        Self::with_most(8)
    }

    fn with_most(most: usize) -> Self {
        let state_dir = TempDir::new().unwrap();
        let ground = Self {
            fixture: Fixture::new(&[("sub/a.txt", "text\n")]),
            directories: SessionDirectories::new(state_dir.path(), 1 << 30),
            state_dir,
            all: AllTasks::new(TaskLimits { tasks: most, agents: 4 }),
            session: SessionId::random(),
            revoked: CancellationToken::new(),
        };
        ground.in_a_new_turn()
    }

    fn in_a_new_turn(mut self) -> Self {
        let tasks = self.tasks();
        let files = self.directories.files_of(&self.session);
        let before = self.fixture.context();
        let known = before.agent.saved_tasks(&before.session).unwrap_or_default();
        self.fixture.begin_session(
            |session| session.with_files(files).with_tasks(tasks),
            |agent, session| agent.restored(session, None, ReadState::default(), known),
        );
        self
    }

    fn tasks(&self) -> Arc<SessionTasks> {
        self.all.of_session(&self.session, SCOPE, self.revoked.clone())
    }

    /// The answer, with ids and paths replaced.
    async fn bash(&self, arguments: Value) -> String {
        shown(&self.fixture.call(bash(), arguments).await)
    }

    /// Starts a task that opens the gate when it has done `first`, and then waits for ever.
    async fn started(&self, first: &str) -> (String, OpenGate) {
        let gate = Gate::new();
        let command = format!("{first}; exec 3>{}; env sleep 1000", gate.path().display());
        let arguments = json!({ "command": command, "run_in_background": true });
        let output = output(&self.fixture, arguments).await;
        let id = output.structured["task_id"].as_str().unwrap().to_owned();
        (id, gate.opened().await)
    }

    async fn look(&self, id: &str) -> String {
        self.look_with(json!({ "task_id": id, "block": false })).await
    }

    async fn look_with(&self, arguments: Value) -> String {
        shown(&self.fixture.call(TaskOutput, arguments).await)
    }

    async fn stop(&self, id: &str) -> String {
        shown(&self.fixture.call(TaskStop, json!({ "task_id": id })).await)
    }

    fn notices(&self) -> Vec<String> {
        let agent = self.fixture.context().agent;
        let ends = agent.known_tasks.untold_ends(&self.tasks());
        let tell = |(line, task): &(String, Arc<KnownTask>)| {
            task.mark_end_told();
            shown(line)
        };
        ends.iter().map(tell).collect()
    }

    fn path_of(&self, id: &str) -> PathBuf {
        self.tasks().find(id).unwrap().path.clone().unwrap()
    }
}

/// The tasks of a session.
pub(super) fn tasks_of(session: &SessionId) -> Arc<SessionTasks> {
    let all = AllTasks::new(TaskLimits { tasks: 8, agents: 4 });
    all.of_session(session, SCOPE, CancellationToken::new())
}

/// A text with ids and paths replaced.
fn shown(text: &str) -> String {
    let path = Regex::new(r"/[^ ]*/sess_[0-9a-f]{32}/output").unwrap();
    let id = Regex::new("bash_[0-9a-f]{8}").unwrap();
    id.replace_all(&path.replace_all(text, "$$OUTPUT"), "$$ID").into_owned()
}

#[tokio::test]
async fn p16_a_task_answers_at_once_and_is_told_of_when_it_ends() {
    let ground = Ground::new();
    let arguments = json!({
        "command": "echo built; exit 3", "description": "Build it", "run_in_background": true
    });
    assert_snapshot!(ground.bash(arguments).await, @r"
    Background task started: $ID
    Its output: $OUTPUT/$ID.txt
    ");
    let task = ground.tasks().all().remove(0);
    task.wait_for_end().await;

    assert_snapshot!(ground.notices().join("\n"), @"Background task $ID (Build it) failed, exit code 3; output: $OUTPUT/$ID.txt");
    assert_eq!(ground.notices(), Vec::<String>::new());
    assert_eq!(fs::read_to_string(ground.path_of(&task.id)).unwrap(), "built\n");
    assert_snapshot!(ground.look(&task.id).await, @r"
    built
    Task $ID: failed, exit code 3
    ");
    assert_snapshot!(ground.look(&task.id).await, @r"
    (no new output)
    Task $ID: failed, exit code 3
    ");
}

#[tokio::test]
async fn each_look_tells_what_is_new_and_an_end_that_was_seen_is_no_notice() {
    let ground = Ground::new();
    let (next, gate) = (Gate::new(), Gate::new());
    let command = format!(
        "echo one; printf '10%%\r20%%'; : >{}; read <{}; printf '\r30%%\n'; exit 0",
        gate.path().display(),
        next.path().display(),
    );
    ground.bash(json!({ "command": command, "run_in_background": true })).await;
    let id = ground.tasks().all()[0].id.clone();
    gate.opened().await.closed().await;

    assert_snapshot!(ground.look(&id).await, @r"
    one
    20%
    Task $ID: running
    ");
    assert_snapshot!(ground.look(&id).await, @r"
    (no new output)
    Task $ID: running
    ");
    fs::write(next.path(), "\n").unwrap();
    assert_snapshot!(ground.look_with(json!({ "bash_id": id, "wait_up_to": 60 })).await, @r"
    30%
    Task $ID: completed, exit code 0
    ");
    assert_eq!(ground.notices(), Vec::<String>::new());
}

#[tokio::test]
async fn a_look_at_what_runs_ends_at_its_time() {
    let ground = Ground::new();
    let (id, _open) = ground.started("echo a").await;
    assert_snapshot!(ground.look_with(json!({ "task_id": id, "timeout": 5 })).await, @r"
    a
    Task $ID: running
    ");
    let cancelled = ground.fixture.context().cancelled;
    cancelled.cancel();
    assert_snapshot!(ground.look_with(json!({ "task_id": id })).await, @"Error: interrupted");
}

#[tokio::test]
async fn a_filter_shows_the_lines_that_match_and_the_others_count_as_seen() {
    let ground = Ground::new();
    let (id, _open) = ground.started("seq 1 30000").await;
    let arguments = json!({ "task_id": id, "block": false, "filter": "^.?999$" });
    assert_snapshot!(ground.look_with(arguments).await, @r"
    999
    1999
    2999
    3999
    4999
    5999
    6999
    7999
    8999
    9999
    Task $ID: running
    ");
    assert_snapshot!(ground.look(&id).await, @r"
    (no new output)
    Task $ID: running
    ");
    let arguments = json!({ "task_id": id, "block": false, "filter": "(" });
    let refused = ground.look_with(arguments).await;
    assert!(
        refused.starts_with("Error: invalid input: `filter` is not a valid regular"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_long_output_shows_its_head_and_tail_and_where_the_rest_is() {
    let mut ground = Ground::new();
    ground.fixture.limit(500);
    let (id, _open) = ground.started("seq 1 100000").await;
    let look = ground.look(&id).await;
    assert!(look.starts_with("1\n2\n"), "{look}");
    assert!(look.ends_with("\n99999\n100000\nTask $ID: running"), "{look}");
    assert!(look.contains("the whole text is in $OUTPUT/$ID.txt"), "{look}");
}

#[tokio::test]
async fn p6_p16_a_command_that_has_had_its_time_goes_on() {
    let ground = Ground::new();
    let (begun, gate) = (Gate::new(), Gate::new());
    let command = format!(
        "cd sub; echo begun; : >{}; read line <{}; echo $line; pwd",
        begun.path().display(),
        gate.path().display(),
    );
    let arguments = json!({ "command": command, "timeout": 1500 });
    let (answer, ()) = tokio::join!(ground.bash(arguments), async {
        begun.opened().await.closed().await;
    });
    assert_snapshot!(answer, @r"
    begun
    Still running after 1.5 s: it goes on as background task $ID
    Its output: $OUTPUT/$ID.txt
    ");
    let id = ground.tasks().all()[0].id.clone();
    // The turn has ended, and another one begins.
    let ground = ground.in_a_new_turn();
    fs::write(gate.path(), "heard\n").unwrap();

    assert_snapshot!(ground.look_with(json!({ "task_id": id })).await.replace(
        ground.fixture.root().to_str().unwrap(), "$WORKSPACE"
    ), @r"
    heard
    $WORKSPACE/sub
    Task $ID: completed, exit code 0
    ");
    let whole = format!("begun\nheard\n{}\n", ground.fixture.path("sub").display());
    assert_eq!(fs::read_to_string(ground.path_of(&id)).unwrap(), whole);
    assert_snapshot!(answer_in(&ground, "pwd").await, @"$WORKSPACE");
}

async fn answer_in(ground: &Ground, command: &str) -> String {
    ground.bash(json!({ "command": command })).await
}

#[tokio::test]
async fn p6_what_must_not_go_on_alone_is_ended_at_its_time() {
    let ground = Ground::new();
    for command in [
        "sleep 1000",
        "sleep 1000; echo a",
        "env GIT_PAGER=cat git -c alias.w='!sleep 1000' w",
        "sleep 1000 | git hash-object --stdin",
        "env sleep 1000 && $(echo git) status",
        "if env sleep 1000; then",
    ] {
        let answer = ground.bash(json!({ "command": command, "timeout": 200 })).await;
        let is_ended = answer.contains("Command timed out after 0.2 s and was ended")
            || answer.contains("syntax error");
        assert!(is_ended, "{command}: {answer}");
    }
    assert!(ground.tasks().all().is_empty());
}

#[tokio::test]
async fn p16_a_session_has_only_so_many_tasks() {
    let ground = Ground::with_most(2);
    let (first, _one) = ground.started("echo first").await;
    let (_, _two) = ground.started("echo second").await;

    let refused = ground.bash(json!({ "command": "echo third", "run_in_background": true })).await;
    assert!(
        refused.starts_with("Error: a session has at most 2 background tasks at once; running: "),
        "{refused}"
    );
    assert!(refused.contains("$ID (echo first; exec 3>"), "{refused}");
    // One that has had its time has no place either.
    let ended = ground.bash(json!({ "command": "env sleep 1000", "timeout": 100 })).await;
    assert!(ended.contains("Command timed out after 0.1 s"), "{ended}");

    assert_snapshot!(ground.stop(&first).await, @"Successfully stopped task: $ID");
    let (_, _three) = ground.started("echo third").await;
}

#[tokio::test]
async fn p16_without_tasks_nothing_is_offered_and_nothing_goes_on() {
    let ground = Ground::with_most(0);
    let settings = BashSettings { background_tasks: 0, ..BashSettings::default() };
    let tool = erase(Bash { settings, ..bash() });
    assert!(
        !tool.input_schema()["properties"].as_object().unwrap().contains_key("run_in_background")
    );
    let arguments = json!({ "command": "echo a", "run_in_background": true, "timeout": 5000 });
    let output = ground.fixture.run(&tool, arguments).await.unwrap().text.to_string();
    assert!(output.starts_with("a\n") && output.contains("run_in_background"), "{output}");
    let arguments = json!({ "command": "env sleep 1000", "timeout": 100 });
    let output = ground.fixture.run(&tool, arguments).await.unwrap();
    assert!(output.text.to_string().contains("was ended; if it needs more time"));
}

#[tokio::test]
async fn a_task_is_stopped_once_and_others_are_not_found() {
    let ground = Ground::new();
    let marker = marker();
    let (id, open) = ground.started(&format!("setsid bash -c 'sleep 1000; :' {marker} & :")).await;

    assert_snapshot!(ground.stop(&id).await, @"Successfully stopped task: $ID");
    open.closed().await;
    assert_eq!(processes_with(&marker), Vec::<String>::new());
    assert_snapshot!(ground.stop(&id).await, @"Error: task $ID has ended already: killed");
    assert_eq!(ground.notices(), Vec::<String>::new());

    let stranger = Ground::new();
    let unknown = "Error: no background task is called $ID; ListTasks shows them";
    assert_eq!(stranger.stop(&id).await, unknown);
    assert_eq!(stranger.look(&id).await, unknown);
    assert_eq!(stranger.look("bash_00000000").await, unknown);
}

#[tokio::test]
async fn tasks_are_listed() {
    let ground = Ground::new();
    assert_snapshot!(ground.fixture.call(ListTasks, json!({})).await, @"No background tasks");
    let (id, _open) = ground.started("echo 'a  b'").await;
    ground.bash(json!({ "command": "exit 1", "run_in_background": true })).await;
    for task in ground.tasks().all().iter().filter(|task| task.id != id) {
        task.wait_for_end().await;
    }
    let list = shown(&ground.fixture.call(ListTasks, json!({})).await);
    let seconds = Regex::new(r"\d+ s ").unwrap();
    let gate = Regex::new("exec 3>[^;]*").unwrap();
    let list = seconds.replace_all(&gate.replace_all(&list, "exec 3>$$GATE"), "0 s ").into_owned();
    assert_snapshot!(list, @r"
    $ID  running  0 s  echo 'a b'; exec 3>$GATE; env sleep 1000
    $ID  failed, exit code 1  0 s  exit 1
    ");
    let listed = ground.all.of_scope(SCOPE);
    assert_eq!(listed.len(), 2);
    assert!(ground.all.of_scope(Scope::from_bytes([8; 32])).is_empty());
}

#[tokio::test]
async fn p16_tasks_end_with_their_session_their_key_and_idleness() {
    for ending in ["session", "key", "server", "idle"] {
        let ground = Ground::new();
        let (id, open) = ground.started("trap '' TERM").await;
        let task = ground.tasks().find(&id).unwrap();
        let Ground { all, session, revoked, fixture, .. } = ground;
        drop(fixture);
        match ending {
            "session" => all.end_session(&session).await,
            "key" => revoked.cancel(),
            "server" => all.end_all().await,
            _ => tokio::select! {
                () = all.end_idle(Duration::from_millis(20)) => {}
                () = task.wait_for_end() => {}
            },
        }
        open.closed().await;
        task.wait_for_end().await;
        assert_eq!(task.state(), "killed", "{ending}");
    }
}

#[tokio::test]
async fn p16_nothing_starts_for_a_key_that_is_revoked() {
    let ground = Ground::new();
    ground.revoked.cancel();
    let refused = ground.bash(json!({ "command": "echo a", "run_in_background": true })).await;
    assert_snapshot!(refused, @"Error: the session has ended, or its client key was revoked");
}

#[tokio::test]
async fn p4_p16_a_task_that_writes_without_end_is_ended() {
    let ground = Ground::new();
    ground.bash(json!({ "command": "yes", "run_in_background": true })).await;
    let task = ground.tasks().all().remove(0);
    task.wait_for_end().await;

    assert_eq!(task.state(), "killed (output limit: more than 16 MiB)");
    assert_eq!(fs::metadata(ground.path_of(&task.id)).unwrap().len(), 16 << 20);
    let look = ground.look(&task.id).await;
    assert!(look.starts_with("y\ny\n"), "{look}");
    assert!(look.ends_with("y\nTask $ID: killed (output limit: more than 16 MiB)"), "{look}");
}

#[tokio::test]
async fn p18_what_a_command_does_to_its_output_file_leads_nowhere() {
    let ground = Ground::new();
    let secret = ground.state_dir.path().join("secret");
    fs::write(&secret, "secret\n").unwrap();

    let (removed, _open) = ground.started("echo one").await;
    let path = ground.path_of(&removed);
    fs::remove_file(&path).unwrap();
    symlink(&secret, &path).unwrap();
    assert_snapshot!(ground.look(&removed).await, @r"
    one
    Task $ID: running
    ($OUTPUT/$ID.txt was removed by somebody else; the task goes on)
    ");
    ground.stop(&removed).await;
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret\n");

    let (cut, _open) = ground.started("echo one").await;
    // The file gets the output a little later than the model can see it.
    while fs::read_to_string(ground.path_of(&cut)).unwrap() != "one\n" {
        tokio::task::yield_now().await;
    }
    fs::File::create(ground.path_of(&cut)).unwrap();
    assert_snapshot!(ground.look(&cut).await, @r"
    [… 4 bytes are not kept …]
    Task $ID: running
    ($OUTPUT/$ID.txt was cut by somebody else; the task goes on)
    ");
    ground.stop(&cut).await;

    ground.bash(json!({ "command": "echo two", "run_in_background": true })).await;
    let task = ground.tasks().all().pop().unwrap();
    task.wait_for_end().await;
    let path = ground.path_of(&task.id);
    fs::remove_file(&path).unwrap();
    symlink(&secret, &path).unwrap();
    let look = ground.look(&task.id).await;
    assert!(look.starts_with("[… 4 bytes are not kept …]\nTask $ID: completed"), "{look}");
}

#[tokio::test]
async fn p18_a_task_runs_where_no_file_can_be_made() {
    let ground = Ground::new();
    fs::write(ground.state_dir.path().join("sessions"), "in the way").unwrap();
    let gate = Gate::new();
    let command = format!("echo one; exec 3>{}; env sleep 1000", gate.path().display());
    let started = ground.bash(json!({ "command": command, "run_in_background": true })).await;
    assert!(started.contains("(its output cannot be kept in a file: "), "{started}");
    let _open = gate.opened().await;
    let id = ground.tasks().all()[0].id.clone();
    assert_snapshot!(ground.look(&id).await, @r"
    one
    Task $ID: running
    ");
}

#[tokio::test]
async fn a_task_tells_at_its_end_what_the_sandbox_has_dropped_and_prevented() {
    let home = Home::new(Level::Bwrap);
    if !home.holds().await {
        return;
    }
    let ground = Ground::new();
    let command = "touch ~/note.txt; exec 3<>/dev/tcp/127.0.0.1/1";
    let arguments = json!({ "command": command, "run_in_background": true });
    let output = ground.fixture.run(&erase(home.bash()), arguments).await.unwrap();
    let id = output.structured["task_id"].as_str().unwrap().to_owned();
    let told = ground.look_with(json!({ "task_id": id, "block": true })).await;
    let lost = format!("(the sandbox has dropped {}/note.txt: ", home.path().display());
    assert!(told.contains(&lost), "{told}");
    assert!(told.contains("(the sandbox has no network: "), "{told}");
}
