//! Edits the tree of a page: takes out what nobody sees, and puts what Markdown cannot say into
//! elements that it can.

use dom_query::{Document, NodeRef};
use url::Url;

use super::{tables, unseen};
use crate::text;

/// Longer ones are pictures and programs inside the page.
const MAX_TARGET_CHARS: usize = 2_000;

const MAX_TEXT_BYTES: usize = 2_000;

/// Removes scripts, styles, comments and what is hidden.
pub(super) fn remove_unseen(document: &Document) {
    let root = document.root();
    let unseen: Vec<_> = root.descendants_it().filter(is_unseen).collect();
    for node in unseen {
        node.remove_from_parent();
    }
}

fn is_unseen(node: &NodeRef<'_>) -> bool {
    let Some(name) = node.node_name() else { return node.is_comment() };
    let is_in_head = || node.parent().is_some_and(|parent| parent.has_name("head"));
    unseen::is_unseen(&name, |attribute| node.attr(attribute)) || is_in_head()
}

/// The URL that targets of the page are relative to: what the page says, if it stands on the web.
pub(super) fn base(document: &Document, url: Option<&str>) -> Option<Url> {
    let own = url.and_then(|url| Url::parse(url).ok());
    let said = document.select_single("base[href]").attr("href");
    let said = said.and_then(|href| match &own {
        Some(own) => own.join(href.trim()).ok(),
        None => Url::parse(href.trim()).ok(),
    });
    said.filter(|said| matches!(said.scheme(), "http" | "https")).or(own)
}

/// Splits long texts. The writer of HTML, which the search for the article uses, looks to the end of
/// a text from each of its ampersands.
pub(super) fn split_long_texts(document: &Document) {
    let root = document.root();
    let texts: Vec<_> = root.descendants_it().filter(NodeRef::is_text).collect();
    for node in texts {
        let whole = node.text();
        let mut rest = &*whole;
        while rest.len() > MAX_TEXT_BYTES {
            let part = text::prefix(rest, MAX_TEXT_BYTES);
            node.insert_before(&document.tree.new_text(part));
            rest = &rest[part.len()..];
        }
        if rest.len() < whole.len() {
            node.set_text(rest);
        }
    }
}

/// The characters of the texts and attributes of a page.
pub(super) fn characters(document: &Document, mut seen: impl FnMut(char)) {
    document.text().chars().for_each(&mut seen);
    for node in document.root().descendants_it() {
        for attribute in node.attrs() {
            attribute.value.chars().for_each(&mut seen);
        }
    }
}

/// Prepares what is left for being written as Markdown. `ampersand` stands for an ampersand in a
/// target, which the writer would turn into an entity.
pub(super) fn prepare(document: &Document, base: Option<&Url>, ampersand: &str) {
    for (elements, attribute) in [("a[href]", "href"), ("img[src]", "src")] {
        for node in document.select(elements).nodes() {
            retarget(node, attribute, base, ampersand);
        }
    }
    break_lines_of_code(document);
    tables::make_rectangular(document);
    name_first_rows(document);
    spread_lists_of_terms(document);
}

/// Makes a target absolute, and drops one that is none for a reader.
fn retarget(node: &NodeRef<'_>, attribute: &str, base: Option<&Url>, ampersand: &str) {
    let target = node.attr(attribute).unwrap_or_default();
    let target = match base {
        Some(base) => base.join(target.trim()).ok(),
        None => Url::parse(target.trim()).ok(),
    };
    let target = target.filter(|url| matches!(url.scheme(), "http" | "https" | "mailto"));
    match target.filter(|url| url.as_str().len() <= MAX_TARGET_CHARS) {
        Some(url) => node.set_attr(attribute, &url.as_str().replace('&', ampersand)),
        None => node.remove_attr(attribute),
    }
}

/// Breaks the lines of a text that stays as it is, where elements do.
fn break_lines_of_code(document: &Document) {
    for node in document.select("pre br").nodes() {
        node.insert_before(&document.tree.new_text("\n"));
        node.remove_from_parent();
    }
    for node in document.select("pre div, pre p, pre li, pre tr").nodes() {
        let has_more = node.next_sibling().is_some_and(|next| !next.text().starts_with('\n'));
        if has_more && !node.text().ends_with('\n') {
            node.append_child(&document.tree.new_text("\n"));
        }
    }
}

/// A table of Markdown must have a row of headings.
fn name_first_rows(document: &Document) {
    for table in document.select("table").nodes() {
        let first = table.descendants_it().find(|node| node.has_name("tr"));
        for cell in first.iter().flat_map(NodeRef::children) {
            if cell.has_name("td") {
                cell.rename("th");
            }
        }
    }
}

/// Puts terms, their descriptions and what can be unfolded into paragraphs of their own.
fn spread_lists_of_terms(document: &Document) {
    for term in document.select("dt, summary").nodes() {
        term.rename("strong");
        term.wrap_html("<p></p>");
    }
    for (name, plain) in [("dd", "p"), ("dl", "div"), ("details", "div")] {
        for node in document.select(name).nodes() {
            node.rename(plain);
        }
    }
}
