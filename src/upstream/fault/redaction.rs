//! Redacts upstream's error texts.
//!
//! Such a text contains the provider's response, possibly with pieces of keys, and sometimes a
//! Python traceback with paths.

/// The most characters of a redacted text.
const MAX_CHARS: usize = 500;
const REMOVED: &str = "[…]";
const TRACEBACK: &str = "Traceback (most recent call last)";

/// Prefixes of providers' keys.
const KEY_PREFIXES: [&str; 14] = [
    "sk-", "sk_", "pk-", "pk_", "rk_", "gsk_", "xai-", "hf_", "ghp_", "AIza", "AKIA", "ASIA",
    "eyJ", "ya29.",
];
/// Names whose value is a secret: `api_key=…`, `"token": …`. `Bearer …` is handled beside them.
const SECRET_NAMES: [&str; 6] = ["api_key", "apikey", "x-api-key", "token", "password", "secret"];

/// The first line of `text`, at most 500 characters, without key-like strings, paths, internal
/// addresses, tracebacks and control characters.
pub(crate) fn redact(text: &str) -> String {
    let text = text.split(TRACEBACK).next().unwrap_or_default();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let cleaned = without_secrets(&line);
    match cleaned.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &cleaned[..end]),
        None => cleaned,
    }
}

fn without_secrets(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut next = Next::Anything;
    for (word, separator) in words(line) {
        let is_secret = !word.is_empty() && next == Next::Secret && word != ":";
        let is_removed = is_secret || is_key(word) || is_path_or_private_url(word);
        out.push_str(if is_removed { REMOVED } else { word });
        out.push_str(separator);
        next = next.after(word, separator);
    }
    out
}

/// Whether the next word may be a secret.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Anything,
    /// The name of a secret came in quotes. After a colon its value follows.
    PerhapsSecret,
    Secret,
}

impl Next {
    fn after(self, word: &str, separator: &str) -> Self {
        let name = word.trim_end_matches(':').to_ascii_lowercase();
        match word {
            "" => self,
            ":" if self == Self::PerhapsSecret => Self::Secret,
            _ if name == "bearer" => Self::Secret,
            _ if !SECRET_NAMES.contains(&name.as_str()) => Self::Anything,
            _ if word.ends_with(':') || separator == "=" => Self::Secret,
            _ if matches!(separator, "\"" | "'") => Self::PerhapsSecret,
            _ => Self::Anything,
        }
    }
}

/// The words of a line, each with the character that ends it.
fn words(line: &str) -> impl Iterator<Item = (&str, &str)> {
    const SEPARATORS: &[char] =
        &[' ', '\t', '"', '\'', '`', '(', ')', '[', ']', '{', '}', '<', '>', ',', ';', '='];
    line.split_inclusive(SEPARATORS).map(|piece| {
        let word = piece.trim_end_matches(SEPARATORS);
        (word, &piece[word.len()..])
    })
}

/// Whether a word looks like a key.
fn is_key(word: &str) -> bool {
    let has = |test: fn(&u8) -> bool| word.as_bytes().iter().any(test);
    let mixed =
        has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit);
    let hexadecimal = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_prefix = KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    (has_prefix && word.len() >= 8)
        || (word.len() >= 20 && mixed)
        || (word.len() >= 32 && hexadecimal)
}

/// Whether a word is a path, or a URL that may be internal or carry a secret.
fn is_path_or_private_url(word: &str) -> bool {
    if let Some((scheme, rest)) = word.split_once("://") {
        return scheme != "https" || rest.contains(['@', '?', ':']);
    }
    let is_route = word.starts_with("/v1/") || word.starts_with("/chat/");
    let is_unix = !is_route && word.starts_with(['/', '~', '.']) && word.matches('/').count() >= 2;
    let is_windows = word.get(1..3) == Some(":\\") || word.starts_with("\\\\");
    let is_source = word.trim_end_matches(['.', ':']).strip_suffix(".py").is_some();
    is_unix || is_windows || is_source
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(redact(text), expected, "{text:?}");
    }

    #[test]
    fn keeps_an_ordinary_sentence() {
        let text = "litellm.BadRequestError: OpenAIException - Unsupported value: 'temperature' \
                    does not support 0.5 with claude-3-5-sonnet-20241022.";
        check(text, text);
        check("/chat/completions: call `/v1/models`", "/chat/completions: call `/v1/models`");
        check("see https://platform.example.com/docs.", "see https://platform.example.com/docs.");
    }

    #[test]
    fn removes_keys() {
        check("Incorrect API key provided: sk-abcd1234.", "Incorrect API key provided: […]");
        check(r#"{"api_key": "hunter2", "x": 1}"#, r#"{"api_key": "[…]", "x": 1}"#);
        check("api_key=hunter2 token: a.b", "api_key=[…] token: […]");
        check("the 'token' count", "the 'token' count");
        check("Authorization: Bearer hunter2", "Authorization: Bearer […]");
        check("AIzaSyA1234567890 and Zm9vYmFyYmF6cXV4MTIz", "[…] and […]");
        check("0123456789abcdef0123456789abcdef", "[…]");
    }

    #[test]
    fn removes_paths_and_inner_addresses() {
        check("in /usr/lib/python3.11/x.py: oops", "in […] oops");
        check(r#"File "main.py", line 3"#, r#"File "[…]", line 3"#);
        check(r"at C:\Users\me", "at […]");
        check("POST http://10.0.0.7:8000/v1 failed", "POST […] failed");
        check("https://u:p@host/x", "[…]");
    }

    #[test]
    fn keeps_one_line_without_traceback_and_control_characters() {
        check("\n first\nsecond", "first");
        check("bad. Traceback (most recent call last):\n File", "bad.");
        check("\u{1b}[31mred", "[31mred");
        check("", "");
    }

    #[test]
    fn is_at_most_500_characters_long() {
        let cleaned = redact(&"ä ".repeat(400));
        assert_eq!(cleaned.chars().count(), MAX_CHARS + 1);
        assert!(cleaned.ends_with('…'));
    }
}
