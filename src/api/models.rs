//! `GET /v1/models` and `GET /v1/models/{id}`: upstream's list.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;

use super::App;
use super::errors::told;
use super::held::held;
use super::json::{self, Object};
use crate::openai::error::{ApiError, ErrorCode};

pub(crate) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let models = app.upstream.models().await.map_err(|fault| told(&fault))?;
    entries(&models)?;
    answer(&app, &models)
}

pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let models = app.upstream.models().await.map_err(|fault| told(&fault))?;
    let model = find(&models, &id)?.ok_or_else(|| {
        ApiError::new(ErrorCode::ModelNotFound, format!("There is no model {id:?}.")).param("model")
    })?;
    answer(&app, model)
}

fn answer(app: &App, json: &RawValue) -> Result<Response, ApiError> {
    let body = held(json.get().to_owned().into(), app.buffers.share())?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

fn find<'a>(models: &'a RawValue, id: &str) -> Result<Option<&'a RawValue>, ApiError> {
    let has_id = |model: &&RawValue| {
        Object::of(model).and_then(|model| model.string("id")).is_some_and(|own| own == id)
    };
    Ok(entries(models)?.into_iter().find(has_id))
}

fn entries(models: &RawValue) -> Result<Vec<&RawValue>, ApiError> {
    let data = Object::of(models).and_then(|list| json::items(list.get("data")?, usize::MAX));
    data.ok_or_else(|| {
        ApiError::new(ErrorCode::UpstreamInvalid, "Upstream did not answer with a list of models.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_model_as_upstream_wrote_it() {
        let list = json::raw(
            r#"{"object": "list", "data": [{"id": "a"}, {"id": "openai/b", "x": 1.10}]}"#.into(),
        );

        let found = find(&list, "openai/b").unwrap().unwrap();

        assert_eq!(found.get(), r#"{"id": "openai/b", "x": 1.10}"#);
        assert!(find(&list, "c").unwrap().is_none());
    }

    #[test]
    fn what_is_no_list_is_upstreams_fault() {
        for body in ["[]", "{}", r#"{"data": 1}"#] {
            let error = find(&json::raw(body.to_owned()), "a").unwrap_err();
            assert_eq!(error.code, ErrorCode::UpstreamInvalid);
        }
    }
}
