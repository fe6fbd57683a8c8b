//! Reads a Markdown text as several dialects do: what of it is code, what a reader sees of it, and
//! which fences are open at its end.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The dialects to read the text in: plain Markdown, GitHub's (where a bar ends a code span in a
/// table) and GitHub's with formulas (where a backtick in a formula begins no code).
fn dialects() -> [Options; 3] {
    let github = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_GFM;
    [Options::empty(), github, github | Options::ENABLE_MATH]
}

/// What the dialects make of a text.
#[derive(Debug)]
pub(super) struct MarkdownScan {
    /// The text with blanks in the place of what every dialect takes for code: code spans on one
    /// line, and closed fences outside of lists and quotes.
    pub(super) without_code: String,
    /// What a reader sees, a line for each line of a block, with entities decoded.
    pub(super) visible: String,
    /// The line that closes the fence which is open at the end, outside of lists and quotes.
    pub(super) closing_fence: Option<String>,
    /// Whether a fence is open at the end, also one that ends with its list or quote.
    pub(super) has_open_fence: bool,
}

/// What one dialect makes of a text.
#[derive(Default)]
struct Reading {
    code: Vec<Range<usize>>,
    visible: String,
    closing_fence: Option<String>,
    has_open_fence: bool,
}

/// A fence, as far as it is read.
struct Fence {
    range: Range<usize>,
    /// The end of its content so far.
    content_end: usize,
    is_in_container: bool,
}

impl MarkdownScan {
    pub(super) fn new(text: &str) -> Self {
        let readings = dialects().map(|options| Reading::new(text, options));
        let mut is_code = vec![true; text.len()];
        for reading in &readings {
            let mut end = 0;
            for range in &reading.code {
                is_code[end.min(range.start)..range.start].fill(false);
                end = end.max(range.end);
            }
            is_code[end..].fill(false);
        }
        let [plain, github, with_formulas] = readings;
        Self {
            without_code: blank_out(text, &is_code),
            has_open_fence: plain.has_open_fence
                || github.has_open_fence
                || with_formulas.has_open_fence,
            closing_fence: plain.closing_fence,
            visible: plain.visible,
        }
    }
}

/// Puts blanks in the place of the marked bytes. Lines stay lines.
fn blank_out(text: &str, is_blank: &[bool]) -> String {
    let blank = |(at, c): (usize, char)| if is_blank[at] && c != '\n' { ' ' } else { c };
    text.char_indices().map(blank).collect()
}

impl Reading {
    fn new(text: &str, options: Options) -> Self {
        let mut reading = Self::default();
        let mut containers = 0_usize;
        let mut fence: Option<Fence> = None;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                    let first_line =
                        text[range.clone()].find('\n').map_or(range.len(), |at| at + 1);
                    let content_end = range.start + first_line;
                    fence = Some(Fence { range, content_end, is_in_container: containers > 0 });
                }
                Event::End(TagEnd::CodeBlock) => {
                    if let Some(fence) = fence.take() {
                        reading.end_fence(text, fence);
                    }
                    reading.visible.push('\n');
                }
                Event::Start(tag) => containers += usize::from(is_container(&tag)),
                Event::End(tag) => {
                    containers = containers.saturating_sub(usize::from(ends_container(tag)));
                    reading.visible.push('\n');
                }
                Event::Text(shown) => {
                    if let Some(fence) = &mut fence {
                        fence.content_end = fence.content_end.max(range.end);
                    }
                    reading.visible.push_str(&shown);
                }
                Event::Code(shown) => {
                    if is_code_everywhere(&text[range.clone()]) {
                        reading.code.push(range);
                    }
                    reading.visible.push_str(&shown);
                }
                Event::SoftBreak | Event::HardBreak | Event::Rule => reading.visible.push('\n'),
                Event::InlineMath(shown) | Event::DisplayMath(shown) => {
                    reading.visible.push_str(&shown);
                }
                Event::Html(_)
                | Event::InlineHtml(_)
                | Event::FootnoteReference(_)
                | Event::TaskListMarker(_) => {}
            }
        }
        reading
    }

    /// Records the fence as code if a closing line follows its content, else as open.
    fn end_fence(&mut self, text: &str, fence: Fence) {
        let Fence { range, content_end, is_in_container } = fence;
        let behind = &text[content_end.min(range.end)..range.end];
        let marks: String = behind.chars().filter(|c| matches!(c, '`' | '~')).collect();
        if marks.len() >= 3 {
            // Readers differ in where a list or a quote ends.
            if !is_in_container {
                self.code.push(range);
            }
            return;
        }
        self.has_open_fence = true;
        // The end of its list or quote closes it. Another mark would open a fence.
        if !is_in_container {
            let opening = text[range].trim_start();
            let mark = opening.chars().next().unwrap_or('`');
            self.closing_fence = Some(opening.chars().take_while(|c| *c == mark).collect());
        }
    }
}

/// Whether every reader takes the span for code. A bar may end it in a table, and another line may
/// begin a block.
fn is_code_everywhere(span: &str) -> bool {
    !span.contains(['|', '\n'])
}

fn is_container(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::BlockQuote(_)
            | Tag::List(_)
            | Tag::Item
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionListDefinition
    )
}

fn ends_container(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::BlockQuote(_)
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionListDefinition
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, without_code: &str, closing_fence: Option<&str>, has_open_fence: bool) {
        let scan = MarkdownScan::new(text);
        assert_eq!(scan.without_code, without_code, "{text:?}");
        assert_eq!(scan.closing_fence.as_deref(), closing_fence, "{text:?}");
        assert_eq!(scan.has_open_fence, has_open_fence, "{text:?}");
    }

    #[test]
    fn code_spans_and_closed_fences_are_code() {
        check("a `<b>` c", "a       c", None, false);
        check("a `<b> c", "a `<b> c", None, false);
        check("``a`<b>`` <c>", "          <c>", None, false);
        check("\\`<b>`", "\\`<b>`", None, false);
        check("```\n<b>\n```\n<c>", "   \n   \n   \n<c>", None, false);
        check("~~~x\n<b>\n~~~~", "    \n   \n    ", None, false);
        check("a\n\n    <b>", "a\n\n    <b>", None, false);
        check("`a | <b>` `c\nd`", "`a | <b>` `c\nd`", None, false);
    }

    #[test]
    fn a_fence_that_is_open_is_no_code() {
        check("```\n<b>", "```\n<b>", Some("```"), true);
        check("```", "```", Some("```"), true);
        check("~~~~~ x\n~~~\n", "~~~~~ x\n~~~\n", Some("~~~~~"), true);
        check("```\na\n    ```", "```\na\n    ```", Some("```"), true);
        check("   ````\n```\n", "   ````\n```\n", Some("````"), true);
        check("- a\n\n  ```\n  b", "- a\n\n  ```\n  b", None, true);
        check("> ~~~\n> b\n", "> ~~~\n> b\n", None, true);
        check("> ```\n> b\n> ```\n", "> ```\n> b\n> ```\n", None, false);
    }

    #[test]
    fn what_only_some_dialects_take_for_code_is_none() {
        let table = "| a | b |\n|---|---|\n| `x | <script> ` |\n";
        assert!(MarkdownScan::new(table).without_code.contains("<script>"));
        assert!(MarkdownScan::new("$a`$ <b> ` x").without_code.contains("<b>"));
    }

    #[test]
    fn a_reader_sees_text_without_marks() {
        assert_eq!(
            MarkdownScan::new("- `1` allow\n- &#49; **x**\n").visible.trim(),
            "1 allow\n1 x"
        );
    }
}
