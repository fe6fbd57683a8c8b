//! Finds limits that are set to nothing: they would let nothing through.

use toml::Value;

use super::Config;
use super::keys::Keys;
use super::layers::Layers;

/// The first key of `[limits]` that is 0, in whatever unit.
pub(super) fn limit(layers: &Layers) -> Option<String> {
    let keys = Keys::of::<Config>();
    let mut given = layers.given(&keys);
    let zero = given.find(|given| given.path.starts_with("limits.") && is_zero(given.value))?;
    Some(zero.path.to_owned())
}

/// A number, or a number with its unit.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Integer(number) => *number == 0,
        Value::String(text) => {
            let number = text.trim().trim_end_matches(|c: char| !c.is_ascii_digit());
            !number.is_empty() && number.bytes().all(|digit| digit == b'0')
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_nothing_in_every_unit() {
        for zero in [0.into(), "0".into(), " 000 ms".into(), "0KiB".into(), Value::Integer(-0)] {
            assert!(is_zero(&zero), "{zero}");
        }
        for more in [1.into(), "10s".into(), "1GiB".into(), "100B".into(), Value::Boolean(false)] {
            assert!(!is_zero(&more), "{more}");
        }
    }
}
