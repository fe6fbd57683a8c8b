//! Writes out a schema that refers to itself, some levels deep: no provider's translation keeps
//! references.

use serde_json::{Map, Value, json};

use super::keywords::Members;

/// The most levels that are written out: as many as a person would.
const LEVELS: usize = 3;

/// The most bytes that the levels may add. Where they take more, there are fewer.
const MAX_BYTES: usize = 16 << 10;

/// The beginning of the references that there are.
const DEFINITIONS: &str = "#/$defs/";

/// The schema without references. What would be still deeper is any object.
pub(super) fn unrolled(schema: &Value) -> Value {
    let Some(definitions) = schema.get("$defs") else { return schema.clone() };
    let most = schema.to_string().len() + MAX_BYTES;
    for levels in (0..=LEVELS).rev() {
        let mut unrolling = Unrolling { definitions, left: most };
        if let Some(unrolled) = unrolling.unroll(schema, Members::Keywords, levels) {
            return unrolled;
        }
    }
    schema.clone()
}

/// The schema that a reference leads to; any other schema is its own.
pub(super) fn resolved<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    // One that leads to nothing but another one is not kept for ever.
    for _ in 0..8 {
        let name = schema["$ref"].as_str().and_then(|it| it.strip_prefix(DEFINITIONS));
        let Some(target) = name.and_then(|name| root["$defs"].get(name)) else { break };
        schema = target;
    }
    schema
}

/// The work of writing out one schema.
struct Unrolling<'a> {
    definitions: &'a Value,
    /// The bytes that are left of the limit.
    left: usize,
}

impl<'a> Unrolling<'a> {
    /// `None`: it takes too much.
    fn unroll(&mut self, value: &'a Value, members: Members, levels: usize) -> Option<Value> {
        self.left = self.left.checked_sub(value.as_str().map_or(8, str::len))?;
        match value {
            Value::Array(items) => {
                items.iter().map(|item| self.unroll(item, members, levels)).collect()
            }
            Value::Object(map) => {
                let unrolled = self.members(map, members, levels)?;
                let reference = map.get("$ref").and_then(Value::as_str);
                match reference.and_then(|reference| reference.strip_prefix(DEFINITIONS)) {
                    Some(name) if members == Members::Keywords => {
                        self.definition(name, unrolled, levels)
                    }
                    _ => Some(Value::Object(unrolled)),
                }
            }
            _ => Some(value.clone()),
        }
    }

    fn members(
        &mut self,
        map: &'a Map<String, Value>,
        members: Members,
        levels: usize,
    ) -> Option<Map<String, Value>> {
        let mut unrolled = Map::new();
        for (name, member) in map {
            let is_left_out = ["$defs", "$ref"].contains(&name.as_str());
            if members == Members::Keywords && is_left_out {
                continue;
            }
            self.left = self.left.checked_sub(name.len())?;
            unrolled.insert(name.clone(), self.unroll(member, members.below(name), levels)?);
        }
        Some(unrolled)
    }

    /// The definition that a reference leads to, with the keywords beside the reference.
    fn definition(
        &mut self,
        name: &str,
        mut beside: Map<String, Value>,
        levels: usize,
    ) -> Option<Value> {
        let definition = self.definitions.get(name)?;
        let below = match levels.checked_sub(1) {
            Some(levels) => self.unroll(definition, Members::Keywords, levels)?,
            None => open(definition),
        };
        for (name, member) in below.as_object().cloned().unwrap_or_default() {
            beside.entry(name).or_insert(member);
        }
        Some(Value::Object(beside))
    }
}

/// The schema that stands for the levels that are not written out.
fn open(definition: &Value) -> Value {
    let kind = definition.get("type").filter(|kind| kind.is_string());
    let kind = kind.cloned().unwrap_or_else(|| "object".into());
    json!({ "type": kind, "description": "Of the same form as the one above it." })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(width: usize) -> Value {
        let next = |n| (format!("p{n}"), json!({ "$ref": "#/$defs/0" }));
        let properties: Map<String, Value> = (0..width).map(next).collect();
        let node = json!({ "type": "object", "properties": properties });
        json!({ "properties": { "a": { "$ref": "#/$defs/0" } }, "$defs": { "0": node } })
    }

    #[test]
    fn outside_01_a_tree_is_written_out_three_levels_deep() {
        let end =
            json!({ "type": "object", "description": "Of the same form as the one above it." });
        let level = |inner: Value| json!({ "type": "object", "properties": { "p0": inner } });
        let expected = level(level(level(end)));
        assert_eq!(unrolled(&tree(1)), json!({ "properties": { "a": expected } }));
    }

    #[test]
    fn outside_01_a_wide_tree_is_written_out_as_far_as_it_fits() {
        let wide = unrolled(&tree(100)).to_string();
        assert!((5_000..40_000).contains(&wide.len()), "{}", wide.len());
        assert!(!wide.contains("$ref"), "{wide}");
    }
}
