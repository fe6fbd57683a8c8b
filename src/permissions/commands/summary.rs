//! Tells a person in words what was found in a command line.

use super::part::Part;
use super::{Doubt, ParsedCommand};

/// The programs that were found in a command line, or why they are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandSummary {
    /// The commands of the line, in its order.
    Commands(Vec<NamedCommand>),
    /// The reason why the programs in the line are not known.
    Doubtful(Doubt),
}

/// A command of a line, by the name of its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedCommand {
    /// The program's name as it is written, without its directory.
    pub(crate) program: String,
    /// The programs that it may run in its turn, as far as its words show.
    pub(crate) may_run: Vec<String>,
}

impl ParsedCommand {
    /// The commands of the line. Variables and redirects alone are none.
    pub(crate) fn summary(&self) -> Vec<NamedCommand> {
        let parts = self.parts.iter().enumerate();
        let named = parts.filter_map(|(index, part)| {
            let program = name_of(part)?;
            let mut may_run: Vec<String> = Vec::new();
            // The first one is the part itself.
            for reached in self.reached.iter().filter(|reached| reached.from == index).skip(1) {
                let inner = name_of(&reached.part);
                may_run.extend(inner.filter(|name| !may_run.contains(name)));
            }
            Some(NamedCommand { program, may_run })
        });
        named.collect()
    }
}

fn name_of(part: &Part) -> Option<String> {
    let name = part.words.first()?;
    Some(name.base_name().unwrap_or(&name.raw).to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let summary = parse(line).expect("a line that parses").summary();
        let named = summary.iter().map(|one| match one.may_run.join("+") {
            inner if inner.is_empty() => one.program.clone(),
            inner => format!("{}({inner})", one.program),
        });
        assert_eq!(named.collect::<Vec<_>>().join(" "), expected, "{line}");
    }

    #[test]
    fn each_command_is_named_in_the_order_of_the_line() {
        let far = " ".repeat(160);
        check(&format!("echo tidy{far}; truncate -s0 a; make deploy"), "echo truncate make");
        check("for i in $(seq 1 40); do echo $i; done", "seq echo");
        check("X=1 /usr/bin/make a | tee b", "make tee");
        check("nohup rm x", "nohup(rm)");
        check("bash -c 'echo a; rm b'", "bash(echo+rm)");
        check("$X y", "$X");
        check("> file", "");
        check("x=1", "");
    }
}
