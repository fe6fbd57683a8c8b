//! Follows which command of a line can have given its exit code 1.

use tree_sitter::Node;

use super::super::exit_codes::{ExitOne, of_part};
use super::super::syntax::{children, outermost};
use super::{Collector, is_redirect};

/// What exit code 1 of the whole line can have come from, if no part ends it early.
pub(super) fn exit_one(root: Node<'_>, collector: &Collector<'_>) -> ExitOne {
    let definitions = outermost(root, &["function_definition"]);
    let names = definitions.iter().filter_map(|node| node.child_by_field_name("name"));
    let functions = names.map(|name| collector.text(name)).collect();
    Follower { collector, functions }.statement(root)
}

struct Follower<'a> {
    collector: &'a Collector<'a>,
    /// The functions that the line defines.
    functions: Vec<&'a str>,
}

impl Follower<'_> {
    fn statement(&self, node: Node<'_>) -> ExitOne {
        match node.kind() {
            "command" | "declaration_command" | "unset_command" | "test_command" => {
                self.simple(node)
            }
            "variable_assignment" | "variable_assignments" => self.assignment(node),
            "redirected_statement" => self.redirected(node),
            "list" => self.list(node),
            "pipeline" => self.pipeline(node),
            "function_definition" => ExitOne::Shell,
            "compound_statement" if self.collector.text(node).starts_with("((") => ExitOne::Failure,
            "program"
            | "subshell"
            | "compound_statement"
            | "else_clause"
            | "do_group"
            | "command_substitution" => last_of(&children(node), self),
            "if_statement" | "elif_clause" => self.branches(node),
            "while_statement" | "for_statement" | "c_style_for_statement" => {
                node.child_by_field_name("body").map_or(ExitOne::Failure, |it| self.statement(it))
            }
            "case_statement" => {
                let items = children(node).into_iter().filter(|child| child.kind() == "case_item");
                items.map(|item| self.case_item(item)).max().unwrap_or(ExitOne::Shell)
            }
            _ => ExitOne::Failure,
        }
    }

    fn simple(&self, node: Node<'_>) -> ExitOne {
        let index = self.collector.of_nodes.get(&node.id());
        let part = index.and_then(|index| self.collector.parts.get(*index));
        let Some(part) = part else { return ExitOne::Failure };
        if part.words.is_empty() {
            return self.assignment(node);
        }
        of_part(part, &self.functions)
    }

    /// An assignment has the exit code of the last substitution in it.
    fn assignment(&self, node: Node<'_>) -> ExitOne {
        let inside = outermost(node, &["command_substitution"]);
        inside.into_iter().map(|node| self.statement(node)).max().unwrap_or(ExitOne::Shell)
    }

    /// What the shell says of a failure is not heard where a compound statement is redirected.
    fn redirected(&self, node: Node<'_>) -> ExitOne {
        let Some(body) = node.child_by_field_name("body") else { return ExitOne::Shell };
        let is_simple = self.collector.of_nodes.contains_key(&redirected_by(body).id());
        let of_descriptor = |child: Node<'_>| {
            let text = self.collector.text(child);
            is_redirect(child) && (text.starts_with(['2', '&']) || text.starts_with(">&"))
        };
        if !is_simple && children(node).into_iter().any(of_descriptor) {
            return ExitOne::Failure;
        }
        self.statement(body)
    }

    fn list(&self, node: Node<'_>) -> ExitOne {
        let all = children(node);
        let is_statement = |child: &Node<'_>| child.is_named() && child.kind() != "comment";
        let statements: Vec<Node<'_>> = all.iter().copied().filter(is_statement).collect();
        let [left, right] = statements.as_slice() else { return ExitOne::Failure };
        let right = self.statement(*right);
        // After `||` the left one has failed, and the exit code is that of the right one.
        if all.iter().any(|child| child.kind() == "||") {
            return right;
        }
        self.statement(*left).max(right)
    }

    /// Without `pipefail` the last command decides.
    fn pipeline(&self, node: Node<'_>) -> ExitOne {
        let all = children(node);
        let first = all.iter().find(|child| child.is_named());
        // `! a | b` negates all of it.
        if first.is_none_or(|first| first.kind() == "negated_command") {
            return ExitOne::Failure;
        }
        last_of(&all, self)
    }

    /// `if … then … elif … else … fi`: without a branch that runs, the exit code is 0.
    fn branches(&self, node: Node<'_>) -> ExitOne {
        let all = children(node);
        let Some(then) = all.iter().position(|child| child.kind() == "then") else {
            return ExitOne::Failure;
        };
        let is_other = |child: &Node<'_>| matches!(child.kind(), "elif_clause" | "else_clause");
        let body: Vec<Node<'_>> =
            all[then + 1..].iter().copied().take_while(|child| !is_other(child)).collect();
        let others = all.iter().copied().filter(is_other).map(|child| self.statement(child));
        others.max().unwrap_or(ExitOne::Shell).max(last_of(&body, self))
    }

    fn case_item(&self, node: Node<'_>) -> ExitOne {
        let all = children(node);
        let start = all.iter().position(|child| child.kind() == ")").map_or(0, |at| at + 1);
        last_of(&all[start..], self)
    }
}

/// What a redirect behind a statement belongs to: the last command of a list.
fn redirected_by(body: Node<'_>) -> Node<'_> {
    if !matches!(body.kind(), "list" | "pipeline" | "negated_command") {
        return body;
    }
    let all = children(body);
    let last = all.iter().rfind(|child| child.is_named() && child.kind() != "comment");
    last.map_or(body, |last| redirected_by(*last))
}

/// The exit code of several statements is that of the last one. One that goes to the background
/// has the exit code 0.
fn last_of(all: &[Node<'_>], follower: &Follower<'_>) -> ExitOne {
    let is_statement = |child: &Node<'_>| child.is_named() && child.kind() != "comment";
    let Some(last) = all.iter().rposition(is_statement) else { return ExitOne::Shell };
    if all[last + 1..].iter().any(|child| child.kind() == "&") {
        return ExitOne::Shell;
    }
    follower.statement(all[last])
}
