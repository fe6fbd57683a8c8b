//! Renders the Markdown of an answer for a terminal, as it comes: emphasis, code and diffs.
//!
//! The parser is pulldown-cmark's, so a lone asterisk stays one. Underscores always stay: `__init__`
//! is a name more often than it is bold. It reads a line at a time, since an answer is shown while
//! the model still speaks: a line without markup is shown letter by letter, and one with markup as
//! far as each piece of that has ended. No text is ever left out.

use std::fmt::Write as _;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::control_characters::shown;

const BOLD: &str = "1";
const FAINT: &str = "2";
const ITALIC: &str = "3";
const STRUCK: &str = "9";
const RED: &str = "31";
const GREEN: &str = "32";
const CYAN: &str = "36";
const RESET: &str = "\x1b[0m";

/// The characters that may begin or end markup within a line.
const MARKUP: &[char] = &['*', '`', '~', '[', ']', '(', ')', '<', '>', '&', '\\', '!'];

/// Stands in front of a line's text while it is parsed, so that nothing in it begins a block. The
/// rendered text begins with it, and it is taken off.
const GUARD: &str = ".";

/// A drawn rule.
const RULE: &str = "────────────────────";

/// The text of one answer, of which a line may have begun.
#[derive(Debug, Default)]
pub(super) struct MarkdownText {
    /// What was not shown yet of the line.
    pending: String,
    /// Whether something was shown of the line.
    is_within_line: bool,
    fence: Option<Fence>,
}

/// A code block that is open.
#[derive(Debug)]
struct Fence {
    marker: char,
    length: usize,
    is_diff: bool,
}

impl MarkdownText {
    /// Takes a piece of the text. Returns what can be shown by now, safe for a terminal.
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for piece in shown(text).split_inclusive('\n') {
            if let Some(rest) = piece.strip_suffix('\n') {
                self.pending.push_str(rest);
                self.end_line(&mut out);
            } else {
                self.pending.push_str(piece);
                self.begin_line(&mut out);
            }
        }
        out
    }

    /// Returns what was held back, because something else is shown now or the text has ended.
    pub(super) fn flush(&mut self) -> String {
        let mut out = String::new();
        if !self.pending.is_empty() {
            let line = std::mem::take(&mut self.pending);
            self.line(&line, &mut out);
            self.is_within_line = !out.ends_with('\n') && (self.is_within_line || !out.is_empty());
        }
        out
    }

    /// Shows the part of an unfinished line that no further text can change.
    fn begin_line(&mut self, out: &mut String) {
        if self.fence.is_some() || (!self.is_within_line && may_begin_block(&self.pending)) {
            return;
        }
        loop {
            let end = settled(&self.pending);
            if end == 0 {
                return;
            }
            let rest = self.pending.split_off(end);
            inline(&std::mem::replace(&mut self.pending, rest), out);
            self.is_within_line = true;
        }
    }

    fn end_line(&mut self, out: &mut String) {
        let line = std::mem::take(&mut self.pending);
        let is_fence = self.line(&line, out);
        self.is_within_line = false;
        if !is_fence {
            out.push('\n');
        }
    }

    /// Shows the rest of a line, without its break. Returns whether it begins or ends a code block:
    /// then nothing is shown of it.
    fn line(&mut self, line: &str, out: &mut String) -> bool {
        if self.is_within_line {
            inline(line, out);
            return false;
        }
        if let Some(fence) = &self.fence {
            if fence.is_closed_by(line) {
                self.fence = None;
                return true;
            }
            code_line(line, fence.is_diff, out);
            return false;
        }
        self.fence = Fence::opened_by(line);
        if self.fence.is_some() {
            return true;
        }
        block_line(line, out);
        false
    }
}

impl Fence {
    fn opened_by(line: &str) -> Option<Self> {
        let text = line.trim_start_matches(' ');
        let marker = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let length = text.chars().take_while(|c| *c == marker).count();
        let info = text[length..].trim();
        let is_fence = 3 <= length && !(marker == '`' && info.contains('`'));
        let is_diff = matches!(info.split_whitespace().next(), Some("diff" | "patch"));
        is_fence.then_some(Self { marker, length, is_diff })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        text.chars().all(|c| c == self.marker) && self.length <= text.chars().count()
    }
}

/// Whether the beginning of a line may be that of a heading, a list, a quote, a rule or a fence.
fn may_begin_block(line: &str) -> bool {
    match line.trim_start().chars().next() {
        None => true,
        Some(first) => "#-+*>=`~|".contains(first),
    }
}

/// How many bytes of a line can be rendered, whatever follows: all up to the first markup that is
/// open. It is taken for closed where its characters come in pairs, and a word has begun behind.
fn settled(line: &str) -> usize {
    let first = line.find(MARKUP).unwrap_or(line.len());
    let mut end = first;
    let mut open = OpenMarkup::default();
    for (at, c) in line[first..].char_indices() {
        if c == ' ' && open == OpenMarkup::default() {
            end = first + at;
        }
        open.count(c);
    }
    end
}

/// What of the characters that come in pairs has no partner yet.
#[derive(Debug, Default, PartialEq, Eq)]
struct OpenMarkup {
    asterisk: bool,
    backtick: bool,
    tilde: bool,
    brackets: isize,
    parentheses: isize,
    angles: isize,
}

impl OpenMarkup {
    fn count(&mut self, c: char) {
        match c {
            '*' => self.asterisk = !self.asterisk,
            '`' => self.backtick = !self.backtick,
            '~' => self.tilde = !self.tilde,
            '[' => self.brackets += 1,
            ']' => self.brackets -= 1,
            '(' => self.parentheses += 1,
            ')' => self.parentheses -= 1,
            '<' => self.angles += 1,
            '>' => self.angles -= 1,
            _ => {}
        }
    }
}

/// A line outside of code, as a whole.
fn block_line(line: &str, out: &mut String) {
    let text = line.trim_start();
    let indent = &line[..line.len() - text.len()];
    out.push_str(indent);
    if 4 <= indent.len() && !text.starts_with(['-', '*', '+']) {
        // Code, or the further lines of a list's entry.
        return inline(text, out);
    }
    let level = text.chars().take_while(|c| *c == '#').count();
    if let Some(title) = text[level..].strip_prefix(' ').filter(|_| (1..=6).contains(&level)) {
        return rendered(title, &[BOLD], out);
    }
    if is_rule(text) {
        return styled(RULE, &[FAINT], out);
    }
    if let Some(entry) = ["- ", "* ", "+ "].iter().find_map(|mark| text.strip_prefix(mark)) {
        out.push_str("• ");
        return inline(entry, out);
    }
    if let Some(quoted) = text.strip_prefix('>') {
        styled("▌", &[FAINT], out);
        return block_line(quoted, out);
    }
    inline(text, out);
}

fn is_rule(text: &str) -> bool {
    let marks: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
    3 <= marks.len()
        && matches!(marks[0], '-' | '*' | '_')
        && marks.iter().all(|mark| *mark == marks[0])
}

fn code_line(line: &str, is_diff: bool, out: &mut String) {
    let style = match line.chars().next() {
        _ if !is_diff => CYAN,
        Some('+') => GREEN,
        Some('-') => RED,
        Some('@') => CYAN,
        _ => return out.push_str(line),
    };
    styled(line, &[style], out);
}

fn inline(text: &str, out: &mut String) {
    rendered(text, &[], out);
}

/// Renders text within a line, in this style.
fn rendered(text: &str, style: &[&'static str], out: &mut String) {
    // The parser takes white space off the ends.
    let inner = text.trim_end();
    let guarded = format!("{GUARD}{inner}");
    let mut styles = style.to_vec();
    let mut is_guard = true;
    let mut links: Vec<String> = Vec::new();
    let events = Parser::new_ext(&guarded, Options::ENABLE_STRIKETHROUGH).into_offset_iter();
    for (event, place) in events {
        let underscores = || match &event {
            Event::Start(Tag::Emphasis) | Event::End(TagEnd::Emphasis) => "_",
            _ => "__",
        };
        let is_underscored = guarded[place].starts_with('_');
        match event {
            Event::Start(Tag::Strong | Tag::Emphasis)
            | Event::End(TagEnd::Strong | TagEnd::Emphasis)
                if is_underscored =>
            {
                styled(underscores(), &styles, out);
            }
            Event::Text(text) => {
                let text = if std::mem::take(&mut is_guard) {
                    text.strip_prefix(GUARD).unwrap_or(&text).to_owned()
                } else {
                    text.into_string()
                };
                styled(&text, &styles, out);
            }
            Event::Code(code) => styled(&code, &[&styles[..], &[CYAN]].concat(), out),
            Event::Html(text) | Event::InlineHtml(text) => styled(&text, &styles, out),
            Event::Start(Tag::Strong) => styles.push(BOLD),
            Event::Start(Tag::Emphasis) => styles.push(ITALIC),
            Event::Start(Tag::Strikethrough) => styles.push(STRUCK),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.into_string());
            }
            Event::End(TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough) => {
                styles.pop();
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                let target = links.pop().filter(|target| !out.ends_with(target.as_str()));
                if let Some(target) = target {
                    styled(&format!(" ({target})"), &[FAINT], out);
                }
            }
            _ => {}
        }
    }
    out.push_str(&text[inner.len()..]);
}

fn styled(text: &str, styles: &[&str], out: &mut String) {
    // Entities may stand for control characters.
    let text = shown(text);
    if styles.is_empty() || text.is_empty() {
        out.push_str(&text);
    } else {
        let mut codes: Vec<&str> = styles.to_vec();
        codes.dedup();
        _ = write!(out, "\x1b[{}m{text}{RESET}", codes.join(";"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With each style as a word in braces.
    fn told(text: &str) -> String {
        let styles = [
            (BOLD, "b"),
            (FAINT, "f"),
            (ITALIC, "i"),
            (STRUCK, "s"),
            (RED, "r"),
            (GREEN, "g"),
            (CYAN, "c"),
            ("1;36", "bc"),
            ("1;3", "bi"),
        ];
        let mut told = text.to_owned();
        for (code, word) in styles {
            told = told.replace(&format!("\x1b[{code}m"), &format!("{{{word} "));
        }
        told.replace(RESET, "}")
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut whole = MarkdownText::default();
        let at_once = whole.push(text) + &whole.flush();
        assert_eq!(told(&at_once), expected, "{text:?}");
        let mut letters = MarkdownText::default();
        let mut piecewise: String = text.chars().map(|c| letters.push(&c.to_string())).collect();
        piecewise.push_str(&letters.flush());
        assert_eq!(told(&piecewise), expected, "letter by letter: {text:?}");
    }

    #[test]
    fn emphasis_and_code_are_styled() {
        check("a **bold** b\n", "a {b bold} b\n");
        check("**bold** and `code` and *it*, ~~no~~.", "{b bold} and {c code} and {i it}, {s no}.");
        check("**a `b` c**\n", "{b a }{bc b}{b  c}\n");
        check("# Title **x**\n\ntext\n", "{b Title }{b x}\n\ntext\n");
        check("see [docs](https://a.b/c) now", "see docs{f  (https://a.b/c)} now");
        check("<https://a.b> ![x](y.png)", "https://a.b x{f  (y.png)}");
    }

    #[test]
    fn what_is_no_markup_stays() {
        for plain in [
            "2 * 3 * 4 = 24\n",
            "snake_case_name and __init\n",
            "call __init__ of _this_ one, __all of it__\n",
            "a < b && c > d\n",
            "<!-- seen --> <b>x</b>\n",
            "C:\\Users\\me [x] (y\n",
            "[x]: https://hidden.example\n",
            "1. one\n2) two\n",
            "| a | b |\n| 1 | 2 |\n",
            "    indented\n\n\n",
            "ends with a space \n",
            "**open\n",
        ] {
            check(plain, plain);
        }
    }

    #[test]
    fn blocks_are_told_from_text() {
        check("- one **x**\n  * two\n+ [ ] three\n", "• one {b x}\n  • two\n• [ ] three\n");
        check("> said *so*\n---\n", "{f ▌} said {i so}\n{f ────────────────────}\n");
        check("```rust\nlet a = **b;\n```\nafter\n", "{c let a = **b;}\nafter\n");
        check("~~~\n```\n~~~\n", "{c ```}\n");
        check(
            "```diff\n-old\n+new\n same\n@@ 1 @@\n```",
            "{r -old}\n{g +new}\n same\n{c @@ 1 @@}\n",
        );
    }

    #[test]
    fn text_without_markup_is_shown_as_it_comes() {
        let mut text = MarkdownText::default();
        assert_eq!(text.push("A first wor"), "A first wor");
        assert_eq!(text.push("d, **bo"), "d, ");
        assert_eq!(told(&text.push("ld** the")), "{b bold} the");
        assert_eq!((text.push("n `co"), text.flush()), ("n ".to_owned(), "`co".to_owned()));
        assert_eq!(text.push("\n"), "\n");
    }

    #[test]
    fn no_control_character_of_the_text_reaches_the_terminal() {
        let mut text = MarkdownText::default();
        let all = text.push("\x1b[2J **\u{9b}2J** `\x07` &#27;[2J &#x9b;\n```\n\x1b\n```\n");
        let without = [BOLD, CYAN, "0"]
            .iter()
            .fold(all, |text, code| text.replace(&format!("\x1b[{code}m"), ""));
        assert!(!without.chars().any(|c| c.is_control() && c != '\n'), "{without:?}");
    }
}
