//! Parses durations and sizes as people write them: `"60s"`, `"500ms"`, `"32MiB"`.

use std::time::Duration;

/// Parses `"500ms"`, `"60s"`, `"10m"`, `"24h"`, `"30d"` or `"0"`. The error is a sentence for
/// the user.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" if number == 0 => 0,
        _ => {
            return Err(format!(
                "{text:?} is no duration: write \"500ms\", \"60s\", \"10m\" or \"24h\""
            ));
        }
    };
    number
        .checked_mul(millis)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is too long"))
}

/// Parses `"100B"`, `"64KiB"`, `"32MiB"`, `"1GiB"` or `"0"` to bytes. The error is a sentence
/// for the user.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let shift = match unit {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "" if number == 0 => 0,
        _ => return Err(format!("{text:?} is no size: write \"64KiB\", \"32MiB\" or \"1GiB\"")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is too large"))
}

/// The number at the beginning, and the unit behind it.
fn split(text: &str) -> Result<(u64, &str), String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number =
        text[..digits].parse().map_err(|_| format!("{text:?} does not start with a number"))?;
    Ok((number, text[digits..].trim_start()))
}

/// For `#[serde(with = "crate::units::duration")]`.
pub(crate) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        super::parse_duration(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// For `#[serde(with = "crate::units::durations")]`: a list of durations.
pub(crate) mod durations {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Duration>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        texts
            .iter()
            .map(|text| super::parse_duration(text).map_err(serde::de::Error::custom))
            .collect()
    }
}

/// For `#[serde(with = "crate::units::size")]`: bytes.
pub(crate) mod size {
    use serde::{Deserialize, Deserializer};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
        let bytes =
            super::parse_size(&String::deserialize(from)?).map_err(serde::de::Error::custom)?;
        usize::try_from(bytes).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations_and_sizes() {
        assert_eq!(parse_duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("60m"), Ok(Duration::from_secs(3600)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
    }

    #[test]
    fn says_what_it_wanted() {
        assert!(parse_duration("60").unwrap_err().contains("\"60s\""));
        assert!(parse_duration("soon").unwrap_err().contains("number"));
        assert!(parse_size("32MB").unwrap_err().contains("\"32MiB\""));
        assert!(parse_size("99999999999GiB").unwrap_err().contains("large"));
    }
}
