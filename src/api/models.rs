//! Answers `GET /v1/models` and `GET /v1/models/{id}` with upstream's list.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;

use super::upstream_fault::to_api_error;
use crate::errors::{ApiError, ErrorCode};
use crate::http::budgeted_body::budgeted_body;
use crate::json::{self, Object};
use crate::memory_budget::MemoryBudget;
use crate::upstream::Client;

pub(crate) async fn list(
    State(upstream): State<Arc<Client>>,
    State(memory_budget): State<MemoryBudget>,
) -> Result<Response, ApiError> {
    let models = upstream.models().await.map_err(|fault| to_api_error(&fault))?;
    entries(&models)?;
    answer(&models, &memory_budget)
}

pub(crate) async fn show(
    State(upstream): State<Arc<Client>>,
    State(memory_budget): State<MemoryBudget>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let models = upstream.models().await.map_err(|fault| to_api_error(&fault))?;
    let model = find(&models, &id)?
        .ok_or_else(|| upstream.settings().model_hints.unknown_model(&id, &names(&models)))?;
    answer(model, &memory_budget)
}

fn answer(json: &RawValue, memory_budget: &MemoryBudget) -> Result<Response, ApiError> {
    let body = budgeted_body(json.get().to_owned().into(), memory_budget.reservation())?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

fn find<'a>(models: &'a RawValue, id: &str) -> Result<Option<&'a RawValue>, ApiError> {
    let has_id = |model: &&RawValue| {
        Object::from_raw(model).and_then(|model| model.string("id")).is_some_and(|own| own == id)
    };
    Ok(entries(models)?.into_iter().find(has_id))
}

/// The names of upstream's models, or of the first of very many.
fn names(models: &RawValue) -> Vec<String> {
    const MAX_NAMES: usize = 1_000;
    let entries = entries(models).unwrap_or_default().into_iter().take(MAX_NAMES);
    entries.filter_map(|entry| Object::from_raw(entry)?.string("id").map(Into::into)).collect()
}

fn entries(models: &RawValue) -> Result<Vec<&RawValue>, ApiError> {
    let data = Object::from_raw(models).and_then(|list| json::items(list.get("data")?, usize::MAX));
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
