//! Finds the string literals of the source that tell a model what to do.

use std::fs;
use std::path::Path;

use ignore::Walk;
use regex::Regex;

/// Where the texts for the model stand.
const PLACES: [&str; 12] = [
    "tools",
    "tools.rs",
    "files",
    "files.rs",
    "encoding",
    "encoding.rs",
    "workspace",
    "web",
    "permissions.rs",
    "page_url.rs",
    "execution",
    "agent/subagents",
];

/// The beginning of an advice.
const ADVICE: &str =
    r"(?i)\b(use [`a-z{]|give |read it\b|must read |call again|go on (with|where)|list it with)";

/// Every such literal, with the file that has it.
pub(super) fn advice_in_the_source() -> Vec<(String, String)> {
    let advice = Regex::new(ADVICE).expect("an expression");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for place in PLACES {
        for entry in Walk::new(source.join(place)) {
            let path = entry.expect("readable").into_path();
            let name = path.strip_prefix(&source).expect("below").display().to_string();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            if !is_source || name.contains("test") || name.contains("against_") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("UTF-8");
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let literals = literals(text).into_iter().filter(|literal| advice.is_match(literal));
            found.extend(literals.map(|literal| (name.clone(), literal)));
        }
    }
    found
}

/// The string literals of a source as they are written, without the line ends that a backslash
/// takes away. Comments hold none.
fn literals(source: &str) -> Vec<String> {
    let parts = Regex::new(concat!(
        r"(?s)//[^\n]*",
        r#"|'(?:\\.|[^\\'])'"#,
        r##"|r#"(?<raw>.*?)"#"##,
        r#"|"(?<text>(?:\\.|[^"\\])*)""#,
    ));
    let continued = Regex::new(r"\\\n\s*").expect("an expression");
    let parts = parts.expect("an expression");
    let found = parts.captures_iter(source).filter_map(|part| {
        let literal = part.name("text").or_else(|| part.name("raw"))?;
        Some(continued.replace_all(literal.as_str(), "").into_owned())
    });
    found.collect()
}

#[test]
fn only_strings_of_the_source_count() {
    let source = "// \"no\"\nlet a = 'x'; let b: &'static str = \"one \\\n    two\"; /// \"no\"\n\
        f('\"', \"three\", r#\"a \"b\"\"#, \"\\\"\");";
    assert_eq!(literals(source), ["one two", "three", "a \"b\"", "\\\""]);
}
