//! Compares what a document says is printed with what was printed.
//!
//! In a sample, `…` stands for any characters of a line, and a line that is only `…` for
//! any number of lines.

const ANYTHING: &str = "…";

/// Whether `output` is what `sample` shows.
pub(super) fn matches(sample: &str, output: &str) -> bool {
    let sample: Vec<&str> = sample.trim().lines().map(str::trim_end).collect();
    let output: Vec<&str> = output.trim().lines().map(str::trim_end).collect();
    lines_match(&sample, &output)
}

fn lines_match(sample: &[&str], output: &[&str]) -> bool {
    match sample.split_first() {
        None => output.is_empty(),
        Some((&ANYTHING, rest)) => {
            (0..=output.len()).any(|skipped| lines_match(rest, &output[skipped..]))
        }
        Some((line, rest)) => output
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
    }
}

fn line_matches(sample: &str, line: &str) -> bool {
    let mut parts = sample.split(ANYTHING);
    let Some(mut line) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return line.is_empty() };
    for part in between {
        let Some(at) = line.find(part) else { return false };
        line = &line[at + part.len()..];
    }
    line.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_the_rest_of_a_line_or_for_lines() {
        for (sample, output) in [
            ("a\nb", "a\nb\n"),
            ("a\n…\nd", "a\nb\nc\nd"),
            ("a\n…\nd", "a\nd"),
            ("…\nb", "\nb"),
            ("key …/api-key", "key /home/me/api-key"),
            ("(… ms, … characters)", "(4 ms, 100 characters)"),
        ] {
            assert!(matches(sample, output), "{sample:?} {output:?}");
        }
    }

    #[test]
    fn everything_else_is_as_it_stands() {
        for (sample, output) in [
            ("a", "a\nb"),
            ("a\nb", "a"),
            ("a", "ab"),
            ("a\n…", "b\na"),
            ("(… ms)", "(4 s)"),
            ("a…b", "a\nb"),
            ("ab…bc", "abc"),
        ] {
            assert!(!matches(sample, output), "{sample:?} {output:?}");
        }
    }
}
