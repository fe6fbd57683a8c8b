//! Remembers how many tokens each of upstream's models takes, by LiteLLM's `/model/info`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Client;
use crate::sync;

/// How long what upstream says is taken for true.
const FRESH: Duration = Duration::from_secs(10 * 60);

/// How long a failure is remembered: other servers than LiteLLM have no such list.
const RETRY: Duration = Duration::from_secs(60);

/// More models than any gateway has.
const MAX_MODELS: usize = 10_000;

/// The limits that upstream knows. They are fetched when they are first asked for, and no
/// request waits for them.
#[derive(Debug)]
pub(crate) struct ModelInfo {
    upstream: Arc<Client>,
    known: Arc<Mutex<Known>>,
    fetches: Mutex<JoinSet<()>>,
}

#[derive(Debug, Default)]
struct Known {
    limits: HashMap<String, u64>,
    /// Until then nothing is fetched again.
    until: Option<Instant>,
}

impl ModelInfo {
    pub(crate) fn new(upstream: Arc<Client>) -> Self {
        Self { upstream, known: Arc::default(), fetches: Mutex::default() }
    }

    /// The most tokens that the model takes; `None` if that is not known, or not yet.
    pub(crate) fn max_input_tokens(&self, model: &str) -> Option<u64> {
        let (limit, is_stale) = {
            let mut known = sync::lock(&self.known);
            let now = Instant::now();
            let is_stale = known.until.is_none_or(|until| until <= now);
            if is_stale {
                // Whatever becomes of it: one at a time.
                known.until = Some(now + RETRY);
            }
            (known.limits.get(model).copied(), is_stale)
        };
        if is_stale {
            self.fetch();
        }
        limit
    }

    fn fetch(&self) {
        let (upstream, known) = (Arc::clone(&self.upstream), Arc::clone(&self.known));
        let mut fetches = sync::lock(&self.fetches);
        while fetches.try_join_next().is_some() {}
        fetches.spawn(async move {
            match upstream.model_info().await {
                Ok(info) => {
                    let limits = limits(&info);
                    tracing::info!(models = limits.len(), "upstream told the contexts of models");
                    let until = Some(Instant::now() + FRESH);
                    *sync::lock(&known) = Known { limits, until };
                }
                Err(fault) => {
                    tracing::debug!(%fault, "upstream does not tell the contexts of its models");
                }
            }
        });
    }
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Entry {
    model_name: String,
    model_info: Info,
}

#[derive(Deserialize)]
struct Info {
    max_input_tokens: u64,
}

/// The limit of each model; of several deployments with one name the smallest.
fn limits(info: &RawValue) -> HashMap<String, u64> {
    let listed: Result<Listed, _> = serde_json::from_str(info.get());
    let mut limits = HashMap::new();
    let entries = listed.into_iter().flat_map(|listed| listed.data).take(MAX_MODELS);
    // An entry without a limit, or of another form, says nothing.
    for entry in entries.filter_map(|entry| serde_json::from_str::<Entry>(entry.get()).ok()) {
        let told = entry.model_info.max_input_tokens;
        if told > 0 {
            let limit = limits.entry(entry.model_name).or_insert(told);
            *limit = told.min(*limit);
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(info: &str, expected: &[(&str, u64)]) {
        let found = limits(&RawValue::from_string(info.to_owned()).unwrap());
        let expected: HashMap<_, _> =
            expected.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_smallest_limit_of_a_name_counts_and_what_says_nothing_is_passed_over() {
        check(
            r#"{"data":[
                {"model_name":"a","model_info":{"max_input_tokens":200,"mode":"chat"}},
                {"model_name":"a","model_info":{"max_input_tokens":100}},
                {"model_name":"b","model_info":{"max_input_tokens":null}},
                {"model_name":"c","model_info":{}},
                {"model_name":"d","model_info":{"max_input_tokens":0}},
                {"model_name":"e","model_info":{"max_input_tokens":"many"}},
                7,
                {"model_name":"f","model_info":{"max_input_tokens":7}}
            ]}"#,
            &[("a", 100), ("f", 7)],
        );
        check(r#"{"data":7}"#, &[]);
        check("null", &[]);
    }
}
