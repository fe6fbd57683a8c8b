//! Decides what a body is, and decodes text. Pure.

use std::cell::Cell;

use encoding_rs::{Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use super::fetch_error::FetchError;
use crate::documents::html::Syntax;
use crate::documents::pdf;
use crate::encoding::{self, SAMPLE_BYTES};

/// Where HTML may say its encoding, by its standard.
const META_BYTES: usize = 1024;

const XHTML: &str = "application/xhtml+xml";

const MAX_TYPE_CHARS: usize = 100;

/// What a page is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Html,
    /// Text, JSON and XML, which stay as they are.
    Text,
    Pdf,
}

/// What the header `Content-Type` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContentType {
    /// Such as `text/html`; empty if there is none.
    pub(super) essence: String,
    charset: Option<&'static Encoding>,
}

impl ContentType {
    pub(super) fn parse(header: &str) -> Self {
        // Of two headers that a proxy has joined, the first type counts.
        let mut parts = header.split([';', ',']).map(str::trim);
        let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/+-._".contains(c);
        let essence = essence.chars().filter(|c| is_plain(*c)).take(MAX_TYPE_CHARS).collect();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let value = value.trim().trim_matches(['"', '\'']);
            name.trim().eq_ignore_ascii_case("charset").then(|| for_label(value)).flatten()
        });
        Self { essence, charset }
    }

    /// What the body is read as. Servers name types that it is not of, so the bytes count where they
    /// tell.
    pub(super) fn kind(&self, body: &[u8]) -> Result<Kind, FetchError> {
        let essence = self.essence.as_str();
        if is_pdf(body) {
            return Ok(Kind::Pdf);
        }
        let is_text = essence.starts_with("text/")
            || essence.ends_with("+json")
            || essence.ends_with("+xml")
            || TEXTS.contains(&essence);
        match essence {
            "text/html" | XHTML if is_plain(body) => Ok(Kind::Text),
            "text/html" | XHTML => Ok(Kind::Html),
            "" => Ok(kind_by_content(body)),
            _ if is_text => Ok(Kind::Text),
            other if is_readable(body, is_of_binaries(other)) => Ok(kind_by_content(body)),
            "application/pdf" | "application/x-pdf" => Ok(Kind::Pdf),
            other => Err(FetchError::Type(other.to_owned())),
        }
    }

    /// By which rules HTML is read.
    pub(super) fn syntax(&self) -> Syntax {
        if self.essence == XHTML { Syntax::Xhtml } else { Syntax::Html }
    }

    /// The text of a body: by its mark, by the header, by what HTML says of itself, or by a guess.
    pub(super) fn decode(&self, body: &[u8], kind: Kind) -> Result<String, FetchError> {
        let marked = Encoding::for_bom(body).map(|(encoding, _)| encoding);
        let encoding = marked
            .or(self.charset)
            .or_else(|| encoding_of_declaration(body))
            .or_else(|| if kind == Kind::Html { encoding_of_meta(body) } else { None })
            .unwrap_or_else(|| encoding::guessed(body));
        let (text, _, _) = encoding.decode(body);
        match text.matches('\0').count() {
            0 => Ok(text.into_owned()),
            few if kind == Kind::Html && few <= max_nuls(&text) => {
                Ok(text.replace('\0', "\u{fffd}"))
            }
            _ => Err(FetchError::Binary),
        }
    }
}

/// How many signs without a meaning HTML may have, which browsers show as such. Of binary data, each
/// two hundred and fiftieth byte is one by chance.
fn max_nuls(text: &str) -> usize {
    4 + text.len() / 1_000
}

/// Texts that do not say so.
const TEXTS: [&str; 12] = [
    "application/json",
    "application/xml",
    "application/javascript",
    "application/x-javascript",
    "application/ecmascript",
    "application/x-ndjson",
    "application/jsonl",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/x-sh",
    "application/sql",
];

/// Whether a body is no HTML, whatever its type is: it has no tags, and no sign that is written as
/// an entity.
fn is_plain(body: &[u8]) -> bool {
    let is_markup = |pair: &[u8]| match pair[0] {
        b'<' => pair[1].is_ascii_alphabetic() || b"!/?".contains(&pair[1]),
        b'&' => pair[1].is_ascii_alphabetic() || pair[1] == b'#',
        // In wide characters, tags look otherwise.
        _ => pair.contains(&0),
    };
    !body.windows(2).any(is_markup)
}

/// Whether what has this type is hardly ever text.
fn is_of_binaries(essence: &str) -> bool {
    ["image/", "audio/", "video/", "font/"].iter().any(|kind| essence.starts_with(kind))
}

/// Whether the bytes are text, in an encoding that needs no guess if it `must_be_sure`.
fn is_readable(body: &[u8], must_be_sure: bool) -> bool {
    let sample = &body[..body.len().min(SAMPLE_BYTES)];
    let is_whole = sample.len() == body.len();
    let Ok(decoded) = encoding::text_of(sample, is_whole, || None) else { return false };
    if must_be_sure && decoded.doubt.is_some() {
        return false;
    }
    // Short binary data may have no NUL, but it has characters that no text has.
    let is_odd = |c: &char| c.is_control() && !c.is_ascii_whitespace() && *c != '\u{1b}';
    let chars = decoded.text.chars();
    let odd = decoded.text.chars().filter(|c| is_odd(c) || *c == char::REPLACEMENT_CHARACTER);
    !body.is_empty() && odd.count() * CHARS_FOR_ONE_ODD <= chars.count()
}

fn is_pdf(body: &[u8]) -> bool {
    pdf::is_document(&body[..body.len().min(pdf::FIRST_BYTES)])
}

/// Of so many characters of a text one may be odd.
const CHARS_FOR_ONE_ODD: usize = 100;

fn kind_by_content(body: &[u8]) -> Kind {
    let start = &body[..body.len().min(META_BYTES)];
    let start = String::from_utf8_lossy(start).trim_start_matches('\u{feff}').to_ascii_lowercase();
    let (start, is_declared) = behind_declaration(start.trim_start());
    let begins = |names: &[&str]| {
        names.iter().any(|name| {
            let rest = start.strip_prefix('<').and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with([' ', '\t', '\n', '\r', '\u{c}', '>', '/']))
        })
    };
    let is_page = start.starts_with("<!doctype html") || begins(&["html"]);
    // Without a declaration of XML, what any page may begin with.
    let is_html = is_page || !is_declared && (start.starts_with("<!--") || begins(&HTML_TAGS));
    if is_html { Kind::Html } else { Kind::Text }
}

/// By which a body is told to be HTML, by the standard of sniffing.
const HTML_TAGS: [&str; 16] = [
    "head", "script", "iframe", "h1", "div", "font", "table", "a", "style", "title", "b", "body",
    "br", "p", "meta", "link",
];

/// What follows a declaration of XML and comments behind it, and whether there is one.
fn behind_declaration(start: &str) -> (&str, bool) {
    let Some(declared) = start.strip_prefix("<?xml") else { return (start, false) };
    let mut rest = declared.split_once("?>").map_or("", |(_, rest)| rest).trim_start();
    while let Some(comment) = rest.strip_prefix("<!--") {
        rest = comment.split_once("-->").map_or("", |(_, rest)| rest).trim_start();
    }
    (rest, true)
}

/// What a declaration of XML says.
fn encoding_of_declaration(body: &[u8]) -> Option<&'static Encoding> {
    let start = &body[..body.len().min(META_BYTES)];
    let start = String::from_utf8_lossy(start.strip_prefix(b"<?xml")?);
    let (declaration, _) = start.split_once("?>")?;
    let (_, value) = declaration.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let label = value.strip_prefix(['"', '\''])?.split(['"', '\'']).next()?;
    Some(as_read(for_label(label)?))
}

/// What was read as ASCII cannot be in UTF-16.
fn as_read(found: &'static Encoding) -> &'static Encoding {
    if found == UTF_16BE || found == UTF_16LE { UTF_8 } else { found }
}

/// An encoding by its name. One of the names stands for all that browsers refuse to decode.
fn for_label(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label(label.as_bytes()).filter(|encoding| *encoding != REPLACEMENT)
}

/// What an element `meta` at the beginning of HTML says.
fn encoding_of_meta(body: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(&body[..body.len().min(META_BYTES)]);
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(&*start));
    let tokenizer = Tokenizer::new(MetaReader::default(), TokenizerOpts::default());
    while !input.is_empty() {
        let _ = tokenizer.feed(&input);
    }
    tokenizer.sink.0.get().map(as_read)
}

/// Keeps the first encoding of an element `meta`. What stands in comments, titles and scripts is no
/// element.
#[derive(Default)]
struct MetaReader(Cell<Option<&'static Encoding>>);

impl TokenSink for MetaReader {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        if tag.kind == TagKind::EndTag {
            return TokenSinkResult::Continue;
        }
        match &*tag.name {
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            "style" | "noscript" => TokenSinkResult::RawData(RawKind::Rawtext),
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "meta" if self.0.get().is_none() => {
                self.0.set(encoding_of_tag(&tag));
                TokenSinkResult::Continue
            }
            _ => TokenSinkResult::Continue,
        }
    }
}

fn encoding_of_tag(tag: &Tag) -> Option<&'static Encoding> {
    let attribute = |name: &str| {
        tag.attrs.iter().find(|attr| &*attr.name.local == name).map(|attr| &*attr.value)
    };
    if let Some(charset) = attribute("charset") {
        return for_label(charset.trim());
    }
    attribute("http-equiv").filter(|what| what.eq_ignore_ascii_case("content-type"))?;
    ContentType::parse(attribute("content")?).charset
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(content_type: &str, body: &[u8]) -> Result<String, FetchError> {
        let content_type = ContentType::parse(content_type);
        content_type.decode(body, content_type.kind(body)?)
    }

    #[test]
    fn w30_a_body_is_decoded_by_what_says_most() {
        let cases: [(&str, &[u8], &str); 11] = [
            ("text/html; charset=iso-8859-1", b"f\xfcr", "für"),
            ("text/html; charset=\"UTF-8\"", "für".as_bytes(), "für"),
            ("text/html; charset=latin1", "\u{feff}für".as_bytes(), "für"),
            ("text/html; charset=utf-16", b"a\0b\0", "ab"),
            ("text/plain", b"\xff\xfea\0b\0", "ab"),
            ("text/html", b"<meta charset=windows-1252>\xfc", "<meta charset=windows-1252>ü"),
            (
                "text/html",
                b"<meta http-equiv=Content-Type content='text/html; charset=shift_jis'>\x83n",
                "<meta http-equiv=Content-Type content='text/html; charset=shift_jis'>ハ",
            ),
            ("text/html", b"<p>a\0b", "<p>a\u{fffd}b"),
            ("text/html", "<meta charset=utf-16>ü".as_bytes(), "<meta charset=utf-16>ü"),
            ("text/plain", "für".as_bytes(), "für"),
            ("text/plain; charset=nonsense", b"Gr\xfc\xdfe aus K\xf6ln", "Grüße aus Köln"),
        ];
        for (content_type, body, expected) in cases {
            assert_eq!(decode(content_type, body).as_deref(), Ok(expected), "{content_type}");
        }
        assert_eq!(decode("text/plain", b"a\0b"), Err(FetchError::Binary));
        assert_eq!(decode("text/html", b"a\0\0b\0c\0\0d\0e\0"), Err(FetchError::Binary));
        assert_eq!(decode("", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), Err(FetchError::Binary));
    }

    #[test]
    fn w30_only_an_element_says_the_encoding_of_html() {
        for decoy in [
            "<title>how charset=koi8-r works</title>",
            "<title><meta charset=koi8-r></title>",
            "<!-- <meta charset=shift_jis> -->",
            "<script>'<meta charset=koi8-r>'</script>",
            "<meta name=description content='text/html; charset=koi8-r'>",
            "<p title='<meta charset=koi8-r>'>",
            "<meta charset=nonsense>",
        ] {
            let html = format!("{decoy}<meta charset=utf-8>ü");
            assert_eq!(decode("text/html", html.as_bytes()).as_deref(), Ok(&*html), "{decoy}");
        }
    }

    #[test]
    fn a_body_is_what_its_type_says_or_what_it_begins_with() {
        let kind = |header: &str, body: &[u8]| ContentType::parse(header).kind(body);
        assert_eq!(kind("Text/HTML; x=y", b"<p>"), Ok(Kind::Html));
        assert_eq!(kind("application/ld+json", b""), Ok(Kind::Text));
        assert_eq!(kind("image/svg+xml", b""), Ok(Kind::Text));
        assert_eq!(kind("application/pdf", b""), Ok(Kind::Pdf));
        assert_eq!(kind("", b"%PDF-1.7"), Ok(Kind::Pdf));
        assert_eq!(kind("", b"\xef\xbb\xbf\n <!DOCTYPE html>"), Ok(Kind::Html));
        assert_eq!(kind("", b"{}"), Ok(Kind::Text));
        let refused = kind("image/png", b"").unwrap_err().to_string();
        assert!(refused.contains("image/png"), "{refused}");
        let hostile = kind("x/y\u{1b}[31m<b>", b"").unwrap_err();
        assert_eq!(hostile, FetchError::Type("x/y31mb".to_owned()));
    }

    #[test]
    fn outside_27_what_is_text_by_its_bytes_is_read_under_any_type() {
        let kind = |header: &str, body: &[u8]| ContentType::parse(header).kind(body);
        for text in [
            "application/octet-stream",
            "binary/octet-stream",
            "application/typescript",
            "application/x-tex",
            "application/json5",
            "application/graphql",
            "application/x-httpd-php",
            "application/vnd.api",
            "message/rfc822",
            "model/obj",
            "unknown",
        ] {
            assert_eq!(kind(text, "# Für alle\n".as_bytes()), Ok(Kind::Text), "{text}");
            assert_eq!(
                kind(text, b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6n!\n"),
                Ok(Kind::Text),
                "{text}"
            );
            assert_eq!(kind(text, b"<!doctype html><p>x"), Ok(Kind::Html), "{text}");
            assert_eq!(kind(text, b"%PDF-1.7\n"), Ok(Kind::Pdf), "{text}");
            for binary in
                [&b"PK\x03\x04\x14\0"[..], b"\x89PNG\r\n\x1a\n", b"\x1f\x8b\x08\x02\x01", b""]
            {
                assert!(
                    matches!(kind(text, binary), Err(FetchError::Type(_))),
                    "{text} {binary:?}"
                );
            }
        }
        for wrong in ["image/png", "audio/x-mpegurl", "video/mp2t", "font/woff2"] {
            assert_eq!(kind(wrong, b"let x: number = 1;\n"), Ok(Kind::Text), "{wrong}");
            for binary in [&b"\x89PNG\r\n\x1a\n"[..], b"\x89PNG", b"Gr\xfc\xdfe", b""] {
                assert!(kind(wrong, binary).is_err(), "{wrong} {binary:?}");
            }
        }
        for page in ["text/html", "application/xhtml+xml"] {
            for text in ["# Title\n\n- one\n- two\n", "{\"a\": [1, 2]}", "a < b && c", ""] {
                assert_eq!(kind(page, text.as_bytes()), Ok(Kind::Text), "{text}");
            }
            for html in ["<p>x", "a</b>", "<!-- x -->", "fish &amp; chips", "&#228;"] {
                assert_eq!(kind(page, html.as_bytes()), Ok(Kind::Html), "{html}");
            }
            let wide: Vec<u8> = "<p>x".encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(kind(page, &wide), Ok(Kind::Html));
            assert_eq!(kind(page, b"%PDF-1.7\n"), Ok(Kind::Pdf));
        }
        assert_eq!(kind("text/plain", b"%PDF-2.0\n"), Ok(Kind::Pdf));
        assert_eq!(kind("", b"\xef\xbb\xbf\n%PDF-2.0\n1 0 obj\n"), Ok(Kind::Pdf));
        assert_eq!(kind("text/plain", b"%PDF- is how one begins"), Ok(Kind::Text));
        assert_eq!(kind("application/pdf", b"<p>Please log in"), Ok(Kind::Html));
        let wide: Vec<u8> = "\u{feff}für".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decode("application/octet-stream", &wide).as_deref(), Ok("für"));
    }

    #[test]
    fn outside_27_an_encoding_that_nothing_says_is_found_by_the_one_decoder() {
        let wide: Vec<u8> = "No mark.\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for kind in ["text/plain", "application/octet-stream", ""] {
            assert_eq!(decode(kind, &wide).as_deref(), Ok("No mark.\n"), "{kind}");
        }
        let latin = b"<p>Gr\xfc\xdfe\0 aus K\xf6ln, sch\xf6n!";
        assert_eq!(decode("text/html", latin).as_deref(), Ok("<p>Grüße\u{fffd} aus Köln, schön!"));
        let cyrillic = b"\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0! \xca\xe0\xea \xe4\xe5\xeb\xe0?";
        assert_eq!(decode("text/plain", cyrillic).as_deref(), Ok("Привет, мир! Как дела?"));
        assert_eq!(decode("text/plain", "für".as_bytes()).as_deref(), Ok("für"));
    }

    #[test]
    fn html_without_a_type_is_told_by_its_beginning() {
        let kind = |body: &str| ContentType::parse("").kind(body.as_bytes()).unwrap();
        for page in [
            "<!-- c --><html>",
            "\n<?xml version=\"1.0\"?>\n<!-- c --><!DOCTYPE html><html>",
            "<?xml version=\"1.0\"?><html xmlns=\"x\">",
            "<p>one",
            "<H1>one",
        ] {
            assert_eq!(kind(page), Kind::Html, "{page}");
        }
        for text in
            ["<?xml version=\"1.0\"?><!-- c --><feed>", "<svg>", "<person>", "a <p>", "<?xml"]
        {
            assert_eq!(kind(text), Kind::Text, "{text}");
        }
        let joined = ContentType::parse("text/html, text/html; charset=koi8-r");
        assert_eq!(joined.essence, "text/html");
        assert_eq!(joined.charset, for_label("koi8-r"));
    }

    #[test]
    fn w30_a_declaration_of_xml_says_its_encoding() {
        let body = b"<?xml version='1.0' encoding = \"iso-8859-1\"?><a>\xc3\xa9 \xa3</a>";
        assert!(decode("text/xml", body).unwrap().contains("Ã© £"));
        let wide = b"<?xml version='1.0' encoding='UTF-16'?><a>\xc3\xa9</a>";
        assert!(decode("application/xhtml+xml", wide).unwrap().contains("é"));
    }
}
