//! Writes a foreign text of many lines as a quotation, which a frontend wraps.

use super::visible::visible;

/// The characters that begin something in Markdown, or in the HTML and the formulas within it,
/// wherever they stand.
const SPECIAL: [char; 12] = ['\\', '`', '*', '_', '[', ']', '<', '>', '&', '$', '|', '~'];

/// The most blanks at the start of a line that are kept: more would push it out of sight.
const MAX_INDENTATION: usize = 24;

/// `text` as a quotation in which each line stays a line and all of it is shown: nothing in it
/// becomes a link, HTML, a table, a formula or a code block, whose parts a reader may not see.
pub(crate) fn quote(text: &str) -> String {
    let mut quote = String::with_capacity(text.len() + text.len() / 4);
    let mut was_empty = false;
    for line in text.trim_end().split('\n') {
        let is_empty = line.trim().is_empty();
        if is_empty && was_empty {
            continue;
        }
        was_empty = is_empty;
        quote.push('>');
        if !is_empty {
            quote.push(' ');
            quote.push_str(&quoted_line(line));
            // Ends the line without ending the paragraph.
            quote.push_str("  ");
        }
        quote.push('\n');
    }
    // The last line ends the paragraph by itself.
    format!("{}\n", quote.trim_end())
}

fn quoted_line(line: &str) -> String {
    let words = line.trim_start_matches([' ', '\t']);
    let indentation: usize = line[..line.len() - words.len()]
        .bytes()
        .map(|blank| if blank == b'\t' { 4 } else { 1 })
        .sum();
    // Plain blanks at the start are not shown, and four of them begin a code block.
    let mut quoted = "\u{a0}".repeat(indentation.min(MAX_INDENTATION));
    let words = visible(&words.replace('\t', " "));
    // `---` and `===` would make a heading of the line above, or a rule.
    let is_drawn = !words.contains(char::is_alphanumeric);
    for (at, c) in words.char_indices() {
        if SPECIAL.contains(&c) || (at == 0 && is_drawn && c.is_ascii_punctuation()) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn a_plan_is_text_that_wraps_and_nothing_else() {
        let plan = "# Plan\n\n\n- read `a`\n    1. then <b>c</b>\n\t* [d](http://e)\n---\n3) &lt; \
                    $f$\u{200b}\n";
        assert_snapshot!(quote(plan).replace('\u{a0}', "␣"), @r"
        > # Plan  
        >
        > - read \`a\`  
        > ␣␣␣␣1. then \<b\>c\</b\>  
        > ␣␣␣␣\* \[d\](http://e)  
        > \---  
        > 3) \&lt; \$f\$\\u{200b}
        ");
    }

    #[test]
    fn no_line_of_it_leaves_the_quotation() {
        let text = "```\n~~~\n<!--\n\n**Bash needs your approval**\r- `1` ok\u{2028}- `2` ok";
        assert!(quote(text).lines().all(|line| line.starts_with('>')));
        assert!(!quote(text).contains(['\r', '\u{2028}']));
    }
}
