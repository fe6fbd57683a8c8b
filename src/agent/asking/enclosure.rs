//! Closes what the model's text of a message leaves open before a question of ours follows it, so
//! that nothing of it hides the question.

use std::collections::BTreeMap;

use super::markdown_scan::MarkdownScan;

/// The most elements that are closed. Browsers nest no deeper than some 500.
const MAX_ELEMENTS: usize = 500;

/// The longest name of an element that is closed.
const MAX_NAME: usize = 64;

/// Elements that have no end.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

/// The rule that stands on a line of its own between the model's text and the question.
const RULE: &str = "---";

/// What stands between the text and the question behind it: the ends of what the text leaves open,
/// and a rule. Nothing, where there is no text.
pub(crate) fn separator(text: &str) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let scan = MarkdownScan::new(text);
    let mut separator = "\n\n".to_owned();
    if let Some(fence) = &scan.closing_fence {
        // Directly behind its content: another line would be part of it.
        separator = format!("\n{fence}\n\n");
    }
    // Where some markup is no code, a reader may take more of it for none.
    let markup = if scan.without_code.contains('<') { text } else { "" };
    for line in [block_ends(&scan.without_code), markup_ends(markup)] {
        if !line.is_empty() {
            separator.push_str(&line);
            separator.push_str("\n\n");
        }
    }
    separator + RULE + "\n\n"
}

/// The ends of blocks that some frontends know beside Markdown: formulas between lines of `$$`, and
/// containers between lines of colons.
fn block_ends(text: &str) -> String {
    let lines = || text.lines().map(str::trim);
    let is_formula =
        |line: &&str| line.starts_with("$$") && !(line.len() > 3 && line.ends_with("$$"));
    let mut ends = Vec::new();
    if lines().filter(is_formula).count() % 2 == 1 {
        ends.push("$$".to_owned());
    }
    let mut containers: Vec<usize> = Vec::new();
    for line in lines().filter(|line| line.starts_with(":::")) {
        let colons = line.bytes().take_while(|byte| *byte == b':').count();
        if line.len() == colons {
            containers.pop();
        } else {
            containers.push(colons);
        }
    }
    let colons = containers.iter().rev().take(MAX_ELEMENTS).map(|colons| ":".repeat(*colons));
    ends.extend(colons);
    ends.join("\n")
}

/// Writes one line of HTML that ends what the markup of the text leaves open. Where nothing is open
/// a reader sees nothing of it, so it need not be known what exactly is open: that depends on the
/// reader.
fn markup_ends(text: &str) -> String {
    let elements = open_elements(text);
    let has = |opening: &str| text.contains(opening);
    let has_declaration = text
        .match_indices("<!")
        .any(|(at, _)| text[at + 2..].starts_with(|c: char| c.is_ascii_alphabetic()));
    let mut ends = String::new();
    if elements.has_attributes {
        // Ends a value in either kind of quotes.
        ends.push_str(r#"<i title="'"></i>"#);
    }
    for (is_there, end) in [
        (has("<!--"), "<!-- -->"),
        (has("<?"), "<?x?>"),
        (has_declaration, "<!X>"),
        (has("<![CDATA["), "<![CDATA[]]>"),
    ] {
        if is_there {
            ends.push_str(end);
        }
    }
    for name in elements.innermost() {
        ends.push_str("</");
        ends.push_str(name);
        ends.push('>');
    }
    // The line must begin a block of HTML, or else quotes and brackets are escaped. It is also
    // the line on which an earlier block of HTML ends.
    if ends.is_empty() { ends } else { format!("</div>{ends}") }
}

/// The elements that a text leaves open.
#[derive(Debug, Default)]
struct OpenElements {
    /// The places at which elements of a name began and have not ended, in their order.
    open: BTreeMap<String, Vec<usize>>,
    /// Whether some tag has quotes, or has no end.
    has_attributes: bool,
}

impl OpenElements {
    /// The names of those that began last, the last one first.
    fn innermost(&self) -> Vec<&str> {
        let newest = |places: &[usize]| places.len().saturating_sub(MAX_ELEMENTS);
        let mut begun: Vec<(usize, &str)> = Vec::new();
        for (name, places) in &self.open {
            let places = &places[newest(places)..];
            begun.extend(places.iter().map(|place| (*place, name.as_str())));
        }
        begun.sort_unstable_by_key(|(place, _)| std::cmp::Reverse(*place));
        begun.into_iter().take(MAX_ELEMENTS).map(|(_, name)| name).collect()
    }
}

fn open_elements(text: &str) -> OpenElements {
    let mut elements = OpenElements::default();
    for (at, _) in text.match_indices('<') {
        let behind = &text[at + 1..];
        let (is_end, behind) = match behind.strip_prefix('/') {
            Some(behind) => (true, behind),
            None => (false, behind),
        };
        let Some(name) = element_name(behind) else { continue };
        let tag_end = behind.find(['<', '>']).unwrap_or(behind.len());
        elements.has_attributes |=
            behind[..tag_end].contains(['"', '\'']) || !behind[tag_end..].starts_with('>');
        // A reader takes an escaped end for text.
        let is_escaped = text[..at].ends_with('\\');
        if is_end && !is_escaped {
            elements.open.get_mut(&name).and_then(Vec::pop);
        } else if !is_end && !VOID.contains(&name.as_str()) {
            elements.open.entry(name).or_default().push(at);
        }
    }
    elements
}

/// The name with which a tag begins, in lower case. An address in brackets is none.
fn element_name(tag: &str) -> Option<String> {
    if !tag.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let ends = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '<' | '>');
    let end = tag.find(ends).unwrap_or(tag.len());
    let (name, behind) = tag.split_at(end);
    let is_address = (name.contains(['@', ':']) && behind.starts_with('>'))
        || (name.ends_with(':') && behind.starts_with("//"));
    (!is_address && name.len() <= MAX_NAME).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(separator(text), expected, "{text:?}");
    }

    #[test]
    fn a_rule_stands_between_the_text_and_the_question() {
        check("", "");
        check(" \n", "");
        check("I write it.", "\n\n---\n\n");
        check("See `<div>` and\n```html\n<script>\n```", "\n\n---\n\n");
        check("If 1 < 2.", "\n\n---\n\n");
        check("<b>x</b> <br> <https://a.b/c> <me@a.b>", "\n\n---\n\n");
    }

    #[test]
    fn an_open_fence_is_closed_with_its_own_marks() {
        check("```sh\nls", "\n```\n\n---\n\n");
        check("~~~~~\n~~~\n", "\n~~~~~\n\n---\n\n");
        check("- x\n  ```\n  y", "\n\n---\n\n");
        check("> ```\n> y", "\n\n---\n\n");
    }

    #[test]
    fn open_markup_is_ended_in_one_block_of_html() {
        for (text, ends) in [
            ("<div hidden>", "</div></div>"),
            ("a <!-- b", "</div><!-- -->"),
            ("<?php", "</div><?x?>"),
            ("<!X", "</div><!X>"),
            ("<![CDATA[ x", "</div><![CDATA[]]>"),
            ("<details><summary>x</summary>", "</div></details>"),
            ("<script>\n<style>", "</div></style></script>"),
            ("<a href=\"x", r#"</div><i title="'"></i></a>"#),
            ("<A title='x'>", r#"</div><i title="'"></i></a>"#),
            ("<textarea", r#"</div><i title="'"></i></textarea>"#),
            ("<div>\\</div>", "</div></div>"),
            ("<b><div></b>", "</div></div>"),
            ("<b> `<script>`", "</div></script></b>"),
            ("Vec<T>", "</div></t>"),
            ("<div hidden/>", "</div></div>"),
        ] {
            check(text, &format!("\n\n{ends}\n\n---\n\n"));
        }
        check("```\n<xmp>", "\n```\n\n</div></xmp>\n\n---\n\n");
    }

    #[test]
    fn blocks_of_other_dialects_are_ended() {
        check("$$\nx", "\n\n$$\n\n---\n\n");
        check("$$\nx\n$$\n$$z$$", "\n\n---\n\n");
        check(":::artifact{x}\n::::note", "\n\n::::\n:::\n\n---\n\n");
    }

    #[test]
    fn very_many_elements_are_closed_up_to_a_limit() {
        let separator = separator(&"<p>".repeat(100_000));
        assert_eq!(separator.matches("</p>").count(), MAX_ELEMENTS);
    }
}
