//! Takes tags out of HTML that are nested too deeply, before it is parsed: the time that parsers
//! need grows with the square of the depth. Their text stays.

use std::collections::HashMap;

/// The most elements inside of one another. Pages for people have some dozens.
const MAX_DEPTH: usize = 500;

/// Elements that have no end.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

/// Elements whose end may be left out. The parser ends them where the next one begins, so they
/// nest only inside of others, which are counted.
const SELF_ENDING: [&str; 18] = [
    "html", "head", "body", "p", "li", "dd", "dt", "tr", "td", "th", "thead", "tbody", "tfoot",
    "caption", "colgroup", "option", "optgroup", "frameset",
];

/// Elements whose contents are no tags.
const RAW: [&str; 7] = ["script", "style", "textarea", "title", "xmp", "noembed", "noframes"];

/// What an end tag does not reach through.
const BARRIERS: [&str; 9] =
    ["table", "object", "applet", "marquee", "template", "button", "svg", "math", "select"];

/// `html` without the tags that nest too deeply, comments, scripts and styles.
pub(super) fn trimmed(html: &str) -> String {
    let mut trimmed = String::with_capacity(html.len());
    let mut open = OpenElements::default();
    let mut rest = html;
    while let Some(start) = memchr::memchr(b'<', rest.as_bytes()) {
        trimmed.push_str(&rest[..start]);
        rest = &rest[start..];
        let piece = Piece::at_start_of(rest);
        rest = match piece {
            Piece::Text => {
                trimmed.push('<');
                &rest[1..]
            }
            Piece::Dropped { end } => &rest[end..],
            Piece::Tag { name, is_end, end } => {
                let name = name.to_ascii_lowercase();
                let is_kept = if is_end { open.close(&name) } else { open.open(&name) };
                let after = raw_end(&name, is_end, &rest[end..]);
                let is_program = matches!(name.as_str(), "script" | "style");
                if is_kept && !is_program {
                    trimmed.push_str(&rest[..end + after]);
                }
                &rest[end + after..]
            }
        };
    }
    trimmed.push_str(rest);
    trimmed
}

/// What begins with `<`.
enum Piece<'h> {
    /// A sign that begins nothing.
    Text,
    /// A comment, a declaration, or a tag that does not end.
    Dropped {
        end: usize,
    },
    Tag {
        name: &'h str,
        is_end: bool,
        end: usize,
    },
}

impl<'h> Piece<'h> {
    fn at_start_of(html: &'h str) -> Self {
        if html.starts_with("<!--") {
            return Self::Dropped { end: comment_end(html) };
        }
        if html.starts_with("<!") || html.starts_with("<?") {
            let end = memchr::memchr(b'>', html.as_bytes()).map_or(html.len(), |end| end + 1);
            return Self::Dropped { end };
        }
        let is_end = html.starts_with("</");
        let name_start = if is_end { 2 } else { 1 };
        if !html[name_start..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Self::Text;
        }
        let bytes = html.as_bytes();
        let is_name_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
        let name_length = bytes[name_start..].iter().position(is_name_end);
        let name_end = name_length.map_or(html.len(), |length| name_start + length);
        match tag_end(bytes, name_end) {
            Some(end) => Self::Tag { name: &html[name_start..name_end], is_end, end },
            None => Self::Dropped { end: html.len() },
        }
    }
}

fn comment_end(html: &str) -> usize {
    if let Some(short) = ["<!-->", "<!--->"].into_iter().find(|short| html.starts_with(short)) {
        return short.len();
    }
    let ends = ["-->", "--!>"].map(|end| html[4..].find(end).map(|at| 4 + at + end.len()));
    ends.into_iter().flatten().min().unwrap_or(html.len())
}

/// Where a tag ends, past `>` in the values of its attributes.
fn tag_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut before = b' ';
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'>' => return Some(at + 1),
            b'"' | b'\'' if before == b'=' => {
                at += 1 + memchr::memchr(byte, &bytes[at + 1..])?;
                before = b' ';
            }
            byte if byte.is_ascii_whitespace() => {}
            byte => before = byte,
        }
        at += 1;
    }
    None
}

/// How much of `html`, which follows a tag, is the contents of an element without tags, with its
/// end.
fn raw_end(name: &str, is_end: bool, html: &str) -> usize {
    if is_end || !RAW.contains(&name) {
        return 0;
    }
    let bytes = html.as_bytes();
    for at in memchr::memchr_iter(b'<', bytes) {
        let rest = &bytes[at + 1..];
        let is_this_end = rest.first() == Some(&b'/')
            && rest.get(1..=name.len()).is_some_and(|n| n.eq_ignore_ascii_case(name.as_bytes()));
        if is_this_end {
            return tag_end(bytes, at + 2 + name.len()).unwrap_or(html.len());
        }
    }
    html.len()
}

/// The elements that are open, in the way that matters for their number.
#[derive(Default)]
struct OpenElements {
    names: Vec<Box<str>>,
    counts: HashMap<Box<str>, usize>,
}

impl OpenElements {
    /// Whether the start tag stays.
    fn open(&mut self, name: &str) -> bool {
        let is_counted =
            !VOID.contains(&name) && !SELF_ENDING.contains(&name) && !RAW.contains(&name);
        if !is_counted {
            return true;
        }
        if self.names.len() == MAX_DEPTH {
            return false;
        }
        self.names.push(name.into());
        *self.counts.entry(name.into()).or_default() += 1;
        true
    }

    /// Whether the end tag stays.
    fn close(&mut self, name: &str) -> bool {
        if SELF_ENDING.contains(&name) || VOID.contains(&name) {
            return true;
        }
        if self.counts.get(name).is_none_or(|count| *count == 0) {
            return false;
        }
        let mut above = self
            .names
            .iter()
            .rev()
            .take_while(|open| &***open == name || !BARRIERS.contains(&&***open));
        let Some(position) = above.position(|open| &**open == name) else { return false };
        for closed in self.names.drain(self.names.len() - position - 1..) {
            if let Some(count) = self.counts.get_mut(&closed) {
                *count -= 1;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_pages_stay_as_they_are() {
        for html in [
            "<p>a<p>b <b>c</b><br>d</p>",
            "<ul><li>a<li>b</ul><img alt='x > y' src=\"z\">",
            "1 < 2 <3 </ x",
            "<textarea><div></textarea><title>a <b></title>",
        ] {
            assert_eq!(trimmed(html), html);
        }
        let list = format!("<ul>{}</ul>", "<li>a".repeat(2_000));
        assert_eq!(trimmed(&list), list);
    }

    #[test]
    fn comments_scripts_and_styles_go() {
        let html = "<!doctype html>a<!-- <b> -->b<!-->c<script>if (a<b) '</div>'</script >d\
                    <STYLE>p > a {}</style>e<?php x ?>f<!-- open";
        assert_eq!(trimmed(html), "abcdef");
        assert_eq!(trimmed("a<script>b"), "a");
        assert_eq!(trimmed("a<div class='b"), "a");
    }

    #[test]
    fn w29_tags_that_nest_too_deeply_go_and_their_text_stays() {
        let deep = format!("{}x{}", "<div>".repeat(200_000), "</div>".repeat(200_000));
        let kept = trimmed(&deep);
        assert_eq!(kept.matches("<div>").count(), MAX_DEPTH);
        assert_eq!(kept.matches("</div>").count(), MAX_DEPTH);
        assert!(kept.contains('x'));
        // An end tag that the parser ignores does not make room.
        let ignored = "<table><div></table-x></span>".repeat(10_000);
        assert!(trimmed(&ignored).matches("<div>").count() <= MAX_DEPTH);
        let behind = "<div><object></div>".repeat(10_000);
        assert!(trimmed(&behind).matches("<object>").count() <= MAX_DEPTH);
    }
}
