//! Parses a page into a tree that is not too deep: the time that parsers need grows with the square
//! of the depth. Tags that nest too deeply are left out, and their text stays unless it is hidden.
//!
//! The parser's own tokens are looked at on their way to the tree, so that there is one opinion on
//! what is a tag, a comment or a script.

use std::cell::{Cell, RefCell};

use dom_query::{Document, NodeId};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{Tracer, TreeBuilder, TreeBuilderOpts, TreeSink as _};

use self::counting::CountingSink;
use self::left_out::{Closing, LeftOutTags};
use super::unseen;

mod counting;
mod left_out;
mod prolog;

/// The most elements inside of one another. Pages for people have some dozens, and browsers stop at
/// 512.
const MAX_DEPTH: usize = 256;

/// The most elements of a page, which take a quarter of the worker's memory. The parser repeats
/// formatting in each paragraph, so that a short page can have very many.
const MAX_ELEMENTS: usize = 400_000;

/// Elements that have no end.
const VOID: [&str; 16] = [
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input",
    "link", "meta", "param", "source", "wbr",
];

/// By which rules a page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Html,
    /// Every element may end itself, as in `<script/>`.
    Xhtml,
}

impl Syntax {
    /// Its name in the arguments of the worker.
    pub(super) fn as_argument(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Xhtml => "xhtml",
        }
    }

    pub(super) fn from_argument(argument: &str) -> Self {
        if argument == Self::Xhtml.as_argument() { Self::Xhtml } else { Self::Html }
    }
}

/// The tree of a page, without comments.
pub(super) fn parse(html: &str, syntax: Syntax) -> Document {
    let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let sink = BoundedSink {
        builder: TreeBuilder::new(CountingSink::default(), options),
        syntax,
        left_out: RefCell::default(),
        depth: Cell::new(0),
        elements_then: Cell::new(0),
    };
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(match syntax {
        Syntax::Html => html,
        Syntax::Xhtml => prolog::without_prolog(html),
    }));
    // It pauses after each script.
    while !input.is_empty() {
        let _ = tokenizer.feed(&input);
    }
    tokenizer.end();
    tokenizer.sink.builder.sink.finish()
}

/// Hands the tokens of a page on to the builder of its tree, but for those that nest too deeply.
struct BoundedSink {
    builder: TreeBuilder<NodeId, CountingSink>,
    syntax: Syntax,
    left_out: RefCell<LeftOutTags>,
    /// How many elements the builder had open when they were counted.
    depth: Cell<usize>,
    /// How many elements there were then.
    elements_then: Cell<usize>,
}

impl TokenSink for BoundedSink {
    type Handle = NodeId;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<NodeId> {
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => self.start_tag(tag, line),
            Token::TagToken(tag) => self.end_tag(tag, line),
            Token::CommentToken(_) | Token::ParseError(_) => TokenSinkResult::Continue,
            Token::CharacterTokens(_) | Token::NullCharacterToken
                if self.left_out.borrow().is_hidden() =>
            {
                TokenSinkResult::Continue
            }
            token => self.builder.process_token(token, line),
        }
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        // This is asked for CDATA sections, which are text in XML.
        self.syntax == Syntax::Xhtml || self.is_foreign()
    }
}

impl BoundedSink {
    fn start_tag(&self, tag: Tag, line: u64) -> TokenSinkResult<NodeId> {
        let is_foreign = self.is_foreign();
        let ends_itself = tag.self_closing && (is_foreign || self.syntax == Syntax::Xhtml);
        let is_void = VOID.contains(&&*tag.name) && !is_foreign;
        if self.is_exhausted() || !self.left_out.borrow().is_empty() || self.is_full() {
            let is_kept = is_void && !self.is_exhausted() && !self.left_out.borrow().is_hidden();
            if !is_kept {
                return self.leave_out(&tag, is_void || ends_itself, is_foreign);
            }
        }
        let is_ended_here = ends_itself && !is_void && !is_foreign && !is_embedded(&tag.name);
        let end =
            is_ended_here.then(|| Tag { kind: TagKind::EndTag, attrs: Vec::new(), ..tag.clone() });
        let result = self.builder.process_token(Token::TagToken(tag), line);
        let Some(end) = end else { return result };
        // What the builder asks for now is about an element that has ended.
        let _ = self.builder.process_token(Token::TagToken(end), line);
        TokenSinkResult::Continue
    }

    /// Goes on without a start tag, whose element has no end if `is_alone`.
    fn leave_out(&self, tag: &Tag, is_alone: bool, is_foreign: bool) -> TokenSinkResult<NodeId> {
        if is_alone {
            return TokenSinkResult::Continue;
        }
        let is_unseen = unseen::is_unseen(&tag.name, |name| {
            tag.attrs.iter().find(|attr| &*attr.name.local == name).map(|attr| &*attr.value)
        });
        self.left_out.borrow_mut().open(&tag.name, is_unseen);
        match &*tag.name {
            _ if is_foreign => TokenSinkResult::Continue,
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "style" | "xmp" | "iframe" | "noembed" | "noframes" => {
                TokenSinkResult::RawData(RawKind::Rawtext)
            }
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            "plaintext" => TokenSinkResult::Plaintext,
            _ => TokenSinkResult::Continue,
        }
    }

    fn end_tag(&self, tag: Tag, line: u64) -> TokenSinkResult<NodeId> {
        if self.left_out.borrow().is_empty() && !self.is_exhausted() {
            return self.builder.process_token(Token::TagToken(tag), line);
        }
        let closing = self.left_out.borrow_mut().close(&tag.name);
        if closing == Closing::OfTree && !self.is_exhausted() {
            let before = self.count();
            let result = self.builder.process_token(Token::TagToken(tag), line);
            if self.count() < before {
                self.left_out.replace(LeftOutTags::default());
            }
            return result;
        }
        TokenSinkResult::Continue
    }

    /// Whether what comes now is in an SVG picture or a formula, where other rules hold.
    fn is_foreign(&self) -> bool {
        let left_out = self.left_out.borrow().is_foreign();
        left_out.unwrap_or_else(|| {
            self.builder.adjusted_current_node_present_but_not_in_html_namespace()
        })
    }

    /// Whether the tree has all the elements that it may have.
    fn is_exhausted(&self) -> bool {
        self.elements() >= MAX_ELEMENTS
    }

    /// Whether nothing may be opened in what is open. The open elements are counted when there
    /// may be so many: each was made once, and can be counted twice.
    fn is_full(&self) -> bool {
        let since = self.elements() - self.elements_then.get();
        self.depth.get() + 2 * since >= MAX_DEPTH && self.count() >= MAX_DEPTH
    }

    /// Counts the open elements, and those of the list of formatting, which the builder searches
    /// as often.
    fn count(&self) -> usize {
        let counter = HandleCounter::default();
        self.builder.trace_handles(&counter);
        self.depth.set(counter.0.get());
        self.elements_then.set(self.elements());
        counter.0.get()
    }

    fn elements(&self) -> usize {
        self.builder.sink.elements()
    }
}

/// Whether an element that ends itself is known to the builder as such.
fn is_embedded(name: &str) -> bool {
    matches!(name, "svg" | "math")
}

#[derive(Default)]
struct HandleCounter(Cell<usize>);

impl Tracer for HandleCounter {
    type Handle = NodeId;

    fn trace_handle(&self, _: &NodeId) {
        self.0.set(self.0.get() + 1);
    }
}

#[cfg(test)]
mod tests;
