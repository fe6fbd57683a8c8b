//! Walks the syntax tree and collects the parts of a command line.

use std::collections::HashMap;

use tree_sitter::{Node, Tree};

use super::Doubt;
use super::exit_codes::ExitOne;
use super::heredocs::CutLine;
use super::hidden::check_hidden;
use super::lexer::Item;
use super::part::{Assignment, Part};
use super::syntax::{children, outermost};
use super::word::{Word, is_name};

use self::exit_one::exit_one;
use self::simple::holds_subscript;

mod exit_one;
mod simple;

/// The node kinds of lines that can be proven read-only.
const PLAIN_KINDS: [&str; 16] = [
    "program",
    "list",
    "pipeline",
    "command",
    "command_name",
    "word",
    "string",
    "string_content",
    "raw_string",
    "number",
    "concatenation",
    "&&",
    "||",
    ";",
    "|",
    "\"",
];

/// A person approves what they can read. The parts beyond this would hide among the others.
const MAX_PARTS: usize = 20;

#[derive(Debug)]
pub(super) struct Collected {
    pub(super) parts: Vec<Part>,
    /// Consists of nothing but the kinds of nodes that read-only lines may have.
    pub(super) is_plain: bool,
    /// Why it is more than commands that only read, whatever its parts are.
    pub(super) beyond_reading: Option<&'static str>,
    /// The parts run one after the other, each once.
    pub(super) is_ordered: bool,
    /// A function is defined, which may have the name of a program.
    pub(super) defines_function: bool,
    /// How many words stand for the output of `cat`.
    pub(super) literals: usize,
    pub(super) exit_one: ExitOne,
}

/// The kinds of nodes whose parts run at once, again or later.
const UNORDERED_KINDS: [&str; 7] = [
    "pipeline",
    "&",
    "process_substitution",
    "for_statement",
    "c_style_for_statement",
    "while_statement",
    "function_definition",
];

/// What a here-document's first line must not end in: bash would look for its body elsewhere.
const SPANNING_KINDS: [&str; 10] = [
    "string",
    "raw_string",
    "ansi_c_string",
    "translated_string",
    "command_substitution",
    "process_substitution",
    "expansion",
    "arithmetic_expansion",
    "array",
    "comment",
];

pub(super) fn collect(tree: &Tree, cut: &CutLine<'_>) -> Result<Collected, Doubt> {
    let root = tree.root_node();
    let line = cut.text.as_str();
    check_hidden(root, line)?;
    if !cut.replacements.is_empty() {
        check_first_lines(root, cut)?;
    }
    let mut collector =
        Collector { cut, line, parts: Vec::new(), of_nodes: HashMap::new(), literals: 0 };
    // The root leaves blanks at both ends out.
    collector.check_gap(0, root.start_byte())?;
    collector.check_gap(root.end_byte(), line.len())?;
    collector.visit(root, Context::default(), &[])?;
    let met: usize = collector.parts.iter().map(|part| part.documents().count()).sum();
    if met + collector.literals != cut.replacements.len() {
        return Err(Doubt::Syntax);
    }
    if collector.parts.iter().any(is_retold) {
        return Err(Doubt::Syntax);
    }
    let exit_one = exit_one(root, &collector);
    Ok(Collected {
        exit_one,
        defines_function: !outermost(root, &["function_definition"]).is_empty(),
        literals: collector.literals,
        parts: collector.parts,
        is_plain: is_plain(root),
        beyond_reading: beyond_reading(root),
        is_ordered: outermost(root, &UNORDERED_KINDS).is_empty(),
    })
}

/// Whether bash may run another text than this one: it writes that of a substitution anew, and puts
/// what follows a document of no program in the wrong place.
fn is_retold(part: &Part) -> bool {
    part.is_substituted && part.words.is_empty() && part.documents().next().is_some()
}

fn check_first_lines(node: Node<'_>, cut: &CutLine<'_>) -> Result<(), Doubt> {
    let spans = SPANNING_KINDS.contains(&node.kind());
    if spans && cut.holds_first_line_end(&node.byte_range()) {
        return Err(Doubt::Syntax);
    }
    children(node).into_iter().try_for_each(|child| check_first_lines(child, cut))
}

/// The first thing in the tree that no list of programs can answer for.
fn beyond_reading(node: Node<'_>) -> Option<&'static str> {
    match node.kind() {
        "function_definition" => Some("it gives the name of a program another meaning"),
        "&" => Some("a part of it goes to the background"),
        _ => children(node).into_iter().find_map(beyond_reading),
    }
}

fn is_plain(node: Node<'_>) -> bool {
    PLAIN_KINDS.contains(&node.kind()) && children(node).into_iter().all(is_plain)
}

#[derive(Clone, Copy, Default)]
struct Context {
    is_substituted: bool,
    is_repeated: bool,
    is_fed: bool,
    after_success_of: Option<usize>,
}

struct Collector<'a> {
    cut: &'a CutLine<'a>,
    /// The cut text, which the tree is of.
    line: &'a str,
    parts: Vec<Part>,
    /// The part of each node that is a simple command.
    of_nodes: HashMap<usize, usize>,
    /// How many here-documents stand for their text in a word.
    literals: usize,
}

impl Collector<'_> {
    /// Visits a statement with the redirects that stand behind it. Returns the part whose success
    /// is the success of the statement, if that is a single one.
    fn visit(
        &mut self,
        node: Node<'_>,
        context: Context,
        redirects: &[Node<'_>],
    ) -> Result<Option<usize>, Doubt> {
        let inner = Context { after_success_of: None, ..context };
        let repeated = Context { is_repeated: true, ..inner };
        match node.kind() {
            "test_command" if self.text(node).starts_with("[[") => {
                let index = self.parts.len();
                self.evaluation(node, inner, "[[")?;
                // What is substituted in it comes before.
                self.of_nodes.insert(node.id(), self.parts.len().saturating_sub(1).max(index));
            }
            "command"
            | "declaration_command"
            | "unset_command"
            | "variable_assignment"
            | "variable_assignments"
            | "test_command" => return self.simple(node, context, redirects),
            "redirected_statement" => return self.redirected(node, context, redirects),
            "list" => return self.list(node, inner, redirects),
            "pipeline" | "negated_command" => {
                return self.with_last(node, inner, redirects).map(|()| None);
            }
            "compound_statement" if self.text(node).starts_with("((") => {
                self.evaluation(node, inner, "((")?;
            }
            "program"
            | "subshell"
            | "compound_statement"
            | "if_statement"
            | "elif_clause"
            | "else_clause"
            | "case_statement"
            | "case_item"
            | "command_substitution"
            | "process_substitution" => self.each(node, inner)?,
            "while_statement" | "for_statement" | "do_group" => self.each(node, repeated)?,
            "function_definition" => self.function(node, repeated)?,
            "c_style_for_statement" => {
                self.evaluation(node, repeated, "((")?;
                let body = node.child_by_field_name("body").ok_or(Doubt::Syntax)?;
                self.visit(body, repeated, &[])?;
            }
            _ => return Err(Doubt::Syntax),
        }
        self.compound_redirects(redirects, context)?;
        Ok(None)
    }

    fn text(&self, node: Node<'_>) -> &str {
        &self.line[node.byte_range()]
    }

    /// The node as it is written in the line, with its here-documents.
    fn written(&self, node: Node<'_>) -> String {
        self.cut.written(node.byte_range()).to_owned()
    }

    /// Only blanks and line ends may stand between two nodes. The grammar also skips escaped
    /// blanks, which are words to bash.
    fn check_gap(&self, start: usize, end: usize) -> Result<(), Doubt> {
        let gap = self.line.get(start..end).unwrap_or_default().replace("\\\n", "");
        if gap.chars().all(|c| " \t\n".contains(c)) { Ok(()) } else { Err(Doubt::Syntax) }
    }

    /// As `check_gap`, within one simple command, which a line end would end.
    fn check_inner_gap(&self, start: usize, end: usize) -> Result<(), Doubt> {
        let gap = self.line.get(start..end).unwrap_or_default().replace("\\\n", "");
        if gap.chars().all(|c| " \t".contains(c)) { Ok(()) } else { Err(Doubt::Syntax) }
    }

    /// Visits all children of a compound statement.
    fn each(&mut self, node: Node<'_>, context: Context) -> Result<(), Doubt> {
        let all = self.checked_children(node)?;
        let is_loop = node.kind() == "for_statement";
        let is_case = node.kind().starts_with("case");
        let mut variable = None;
        for child in all {
            match child.kind() {
                "comment" => self.comment(child)?,
                "variable_name" if is_loop => {
                    variable = Some(self.parts.len());
                    self.loop_variable(child, context)?;
                }
                "extglob_pattern" if is_case => self.case_pattern(child)?,
                _ if !child.is_named() => self.token(child)?,
                _ if (is_loop || is_case) && is_literal(child) => {
                    let items = self.words(child.byte_range(), child, context, false)?;
                    self.loop_values(child, &items, context)?;
                    self.note_values(variable, items);
                }
                // `$(< file)`
                "file_redirect" if node.kind() == "command_substitution" => {
                    self.compound_redirects(&[child], context)?;
                }
                _ => {
                    self.visit(child, context, &[])?;
                }
            }
        }
        Ok(())
    }

    fn checked_children<'t>(&self, node: Node<'t>) -> Result<Vec<Node<'t>>, Doubt> {
        let all = children(node);
        let mut at = node.start_byte();
        for child in &all {
            self.check_gap(at, child.start_byte())?;
            let is_operator = |node: Node<'_>| {
                node.start_byte() < node.end_byte()
                    && self.text(node).bytes().all(|byte| b"<>&|;".contains(&byte))
            };
            // Two operators side by side are one to bash.
            let before = self.line[..child.start_byte()].chars().next_back();
            if is_operator(*child) && before.is_some_and(|c| "<>&|;".contains(c)) {
                return Err(Doubt::Syntax);
            }
            at = child.end_byte();
        }
        self.check_gap(at, node.end_byte())?;
        Ok(all)
    }

    /// Keywords must stand alone: `}` in `}b` is no keyword to bash.
    fn token(&self, node: Node<'_>) -> Result<(), Doubt> {
        let text = self.text(node);
        let is_operator = text.chars().all(|c| "<>&|;()\n$`".contains(c));
        let is_border = |c: Option<char>| c.is_none_or(|c| " \t\n|&;()<>`".contains(c));
        let before = self.line[..node.start_byte()].chars().next_back();
        let after = self.line[node.end_byte()..].chars().next();
        let stands_alone = is_border(before) && is_border(after);
        if is_operator || stands_alone { Ok(()) } else { Err(Doubt::Syntax) }
    }

    fn comment(&self, node: Node<'_>) -> Result<(), Doubt> {
        let before = self.line[..node.start_byte()].chars().next_back();
        let begins = before.is_none_or(|c| " \t\n|&;()<>".contains(c));
        let ends = self.line[node.end_byte()..].chars().next().is_none_or(|c| c == '\n');
        if begins && ends { Ok(()) } else { Err(Doubt::Syntax) }
    }

    fn loop_variable(&mut self, node: Node<'_>, context: Context) -> Result<(), Doubt> {
        let name = self.text(node).to_owned();
        if !is_name(&name) {
            return Err(Doubt::Syntax);
        }
        let source = format!("for {name}");
        let assignment =
            Assignment { name, value: None, values: Vec::new(), is_loop_variable: true };
        let assignments = vec![assignment];
        self.push(Part { source, assignments, ..Part::default() }, context)?;
        Ok(())
    }

    /// The values of a loop may be evaluated as names in it.
    fn loop_values(
        &mut self,
        node: Node<'_>,
        items: &[Item],
        context: Context,
    ) -> Result<(), Doubt> {
        let holds = |item: &Item| matches!(item, Item::Word(word) if holds_subscript(word));
        if items.iter().any(holds) {
            let source = self.written(node);
            self.push(Part { source, is_evaluation: true, ..Part::default() }, context)?;
        }
        Ok(())
    }

    fn note_values(&mut self, variable: Option<usize>, items: Vec<Item>) {
        let assignment =
            variable.and_then(|index| self.parts.get_mut(index)?.assignments.first_mut());
        let words = items.into_iter().filter_map(|item| match item {
            Item::Word(word) => Some(word),
            Item::Redirect(_) => None,
        });
        if let Some(assignment) = assignment {
            assignment.values.extend(words);
        }
    }

    fn case_pattern(&self, node: Node<'_>) -> Result<(), Doubt> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.*?/+:,@%=-[]".contains(c);
        if self.text(node).chars().all(is_plain) { Ok(()) } else { Err(Doubt::Syntax) }
    }

    fn function(&mut self, node: Node<'_>, context: Context) -> Result<(), Doubt> {
        let all = self.checked_children(node)?;
        let redirects: Vec<_> = all.iter().copied().filter(|node| is_redirect(*node)).collect();
        for child in all.iter().filter(|child| !is_redirect(**child)) {
            match child.kind() {
                "comment" => self.comment(*child)?,
                "word" => {
                    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:+".contains(c);
                    if !self.text(*child).chars().all(is_plain) {
                        return Err(Doubt::Syntax);
                    }
                }
                _ if !child.is_named() => self.token(*child)?,
                _ => {
                    self.visit(*child, context, &[])?;
                }
            }
        }
        self.compound_redirects(&redirects, context)
    }

    /// `[[ … ]]`, `(( … ))` and the head of `for ((…))`: what they evaluate can run commands.
    fn evaluation(&mut self, node: Node<'_>, context: Context, name: &str) -> Result<(), Doubt> {
        let source = self.written(node);
        let inside = Word::unknown(source.trim_start_matches(name).trim_start());
        let words = vec![Word::plain(name), inside];
        for child in children(node) {
            if child.kind() != "do_group" && child.kind() != "compound_statement" {
                self.substitutions(child, context)?;
            }
        }
        let is_evaluation = name == "((";
        self.push(Part { source, words, is_evaluation, ..Part::default() }, context)?;
        Ok(())
    }

    fn redirected(
        &mut self,
        node: Node<'_>,
        context: Context,
        outer: &[Node<'_>],
    ) -> Result<Option<usize>, Doubt> {
        let all = children(node);
        for pair in all.windows(2) {
            self.check_inner_gap(pair[0].end_byte(), pair[1].start_byte())?;
        }
        let mut redirects: Vec<_> = all.iter().copied().filter(|node| is_redirect(*node)).collect();
        if all.iter().any(|child| !is_redirect(*child) && Some(*child) != body_of(node)) {
            return Err(Doubt::Syntax);
        }
        redirects.extend(outer);
        match body_of(node) {
            Some(body) => self.visit(body, context, &redirects),
            None => self.command(Vec::new(), context, &redirects, &[]).map(Some),
        }
    }

    /// A list, whose redirects belong to its last command.
    fn list(
        &mut self,
        node: Node<'_>,
        context: Context,
        redirects: &[Node<'_>],
    ) -> Result<Option<usize>, Doubt> {
        let all = self.checked_children(node)?;
        let statements: Vec<_> = all
            .iter()
            .copied()
            .filter(|child| child.is_named() && child.kind() != "comment")
            .collect();
        for child in &all {
            match child.kind() {
                "comment" => self.comment(*child)?,
                _ if !child.is_named() => self.token(*child)?,
                _ => {}
            }
        }
        let [left, right] = statements.as_slice() else { return Err(Doubt::Syntax) };
        let is_and = all.iter().any(|child| child.kind() == "&&");
        let success = self.visit(*left, context, &[])?.filter(|_| is_and);
        let after = Context { after_success_of: success, ..context };
        let last = self.visit(*right, after, redirects)?;
        Ok(last.filter(|_| success.is_some()))
    }

    /// Visits all children, the last one with the redirects.
    fn with_last(
        &mut self,
        node: Node<'_>,
        context: Context,
        redirects: &[Node<'_>],
    ) -> Result<(), Doubt> {
        let all = self.checked_children(node)?;
        let last = all.iter().rposition(|child| child.is_named() && child.kind() != "comment");
        let mut is_behind_pipe = false;
        for (index, child) in all.iter().enumerate() {
            let is_fed = context.is_fed || is_behind_pipe;
            let context = Context { is_fed, ..context };
            is_behind_pipe |= matches!(child.kind(), "|" | "|&");
            match child.kind() {
                "comment" => self.comment(*child)?,
                _ if !child.is_named() => self.token(*child)?,
                _ if Some(index) == last => {
                    self.visit(*child, context, redirects)?;
                }
                _ => {
                    self.visit(*child, context, &[])?;
                }
            }
        }
        Ok(())
    }

    /// The redirects of a compound statement are a part without words.
    fn compound_redirects(
        &mut self,
        redirects: &[Node<'_>],
        context: Context,
    ) -> Result<(), Doubt> {
        if redirects.is_empty() {
            return Ok(());
        }
        let context = Context { after_success_of: None, ..context };
        let index = self.command(Vec::new(), context, redirects, &[])?;
        // `(…) > x y` is no command in bash.
        let has_words = !self.parts[index].words.is_empty();
        if has_words { Err(Doubt::Syntax) } else { Ok(()) }
    }
}

fn is_literal(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "word"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "number"
            | "concatenation"
            | "expansion"
            | "simple_expansion"
            | "command_substitution"
            | "process_substitution"
            | "arithmetic_expansion"
            | "brace_expression"
    )
}

fn is_redirect(node: Node<'_>) -> bool {
    matches!(node.kind(), "file_redirect" | "heredoc_redirect" | "herestring_redirect")
}

fn body_of(node: Node<'_>) -> Option<Node<'_>> {
    node.child_by_field_name("body")
}
