//! Names the largest part of a transcript that cannot be made shorter.

use serde_json::Value;
use serde_json::value::RawValue;

use super::material::Material;
use super::stubs;

impl Material {
    /// The largest message, with its place behind the instructions and its size in characters;
    /// or the instructions and the tools, if these are larger.
    pub(crate) fn largest(&self, beside: usize) -> String {
        let mut largest = ("the instructions and the tools".to_owned(), beside);
        let mut calls: Vec<Value> = Vec::new();
        let mut number = 0;
        for unit in &self.units {
            let messages = serde_json::from_str::<Vec<&RawValue>>(&unit.round.messages);
            for message in messages.unwrap_or_default() {
                number += 1;
                let value: Value = serde_json::from_str(message.get()).unwrap_or_default();
                calls.extend(value["tool_calls"].as_array().into_iter().flatten().cloned());
                let size = message.get().chars().count();
                if size > largest.1 {
                    largest = (named(&value, &calls, number), size);
                }
            }
        }
        let (name, size) = largest;
        format!("the largest part is {name}, with {size} characters")
    }
}

fn named(message: &Value, calls: &[Value], number: usize) -> String {
    let what = match message["role"].as_str().unwrap_or_default() {
        "tool" => {
            let call = calls.iter().rev().find(|call| call["id"] == message["tool_call_id"]);
            format!("the result of {}", call.map_or("a tool".to_owned(), stubs::named))
        }
        "assistant" => "an assistant's message".to_owned(),
        "user" => "a user's message".to_owned(),
        _ => "a message".to_owned(),
    };
    format!("{what} (message {number} behind the instructions)")
}
