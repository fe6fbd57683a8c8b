//! Runs the `SessionEnd` hooks of sessions that were deleted: over REST, by `sessions.retention`
//! or by `sessions.max_bytes`. It happens in the background, and nothing follows from what the
//! hooks say.

use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::poll_fn;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::record::SessionBody;
use crate::hooks::{HookEvent, HookScene, Hooks};
use crate::ids::SessionId;
use crate::store::rows::ForgottenSession;
use crate::workspace::Workspace;

/// For how many sessions hooks run at once: the store may forget thousands in a row.
const MAX_AT_ONCE: usize = 4;

/// How many sessions wait for that. Of further ones no hook is told, since nothing that deletes
/// a session waits for hooks.
const MAX_WAITING: usize = 8192;

/// The protocol's word for an end that is none of those that a terminal has.
const REASON: &str = "other";

/// The hooks of sessions that end, and where they run.
#[derive(Debug)]
pub(crate) struct SessionEndHooks {
    pub(crate) hooks: Hooks,
    /// The server's permission mode.
    pub(crate) mode: String,
    pub(crate) main_workspace: Arc<Workspace>,
    /// Those that requests may choose.
    pub(crate) further_workspaces: Vec<Arc<Workspace>>,
}

/// Takes sessions that have ended.
#[derive(Debug)]
pub(crate) struct EndedSessions(mpsc::Sender<EndedSession>);

/// Gives them to the hooks.
pub(crate) type WaitingSessions = mpsc::Receiver<EndedSession>;

/// What hooks are told of a session.
#[derive(Debug)]
pub(crate) struct EndedSession {
    id: SessionId,
    workspace: Option<PathBuf>,
    working_dir: Option<PathBuf>,
}

pub(crate) fn queue() -> (EndedSessions, WaitingSessions) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    (EndedSessions(sender), receiver)
}

impl EndedSessions {
    /// Never waits.
    pub(crate) fn push(&self, session: &ForgottenSession) {
        let body: SessionBody = serde_json::from_slice(&session.body).unwrap_or_default();
        let (id, workspace) = (session.id.clone(), body.workspace.map(PathBuf::from));
        let working_dir = body.working_dir.map(PathBuf::from);
        if self.0.try_send(EndedSession { id, workspace, working_dir }).is_err() {
            tracing::warn!(session = %session.id, "too many sessions end: no hook is told of it");
        }
    }
}

impl SessionEndHooks {
    /// Runs the hooks of each session that comes. Dropping the future ends those that run.
    pub(crate) async fn run(self, mut ended: WaitingSessions) {
        let ended = poll_fn(move |context| ended.poll_recv(context));
        ended.for_each_concurrent(MAX_AT_ONCE, |session| self.tell(session)).await;
    }

    async fn tell(&self, ended: EndedSession) {
        let EndedSession { id, workspace, working_dir } = ended;
        let mut workspaces = self.further_workspaces.iter().chain([&self.main_workspace]);
        let own = workspace.as_ref().and_then(|root| workspaces.find(|it| it.root() == *root));
        let (place, hooks) = match own {
            Some(own) => (own, self.hooks.in_workspace(own).await),
            // No settings file is known to be about this session.
            None => (&self.main_workspace, self.hooks.clone()),
        };
        let event = HookEvent::SessionEnd;
        if !hooks.fires(event, &[REASON]) {
            return;
        }
        let id = id.to_string();
        let scene = HookScene {
            session: Some(&id),
            workspace: place,
            working_dir: working_dir.as_deref().or(workspace.as_deref()).unwrap_or(place.root()),
            mode: &self.mode,
            cancelled: &CancellationToken::new(),
        };
        let members = Map::from_iter([("reason".to_owned(), Value::from(REASON))]);
        // Each run leaves its line in the log, and there is nobody else to tell.
        drop(hooks.run(event, &[REASON], scene, members).await);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::hooks::HookPrograms;

    fn open(directory: &Path) -> Arc<Workspace> {
        Arc::new(Workspace::open(vec![directory.to_owned()]).unwrap())
    }

    fn told_by(line: &str, main: &Path, further: &Path) -> SessionEndHooks {
        let hook = format!("event = \"SessionEnd\"\nmatcher = 'other'\ncommand = '{line}'");
        SessionEndHooks {
            hooks: Hooks::new(vec![toml::from_str(&hook).unwrap()], HookPrograms::samples()),
            mode: "default".to_owned(),
            main_workspace: open(main),
            further_workspaces: vec![open(further)],
        }
    }

    fn forgotten(body: &str) -> ForgottenSession {
        ForgottenSession { id: SessionId::random(), body: body.as_bytes().to_vec() }
    }

    #[tokio::test]
    async fn a_hook_is_told_which_session_has_ended_and_runs_in_its_workspace() {
        let (main, further) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let at = |directory: &TempDir| directory.path().to_str().unwrap().to_owned();
        let (own, gone) = (at(&further), "/no/longer/served");
        let cases = [
            (format!(r#"{{"workspace":"{own}"}}"#), &further, own.clone()),
            (format!(r#"{{"workspace":"{own}","working_dir":"/sub"}}"#), &further, "/sub".into()),
            (format!(r#"{{"workspace":"{gone}"}}"#), &main, gone.to_owned()),
            // Of a version before, or of nobody.
            (r#"{"grants":[]}"#.to_owned(), &main, at(&main)),
            ("garbage".to_owned(), &main, at(&main)),
        ];
        for (body, place, working_dir) in cases {
            let (ended, waiting) = queue();
            let session = forgotten(&body);
            ended.push(&session);
            drop(ended);
            told_by("cat >told", main.path(), further.path()).run(waiting).await;

            let told = fs::read_to_string(place.path().join("told")).unwrap();
            let told: Value = serde_json::from_str(&told).unwrap();
            let expected = serde_json::json!({
                "session_id": session.id.to_string(), "cwd": working_dir,
                "permission_mode": "default", "hook_event_name": "SessionEnd", "reason": "other",
            });
            assert_eq!(told, expected, "{body}");
            fs::remove_file(place.path().join("told")).unwrap();
        }
    }

    #[tokio::test]
    async fn however_many_sessions_end_few_of_their_hooks_run_at_once() {
        let main = TempDir::new().unwrap();
        fs::create_dir(main.path().join("running")).unwrap();
        // Each waits for those that run beside it.
        let line = "mkdir running/$$; echo >>began; until (($(wc -l <began) >= 4)); do :; done; \
                    ls running | wc -l >>counts; rmdir running/$$";
        let (ended, waiting) = queue();
        for _ in 0..12 {
            ended.push(&forgotten("{}"));
        }
        drop(ended);
        told_by(line, main.path(), main.path()).run(waiting).await;

        let counts = fs::read_to_string(main.path().join("counts")).unwrap();
        let counts: Vec<usize> = counts.lines().map(|line| line.trim().parse().unwrap()).collect();
        assert_eq!(counts.len(), 12);
        assert_eq!(counts.iter().max(), Some(&MAX_AT_ONCE), "{counts:?}");
    }

    #[tokio::test]
    async fn a_queue_that_is_full_delays_nobody() {
        let (ended, mut waiting) = queue();
        for _ in 0..=MAX_WAITING {
            ended.push(&forgotten("{}"));
        }
        drop(ended);
        let mut told = 0;
        while waiting.recv().await.is_some() {
            told += 1;
        }
        assert_eq!(told, MAX_WAITING);
    }
}
