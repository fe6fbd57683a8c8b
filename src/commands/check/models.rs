//! Lists the models that upstream has, and those that are left out.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::openai::model_list::model_names;
use crate::text::shown_line;

/// The most names on one line. A gateway may have thousands.
const MAX_NAMES: usize = 100;

/// The names in upstream's list; none if it is no list.
pub(super) fn names(models: &RawValue) -> Vec<String> {
    model_names(models.get().as_bytes()).unwrap_or_default()
}

/// A line with the models, and one for each thing that would bring others.
pub(super) fn report(offered: &[String], left_out: &BTreeMap<String, String>) -> String {
    let mut lines = vec![format!("models: {}", listed(offered))];
    let mut by_remedy: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (model, remedy) in left_out {
        by_remedy.entry(remedy).or_default().push(model.clone());
    }
    for (remedy, models) in by_remedy {
        lines.push(format!("left out: {}: {remedy}", listed(&models)));
    }
    lines.join("\n")
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<_> = names.iter().take(MAX_NAMES).map(|name| shown_line(name)).collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_what_is_there_and_what_would_bring_the_rest() {
        let offered = ["demo", "a\u{1b}b"].map(str::to_owned);
        let left_out = [("opus", "set A"), ("gpt", "set B"), ("sonnet", "set A")]
            .map(|(model, remedy)| (model.to_owned(), remedy.to_owned()));
        assert_eq!(
            report(&offered, &left_out.into()),
            "models: demo, ab\nleft out: opus, sonnet: set A\nleft out: gpt: set B"
        );
        assert_eq!(report(&[], &BTreeMap::new()), "models: none");
        let many = vec!["m".to_owned(); MAX_NAMES + 2];
        assert!(report(&many, &BTreeMap::new()).ends_with(", m and 2 more"));
    }

    #[test]
    fn names_are_those_of_the_list() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(names(&raw(r#"{"data":[{"id":"a"},{"id":"b","x":1}]}"#)), ["a", "b"]);
        assert_eq!(names(&raw("7")), [""; 0]);
    }
}
