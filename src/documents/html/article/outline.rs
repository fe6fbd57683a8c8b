//! Counts the characters of a page, element by element.

use std::collections::{HashMap, HashSet};

use dom_query::{NodeId, NodeRef};

use super::NUMBER;
use super::surroundings::{Surrounding, surrounding};

/// The characters of a short sentence. A link with more is one that an author has linked whole.
const SENTENCE_CHARS: usize = 60;

/// The elements of a page in their order, each with what it holds.
pub(super) struct Outline<'a> {
    /// The first one is the body.
    pub(super) rows: Vec<Row<'a>>,
}

/// An element, with the characters in it that are no blanks.
pub(super) struct Row<'a> {
    pub(super) node: NodeRef<'a>,
    pub(super) surrounding: Surrounding,
    /// The row behind all that are in it.
    pub(super) end: usize,
    pub(super) chars: usize,
    is_in_link: bool,
    links: usize,
    /// The characters of links.
    linked: usize,
    /// The characters that are the article by the library.
    pub(super) found: usize,
    parent: usize,
}

impl<'a> Outline<'a> {
    /// `found` has the numbers of the elements whose own text is the article.
    pub(super) fn new(body: NodeRef<'a>, found: &HashSet<usize>) -> Self {
        let mut rows: Vec<Row<'a>> = Vec::new();
        let mut places: HashMap<NodeId, usize> = HashMap::new();
        let elements = body.descendants_it().filter(NodeRef::is_element);
        for node in [body].into_iter().chain(elements) {
            let above = node.parent().and_then(|parent| places.get(&parent.id).copied());
            let parent = above.unwrap_or_default();
            let is_in_link =
                node.has_name("a") || rows.get(parent).is_some_and(|row| row.is_in_link);
            let own = own_chars(&node);
            let number = node.attr(NUMBER).and_then(|number| number.parse().ok());
            let is_found = number.is_some_and(|number: usize| found.contains(&number));
            places.insert(node.id, rows.len());
            rows.push(Row {
                node,
                surrounding: surrounding(&node),
                end: 0,
                chars: own,
                is_in_link,
                links: usize::from(node.has_name("a")),
                linked: if is_in_link { own } else { 0 },
                found: if is_found { own } else { 0 },
                parent,
            });
        }
        let mut outline = Self { rows };
        outline.sum_up();
        outline
    }

    /// Adds to each row what is in it, from the last one to the first.
    fn sum_up(&mut self) {
        for at in (0..self.rows.len()).rev() {
            let row = &mut self.rows[at];
            row.end = row.end.max(at + 1);
            if at == 0 {
                return;
            }
            let (above, inside) = self.rows.split_at_mut(at);
            let row = &inside[0];
            let above = &mut above[row.parent];
            above.end = above.end.max(row.end);
            above.chars += row.chars;
            above.links += row.links;
            above.linked += row.linked;
            above.found += row.found;
        }
    }

    /// The characters of the page but for what stands beside and below its contents.
    pub(super) fn content(&self) -> usize {
        let mut chars = self.rows.first().map_or(0, |body| body.chars);
        let mut at = 1;
        while let Some(row) = self.rows.get(at) {
            let is_around = !matches!(row.surrounding, Surrounding::None | Surrounding::List);
            if row.found == 0 && is_around {
                chars -= row.chars;
                at = row.end;
            } else {
                at += 1;
            }
        }
        chars
    }
}

impl Row<'_> {
    /// Whether two of three characters are of links that are no sentences.
    pub(super) fn is_of_links(&self) -> bool {
        2 * self.chars <= 3 * self.linked && self.linked < SENTENCE_CHARS * self.links
    }
}

/// The characters of the texts directly in the element.
fn own_chars(node: &NodeRef<'_>) -> usize {
    let texts = node.children_it(false).filter(NodeRef::is_text);
    texts.map(|text| text.text().chars().filter(|c| !c.is_whitespace()).count()).sum()
}
