//! What the parts of a line are.

use super::super::part::{RedirectKind, RedirectTarget};
use super::super::word::Word;
use super::*;

/// The parts of a line, each as its words without quotes.
fn parts(line: &str) -> Vec<String> {
    parse(line).unwrap().parts.as_slice().iter().map(Part::unquoted).collect()
}

#[track_caller]
fn check(line: &str, expected: &[&str]) {
    assert_eq!(parts(line), expected, "{line}");
}

#[track_caller]
fn check_doubt(line: &str) {
    let parsed = parse(line);
    assert!(parsed.is_err(), "{line}: {:?}", parsed.unwrap().parts.as_slice());
}

#[test]
fn splits_at_every_operator() {
    check("a && b || c; d | e |& f & g\nh", &["a", "b", "c", "d", "e", "f", "g", "h"]);
    check("a;b", &["a", "b"]);
    check("(a; b) && { c; }", &["a", "b", "c"]);
    check("a\\\n b", &["a b"]);
    check("a b # c; d\ne", &["a b", "e"]);
    check("  a  ", &["a"]);
    check("", &[]);
    check("# only", &[]);
}

#[test]
fn finds_what_stands_inside_other_commands() {
    check("a $(b `c`) \"d $(e)\"", &["c", "b `c`", "e", "a $(b `c`) d $(e)"]);
    check("a <(b) > >(c)", &["b", "c", "a <(b)"]);
    check("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]);
    check("while a; do b; done < $(c)", &["a", "b", "c", ""]);
    check("for x in $(a) b; do c $x; done", &["", "a", "c $x"]);
    check("case $(a) in b|c) d;; *) e;; esac", &["a", "d", "e"]);
    check("f() { a; }; function g { b; }", &["a", "b"]);
    check("until a; do b; done", &["a", "b"]);
    check("x=$(a) y=(b $(c)) d", &["a", "c", "d"]);
    check("echo ${x:-$(a)}", &["a", "echo ${x:-$(a)}"]);
    check("time a", &["time a"]);
    check("time (a; b)", &["a", "b"]);
    check("echo $(< f)", &["", "echo $(< f)"]);
    check("a <<E\n$(b) $c\nE\nd", &["b", "a", "d"]);
    check("a <<'E'\n$(b)\nE", &["a"]);
    check("a <<E | b\nx\nE", &["a", "b"]);
    check("export A=$(b) C", &["b", "export A=$(b) C"]);
    check("[ -n \"$(a)\" ]", &["a", "[ -n $(a) ]"]);
    check("a $(b <<E\n$(c)\nE\n)", &["c", "b", "a $(b <<E\n$(c)\nE\n)"]);
}

#[test]
fn marks_what_stands_in_a_substitution() {
    let parsed = parse("a $(b)").unwrap();
    let marks: Vec<_> = parsed.parts.as_slice().iter().map(|part| part.is_substituted).collect();
    assert_eq!(marks, [true, false]);
}

#[test]
fn removes_quotes_as_bash_does() {
    check("'a b' \"c d\" e\\ f", &["a b c d e f"]);
    check("a''b\"\"c", &["abc"]);
    check("\"a\\$b\\c\\\"\"", &["a$b\\c\""]);
    check("$'a\\tb\\x41'", &["a\tbA"]);
    check("$\"a\"", &["a"]);
    check("a \"b\\\nc\"", &["a bc"]);
    // The grammar skips an escaped blank.
    check("rm \\ x", &["rm  x"]);
    let parsed = parse("a 'b' $c *.d {e,f} ~ \"~\" {}").unwrap();
    let words = &parsed.parts.as_slice()[0].words;
    let literals: Vec<_> = words.iter().map(Word::literal).collect();
    let expected = [Some("a"), Some("b"), None, None, None, None, Some("~"), Some("{}")];
    assert_eq!(literals, expected);
}

#[test]
fn tells_redirects_apart() {
    use RedirectKind::{Append, Read, ReadWrite, Text, Write};
    assert_eq!(parse("a <<<b").unwrap().parts.as_slice()[0].redirects[0].kind, Text);
    let line = "a <b >c >>d 2>e &>f >&g 2>&1 >&- >|h > /dev/null 3<&4";
    let parsed = parse(line).unwrap();
    let redirects = &parsed.parts.as_slice()[0].redirects;
    let kinds: Vec<_> = redirects.iter().map(|redirect| redirect.kind).collect();
    let expected = [Read, Write, Append, Write, Write, Write, Write, Write, Write, Write, Read];
    assert_eq!(kinds, expected);
    let file = |redirect: &Redirect| match &redirect.target {
        RedirectTarget::File(word) => word.raw.clone(),
        other => format!("{other:?}"),
    };
    let targets: Vec<_> = redirects.iter().map(file).collect();
    let expected =
        ["b", "c", "d", "e", "f", "g", "Descriptor", "Descriptor", "h", "Null", "Descriptor"];
    assert_eq!(targets, expected);
    assert_eq!(redirects[3].descriptor, Some(2));
    // The grammar does not know it. It must not be taken for something else.
    let doubted = parse("a <> b");
    assert!(
        doubted.is_err() || doubted.unwrap().parts.as_slice()[0].redirects[0].kind == ReadWrite
    );
}

#[test]
fn redirects_belong_to_the_command_before_them() {
    let parsed = parse("a && b > c d").unwrap();
    let [a, b] = parsed.parts.as_slice() else { panic!("{:?}", parsed.parts.as_slice()) };
    assert!(a.redirects.is_empty());
    assert_eq!((b.unquoted().as_str(), b.redirects.len()), ("b d", 1));
    check("> x rm y", &["rm y"]);
    check("> x", &[""]);
    check("(a) > x", &["a", ""]);
}

#[test]
fn takes_assignments_from_the_words() {
    let parsed = parse("A=1 B=\"$x\" c D=2").unwrap();
    let part = &parsed.parts.as_slice()[0];
    assert_eq!(part.unquoted(), "c D=2");
    let values: Vec<_> = part.assignments.iter().map(|one| one.value.as_deref()).collect();
    assert_eq!(values, [Some("1"), None]);
    check("FOO=1\nrm x", &["", "rm x"]);
    check("A=1 B=2", &[""]);
    check("'A'=1 b", &["A=1 b"]);
    check("A\\\n=1 b", &["b"]);
}

/// The grammar reads these otherwise than bash does, or does not read them.
#[test]
fn what_bash_reads_otherwise_is_doubted() {
    for line in [
        "echo ${x#$(rm y)}",
        "$'a\\\\' ; rm x '",
        "rm \\ x",
        "coproc rm x",
        "[ a\nrm x ]",
        "echo `a \\`b\\``",
        "echo `echo '`'`",
        "echo ${x:-'}'}; rm y",
        "time { rm x; }",
        "time ! rm x",
        "((rm x) )",
        "cat <<E\\\nF\nE",
        "a <<E\nb",
        "select x in a; do b; done < c <<d",
        "a b=(c)",
        "echo @(a|b)",
        "echo a<(b)",
        "{ls,-l}",
        "f() (a",
        "if a; then; fi",
        "a ;; b",
        "a & && b",
        "a | | b",
        "echo 1>",
        "> \nx",
        "! ! a",
        "}",
        "fi",
        "a &> > b",
    ] {
        let Err(unparsed) = parse(line) else {
            // A newer grammar may read it rightly: then nothing is hidden.
            let hidden =
                line.contains("rm ") && !parts(line).iter().any(|part| part.starts_with("rm "));
            assert!(!hidden, "{line}: {:?}", parts(line));
            continue;
        };
        assert_eq!(unparsed.doubt, Doubt::Syntax, "{line}");
    }
    check_doubt("echo ${x#$(rm y)}");
    // It expands what is quoted here.
    check_doubt("echo >&'$(rm x)'");
    check_doubt("cat <&\"$x\"");
    check_doubt("echo >&x\\$\\(rm\\ x\\)");
    check_doubt("$'a\\\\' ; rm x '");
    check_doubt("coproc rm x");
    // bash joins the lines first, and then it is a substitution.
    check_doubt("echo \"$\\\n(rm x)\"");
    check_doubt("cat <<E\n$\\\n(rm x)\nE");
    check_doubt("echo 2\\\n>x");
    check_doubt("i\\\nf rm x");
    check_doubt("time { rm x; }");
}
