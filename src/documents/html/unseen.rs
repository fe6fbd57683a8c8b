//! Decides which elements of a page nobody sees. Pure.

use cssparser::{Parser, Token};

/// Elements whose contents are no text of the page. A browser with scripts shows nothing of a
/// `datalist` or a `noframes` either. What stands in a `noscript` is for readers without scripts.
const WITHOUT_TEXT: [&str; 17] = [
    "script", "style", "template", "svg", "math", "iframe", "object", "embed", "canvas", "audio",
    "video", "datalist", "noembed", "noframes", "frameset", "applet", "title",
];

/// Whether the text of such an element is no text that readers of the page see.
pub(super) fn is_unseen<V: AsRef<str>>(name: &str, attribute: impl Fn(&str) -> Option<V>) -> bool {
    has_no_text(name) || is_hidden(name, attribute)
}

/// Whether the contents of such an element are no text.
pub(super) fn has_no_text(name: &str) -> bool {
    WITHOUT_TEXT.contains(&name)
}

/// Whether its attributes hide an element. A search of the page unfolds what is hidden until found.
pub(super) fn is_hidden<V: AsRef<str>>(name: &str, attribute: impl Fn(&str) -> Option<V>) -> bool {
    let hidden = attribute("hidden");
    let is_until_found = |hidden: &V| hidden.as_ref().trim().eq_ignore_ascii_case("until-found");
    hidden.is_some_and(|hidden| !is_until_found(&hidden))
        || (name == "dialog" && attribute("open").is_none())
        || attribute("style").is_some_and(|style| hides(style.as_ref()))
}

/// Whether an inline style hides its element. One declaration that does is enough, although a later
/// one may take it back.
fn hides(style: &str) -> bool {
    let mut parser = Parser::new(style);
    while let Ok(token) = parser.next() {
        let Token::Ident(property) = token else { continue };
        let property = property.to_ascii_lowercase();
        if parser.try_parse(Parser::expect_colon).is_err() {
            continue;
        }
        while let Ok(value) = parser.next() {
            if matches!(value, Token::Semicolon) {
                break;
            }
            if hides_as(&property, value) {
                return true;
            }
        }
    }
    // What is nested too deeply to be read may hide everything.
    !parser.is_exhausted()
}

fn hides_as(property: &str, value: &Token<'_>) -> bool {
    let is_word = |words: &[&str]| match value {
        Token::Ident(word) => words.iter().any(|w| word.eq_ignore_ascii_case(w)),
        _ => false,
    };
    match property {
        "display" => is_word(&["none"]),
        "visibility" => is_word(&["hidden", "collapse"]),
        "content-visibility" => is_word(&["hidden"]),
        "opacity" | "font-size" => match value {
            Token::Number { value, .. } | Token::Dimension { value, .. } => *value <= 0.0,
            Token::Percentage { unit_value, .. } => *unit_value <= 0.0,
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_hides_however_it_is_written() {
        for style in [
            "display:none",
            "color:red; DISPLAY : None !important",
            "display:/**/none",
            "d\\69splay:none",
            "display:n\\6fne",
            "-x:';';display:none",
            "visibility:hidden",
            "visibility: collapse",
            "opacity:0",
            "opacity:0.0",
            "opacity:-1",
            "opacity:0%",
            "font-size:0",
            "font-size:0.0px",
            "font-size:0em",
            "font-size:0pt",
            "font-size:0%",
            "content-visibility:hidden",
        ] {
            assert!(hides(style), "{style}");
        }
        for style in [
            "",
            "display:block",
            "color:none",
            "opacity:0.5",
            "font-size:10px",
            "line-height:0",
            "background:url(display:none)",
            "content:'display:none'",
            "/* display:none */",
            "x{display:none}",
        ] {
            assert!(!hides(style), "{style}");
        }
    }
}
