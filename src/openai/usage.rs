//! Cleans token counts, and sums them over the rounds of a turn.

use serde::Serialize;
use serde_json::{Map, Value};

/// The largest count: what every JSON reader with 64-bit integers can hold.
const MAX_COUNT: u64 = i64::MAX as u64;

/// A `usage` object: counts at any depth and under any name. It has only numbers and objects of
/// numbers, so it can always be summed and serialised.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Usage(Map<String, Value>);

/// Members that clients expect to be objects of whole numbers.
const DETAILS: [&str; 2] = ["prompt_tokens_details", "completion_tokens_details"];

/// The counts in them that clients know.
const DETAIL_COUNTS: [&str; 5] = [
    "cached_tokens",
    "audio_tokens",
    "reasoning_tokens",
    "accepted_prediction_tokens",
    "rejected_prediction_tokens",
];

/// Whether OpenAI's clients find in upstream's usage what they expect.
pub(crate) fn has_clients_counts(usage: &Map<String, Value>) -> bool {
    let is_count = |count: &Value| count.is_u64() || count.is_null();
    let fits = |details: &Value| {
        details.is_null()
            || details.as_object().is_some_and(|details| {
                DETAIL_COUNTS.iter().all(|name| details.get(*name).is_none_or(is_count))
            })
    };
    let counts = ["prompt_tokens", "completion_tokens", "total_tokens"];
    counts.iter().all(|name| usage.get(*name).is_some_and(Value::is_u64))
        && DETAILS.iter().all(|name| usage.get(*name).is_none_or(fits))
}

impl Usage {
    /// Reads upstream's usage. Leaves out negative counts, texts and lists, and caps counts
    /// that are too large. Adds the three counts that OpenAI's clients expect where they are
    /// missing. `None` if nothing countable came.
    pub(crate) fn read(from: Map<String, Value>) -> Option<Self> {
        let mut counts = cleaned(from);
        counts.retain(|name, value| !DETAILS.contains(&name.as_str()) || value.is_object());
        if counts.is_empty() {
            return None;
        }
        for details in DETAILS {
            let Some(Value::Object(details)) = counts.get_mut(details) else { continue };
            details
                .retain(|name, count| !DETAIL_COUNTS.contains(&name.as_str()) || count.is_number());
            for count in details.values_mut().filter(|count| count.is_f64()) {
                *count = whole(count);
            }
        }
        // Every client expects these as whole numbers. Other numbers may be fractions, such as
        // a cost.
        for name in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            if let Some(count) = counts.get_mut(name) {
                *count = whole(count);
            }
        }
        let count = |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or(0);
        let (prompt, completion) = (count("prompt_tokens"), count("completion_tokens"));
        let total = prompt.saturating_add(completion).min(MAX_COUNT);
        for (name, count) in
            [("prompt_tokens", prompt), ("completion_tokens", completion), ("total_tokens", total)]
        {
            counts.entry(name).or_insert_with(|| count.into());
        }
        Some(Self(counts))
    }

    /// The counts, as they are written.
    pub(crate) fn counts(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Adds the counts of another round.
    pub(crate) fn add(&mut self, other: &Self) {
        merge(&mut self.0, &other.0);
    }

    /// The estimated memory, in bytes.
    pub(crate) fn size_estimate(&self) -> usize {
        /// The size of one count with its place in a map.
        const COUNT: usize = 128;
        fn size_of_counts(counts: &Map<String, Value>) -> usize {
            let inner = |value: &Value| value.as_object().map_or(0, size_of_counts);
            counts.iter().map(|(name, value)| COUNT + name.len() + inner(value)).sum()
        }
        size_of_counts(&self.0)
    }

    pub(crate) fn prompt_tokens(&self) -> u64 {
        self.count("prompt_tokens")
    }

    pub(crate) fn total_tokens(&self) -> u64 {
        self.count("total_tokens")
    }

    fn count(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or(0)
    }
}

fn cleaned(from: Map<String, Value>) -> Map<String, Value> {
    from.into_iter().filter_map(|(name, value)| Some((name, cleaned_value(value)?))).collect()
}

fn cleaned_value(value: Value) -> Option<Value> {
    match value {
        Value::Object(inner) => Some(Value::Object(cleaned(inner))),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(count), _) => Some(count.min(MAX_COUNT).into()),
            (None, Some(float)) if float >= 0.0 => Some(cleaned_float(float)),
            _ => None,
        },
        _ => None,
    }
}

/// A float without a fraction is a count; any other float is kept, such as a cost.
fn cleaned_float(float: f64) -> Value {
    if float.fract() > 0.0 { float.into() } else { floored(float).into() }
}

fn floored(float: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not negative, and the cast saturates"
    )]
    let count = float as u64;
    count.min(MAX_COUNT)
}

/// A count as a whole number; 0 for what is not a number.
fn whole(count: &Value) -> Value {
    count.as_u64().unwrap_or_else(|| floored(count.as_f64().unwrap_or(0.0))).into()
}

/// Adds each member of `other`, at any depth.
fn merge(into: &mut Map<String, Value>, other: &Map<String, Value>) {
    for (name, value) in other {
        match into.get_mut(name) {
            Some(sum) => *sum = sum_of(sum.take(), value),
            None => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}

fn sum_of(one: Value, other: &Value) -> Value {
    match (one, other) {
        (Value::Object(mut sum), Value::Object(counts)) => {
            merge(&mut sum, counts);
            Value::Object(sum)
        }
        (Value::Number(a), Value::Number(b)) => match (a.as_u64(), b.as_u64()) {
            (Some(a), Some(b)) => a.saturating_add(b).min(MAX_COUNT).into(),
            _ => (a.as_f64().unwrap_or(0.0) + b.as_f64().unwrap_or(0.0)).into(),
        },
        // A member that is an object in one round and a number in another: the later one
        // stands.
        (_, later) => later.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usage(value: Value) -> Usage {
        let Value::Object(map) = value else { panic!("an object") };
        Usage::read(map).expect("counts")
    }

    #[test]
    fn sums_counts_at_any_depth_whatever_their_names() {
        let mut sum = usage(json!({
            "prompt_tokens": 123, "completion_tokens": 45, "total_tokens": 168, "cost": 0.5,
            "prompt_tokens_details": {"cached_tokens": 3, "audio": {"seconds": 1}},
        }));
        sum.add(&usage(json!({
            "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "cost": 0.25,
            "prompt_tokens_details": {"cached_tokens": 1, "audio": {"seconds": 2}},
            "images": 4,
        })));

        assert_eq!(
            serde_json::to_value(&sum).unwrap(),
            json!({
                "prompt_tokens": 130, "completion_tokens": 50, "total_tokens": 180, "cost": 0.75,
                "prompt_tokens_details": {"cached_tokens": 4, "audio": {"seconds": 3}},
                "images": 4,
            })
        );
        assert_eq!(sum.prompt_tokens(), 130);
    }

    #[test]
    fn a_cost_that_is_whole_in_one_round_is_still_summed() {
        let mut sum = usage(json!({"cost": 0}));
        sum.add(&usage(json!({"cost": 0.25})));
        sum.add(&usage(json!({"cost": 1.0})));
        assert_eq!(serde_json::to_value(&sum).unwrap()["cost"], json!(1.25));
    }

    #[test]
    fn weird_counts_saturate_or_are_left_out() {
        let mut sum = usage(json!({
            "prompt_tokens": 1e30, "completion_tokens": -5, "total_tokens": "12",
            "a": null, "b": [1], "c": true, "d": 18_446_744_073_709_551_615_u64, "e": -0.5,
        }));
        sum.add(&sum.clone());

        assert_eq!(sum.prompt_tokens(), MAX_COUNT);
        assert_eq!(
            serde_json::to_value(&sum).unwrap(),
            json!({
                "prompt_tokens": MAX_COUNT, "completion_tokens": 0, "total_tokens": MAX_COUNT, "d": MAX_COUNT,
            })
        );
    }

    #[test]
    fn the_three_counts_are_whole() {
        let sum = usage(json!({"prompt_tokens": 1.5, "completion_tokens": {"x": 1}, "cost": 0.5}));
        assert_eq!(
            serde_json::to_value(&sum).unwrap(),
            json!({"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1, "cost": 0.5})
        );
    }

    #[test]
    fn a_member_that_changes_its_shape_is_the_later_one() {
        let mut sum = usage(json!({"details": 1}));
        sum.add(&usage(json!({"details": {"x": 2}})));
        assert_eq!(serde_json::to_value(&sum).unwrap()["details"], json!({"x": 2}));
    }

    #[test]
    fn an_object_without_counts_is_no_usage() {
        assert_eq!(Usage::read(Map::new()), None);
    }

    #[test]
    fn what_a_client_expects_is_completed() {
        let sum = usage(json!({"prompt_tokens": 2, "completion_tokens": 3}));
        assert_eq!(
            serde_json::to_value(&sum).unwrap(),
            json!({"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5})
        );
    }
}
