//! Finds out by what one level of indentation is written, in the model's text and in the file. Pure.

/// Steps that count as a level. One space is an alignment.
const LEVELS: std::ops::RangeInclusive<usize> = 2..=8;

/// What one level of indentation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Tab,
    Spaces(usize),
}

/// How a level of the model's text is written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    mine: Step,
    theirs: Step,
}

/// Indentations of the same line in the model's text and in the file.
pub(super) type IndentPair<'a> = (&'a str, &'a str);

impl Steps {
    /// `written` are the lines of the model, `content` those of the file. `None` if they do not
    /// tell: indentation is then taken as written.
    pub(super) fn between<'a>(
        pairs: &[IndentPair<'_>],
        written: impl Iterator<Item = &'a [u8]>,
        content: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Self> {
        let (written, content) = (Usage::of(written), Usage::of(content));
        let has = |c: char| move |(_, theirs): &IndentPair<'_>| theirs.contains(c);
        let theirs = match () {
            () if pairs.iter().any(has('\t')) => Step::Tab,
            () if pairs.iter().any(has(' ')) => Step::Spaces(content.spaces()?),
            () => content.step()?,
        };
        let mine = match () {
            () if written.tabs > 0 => Step::Tab,
            () => Step::Spaces(written.spaces().or_else(|| by_depth(pairs, theirs))?),
        };
        Some(Self { mine, theirs })
    }

    /// An indentation of the model, as it is in the file. What is no whole level stays.
    pub(super) fn converted(self, mine: &str, whole: &mut String) {
        // Behind spaces, which align a line, a tab is no level.
        if self.theirs == Step::Tab && whole.ends_with(' ') {
            whole.push_str(mine);
            return;
        }
        let (levels, rest) = self.mine.levels_of(mine);
        let (unit, width) = match self.theirs {
            Step::Tab => ('\t', 1),
            Step::Spaces(width) => (' ', width),
        };
        whole.extend(std::iter::repeat_n(unit, levels * width));
        whole.push_str(rest);
    }
}

impl Step {
    /// The levels of an indentation, and what is behind them.
    fn levels_of(self, indent: &str) -> (usize, &str) {
        let (unit, width) = match self {
            Self::Tab => ('\t', 1),
            Self::Spaces(width) => (' ', width),
        };
        let rest = indent.trim_start_matches(unit);
        let levels = (indent.len() - rest.len()) / width;
        (levels, &indent[levels * width..])
    }
}

/// The spaces of a level, by a line of the model that stands at a known depth of the file.
fn by_depth(pairs: &[IndentPair<'_>], theirs: Step) -> Option<usize> {
    let spaces = pairs.iter().filter_map(|(mine, indent)| {
        let (depth, rest) = theirs.levels_of(indent);
        let is_whole = depth > 0 && rest.is_empty() && mine.len().is_multiple_of(depth);
        is_whole.then(|| mine.len() / depth).filter(|spaces| LEVELS.contains(spaces))
    });
    spaces.min()
}

/// How lines are indented.
struct Usage {
    /// Lines that begin with a tab.
    tabs: usize,
    /// Lines that begin with spaces.
    spaced: usize,
    /// How often a line is so many spaces deeper than the one before.
    deeper: [usize; *LEVELS.end() + 1],
    /// The least spaces in front of a line.
    least: Option<usize>,
}

impl Usage {
    fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut usage = Self { tabs: 0, spaced: 0, deeper: Default::default(), least: None };
        let mut before = None;
        for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
            let spaces = line.iter().take_while(|byte| **byte == b' ').count();
            usage.tabs += usize::from(line[0] == b'\t');
            usage.spaced += usize::from(spaces > 0);
            if LEVELS.contains(&spaces) {
                usage.least = Some(usage.least.map_or(spaces, |least| least.min(spaces)));
            }
            let step = before.map_or(0, |before: usize| spaces.abs_diff(before));
            if line[0] != b'\t' && LEVELS.contains(&step) {
                usage.deeper[step] += 1;
            }
            before = (line[0] != b'\t').then_some(spaces);
        }
        usage
    }

    /// The spaces of a level, if lines differ by some.
    fn spaces(&self) -> Option<usize> {
        let most = self.deeper.iter().max().filter(|most| **most > 0);
        match most {
            Some(most) => self.deeper.iter().position(|count| count == most),
            None => self.least.filter(|_| self.spaced > 1),
        }
    }

    fn step(&self) -> Option<Step> {
        if self.tabs > self.spaced {
            return Some(Step::Tab);
        }
        self.spaces().map(Step::Spaces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(
        pairs: &[IndentPair<'_>],
        written: &str,
        content: &str,
        mine: &str,
    ) -> Option<String> {
        let lines = |text: &'static str| text.split('\n').map(str::as_bytes);
        let [written, content] = [written, content].map(|text| &*text.to_owned().leak());
        let steps = Steps::between(pairs, lines(written), lines(content))?;
        let mut whole = String::new();
        steps.converted(mine, &mut whole);
        Some(whole)
    }

    #[test]
    fn a_level_is_written_as_in_the_file() {
        let check = |pairs: &[IndentPair<'_>], written, content, mine, expected: Option<&str>| {
            assert_eq!(converted(pairs, written, content, mine).as_deref(), expected);
        };
        check(&[("    ", "\t")], "    a\n        b", "x\n\ty", "        ", Some("\t\t"));
        check(&[("  ", "    ")], "  a\n    b", "x\n    y\n        z", "  ", Some("    "));
        check(&[("\t", "  ")], "\ta\n\t\tb", "x\n  y\n    z", "\t\t", Some("    "));
        check(&[("", "")], "a\n    b", "x\n\ty", "     ", Some("\t "));
        // One line, as deep as that in the file.
        check(&[("        ", "\t\t")], "        a", "x\n\ty", "    ", Some("\t"));
        check(&[("", "")], "a\n  b", "x", "  ", None);
    }
}
