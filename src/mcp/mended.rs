//! Mends what some servers write that is no JSON, or none that the protocol's library takes: an
//! answer that is not understood would be waited for until its call times out.

use std::borrow::Cow;

use memchr::memmem;
use serde_json::Value;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const REPLACEMENT: &[u8] = b"\\ufffd";

/// The line, as what a message begins with if it is one. Bytes that are no UTF-8 are replaced.
pub(super) fn mended(line: &[u8]) -> Cow<'_, [u8]> {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    let line = match String::from_utf8_lossy(line) {
        Cow::Borrowed(_) => Cow::Borrowed(line),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    };
    match without_lone_surrogates(&line).or_else(|| without_null_error(&line)) {
        Some(mended) => Cow::Owned(mended),
        None => line,
    }
}

/// Halves of a character beyond 16 bits are left where a text is cut by its UTF-16 units.
fn without_lone_surrogates(line: &[u8]) -> Option<Vec<u8>> {
    if memmem::find(line, b"\\ud").is_none() && memmem::find(line, b"\\uD").is_none() {
        return None;
    }
    let (mut mended, mut at, mut is_changed) = (Vec::with_capacity(line.len()), 0, false);
    while at < line.len() {
        let taken = match (line[at], unit(&line[at..])) {
            (b'\\', None) => 2,
            (_, None) => 1,
            (_, Some(0xd800..=0xdbff))
                if matches!(unit(&line[at + 6..]), Some(0xdc00..=0xdfff)) =>
            {
                12
            }
            (_, Some(0xd800..=0xdfff)) => {
                mended.extend_from_slice(REPLACEMENT);
                is_changed = true;
                at += 6;
                continue;
            }
            (_, Some(_)) => 6,
        };
        let end = line.len().min(at + taken);
        mended.extend_from_slice(&line[at..end]);
        at = end;
    }
    is_changed.then_some(mended)
}

/// The unit that an escape at the beginning stands for.
fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A result beside an error that is none.
fn without_null_error(line: &[u8]) -> Option<Vec<u8>> {
    let error = memmem::find(line, b"\"error\"")?;
    let value = line[error + 7..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    if !value.starts_with(b"null") {
        return None;
    }
    let mut message: Value = serde_json::from_slice(line).ok()?;
    let members = message.as_object_mut().filter(|members| members.contains_key("result"))?;
    members.get("error").filter(|error| error.is_null())?;
    members.shift_remove("error");
    let mut mended = message.to_string().into_bytes();
    mended.push(b'\n');
    Some(mended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &[u8], expected: &str) {
        assert_eq!(String::from_utf8_lossy(&mended(line)), expected);
    }

    #[test]
    fn m9_what_some_servers_write_is_mended_and_the_rest_stays() {
        for line in [
            "{\"text\":\"\\ud83d\\ude00 \\u00e4 \\\\ud83d\"}\n",
            "{\"error\":{\"code\":1,\"data\":null}}\n",
            "{\"params\":{\"error\":null}}\n",
            "{\"text\":\"\\u12\"}\n",
            "starting…\n",
        ] {
            check(line.as_bytes(), line);
        }
        check(b"{\"text\":\"a\\ud83d b\\uDE00\"}\n", "{\"text\":\"a\\ufffd b\\ufffd\"}\n");
        check(b"\\ud83d\\ud83d\\ude00\\", "\\ufffd\\ud83d\\ude00\\");
        check(b"\xef\xbb\xbf{\"text\":\"\xff\"}\n", "{\"text\":\"\u{fffd}\"}\n");
        check(
            b"{\"id\":1,\"result\":{\"error\":null},\"error\" : null}\n",
            "{\"id\":1,\"result\":{\"error\":null}}\n",
        );
    }
}
