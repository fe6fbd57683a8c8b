//! Takes apart what a server has answered to a call. Pure.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::offers::is_address;
use super::redaction::Redaction;

/// Takes base64 with padding or without.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Parts of one answer. The rest is counted.
const MAX_PARTS: usize = 1_000;

/// The answer to a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct McpAnswer {
    pub(crate) parts: Vec<McpPart>,
    pub(crate) structured: Option<Value>,
    pub(crate) is_error: bool,
}

/// A part of an answer, or of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum McpPart {
    Text(String),
    /// Our own words on parts that are not here.
    Note(String),
    Picture {
        mime_type: String,
        bytes: Vec<u8>,
    },
    /// Audio, a blob, or something unknown.
    File {
        mime_type: String,
        bytes: Vec<u8>,
    },
    /// The text of a resource.
    Resource {
        uri: String,
        text: String,
    },
    /// A resource that the model may read. It is not followed.
    Link {
        uri: String,
        name: String,
    },
}

/// Takes apart the result of `tools/call`. The error is for the model.
pub(super) fn of_call(result: Value, redaction: &Redaction) -> Result<McpAnswer, String> {
    let mut result = complete(result)?;
    let parts = match result["content"].take() {
        Value::Array(parts) => bounded(parts, |part| part_of(part, redaction)),
        // No server should, and some do.
        Value::String(text) => vec![McpPart::Text(redaction.text(&text))],
        part @ Value::Object(_) => vec![part_of(part, redaction)],
        _ => Vec::new(),
    };
    let structured = match result["structuredContent"].take() {
        Value::Null => None,
        value => Some(redaction.value(value)),
    };
    Ok(McpAnswer { parts, structured, is_error: result["isError"] == true })
}

/// A result that asks for nothing further. The error is for the model.
pub(super) fn complete(result: Value) -> Result<Value, String> {
    match result["resultType"].as_str() {
        None | Some("complete") => Ok(result),
        Some("input_required") => {
            Err("the server asked for input, which toolhand does not support".into())
        }
        Some(_) => Err("the server's answer is of a kind that toolhand does not know".into()),
    }
}

/// Takes apart the result of `resources/read`.
pub(super) fn of_resource(result: Value, redaction: &Redaction) -> Result<McpAnswer, String> {
    let mut result = complete(result)?;
    let Value::Array(contents) = result["contents"].take() else {
        return Err("its answer holds no contents".into());
    };
    let parts = bounded(contents, |part| resource(&part, redaction));
    Ok(McpAnswer { parts, ..McpAnswer::default() })
}

/// The first parts, and how many are left out.
fn bounded(parts: Vec<Value>, part: impl Fn(Value) -> McpPart) -> Vec<McpPart> {
    let left_out = parts.len().saturating_sub(MAX_PARTS);
    let mut taken: Vec<McpPart> = parts.into_iter().take(MAX_PARTS).map(part).collect();
    if 0 < left_out {
        taken.push(McpPart::Note(format!("({left_out} more parts are left out)")));
    }
    taken
}

fn part_of(part: Value, redaction: &Redaction) -> McpPart {
    let string = |value: &Value| redaction.line(value.as_str().unwrap_or_default());
    let kind = part["type"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "text" => McpPart::Text(redaction.text(part["text"].as_str().unwrap_or_default())),
        "image" => decoded(&part["data"], &part["mimeType"], true, redaction),
        "audio" => decoded(&part["data"], &part["mimeType"], false, redaction),
        "resource" => resource(&part["resource"], redaction),
        "resource_link" => {
            McpPart::Link { uri: address(&part["uri"], redaction), name: string(&part["name"]) }
        }
        _ => McpPart::File {
            mime_type: "application/json".into(),
            bytes: redaction.value(part).to_string().into_bytes(),
        },
    }
}

/// An address is told as it is, or not at all: the model may ask the server for it.
fn address(uri: &Value, redaction: &Redaction) -> String {
    let uri = redaction.text(uri.as_str().unwrap_or_default());
    if is_address(&uri) { uri } else { "(an address that cannot be shown)".to_owned() }
}

fn resource(contents: &Value, redaction: &Redaction) -> McpPart {
    if let Some(text) = contents["text"].as_str() {
        let uri = address(&contents["uri"], redaction);
        return McpPart::Resource { uri, text: redaction.text(text) };
    }
    let is_picture = contents["mimeType"].as_str().is_some_and(|kind| kind.starts_with("image/"));
    decoded(&contents["blob"], &contents["mimeType"], is_picture, redaction)
}

/// Base64 that does not decode is told, and never passed on.
fn decoded(data: &Value, mime_type: &Value, is_picture: bool, redaction: &Redaction) -> McpPart {
    let mime_type = mime_type.as_str().filter(|kind| is_mime_type(kind) && !redaction.is_in(kind));
    let mime_type = mime_type.unwrap_or("application/octet-stream").to_owned();
    let Some(data) = data.as_str() else {
        return McpPart::Note(format!("(a part of type {mime_type} holds nothing)"));
    };
    match LENIENT.decode(standard_base64(data)) {
        Ok(bytes) if is_picture => McpPart::Picture { mime_type, bytes },
        Ok(bytes) => McpPart::File { mime_type, bytes: redaction.bytes(bytes) },
        Err(_) => McpPart::Note(format!("(a part of type {mime_type} could not be decoded)")),
    }
}

/// Base64 without the breaks of lines that some libraries put into it, in the usual alphabet.
fn standard_base64(data: &str) -> String {
    let data = data.chars().filter(|c| !c.is_ascii_whitespace());
    let usual = |c| match c {
        '-' => '+',
        '_' => '/',
        c => c,
    };
    data.map(usual).collect()
}

fn is_mime_type(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"/.+-".contains(&b);
    text.len() <= 100 && text.contains('/') && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use base64::engine::general_purpose::STANDARD;

    use crate::secret::Secret;

    fn of(result: Value) -> Result<McpAnswer, String> {
        of_call(result, &Redaction::new(vec![Secret::new("sk-secret")]))
    }

    #[test]
    fn each_kind_of_content_is_taken_in_order() {
        let answer = of(json!({"content": [
            {"type": "text", "text": "a\u{1b}[31mb\u{202e}c sk-secret"},
            {"type": "image", "data": "AQI=", "mimeType": "image/png"},
            {"type": "audio", "data": "AQI=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x://1", "text": "hello"}},
            {"type": "resource", "resource": {"uri": "x://1", "blob": "!!", "mimeType": "a b"}},
            {"type": "resource_link", "uri": "file:///etc/passwd", "name": "n"},
            {"type": "hologram", "x": 1},
        ], "structuredContent": {"key": "sk-secret"}, "isError": true}))
        .unwrap();

        let (picture, sound) = ("image/png".to_owned(), "audio/wav".to_owned());
        let bytes = vec![1, 2];
        let bad = "(a part of type application/octet-stream could not be decoded)";
        assert_eq!(
            answer.parts,
            [
                McpPart::Text("abc [secret]".into()),
                McpPart::Picture { mime_type: picture, bytes: bytes.clone() },
                McpPart::File { mime_type: sound, bytes },
                McpPart::Resource { uri: "x://1".into(), text: "hello".into() },
                McpPart::Note(bad.into()),
                McpPart::Link { uri: "file:///etc/passwd".into(), name: "n".into() },
                McpPart::File {
                    mime_type: "application/json".into(),
                    bytes: br#"{"type":"hologram","x":1}"#.to_vec()
                },
            ]
        );
        assert_eq!(answer.structured, Some(json!({"key": "[secret]"})));
        assert!(answer.is_error);
    }

    #[test]
    fn what_some_servers_write_otherwise_is_not_lost() {
        let text = |text: &str| vec![McpPart::Text(text.into())];
        let of = |content: Value| of(json!({ "content": content })).unwrap().parts;
        assert_eq!(of("hello".into()), text("hello"));
        assert_eq!(of(json!({"type": "text", "text": "hello"})), text("hello"));
        let file = |bytes: &[u8]| {
            let (mime_type, bytes) = ("audio/wav".to_owned(), bytes.to_vec());
            vec![McpPart::File { mime_type, bytes }]
        };
        for data in ["+/8B\n+w==\n", "+/8B\r\n+w", "-_8B-w"] {
            let part = json!([{"type": "audio", "data": data, "mimeType": "audio/wav"}]);
            assert_eq!(of(part), file(&[0xfb, 0xff, 0x01, 0xfb]), "{data:?}");
        }
        let nothing = json!([{"type": "resource", "resource": {"uri": "x://1"}}]);
        let note = "(a part of type application/octet-stream holds nothing)";
        assert_eq!(of(nothing), [McpPart::Note(note.into())]);
    }

    #[test]
    fn m13_a_file_holds_no_key() {
        let log = STANDARD.encode("a sk-secret, and sk-secret\u{ff}");
        let part = json!({"blob": log, "mimeType": "text/sk-secret"});
        let answer = of(json!({"content": [{"type": "resource", "resource": part}]})).unwrap();
        let bytes = "a [secret], and [secret]\u{ff}".into();
        let mime_type = "application/octet-stream".into();
        assert_eq!(answer.parts, [McpPart::File { mime_type, bytes }]);
    }

    #[test]
    fn m9_an_answer_that_asks_for_input_is_an_error() {
        let asks = || json!({"resultType": "input_required", "inputRequests": {}, "contents": []});
        let why = "the server asked for input, which toolhand does not support";
        assert_eq!(of(asks()).unwrap_err(), why);
        assert_eq!(of_resource(asks(), &Redaction::default()).unwrap_err(), why);
        let unknown = json!({"resultType": "\u{202e}approved"});
        assert!(of(unknown).unwrap_err().ends_with("of a kind that toolhand does not know"));
    }

    #[test]
    fn an_answer_of_many_parts_or_none_is_bounded() {
        assert_eq!(of(json!({})).unwrap(), McpAnswer::default());
        let parts: Vec<_> = (0..5_000).map(|_| json!({"type": "text", "text": "x"})).collect();
        let contents: Vec<_> = (0..1_003).map(|_| json!({"uri": "x://1", "text": "x"})).collect();
        let resource = of_resource(json!({"contents": contents}), &Redaction::default());
        for (answer, left_out) in [(of(json!({"content": parts})), 4_000), (resource, 3)] {
            let parts = answer.unwrap().parts;
            let note = McpPart::Note(format!("({left_out} more parts are left out)"));
            assert_eq!((parts.len(), parts.last()), (1_001, Some(&note)));
        }
    }
}
