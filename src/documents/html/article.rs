//! Finds where the article of a page stands, and takes out what stands around it.
//!
//! A library finds the article. It drops much that belongs to one: admonitions, the questions of
//! an accordion, captions, answers below a question. So only the place comes from it, and what
//! stands in that place stays, but for what no reader came for.

use std::collections::HashSet;

use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability};
use serde::{Deserialize, Serialize};
use url::Url;

use self::outline::{Outline, Row};
pub(super) use self::surroundings::is_heading_of_accordion;
use self::surroundings::{Surrounding, is_discussion};
use super::parsing::{self, Syntax};

mod outline;
mod surroundings;

/// A shorter article is taken for a part of the page that is none, such as a notice.
const MIN_CHARS: usize = 200;

/// The most elements of a page in which the article is sought.
const MAX_ELEMENTS: usize = 100_000;

/// Numbers the elements that have a text of their own.
const NUMBER: &str = "data-toolhand-number";

/// The part of a page that is not shown, in characters that are no blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) chars: usize,
    /// The characters of the whole page.
    pub(crate) of: usize,
}

/// Leaves of the page its article with what belongs to it. `None`: the whole page stays, because
/// it has no article, or one that is a small part of it.
pub(super) fn keep_article(document: &Document, base: Option<&Url>) -> Option<LeftOut> {
    number(document)?;
    let found = found_numbers(document, base)?;
    let body = document.body()?;
    let outline = Outline::new(body, &found);
    let extract = ArticleExtract::new(&outline)?;
    let left_out = extract.left_out(&outline);
    extract.apply(&outline, &body);
    (0 < left_out.chars).then_some(left_out)
}

/// Gives each element with a text of its own a number that no page can forge. `None`: there are
/// too many.
fn number(document: &Document) -> Option<()> {
    let root = document.root();
    let elements: Vec<NodeRef<'_>> = root.descendants_it().filter(NodeRef::is_element).collect();
    if MAX_ELEMENTS < elements.len() {
        return None;
    }
    for (number, node) in elements.into_iter().enumerate() {
        if node.children_it(false).any(|child| child.is_nonempty_text()) {
            node.set_attr(NUMBER, &number.to_string());
        } else {
            node.remove_attr(NUMBER);
        }
    }
    Some(())
}

/// The numbers of the elements that are the article by the library.
fn found_numbers(document: &Document, base: Option<&Url>) -> Option<HashSet<usize>> {
    let config = Config { max_elements_to_parse: MAX_ELEMENTS, ..Config::default() };
    let document = document.clone();
    let reader = Readability::with_document(document, base.map(Url::as_str), Some(config));
    let article = reader.ok()?.parse().ok()?;
    let article = parsing::parse(&article.content, Syntax::Html);
    let root = article.root();
    let numbers = root.descendants_it().filter_map(|node| node.attr(NUMBER));
    Some(numbers.filter_map(|number| number.parse().ok()).collect())
}

/// The parts of a page that stay.
struct ArticleExtract {
    /// The row of the smallest element that holds the whole article.
    root: usize,
    /// Discussions outside of it, in their order.
    discussions: Vec<usize>,
    /// Elements in these that are left out.
    dropped: Vec<usize>,
}

impl ArticleExtract {
    fn new(outline: &Outline<'_>) -> Option<Self> {
        let rows = &outline.rows;
        let found = rows.first()?.found;
        if found < MIN_CHARS {
            return None;
        }
        let root = rows.iter().rposition(|row| row.found == found)?;
        let discussions = discussions(outline, root);
        let roots = [&[root][..], &discussions].concat();
        let dropped = roots.iter().flat_map(|root| dropped(outline, *root)).collect();
        let extract = Self { root, discussions, dropped };
        let is_small = 2 * extract.shown(outline) < outline.content();
        (!is_small).then_some(extract)
    }

    /// The characters that stay.
    fn shown(&self, outline: &Outline<'_>) -> usize {
        let chars = |rows: &[usize]| rows.iter().map(|row| outline.rows[*row].chars).sum::<usize>();
        chars(&[self.root]) + chars(&self.discussions) - chars(&self.dropped)
    }

    fn left_out(&self, outline: &Outline<'_>) -> LeftOut {
        let of = outline.rows.first().map_or(0, |body| body.chars);
        LeftOut { chars: of - self.shown(outline), of }
    }

    fn apply(&self, outline: &Outline<'_>, body: &NodeRef<'_>) {
        for row in &self.dropped {
            outline.rows[*row].node.remove_from_parent();
        }
        if self.root == 0 {
            return;
        }
        let kept = [&[self.root][..], &self.discussions].concat();
        for row in &kept {
            outline.rows[*row].node.remove_from_parent();
        }
        body.remove_children();
        for row in kept {
            body.append_child(&outline.rows[row].node);
        }
    }
}

/// The outermost discussions outside of the article, which what stands around it may hold.
fn discussions(outline: &Outline<'_>, root: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(row) = outline.rows.get(at) {
        let holds_root = at <= root && root < row.end;
        if at == root || row.chars == 0 {
            at = row.end;
        } else if !holds_root && is_discussion(&row.node) && !row.is_of_links() {
            found.push(at);
            at = row.end;
        } else if !holds_root && is_beside(row) {
            at = row.end;
        } else {
            at += 1;
        }
    }
    found
}

/// Whether it stands beside the contents, and not below them.
fn is_beside(row: &Row<'_>) -> bool {
    matches!(row.surrounding, Surrounding::Navigation | Surrounding::Beside)
}

/// The outermost elements below the row that no reader came for.
fn dropped(outline: &Outline<'_>, root: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = root + 1;
    while at < outline.rows[root].end {
        let row = &outline.rows[at];
        let is_dropped = 0 < row.chars
            && is_left_out(row, outline.rows[root].found)
            && !holds_discussion(outline, at);
        if is_dropped {
            found.push(at);
        }
        at = if is_dropped { row.end } else { at + 1 };
    }
    found
}

/// Whether the element ends the page and holds what readers have written.
fn holds_discussion(outline: &Outline<'_>, at: usize) -> bool {
    let row = &outline.rows[at];
    let mut inside = outline.rows[at..row.end].iter();
    row.surrounding == Surrounding::Below
        && inside.any(|row| 0 < row.chars && is_discussion(&row.node))
}

/// Whether the element is left out of the one that has so many characters of the article. What the
/// library has taken for the article stays, but for navigation.
fn is_left_out(row: &Row<'_>, found: usize) -> bool {
    match row.surrounding {
        Surrounding::None => false,
        Surrounding::Navigation => 2 * row.found <= found,
        Surrounding::Beside | Surrounding::Below => row.found == 0,
        Surrounding::List => row.found == 0 && row.is_of_links(),
    }
}

#[cfg(test)]
mod tests;
