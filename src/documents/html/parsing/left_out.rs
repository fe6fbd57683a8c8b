//! Remembers the tags that were left out of a tree and are not ended yet, so that what they hide
//! stays hidden, and their ends end nothing else. Pure.
//!
//! It knows less than the parser does. In doubt something stays open, and what is hidden with it.

use std::collections::HashMap;

use html5ever::LocalName;

/// What an end tag does not reach through: those of the parser, and lists, for their items.
const BARRIERS: [&str; 20] = [
    "annotation-xml",
    "applet",
    "button",
    "desc",
    "foreignobject",
    "marquee",
    "math",
    "mi",
    "mn",
    "mo",
    "ms",
    "mtext",
    "object",
    "ol",
    "select",
    "svg",
    "table",
    "template",
    "title",
    "ul",
];

/// End tags that end whatever is open inside of their elements, too. Others reach the tree only
/// when nothing is left out.
const THOROUGH: [&str; 54] = [
    "applet",
    "button",
    "marquee",
    "math",
    "object",
    "select",
    "svg",
    "template",
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "caption",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "html",
    "li",
    "listing",
    "main",
    "menu",
    "nav",
    "ol",
    "p",
    "pre",
    "search",
    "section",
    "summary",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "ul",
    "table",
];

/// What an end tag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// It ends a tag that was left out, or nothing.
    LeftOut,
    /// It is for an element of the tree.
    OfTree,
}

/// Tags without elements in the tree.
#[derive(Default)]
pub(super) struct LeftOutTags {
    /// Those outside of all barriers, and for each open barrier those inside of it.
    outside: Names,
    barriers: Vec<Barrier>,
    count: usize,
    /// How many of them hide what is in them.
    hiding: usize,
}

/// For each name, which of its open tags hide what is in them.
type Names = HashMap<LocalName, Vec<bool>>;

struct Barrier {
    name: LocalName,
    hides: bool,
    inside: Names,
}

impl LeftOutTags {
    pub(super) fn open(&mut self, name: &LocalName, hides: bool) {
        self.count += 1;
        self.hiding += usize::from(hides);
        if BARRIERS.contains(&&**name) {
            self.barriers.push(Barrier { name: name.clone(), hides, inside: Names::new() });
        } else {
            self.innermost().entry(name.clone()).or_default().push(hides);
        }
    }

    pub(super) fn close(&mut self, name: &LocalName) -> Closing {
        if let Some(last) = self.barriers.pop_if(|barrier| barrier.name == *name) {
            for hides in last.inside.into_values().flatten().chain([last.hides]) {
                self.forget(hides);
            }
            return Closing::LeftOut;
        }
        if let Some(hides) = self.innermost().get_mut(name).and_then(Vec::pop) {
            self.forget(hides);
            return Closing::LeftOut;
        }
        if self.barriers.is_empty() && THOROUGH.contains(&&**name) {
            Closing::OfTree
        } else {
            Closing::LeftOut
        }
    }

    /// Whether no tag is left out that has not ended.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether one of them hides what comes now.
    pub(super) fn is_hidden(&self) -> bool {
        self.hiding > 0
    }

    /// Whether what comes now is in an SVG picture or a formula, if that is known here.
    pub(super) fn is_foreign(&self) -> Option<bool> {
        self.barriers.last().map(|barrier| matches!(&*barrier.name, "svg" | "math"))
    }

    fn forget(&mut self, hides: bool) {
        self.count -= 1;
        self.hiding -= usize::from(hides);
    }

    fn innermost(&mut self) -> &mut Names {
        match self.barriers.last_mut() {
            Some(barrier) => &mut barrier.inside,
            None => &mut self.outside,
        }
    }
}
