//! Finds whole lines that differ from the old text only in their indentation. This is the only
//! fallback when the exact text is not found.

use std::collections::HashMap;

use memchr::{memchr_iter, memmem};

use super::indent_steps::Steps;

use crate::files::MAX_EDITED_BYTES;

/// The position of the lines, and the new text indented like them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) new: String,
}

/// Finds the one place in `content` that equals `old` except for indentation. `None` if there
/// is no such place, if there are several, if the indentations do not map one to one or do not
/// tell how the new text is to be indented, or if it would grow too large. Line ends in `content` must be folded.
pub(super) fn find(content: &[u8], old: &str, new: &str) -> Option<Found> {
    let ends_line = old.ends_with('\n');
    let wanted: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
    if wanted.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    let start = unique_offset(content, &wanted)?;
    let lines: Vec<&[u8]> = lines_of(&content[start..]).take(wanted.len()).collect();
    let end = start + lines.iter().map(|line| line.len() + 1).sum::<usize>() - 1;
    if ends_line && end == content.len() {
        return None;
    }
    let mut indents = Indents::between(&wanted, &lines)?;
    indents.find_steps(content, &wanted, new);
    let new = indents.apply_to_all(new)?;
    Some(Found { start, length: end + usize::from(ends_line) - start, new })
}

/// The offset of the wanted lines, if they occur exactly once. Searches the whole text at
/// once: comparing line by line takes quadratic time where many lines are alike.
fn unique_offset(content: &[u8], wanted: &[&str]) -> Option<usize> {
    let text = unindented(lines_of(content));
    let wanted = unindented(wanted.iter().map(|line| line.as_bytes()));
    let finder = memmem::Finder::new(&wanted);
    let found = finder.find(&text)?;
    // Overlapping places count too, so go on one byte later.
    if finder.find(&text[found + 1..]).is_some() {
        return None;
    }
    let lines_before = memchr_iter(b'\n', &text[..found]).count();
    match lines_before.checked_sub(1) {
        None => Some(0),
        Some(line) => memchr_iter(b'\n', content).nth(line).map(|end| end + 1),
    }
}

/// Joins the lines without their indentation, with a line feed before and after each.
fn unindented<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut text = vec![b'\n'];
    for line in lines {
        text.extend_from_slice(&line[indent(line)..]);
        text.push(b'\n');
    }
    text
}

fn lines_of(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|byte| *byte == b'\n')
}

/// The number of spaces and tabs at the beginning.
fn indent(line: &[u8]) -> usize {
    line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// How the indentation of the old text becomes that of the file.
struct Indents<'a> {
    /// Each indentation of the old text with that of the file, the deepest first.
    known: Vec<(&'a str, String)>,
    /// What a level deeper or less deep than these is. `None`: the same in both.
    steps: Option<Steps>,
}

impl<'a> Indents<'a> {
    fn between(wanted: &[&'a str], found: &[&[u8]]) -> Option<Self> {
        let mut indents: HashMap<&str, &[u8]> = HashMap::new();
        for (wanted, line) in wanted.iter().zip(found) {
            if wanted.trim().is_empty() {
                continue;
            }
            let mine = &wanted[..indent(wanted.as_bytes())];
            let theirs = &line[..indent(line)];
            if indents.insert(mine, theirs).is_some_and(|before| before != theirs) {
                return None;
            }
        }
        let mut indents: Vec<_> = indents
            .into_iter()
            .map(|(mine, theirs)| (mine, String::from_utf8_lossy(theirs).into_owned()))
            .collect();
        indents.sort_by_key(|(mine, _)| std::cmp::Reverse(mine.len()));
        Some(Self { known: indents, steps: None })
    }

    /// Finds out how the file writes a level of indentation. Reads its lines once.
    fn find_steps(&mut self, content: &[u8], wanted: &[&str], new: &str) {
        let pairs: Vec<_> = self.known.iter().map(|(mine, theirs)| (*mine, &**theirs)).collect();
        let old = wanted.iter().map(|line| line.as_bytes());
        let written = old.chain(new.split('\n').map(str::as_bytes));
        self.steps = Steps::between(&pairs, written, lines_of(content));
    }

    fn apply_to_all(&self, text: &str) -> Option<String> {
        let mut whole = String::with_capacity(text.len());
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                whole.push('\n');
            }
            self.apply(line, &mut whole)?;
            if whole.len() > MAX_EDITED_BYTES {
                return None;
            }
        }
        Some(whole)
    }

    /// `None` if no matched line tells how the line is to be indented.
    fn apply(&self, line: &str, whole: &mut String) -> Option<()> {
        if line.trim().is_empty() {
            whole.push_str(line);
            return Some(());
        }
        let (mine, text) = line.split_at(indent(line.as_bytes()));
        if let Some((known, theirs)) = self.known.iter().find(|(known, _)| mine.starts_with(known))
        {
            whole.push_str(theirs);
            self.convert(&mine[known.len()..], whole);
        } else {
            // One less deep is as much less deep in the file.
            let (known, theirs) = self.known.last()?;
            let mut difference = String::new();
            self.convert(known.strip_prefix(mine)?, &mut difference);
            whole.push_str(theirs.strip_suffix(&*difference)?);
        }
        whole.push_str(text);
        Some(())
    }

    /// What a line is deeper than one that matched.
    fn convert(&self, mine: &str, whole: &mut String) {
        match self.steps {
            Some(steps) => steps.converted(mine, whole),
            None => whole.push_str(mine),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, (old, new): (&str, &str), expected: Option<(&str, &str)>) {
        let found = find(content.as_bytes(), old, new);
        let found = found
            .as_ref()
            .map(|found| (&content[found.start..found.start + found.length], found.new.as_str()));
        assert_eq!(found, expected);
    }

    #[test]
    fn indents_the_new_text_like_the_lines_it_replaces() {
        check(
            "fn a() {\n\tif b {\n\t\tc();\n\t}\n}\n",
            ("if b {\n    c();\n}", "if b {\n    d();\n    e();\n}"),
            Some(("\tif b {\n\t\tc();\n\t}", "\tif b {\n\t\td();\n\t\te();\n\t}")),
        );
        check("  a\n  b\n", ("a\nb\n", "c\n"), Some(("  a\n  b\n", "  c\n")));
        check("  a\n", ("    a", "    b\n      c"), Some(("  a", "  b\n    c")));
    }

    #[test]
    fn an_indentation_of_any_depth_is_taken_in_one_pass() {
        let deep = format!("{}b", " ".repeat(1 << 19));
        check("\ta\n", ("    a", &deep), Some(("\ta", &format!("{}b", "\t".repeat(1 << 17)))));
        check("\ta\n", ("\t\ta", &deep), None);
    }

    #[test]
    fn a_line_less_deep_than_the_matched_ones_moves_with_them() {
        let new = "            return 1\n\n        def g(self):\n            return 2";
        let expected = "        return 1\n\n    def g(self):\n        return 2";
        check(
            "        return 1\n",
            ("            return 1", new),
            Some(("        return 1", expected)),
        );
        let new = "        foo()\n    else:\n        bar()";
        check(
            "    foo()\n",
            ("        foo()", new),
            Some(("    foo()", "    foo()\nelse:\n    bar()")),
        );
        // As far to the left as that there is nothing.
        check("    foo()\n", ("        foo()", "        foo()\nend"), None);
        check(
            "\tfoo()\n",
            ("        foo()", "        foo()\n    end"),
            Some(("\tfoo()", "\tfoo()\nend")),
        );
    }

    #[test]
    fn files_7e_each_depth_is_in_the_unit_of_the_file() {
        check(
            "fn a() {\n\tif b {\n\t\tc();\n\t}\n}\n",
            ("    if b {\n", "    if b {\n        if d {\n            e();\n        }\n"),
            Some(("\tif b {\n", "\tif b {\n\t\tif d {\n\t\t\te();\n\t\t}\n")),
        );
        check(
            "def a():\n    if b:\n        c()\n",
            ("  if b:\n    c()\n", "  if b:\n    for d in e:\n      c(d,\n         d)\n"),
            Some((
                "    if b:\n        c()\n",
                "    if b:\n        for d in e:\n            c(d,\n                 d)\n",
            )),
        );
        check(
            "if ok:\n  foo()\n  bar()\n",
            ("    foo()\n", "    baz()\n    if d:\n        e()\n"),
            Some(("  foo()\n", "  baz()\n  if d:\n    e()\n")),
        );
        check(
            "a {\n  b {\n    c\n  }\n}\n",
            ("\tb {\n\t\tc\n\t}", "\tb {\n\t\tc {\n\t\t\td\n\t\t}\n\t}"),
            Some(("  b {\n    c\n  }", "  b {\n    c {\n      d\n    }\n  }")),
        );
    }

    #[test]
    fn files_7e_no_tab_is_put_behind_spaces() {
        check(
            "def a():\n\t\"\"\"Text.\n\n\t  * item\n\t\"\"\"\n",
            ("      * item\n", "      * item\n        more\n"),
            Some(("\t  * item\n", "\t  * item\n\t    more\n")),
        );
        check(
            "class A {\n    int f() {\n\tif (b)\n\t    c();\n    }\n}\n",
            (
                "        if (b)\n            c();\n",
                "        if (b)\n            if (d)\n                c();\n",
            ),
            Some(("\tif (b)\n\t    c();\n", "\tif (b)\n\t    if (d)\n\t        c();\n")),
        );
    }

    #[test]
    fn does_not_guess() {
        check(" a\n  a\n", ("\ta", "b"), None);
        check(" a\n  b\n", ("\ta\n\tb", "c"), None);
        check(" ab\n", ("\ta", "b"), None);
        check(" \n", ("\t", "b"), None);
        check("  a", ("a\n", "b"), None);
    }
}
