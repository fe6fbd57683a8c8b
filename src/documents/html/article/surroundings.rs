//! Decides by its name, its role and its classes what an element is to the contents of a page.

use dom_query::NodeRef;

/// The place of an element among the contents of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surrounding {
    /// It is a part of them, or holds such parts.
    None,
    /// It leads to other pages.
    Navigation,
    /// It stands beside them: advertisements, controls.
    Beside,
    /// It ends a page or an article.
    Below,
    /// It is a part of them unless it is hardly more than links.
    List,
}

/// Elements that are never contents.
const BESIDE: [&str; 4] = ["form", "select", "textarea", "dialog"];

const ROLES_BESIDE: [&str; 6] =
    ["banner", "contentinfo", "search", "toolbar", "dialog", "alertdialog"];

const ROLES_OF_NAVIGATION: [&str; 3] = ["navigation", "menu", "menubar"];

/// Words in the class or the id of what stands beside the contents.
const WORDS_BESIDE: [&str; 38] = [
    "ad",
    "ads",
    "advert",
    "advertisement",
    "banner",
    "breadcrumb",
    "breadcrumbs",
    "catlinks",
    "consent",
    "cookie",
    "cookies",
    "footer",
    "gdpr",
    "masthead",
    "menu",
    "modal",
    "nav",
    "navbar",
    "navbox",
    "navigation",
    "newsletter",
    "pager",
    "pagination",
    "popup",
    "promo",
    "recommended",
    "related",
    "share",
    "sharing",
    "sidebar",
    "signup",
    "skip",
    "skyscraper",
    "social",
    "sponsor",
    "sponsored",
    "subscribe",
    "toolbar",
];

/// Words in the class of what an author sets apart within the text.
const WORDS_OF_NOTES: [&str; 16] = [
    "admonition",
    "alert",
    "attention",
    "callout",
    "caution",
    "danger",
    "definition",
    "example",
    "hint",
    "important",
    "info",
    "note",
    "notice",
    "tip",
    "warning",
    "warn",
];

/// Words in the class or the id of what readers have written.
const WORDS_OF_DISCUSSIONS: [&str; 6] =
    ["answer", "answers", "discussion", "replies", "reply", "responses"];

/// Elements that may be lists of links.
const LISTS: [&str; 8] = ["ul", "ol", "dl", "div", "section", "p", "table", "header"];

/// Decides by the element's own name, role and classes.
pub(super) fn surrounding(node: &NodeRef<'_>) -> Surrounding {
    let Some(name) = node.node_name() else { return Surrounding::None };
    let role = node.attr_or("role", "");
    if &*name == "body" || &*role == "note" {
        return Surrounding::None;
    }
    if matches!(&*name, "nav" | "menu") || ROLES_OF_NAVIGATION.contains(&&*role) {
        return Surrounding::Navigation;
    }
    if BESIDE.contains(&&*name) || ROLES_BESIDE.contains(&&*role) {
        return Surrounding::Beside;
    }
    match &*name {
        "button" if is_heading_of_accordion(node) => return Surrounding::None,
        "button" => return Surrounding::Beside,
        "footer" if !is_of_quote(node) => return Surrounding::Below,
        _ => {}
    }
    let is_block = LISTS.contains(&&*name) || &*name == "aside";
    if is_block && !has_word(node, &WORDS_OF_NOTES) && has_word(node, &WORDS_BESIDE) {
        return Surrounding::Beside;
    }
    if is_block { Surrounding::List } else { Surrounding::None }
}

/// Whether it holds what readers have written about the contents.
pub(super) fn is_discussion(node: &NodeRef<'_>) -> bool {
    let is_of_comments = words(node).any(|word| word.contains("comment"));
    is_of_comments || has_word(node, &WORDS_OF_DISCUSSIONS)
}

/// Whether a button is a heading, behind which something unfolds.
pub(in crate::documents::html) fn is_heading_of_accordion(button: &NodeRef<'_>) -> bool {
    const UNFOLDS: [&str; 4] = ["aria-expanded", "aria-controls", "data-bs-toggle", "data-toggle"];
    const HEADINGS: [&str; 8] = ["h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary"];
    let unfolds = UNFOLDS.iter().any(|attribute| button.has_attr(attribute));
    let is_tab = &*button.attr_or("role", "") == "tab";
    let is_in_heading =
        || button.ancestors_it(Some(3)).any(|above| HEADINGS.iter().any(|it| above.has_name(it)));
    unfolds || is_tab || is_in_heading()
}

/// The end of a quotation says who said it.
fn is_of_quote(node: &NodeRef<'_>) -> bool {
    node.ancestors_it(Some(3)).any(|above| above.has_name("blockquote") || above.has_name("figure"))
}

fn has_word(node: &NodeRef<'_>, known: &[&str]) -> bool {
    words(node).any(|word| known.contains(&word.as_str()))
}

/// The words of its class and its id, in small letters.
fn words(node: &NodeRef<'_>) -> impl Iterator<Item = String> {
    let names = [node.attr_or("class", ""), node.attr_or("id", "")];
    let names = names.map(|name| name.to_ascii_lowercase());
    names.into_iter().flat_map(|name| {
        let words =
            name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect::<Vec<_>>()
    })
}
