//! Reads the models of a LiteLLM configuration: those of ours that can work here, since their
//! variables are set, and what stands behind the names of ours or of an operator's.
//!
//! Our own `litellm-config.yaml` is read line by line; a test checks that it has this form. An
//! operator's, which is used unchanged, may have any layout of lines.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;

use indexmap::{IndexMap, IndexSet};

use crate::config::environment::Variables;
use crate::demo_model;
use crate::upstream::{ModelHints, ModelOrigin};

/// How LiteLLM's configuration refers to a variable.
const REFERENCE: &str = "os.environ/";

/// The prefix of our own variables.
const OWN_PREFIX: &str = "TOOLHAND_";

/// The first line of an entry in `model_list`.
const ENTRY: &str = "  - model_name: ";

/// The selected configuration, and what it leaves out.
#[derive(Debug, PartialEq)]
pub(super) struct ModelChoice {
    pub(super) yaml: String,
    pub(super) kept: Vec<String>,
    /// The models that are left out, by the variable that would enable them.
    pub(super) left_out: IndexMap<String, Vec<String>>,
}

/// Leaves out entries that name a variable for which `is_set` returns false.
pub(super) fn choose(yaml: &str, is_set: impl Fn(&str) -> bool) -> ModelChoice {
    let mut chosen =
        ModelChoice { yaml: String::new(), kept: Vec::new(), left_out: IndexMap::new() };
    let mut lines = yaml.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix(ENTRY) else {
            chosen.yaml.push_str(line);
            continue;
        };
        let mut entry = line.to_owned();
        while let Some(line) = lines.next_if(|line| line.starts_with("    ")) {
            entry.push_str(line);
        }
        let name = name.trim().to_owned();
        if let Some(missing) = variables(&entry).find(|variable| !is_set(variable)) {
            chosen.left_out.entry(missing.to_owned()).or_default().push(name);
        } else {
            chosen.kept.push(name);
            chosen.yaml.push_str(&entry);
        }
    }
    chosen
}

/// Finds the provider's model behind each name of a configuration in any layout of lines. Entries
/// in braces are not found.
pub(super) fn origins(yaml: &str) -> BTreeMap<String, ModelOrigin> {
    let mut origins = BTreeMap::new();
    for item in list_items(yaml) {
        let value = |key: &str| item.iter().find_map(|line| scalar(line, key));
        let Some(name) = value("model_name") else { continue };
        let read = item.iter().flat_map(|line| variables(line));
        // What toolhand sets itself is nothing to look at.
        let mut read: Vec<_> = read.filter(|name| !name.starts_with(OWN_PREFIX)).collect();
        read.dedup();
        let variables = read.into_iter().map(str::to_owned).collect();
        let model = value("model").unwrap_or(name).to_owned();
        let origin = ModelOrigin { model, variables, keys: Vec::new() };
        origins.entry(name.to_owned()).or_insert(origin);
    }
    origins
}

/// The items of all lists in a configuration, each with its lines.
fn list_items(yaml: &str) -> Vec<Vec<&str>> {
    let mut items: Vec<Vec<&str>> = Vec::new();
    // How deep the list's items stand, and whether the lines still belong to the last of them.
    let mut depth_of_items = None;
    let mut is_in_item = false;
    for line in yaml.lines() {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let depth = line.len() - content.len();
        let is_outside = depth_of_items.is_none_or(|known| depth <= known);
        if let Some(first) = content.strip_prefix("- ").filter(|_| is_outside) {
            depth_of_items = Some(depth);
            items.push(vec![first]);
            is_in_item = true;
        } else if is_outside {
            is_in_item = false;
        } else if let Some(item) = items.last_mut().filter(|_| is_in_item) {
            item.push(content);
        }
    }
    items
}

/// The value of a line `key: value`.
fn scalar<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let value = line.trim_start().strip_prefix(key)?.trim_start().strip_prefix(':')?;
    let value = value.split(" #").next()?.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then_some(value)
}

/// The models of a configuration in any layout, each once and in its order.
pub(super) fn names(yaml: &str) -> Vec<String> {
    let lines = yaml
        .lines()
        .filter_map(|line| scalar(line.trim_start().trim_start_matches("- "), "model_name"));
    let names: IndexSet<&str> = lines.collect();
    names.into_iter().map(str::to_owned).collect()
}

/// The model that is asked where none is named: the first that is a model, and not the demo. A
/// name with `*` stands for many.
pub(super) fn usual(names: &[String]) -> &str {
    let is_model = |name: &&String| !name.contains('*') && *name != demo_model::MODEL;
    names.iter().find(is_model).map_or(demo_model::MODEL, String::as_str)
}

impl ModelChoice {
    /// The hints for errors about models that are not there.
    pub(super) fn model_hints(&self) -> ModelHints {
        let left_out = self.left_out.iter().flat_map(|(variable, models)| {
            models.iter().map(move |model| (model.clone(), format!("set {variable}")))
        });
        let origins = origins(&self.yaml);
        ModelHints { offered: self.kept.clone(), left_out: left_out.collect(), origins }
    }

    /// One line for each missing variable, with the models that it would enable.
    pub(super) fn hints(&self) -> Vec<String> {
        let hint = |(variable, models): (&String, &Vec<String>)| {
            format!("{}: set {variable}", models.join(", "))
        };
        self.left_out.iter().map(hint).collect()
    }
}

/// The variables, of which those that the configuration refers to lose the white space around their
/// values: a key that was read from a file often ends with a line break, and no header may have one.
pub(super) fn without_blanks(given: &Variables, yaml: &str) -> Variables {
    let named: HashSet<&str> = variables(yaml).collect();
    let trimmed = |(name, value): (&OsString, &OsString)| {
        let is_named = name.to_str().is_some_and(|name| named.contains(name));
        let text = value.to_str().filter(|_| is_named);
        (name.clone(), text.map_or_else(|| value.clone(), |text| text.trim().into()))
    };
    given.iter().map(trimmed).collect()
}

fn variables(entry: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '}');
    entry.split(REFERENCE).skip(1).filter_map(move |rest| rest.split(ends).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = include_str!("../../../litellm-config.yaml");

    #[test]
    fn entries_without_their_variable_are_left_out_and_named() {
        let yaml = "\
model_list:
  - model_name: demo
    litellm_params:
      api_base: os.environ/BASE

  # said of the next
  - model_name: sonnet
    litellm_params:
      api_key: os.environ/KEY
  - model_name: opus
    litellm_params:
      api_key: os.environ/KEY
litellm_settings:
  num_retries: 0
";

        let chosen = choose(yaml, |variable| variable == "BASE");

        assert_eq!(chosen.kept, ["demo"]);
        assert_eq!(chosen.left_out["KEY"], ["sonnet", "opus"]);
        let hints = chosen.model_hints();
        assert_eq!(hints.offered, ["demo"]);
        assert_eq!(hints.left_out["opus"], "set KEY");
        insta::assert_snapshot!(chosen.yaml, @r"
        model_list:
          - model_name: demo
            litellm_params:
              api_base: os.environ/BASE

          # said of the next
        litellm_settings:
          num_retries: 0
        ");
    }

    #[test]
    fn the_models_are_found_in_any_layout() {
        assert_eq!(names("model_list:\n- model_name: \"a b\" # c\n"), ["a b"]);
        assert_eq!(names("-   litellm_params: {}\n    model_name: 'x'\n"), ["x"]);
        assert_eq!(names("- model_name: b\n- model_name: a\n- model_name: b\n"), ["b", "a"]);
        assert_eq!(names("# nothing\n"), [""; 0]);
    }

    #[test]
    fn the_demo_model_is_asked_only_where_there_is_no_other() {
        let check = |names: &[&str], expected: &str| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(usual(&names), expected, "{names:?}");
        };
        check(&["demo", "sonnet", "opus"], "sonnet");
        check(&["demo", "ollama/*"], "demo");
        check(&["*", "b"], "b");
        check(&[], "demo");
        assert_eq!(usual(&names(OURS)), "sonnet");
    }

    #[test]
    fn the_origin_of_each_name_is_found_in_any_layout() {
        let yaml = "\
model_list:
- model_name: \"fast\" # the usual one
  litellm_params:
    model: groq/llama # quick
    api_key: \"os.environ/GROQ_API_KEY\"
-   litellm_params:
        model: azure/gpt
        api_key: os.environ/AZURE_API_KEY
        api_base: os.environ/AZURE_API_BASE
    model_name: big
litellm_settings:
  callbacks:
    - one
";
        let origin = |model: &str, variables: &[&str]| ModelOrigin {
            model: model.to_owned(),
            variables: variables.iter().map(|name| (*name).to_owned()).collect(),
            keys: Vec::new(),
        };
        let found = origins(yaml);
        assert_eq!(found["fast"], origin("groq/llama", &["GROQ_API_KEY"]));
        assert_eq!(found["big"], origin("azure/gpt", &["AZURE_API_KEY", "AZURE_API_BASE"]));
        assert_eq!(found.len(), 2);
        let ours = origins(OURS);
        assert_eq!(ours["demo"], origin("openai/demo", &[]));
        assert_eq!(ours["opus"], origin("anthropic/claude-opus-5-5", &["ANTHROPIC_API_KEY"]));
        assert_eq!(ours["ollama/*"], origin("ollama_chat/*", &["OLLAMA_API_BASE"]));
    }

    #[test]
    fn a_key_loses_the_white_space_around_it() {
        let given = [("OPENAI_API_KEY", "sk-1\r\n"), ("GEMINI_API_KEY", " \n"), ("PS1", "> ")];
        let given: Variables = given.into_iter().collect();
        let given = without_blanks(&given, OURS);
        let value = |name| given.get(name).and_then(|value| value.to_str());
        assert_eq!(value("OPENAI_API_KEY"), Some("sk-1"));
        assert_eq!(value("GEMINI_API_KEY"), None);
        assert_eq!(value("PS1"), Some("> "));
    }

    #[test]
    fn our_configuration_keeps_the_demo_model_and_loses_nothing_else() {
        let all = choose(OURS, |_| true);
        let least = choose(OURS, |variable| variable == super::super::DEMO_BASE);

        assert_eq!(all.yaml, OURS);
        assert_eq!(least.kept, ["demo"]);
        let keys: Vec<&str> = least.left_out.keys().map(String::as_str).collect();
        let expected = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OLLAMA_API_BASE"];
        assert_eq!(keys, expected);
        assert_eq!(all.kept.len(), 1 + least.left_out.values().map(Vec::len).sum::<usize>());
        for name in ["sonnet", "opus", "haiku"] {
            assert!(all.kept.iter().any(|kept| kept == name), "{name}");
        }
    }
}
