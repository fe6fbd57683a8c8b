//! Sends the question to the server, and reads its answer as a stream or as a whole.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::answer::{Answer, Ending, Shown, Waiting, no_completion, server_error};
use super::error::{AskError, ErrorKind, root_cause};
use super::screen::Screen;
use super::stream::{MAX_SILENCE, show, show_stream};
use super::target::Target;
use crate::http::headers::SESSION;
use crate::openai::error_object::ErrorObject;
use crate::openai::model_list::model_names;
use crate::upstream::client::{bearer, http};
use crate::upstream::{UpstreamSettings, whole_body};

/// For what the server has ready: its list of models, the body of an error.
const SHORT_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer that is kept whole.
const MAX_BODY: usize = 256 << 20;
/// More than any error's message needs.
const MAX_ERROR_BODY: usize = 1 << 20;

/// What is asked.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) model: String,
    pub(super) prompt: String,
    /// The session to continue, with all that was said in it.
    pub(super) session: Option<String>,
}

/// What came of a question.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) ending: Ending,
    /// The session's id, by which it can be continued.
    pub(super) session: Option<String>,
}

/// A connection to one server.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    authorization: Option<HeaderValue>,
}

impl Client {
    pub(super) fn new(target: &Target) -> Result<Self, AskError> {
        let setup = |reason: String| AskError::new(ErrorKind::Setup, reason);
        let authorization = target.key.as_ref().map(bearer).transpose().map_err(setup)?;
        Ok(Self {
            // It follows no redirect, so the key goes to no other server.
            http: http(&UpstreamSettings::default()).map_err(setup)?,
            base: target.base.clone(),
            authorization,
        })
    }

    /// The first model of the server's list.
    pub(super) async fn first_model(&self) -> Result<String, AskError> {
        let response = self.send(self.http.get(self.url("models")), Some(SHORT_TIMEOUT)).await?;
        let body = timeout(SHORT_TIMEOUT, whole_body(response, MAX_BODY));
        let body = body.await.map_err(|_| AskError::silent(SHORT_TIMEOUT))??;
        let names = model_names(&body).map_err(|_| {
            let message = format!("what {} lists is no list of models", self.base);
            AskError::new(ErrorKind::InvalidAnswer, message)
        })?;
        names.into_iter().next().ok_or_else(|| {
            let message = format!("{} lists no model; name one with --model", self.base);
            AskError::new(ErrorKind::InvalidAnswer, message)
        })
    }

    /// Asks for a whole answer. Returns it as it came.
    pub(super) async fn whole_answer(
        &self,
        question: &Question,
    ) -> Result<(Bytes, Outcome), AskError> {
        // Nothing comes before the turn has ended, and its time is the server's to limit.
        let response = self.send(self.completion(question, false), None).await?;
        let session = session_of(&response);
        let body = whole_body(response, MAX_BODY).await?;
        let ending = read_whole(&body)?;
        Ok((body, Outcome { ending, session }))
    }

    /// Asks for a stream, and shows it as it comes.
    pub(super) async fn stream_answer(
        &self,
        question: &Question,
        screen: &mut Screen,
    ) -> Result<Outcome, AskError> {
        let request = self.completion(question, true);
        let response = screen.during(self.send(request, Some(MAX_SILENCE))).await?;
        let session = session_of(&response);
        let ending = if is_of_type(&response, "application/json") {
            show_whole(&whole_body(response, MAX_BODY).await?, screen)?
        } else {
            show_stream(response.bytes_stream(), screen).await?
        };
        Ok(Outcome { ending, session })
    }

    fn completion(&self, question: &Question, stream: bool) -> RequestBuilder {
        let mut extension = serde_json::Map::new();
        if stream {
            extension.insert("progress".into(), "events".into());
        }
        if let Some(session) = &question.session {
            extension.insert("session".into(), session.clone().into());
            // The server puts what was said before in front of the prompt.
            extension.insert("history".into(), "server".into());
        }
        let mut body = json!({
            "model": question.model,
            "messages": [{ "role": "user", "content": question.prompt }],
            "stream": stream,
        });
        if !extension.is_empty() {
            body["toolhand"] = extension.into();
        }
        let request = self.http.post(self.url("chat/completions"));
        request.header(CONTENT_TYPE, "application/json").body(body.to_string())
    }

    fn url(&self, route: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{route}", url.path()));
        url
    }

    /// Sends a request. Returns the response if it is a success and no web page.
    async fn send(
        &self,
        request: RequestBuilder,
        within: Option<Duration>,
    ) -> Result<Response, AskError> {
        let request = match &self.authorization {
            Some(key) => request.header(AUTHORIZATION, key),
            None => request,
        };
        let sent = match within {
            Some(within) => {
                timeout(within, request.send()).await.map_err(|_| AskError::silent(within))?
            }
            None => request.send().await,
        };
        let response = sent.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(self.redirect(&response));
        }
        if !status.is_success() {
            return Err(self.refusal(response).await);
        }
        if is_of_type(&response, "text/html") {
            return Err(self.web_page(status));
        }
        Ok(response)
    }

    fn unreachable(&self, error: &reqwest::Error) -> AskError {
        let (base, reason) = (&self.base, root_cause(error));
        if error.is_connect() {
            let message = format!(
                "no server answers at {base}: {reason}; start one with `toolhand up`, or name \
                 another with --server"
            );
            return AskError::new(ErrorKind::NoServer, message);
        }
        AskError::new(
            ErrorKind::Connection,
            format!("{base} closed the connection or speaks no HTTP: {reason}"),
        )
    }

    fn redirect(&self, response: &Response) -> AskError {
        let status = response.status().as_u16();
        let to = response.headers().get(LOCATION).map(|to| String::from_utf8_lossy(to.as_bytes()));
        AskError::new(
            ErrorKind::InvalidAnswer,
            format!(
                "{} redirects to {} ({status}), and redirects are not followed: name the server \
                 itself with --server",
                self.base,
                to.as_deref().unwrap_or("no address"),
            ),
        )
    }

    fn web_page(&self, status: StatusCode) -> AskError {
        AskError::new(
            ErrorKind::InvalidAnswer,
            format!(
                "{} answered with a web page ({}): it is not the base URL of such a server",
                self.base,
                status.as_u16(),
            ),
        )
    }

    /// Reads the error of a response with a failure status.
    async fn refusal(&self, response: Response) -> AskError {
        let status = response.status();
        if is_of_type(&response, "text/html") {
            return self.web_page(status);
        }
        let body = timeout(SHORT_TIMEOUT, whole_body(response, MAX_ERROR_BODY)).await;
        let body = body.unwrap_or_else(|_| Ok(Bytes::new())).unwrap_or_default();
        let object = ErrorObject::from_body(&String::from_utf8_lossy(&body));
        let mut error = server_error(&object, Some(status.as_u16()));
        if status == StatusCode::UNAUTHORIZED {
            error = error.with_hint("give its key with --key-file or TOOLHAND_API_KEY");
        }
        let is_error_object =
            serde_json::from_slice(&body).is_ok_and(|body: Value| body.get("error").is_some());
        if is_error_object { error.sent_as(body) } else { error }
    }
}

/// Shows an answer that came whole although a stream was asked for.
fn show_whole(body: &[u8], screen: &mut Screen) -> Result<Ending, AskError> {
    let mut answer = Answer::default();
    show(&String::from_utf8_lossy(body), &mut answer, screen)?;
    answer.ending()
}

fn read_whole(body: &[u8]) -> Result<Ending, AskError> {
    let mut answer = Answer::default();
    let text = String::from_utf8_lossy(body);
    let shown = answer.read(&text)?;
    if !answer.has_ended() {
        return Err(no_completion(&text));
    }
    // Stdout has the question only as JSON.
    let question = shown.into_iter().find_map(|shown| match shown {
        Shown::Question(text) => Some(text),
        _ => None,
    });
    Ok(match (answer.ending()?, question) {
        (Ending::Suspended(waiting), Some(question)) => {
            Ending::Suspended(Waiting { question, ..waiting })
        }
        (ending, _) => ending,
    })
}

/// The id by which the server calls the session.
fn session_of(response: &Response) -> Option<String> {
    let id = response.headers().get(SESSION)?.to_str().ok()?;
    Some(id.to_owned())
}

fn is_of_type(response: &Response, expected: &str) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.trim().to_ascii_lowercase().starts_with(expected))
}
