//! Finds the code blocks of a Markdown document.

/// A fenced block, or lines that are indented like one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    document: String,
    /// Where it begins, from 1.
    line: usize,
    /// The word after the fence; empty without one.
    pub(super) language: String,
    pub(super) text: String,
}

impl Block {
    /// Where it stands, as editors understand it.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.document, self.line)
    }
}

pub(super) fn blocks(document: &str, markdown: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, Block)> = None;
    let mut after_blank = true;
    for (at, line) in markdown.lines().enumerate() {
        match &mut open {
            Some((fence, _)) if closes(line, fence) => blocks.extend(open.take().map(|it| it.1)),
            Some((_, block)) => block.text.extend([line, "\n"]),
            None => match fence_of(line) {
                Some(fence) => {
                    let language = line.trim().trim_start_matches(['`', '~']).to_owned();
                    open = Some((fence, begin(document, at, language)));
                }
                // Not run by anyone: such a block has no language.
                None if after_blank && line.starts_with("    ") => {
                    blocks.push(begin(document, at, String::new()));
                }
                None => {}
            },
        }
        after_blank = line.trim().is_empty();
    }
    assert!(open.is_none(), "a fence of {document} is not closed: {open:?}");
    blocks
}

fn begin(document: &str, at: usize, language: String) -> Block {
    Block { document: document.to_owned(), line: at + 1, language, text: String::new() }
}

/// The fence that a line opens, in a list too.
fn fence_of(line: &str) -> Option<String> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|first| ['`', '~'].contains(first))?;
    let fence: String = line.chars().take_while(|character| *character == mark).collect();
    (fence.len() >= 3 && !line[fence.len()..].contains(mark)).then_some(fence)
}

fn closes(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.starts_with(fence) && line.chars().all(|character| fence.starts_with(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(markdown: &str) -> Vec<(usize, String, String)> {
        let blocks = blocks("x.md", markdown).into_iter();
        blocks.map(|block| (block.line, block.language, block.text)).collect()
    }

    #[test]
    fn fences_may_be_long_and_hold_others() {
        let markdown = "a `b`\n```sh\nmake\n```\n\n````text\n```\nx\n````\n~~~\n~~~\n";
        assert_eq!(
            found(markdown),
            [
                (2, "sh".to_owned(), "make\n".to_owned()),
                (6, "text".to_owned(), "```\nx\n".to_owned()),
                (10, String::new(), String::new()),
            ]
        );
    }

    #[test]
    fn an_indented_block_is_not_overlooked() {
        assert_eq!(found("a\n\n    make up\n"), [(3, String::new(), String::new())]);
        assert_eq!(found("- a\n    goes on\n"), []);
    }
}
