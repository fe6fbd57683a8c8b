//! Edits the tree of a page: takes out what nobody sees, and puts what Markdown cannot say into
//! elements that it can.

use std::collections::HashSet;

use dom_query::{Document, NodeRef};
use url::Url;

use super::article::is_heading_of_accordion;
use super::{tables, unseen};
use crate::text;

/// Longer ones are pictures and programs inside the page.
const MAX_TARGET_CHARS: usize = 2_000;

const MAX_TEXT_BYTES: usize = 2_000;

/// Removes scripts, styles, comments and what is hidden. What is shown without scripts is shown
/// here, and so is what a reader can unfold.
pub(super) fn remove_unseen(document: &Document) {
    let root = document.root();
    let unfolded = unfolded_ids(document);
    let is_unseen = |node: &NodeRef<'_>| is_unseen(node, &unfolded);
    let unseen: Vec<_> = root.descendants_it().filter(is_unseen).collect();
    for node in unseen {
        node.remove_from_parent();
    }
    for node in document.select("noscript").nodes() {
        // Without a text it holds pictures that count readers.
        if node.text().trim().is_empty() {
            node.remove_from_parent();
        } else {
            node.rename("div");
        }
    }
}

fn is_unseen(node: &NodeRef<'_>, unfolded: &HashSet<String>) -> bool {
    let Some(name) = node.node_name() else { return node.is_comment() };
    let is_in_head = || node.parent().is_some_and(|parent| parent.has_name("head"));
    let is_unfolded = || node.id_attr().is_some_and(|id| unfolded.contains(&*id));
    let is_hidden = || unseen::is_hidden(&name, |attribute| node.attr(attribute));
    unseen::has_no_text(&name) || is_in_head() || (is_hidden() && !is_unfolded())
}

/// The ids of what buttons of the page unfold, each of which a reader sees.
fn unfolded_ids(document: &Document) -> HashSet<String> {
    let mut ids = HashSet::new();
    for button in document.select("[aria-expanded], [role=tab]").nodes() {
        if button.text().trim().is_empty() {
            continue;
        }
        for attribute in ["aria-controls", "data-bs-target", "data-target"] {
            let controlled = button.attr_or(attribute, "");
            let named = controlled.split_ascii_whitespace();
            ids.extend(named.map(|id| id.trim_start_matches('#').to_owned()));
        }
    }
    ids
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
    set_captions_apart(document);
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
    for button in document.select("button").nodes() {
        let is_in_heading = button.ancestors_it(Some(3)).any(|above| is_heading(&above));
        if is_heading_of_accordion(button) && !is_in_heading {
            button.rename("strong");
            button.wrap_html("<p></p>");
        }
    }
    for (name, plain) in [("dd", "p"), ("dl", "div"), ("details", "div")] {
        for node in document.select(name).nodes() {
            node.rename(plain);
        }
    }
}

fn is_heading(node: &NodeRef<'_>) -> bool {
    ["h1", "h2", "h3", "h4", "h5", "h6"].iter().any(|name| node.has_name(name))
}

/// Makes captions paragraphs of their own: of a table in front of it, where Markdown has a place.
fn set_captions_apart(document: &Document) {
    for caption in document.select("table caption").nodes() {
        let table = caption.ancestors_it(None).find(|above| above.has_name("table"));
        if let Some(table) = table {
            caption.rename("p");
            table.insert_before(caption);
        }
    }
    for caption in document.select("figcaption").nodes() {
        caption.rename("p");
    }
}
