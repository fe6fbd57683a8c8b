//! Tries whole command lines: the corpora, what rules match, and hostile input.

use super::*;

mod properties;
mod rules;
mod splitting;
mod touched;

fn corpus(json: &str) -> Vec<String> {
    serde_json::from_str(json).expect("a list of command lines")
}

fn must_ask() -> Vec<String> {
    corpus(include_str!("../../../tests/corpus/shell-must-ask.json"))
}

fn may_run() -> Vec<String> {
    corpus(include_str!("../../../tests/corpus/shell-may-run.json"))
}

fn is_proven(line: &str) -> bool {
    parse(line).is_ok_and(|parsed| parsed.is_read_only())
}

#[test]
fn what_must_ask_is_never_proven_read_only() {
    let lines = must_ask();
    assert!(lines.len() > 80, "{} lines", lines.len());
    let proven: Vec<_> = lines.iter().filter(|line| is_proven(line)).collect();
    assert!(proven.is_empty(), "{proven:?}");
}

#[test]
fn what_may_run_is_proven_read_only() {
    let lines = may_run();
    assert!(lines.len() > 15, "{} lines", lines.len());
    let read_only = |line: &&String| !parse(line).is_ok_and(|parsed| parsed.is_read_only());
    let unproven: Vec<_> = lines.iter().filter(read_only).collect();
    assert!(unproven.is_empty(), "{unproven:?}");
}

#[test]
fn a_rule_for_what_may_run_allows_nothing_that_must_ask() {
    let programs = ["ls", "cat", "echo", "grep", "pwd", "true", "cd", "wc", "head", "nl", ":"];
    let patterns = programs.map(|name| BashPattern::parse(&format!("{name} *")).unwrap());
    let patterns: Vec<_> = patterns.iter().collect();
    for line in must_ask() {
        let Ok(parsed) = parse(&line) else { continue };
        let place = Place { directory: "/ws".as_ref(), home: "/home/me".as_ref() };
        let writes = |operand: &Operand| operand.access == OperandAccess::Write;
        let is_allowed = parsed.is_allowed_by(&patterns);
        // A redirect is judged as a write, whatever rules allow.
        assert!(!is_allowed || parsed.operands(&place).iter().any(writes), "{line}");
    }
}

#[test]
fn hostile_input_is_doubted() {
    let nested = format!("echo {}{}", "$(".repeat(10_000), ")".repeat(10_000));
    let open = "$(".repeat(4_000);
    let if_nested = "if ".repeat(3_000);
    let bangs = format!("{}x", "! ".repeat(4_000));
    let braces = "{ ".repeat(4_000);
    let many = vec!["true"; 21].join("; ");
    let long = format!("echo {}", "a".repeat(10_000));
    let sudos = format!("{}rm", "sudo -u a ".repeat(900));
    let repeated_script = format!("sh -c \"eval eval eval true {}\"", "a".repeat(9_000));
    let scripts = "sh -c ".repeat(1_500);
    for (line, doubt) in [
        (nested.as_str(), None),
        (&open, Some(Doubt::Deep)),
        (&if_nested, None),
        (&bangs, None),
        (&braces, Some(Doubt::Deep)),
        (&many, Some(Doubt::ManyParts)),
        (&long, Some(Doubt::Long)),
        (&sudos, None),
        (&scripts, None),
        (&repeated_script, Some(Doubt::Deep)),
        ("echo 'a", Some(Doubt::Syntax)),
        ("echo \"a", Some(Doubt::Syntax)),
        ("echo $(ls", Some(Doubt::Syntax)),
        ("echo `ls", Some(Doubt::Syntax)),
        ("ls\0", Some(Doubt::Characters)),
        ("ls\r\npwd", Some(Doubt::Characters)),
        ("\u{feff}ls", Some(Doubt::Characters)),
        ("ls\u{a0}-l", Some(Doubt::Characters)),
        ("ls\u{3000}-l", Some(Doubt::Characters)),
        ("ls\u{2028}rm x", Some(Doubt::Characters)),
        ("ls\x0crm", Some(Doubt::Characters)),
        ("ls \u{200b}", Some(Doubt::Characters)),
        ("cat {\u{e01a4}", Some(Doubt::Characters)),
        ("cat {\u{10ffff},b}", Some(Doubt::Characters)),
        ("cat {{12\u{10ffff}", Some(Doubt::Characters)),
        ("cat {1..2\u{10ffff}", Some(Doubt::Characters)),
        ("cat x{..\u{10ffff}", Some(Doubt::Characters)),
        ("sh -c 'cat {\u{10ffff}'", Some(Doubt::Characters)),
        (") ls", Some(Doubt::Syntax)),
        ("ls &&", Some(Doubt::Syntax)),
    ] {
        let start: String = line.chars().take(30).collect();
        match parse(line) {
            Err(unparsed) => {
                assert!(doubt.is_none_or(|doubt| doubt == unparsed.doubt), "{start}: {unparsed:?}");
            }
            Ok(parsed) => assert!(doubt.is_none() && !parsed.is_read_only(), "{start}"),
        }
    }
}

/// The scanner forgets here-documents at their end alone, and holds some hundred.
#[test]
fn lines_that_went_before_change_nothing() {
    let line = "cat <<E\ntext\nE";
    for _ in 0..300 {
        assert!(parse("cat <<E").is_err());
    }
    assert!(parse(line).is_ok());
}

#[test]
fn a_parser_without_time_gives_up() {
    let line = "echo a b c; ".repeat(500);
    let unparsed = parse_within(&line, &mut || false).unwrap_err();
    assert_eq!(unparsed.doubt, Doubt::Slow);
    assert!(unparsed.is_matched_by(&BashPattern::parse("echo *").unwrap()));
}

#[test]
fn a_doubt_says_what_is_wrong() {
    let doubts =
        [Doubt::Syntax, Doubt::Characters, Doubt::Long, Doubt::ManyParts, Doubt::Deep, Doubt::Slow];
    for doubt in doubts {
        assert!(doubt.to_string().starts_with("the command line "), "{doubt}");
    }
}

/// The parser reports progress every so many steps. Twice the text must not take much more than
/// twice the steps.
#[test]
fn the_work_grows_with_the_length() {
    for unit in
        ["echo a; ", "$(a ", "a 'b' ", "a=b ", "<<a ", "${a[", "((a ", "\"$a\" ", "`a` ", "{ a; "]
    {
        let steps = |count: usize| {
            let mut steps = 0_usize;
            let line = unit.repeat(count);
            let _ = parse_within(&line, &mut || {
                steps += 1;
                true
            });
            steps
        };
        let (short, long) = (steps(60), steps(600));
        assert!(long <= 40 * short.max(4), "{unit}: {short} and {long} steps");
    }
}
