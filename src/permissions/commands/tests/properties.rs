//! What holds for every line.

use proptest::prelude::*;

use super::*;

/// Pieces of shell text, put together at random.
fn shell_text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "ls",
        "rm x",
        "cat a",
        "echo",
        "sh -c ",
        "eval ",
        "sudo ",
        "cd ..",
        "x=1",
        " ",
        " ",
        " ",
        "\n",
        ";",
        "&&",
        "||",
        "|",
        "|&",
        "&",
        "(",
        ")",
        "{",
        "}",
        "$(",
        "`",
        "${",
        "$((",
        "<(",
        ">",
        "<",
        ">>",
        "<<E\n",
        "\nE\n",
        "<<<",
        "2>&1",
        "'",
        "\"",
        "\\",
        "\\\n",
        "$'",
        "$x",
        "*",
        "?",
        "[",
        "]",
        "~",
        "#",
        "!",
        "if ",
        "then ",
        "fi",
        "while ",
        "do ",
        "done",
        "for x in ",
        "case x in ",
        "a) ",
        ";;",
        "esac",
        "[[ ",
        " ]]",
        "function f ",
        "time ",
        "=",
        "é",
        "\t",
        "-l",
        ",",
        "..",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

fn place() -> Place<'static> {
    Place { directory: "/ws".as_ref(), home: "/home/me".as_ref() }
}

/// Asks everything that can be asked about a line.
fn ask_everything(line: &str) {
    let pattern = BashPattern::parse("rm *").unwrap();
    match parse(line) {
        Ok(parsed) => {
            parsed.is_matched_by(&pattern);
            parsed.is_allowed_by(&[&pattern]);
            parsed.operands(&place());
            parsed.critical_removals(&place());
            parsed.risks(&place(), &|_| true);
            parsed.is_read_only();
        }
        Err(unparsed) => {
            unparsed.is_matched_by(&pattern);
            unparsed.risks();
        }
    }
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(line in prop_oneof![shell_text(), any::<String>()]) {
        ask_everything(&line);
    }

    #[test]
    fn an_unsafe_part_makes_a_line_unsafe(
        index in any::<prop::sample::Index>(),
        unsafe_index in any::<prop::sample::Index>(),
        operator in prop::sample::select(vec!["; ", " && ", " || ", " | ", "\n", " & ", " |& "]),
        is_first in any::<bool>(),
    ) {
        let (safe, bad) = (may_run(), must_ask());
        let (safe, bad) = (index.get(&safe), unsafe_index.get(&bad));
        let (left, right) = if is_first { (bad, safe) } else { (safe, bad) };
        let line = format!("{left}{operator}{right}");
        prop_assert!(!is_proven(&line), "{line}");
        let inside = format!("{safe} $({bad})");
        prop_assert!(!is_proven(&inside), "{inside}");
    }

    #[test]
    fn quotes_do_not_change_what_deny_rules_see(
        cuts in prop::collection::vec(0_usize..6, 1..4),
        quote in prop::sample::select(vec!["''", "\"\"", "\\\n"]),
    ) {
        let mut name = String::from("denied");
        for cut in &cuts {
            // Not between the quotes of an earlier round.
            if let Some(at) = name.char_indices().filter(|(_, c)| c.is_alphabetic()).map(|(at, _)| at).nth(*cut) {
                name.insert_str(at, quote);
            }
        }
        let line = format!("true && {name} x");
        let parsed = parse(&line).unwrap();
        prop_assert!(parsed.is_matched_by(&BashPattern::parse("denied *").unwrap()), "{line}");
    }

    #[test]
    fn splitting_is_stable(line in shell_text()) {
        let sources = |line: &str| -> Option<Vec<String>> {
            Some(parse(line).ok()?.parts.as_slice().iter().map(|part| part.source.clone()).collect())
        };
        if let Some(first) = sources(&line) {
            prop_assert_eq!(sources(&line), Some(first.clone()));
            if !line.ends_with('\\') && !line.contains("<<") {
                prop_assert_eq!(sources(&format!("{line}\n")), Some(first), "{}", line);
            }
        }
    }

    #[test]
    fn a_part_is_allowed_by_the_rule_made_of_it(words in prop::collection::vec("[a-z*\\\\ ;$()']{1,6}", 1..4)) {
        let quoted: Vec<_> = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        let line = format!("prog {}", quoted.join(" "));
        let Ok(parsed) = parse(&line) else { return Err(TestCaseError::fail(line)) };
        let [part] = parsed.parts.as_slice() else { return Err(TestCaseError::fail(line)) };
        let rule = BashPattern::parse(&BashPattern::escaped(&part.text())).unwrap();
        prop_assert!(part.is_allowed_by(&[&rule]), "{}", line);
        let other = parse("prog other").unwrap();
        prop_assert!(!other.is_allowed_by(&[&rule]), "{}", line);
    }

    #[test]
    fn a_pattern_matches_as_a_slow_reference_does(pattern in "[ab* ]{1,8}", text in "[ab ]{0,10}") {
        let Ok(parsed) = BashPattern::parse(&pattern) else { return Ok(()) };
        // Stars side by side are one.
        let (pattern, text) = (pattern.replace("**", "*").replace("**", "*").replace("**", "*"), text.trim());
        // Several blanks in the pattern are one, and then in the text too.
        let has_several = pattern.trim().contains("  ");
        let joined = |text: &str| text.split(' ').filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ");
        let (pattern, text) = if has_several { (joined(&pattern), joined(text)) } else { (pattern, text.to_owned()) };
        let pattern = pattern.trim();
        let without = pattern.strip_suffix(" *").map(str::trim_end);
        let expected = slow(pattern.as_bytes(), text.as_bytes())
            || without.is_some_and(|without| slow(without.as_bytes(), text.as_bytes()));
        prop_assert_eq!(parsed.matches(&text), expected, "{} and {}", pattern, text);
    }
}

fn slow(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| slow(rest, &text[at..])),
        ([first, rest @ ..], [c, text @ ..]) => first == c && slow(rest, text),
        _ => false,
    }
}
