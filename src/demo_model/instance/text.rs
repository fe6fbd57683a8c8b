//! Writes strings: of a format, of a pattern, or the word "demo" in the wanted length.

use serde_json::Value;

use super::layers::Layers;
use super::pattern;

/// The label of every text that may be any.
const WORD: &str = "demo";

/// The longest string that is written.
const MAX_CHARS: u64 = 100_000;

pub(super) fn sample(layers: &Layers<'_>, number: usize) -> Option<String> {
    let min = layers.at_least("minLength").unwrap_or(0);
    let max = layers.at_most("maxLength").unwrap_or(u64::MAX);
    if min > MAX_CHARS || min > max {
        return None;
    }
    let fits = |text: &String| (min..=max).contains(&length(text));
    if let Some(source) = layers.all("pattern").find_map(Value::as_str) {
        // A repetition without an end takes more where the string would be too short.
        let mut longer = [0, 1, min].into_iter().map(|more| more.saturating_add(count(number)));
        return longer.find_map(|more| pattern::sample(source, more).filter(&fits));
    }
    let format = layers.all("format").find_map(Value::as_str);
    if let Some(text) = format.and_then(|format| of_format(format, number)) {
        return Some(text).filter(fits);
    }
    Some(plain(number, min, max)).filter(fits)
}

/// "demo" or "demo1", filled up or cut.
fn plain(number: usize, min: u64, max: u64) -> String {
    let text = if number == 0 { WORD.to_owned() } else { format!("{WORD}{number}") };
    let length = length(&text);
    if length > max {
        // The end tells the strings of a list apart.
        return text.chars().skip(cut(length - max)).collect();
    }
    let missing = cut(min.saturating_sub(length));
    std::iter::repeat_n('.', missing).collect::<String>() + &text
}

fn length(text: &str) -> u64 {
    count(text.chars().count())
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn cut(chars: u64) -> usize {
    usize::try_from(chars).unwrap_or(usize::MAX)
}

/// `None` for a format that may hold any text.
fn of_format(format: &str, number: usize) -> Option<String> {
    let seconds = format!("00:{:02}:{:02}Z", number / 60 % 60, number % 60);
    let day = format!("2000-01-{:02}", number % 28 + 1);
    Some(match format {
        "date-time" => format!("2000-01-01T{seconds}"),
        "date" => day,
        "time" => seconds,
        "duration" => format!("PT{number}S"),
        "email" | "idn-email" => format!("demo{number}@example.com"),
        "hostname" | "idn-hostname" => format!("demo{number}.example.com"),
        "ipv4" => format!("192.0.2.{}", number % 256),
        "ipv6" => format!("2001:db8::{:x}", number % 0x10000),
        "uri" | "iri" | "url" | "uri-reference" | "iri-reference" => {
            format!("https://example.com/demo{number}")
        }
        "uuid" => format!("00000000-0000-4000-8000-{number:012}"),
        "json-pointer" => format!("/demo{number}"),
        _ => return None,
    })
}
