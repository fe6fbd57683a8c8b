//! Tries here-documents: the usual forms, and what would hide a command in one.

use super::super::part::{Part, RedirectTarget};
use super::super::{BashPattern, Doubt, parse};

mod against_bash;

/// The commands of a line and the texts of its documents.
#[track_caller]
fn check(line: &str, commands: &[&str], documents: &[&str]) {
    let parsed = parse(line).unwrap_or_else(|unparsed| panic!("{line}: {}", unparsed.doubt));
    let words: Vec<String> = parsed.parts.iter().map(Part::unquoted).collect();
    let texts: Vec<&str> = parsed.parts.iter().flat_map(Part::documents).collect();
    assert_eq!(
        (words.iter().map(String::as_str).collect(), texts),
        (commands.to_vec(), documents.to_vec()),
        "{line}"
    );
}

#[track_caller]
fn check_doubt(line: &str) {
    let parsed = parse(line);
    let doubt = parsed.as_ref().err().map(|unparsed| unparsed.doubt);
    assert_eq!(doubt, Some(Doubt::Syntax), "{line}: {parsed:?}");
}

#[test]
fn the_usual_forms_are_judged_by_what_they_are() {
    check("python3 - <<'EOF'\nprint(1)\nEOF", &["python3 -"], &["print(1)\n"]);
    check("python3 <<'PY' | tail -5\nif x:\n  y\nPY\n", &["python3", "tail -5"], &["if x:\n  y\n"]);
    check("kubectl apply -f - <<EOF\na: b\nEOF", &["kubectl apply -f -"], &["a: b\n"]);
    check("git commit -F - <<'EOF'\nOne\n\nTwo\nEOF", &["git commit -F -"], &["One\n\nTwo\n"]);
    check("cat > f <<'EOF'\n{\"a\": 'b\nEOF", &["cat"], &["{\"a\": 'b\n"]);
    check("cat <<EOF > f\nx\nEOF\nmake", &["cat", "make"], &["x\n"]);
    check("cat <<'EOF' | tee f >/dev/null\nx\nEOF", &["cat", "tee f"], &["x\n"]);
    check("cat <<-EOF\n\tx\n\t\tEOF", &["cat"], &["x\n"]);
    check("a << 'END OF' && b\n$(c)\nEND OF\nd", &["a", "b", "d"], &["$(c)\n"]);
    check("a <<\\E\n`b`\nE", &["a"], &["`b`\n"]);
    for unnamed in ["<<E\nE\nb; c 7\n", "{ b; } <<E\nE\nc\n", "x=1 <<E\nE\nc\n"] {
        for line in [format!("a <({unnamed})"), format!("a $({unnamed})")] {
            assert!(parse(&line).is_err(), "{line}");
        }
    }
    for odd in ["E )", "END OF", "E;b", "E<"] {
        let line = format!("a \"$(cat <<'{odd}'\nx\n{odd}\n)\"");
        assert!(parse(&line).is_err(), "{line}");
    }
    check("a <<E\"O\"F\n$x\nEOF", &["a"], &["$x\n"]);
    check("a <<A <<'B'\n1\nA\n2\nB\nb", &["a", "b"], &["1\n", "2\n"]);
    check("a <<A | b <<B\n1\nA\n2\nB", &["a", "b"], &["1\n", "2\n"]);
    check("a 3<<E\nx\nE", &["a"], &["x\n"]);
    check("a <<E && \\\nb\nx\nE", &["a", "b"], &["x\n"]);
    check("a <<E &&\nx\nE\nb", &["a", "b"], &["x\n"]);
    check("a <<E # b\nx\nE", &["a"], &["x\n"]);
    check("while read x; do b; done <<E\n1\nE", &["read x", "b", ""], &["1\n"]);
    check("{ a; b; } <<E\n1\nE", &["a", "b", ""], &["1\n"]);
    check("(a) <<E\n1\nE", &["a", ""], &["1\n"]);
    check("if a <<E; then\n1\nE\nb; fi", &["a", "b"], &["1\n"]);
    check("f() {\ncat <<E\n1\nE\n}\nf", &["cat", "f"], &["1\n"]);
    check(
        "diff <(a <<A\n1\nA\n) <(b <<B\n2\nB\n)",
        &["a", "b", "diff <(a <<A\n1\nA\n) <(b <<B\n2\nB\n)"],
        &["1\n", "2\n"],
    );
    check("a 2>&1 <<E\n1\nE", &["a"], &["1\n"]);
    check("export A=1 <<E\n1\nE", &["export A=1"], &["1\n"]);
    check("cat <<'EOF' >> .profile\nx\nEOF", &["cat"], &["x\n"]);
    check("cat <<E\n\nE", &["cat"], &["\n"]);
    check("cat <<E\nE", &["cat"], &[""]);
    check("psql <<SQL\nselect 1 << 2;\nSQL", &["psql"], &["select 1 << 2;\n"]);
    check("cat <<'КОНЕЦ'\nпривет\nКОНЕЦ", &["cat"], &["привет\n"]);
    // bash joins the lines before it looks for the end.
    check("cat <<E\na\\\nE\nrm x\nE", &["cat"], &["aE\nrm x\n"]);
    check("cat <<'E'\na\\\nE\nrm x", &["cat", "rm x"], &["a\\\n"]);
}

#[test]
fn what_a_document_expands_is_a_command() {
    check(
        "a <<E\n$(b c) \"$(d)\" `e` $x ${y}\nE",
        &["b c", "d", "e", "a"],
        &["$(b c) \"$(d)\" `e` $x ${y}\n"],
    );
    check("a <<-E\n\t${x:-$(b)}\n\tE", &["b", "a"], &["${x:-$(b)}\n"]);
    check("a <<E\n\\$(b) \\`c\\`\nE", &["a"], &["\\$(b) \\`c\\`\n"]);
    check("a <<E\n\\\\$(b)\nE", &["b", "a"], &["\\\\$(b)\n"]);
    check("a <<E\n'$(b)'\nE", &["b", "a"], &["'$(b)'\n"]);
    check("a <<E\n$((1 << 2))\nE", &["$((1 << 2))", "a"], &["$((1 << 2))\n"]);
    check("a <<E\n# $(b)\nE", &["b", "a"], &["# $(b)\n"]);
    check("a <<E\n$(b 'x)' \")\")\nE", &["b x) )", "a"], &["$(b 'x)' \")\")\n"]);
    let parsed = parse("a <<E\n${x@P}\nE").unwrap();
    assert!(parsed.has_uncertain_name());
}

/// `cat` is a command of its own there: it prints what comes through the pipe.
#[test]
fn files_29c_a_document_below_cat_is_not_what_cat_prints() {
    let literals = |line: &str| parse(line).map_or(0, |parsed| parsed.literals);
    for line in [
        "echo touch | \"$(cat\n<<'E'\nnpm\nE\n)\" test x",
        "echo publish | npm \"$(cat\n<<'E'\ntest\nE\n)\" x",
        "echo publish | npm \"$(\ncat \n\n\t<<E\ntest\nE\n)\" x",
    ] {
        assert_eq!(literals(line), 0, "{line}");
        let rule = BashPattern::parse("npm test *").unwrap();
        assert!(!parse(line).is_ok_and(|parsed| parsed.is_allowed_by(&[&rule])), "{line}");
    }
    for line in ["npm \"$(cat <<'E'\ntest\nE\n)\" x", "npm \"$(\n cat\t<<'E'\ntest\nE\n)\" x"] {
        assert_eq!(literals(line), 1, "{line}");
    }
}

#[test]
fn what_is_no_document_is_none() {
    for line in [
        "echo '<<E'",
        "echo \"<<E\"",
        "echo $((1<<2))",
        "echo \\<\\<E",
        "cat <<<E",
        "ls # <<E",
        "echo $'<<E'",
        "git log --grep='<<<<<<< HEAD'",
        "grep -n '<<' f | head",
        "awk '{ print 1<<2 }' f",
    ] {
        let parsed = parse(line).unwrap_or_else(|unparsed| panic!("{line}: {}", unparsed.doubt));
        let is_document = |redirect: &_| matches!(redirect, RedirectTarget::Document(_));
        let mut redirects = parsed.parts.iter().flat_map(|part| &part.redirects);
        assert!(!redirects.any(|redirect| is_document(&redirect.target)), "{line}");
    }
    check("echo '<<E'\nrm x\nE", &["echo <<E", "rm x", "E"], &[]);
    check("ls # <<E\nrm x\nE", &["ls", "rm x", "E"], &[]);
    check("echo $((1<<2))\nrm x\n2", &["$((1<<2))", "echo $((1<<2))", "rm x", "2"], &[]);
    check("cat <<<E\nrm x\nE", &["cat", "rm x", "E"], &[]);
    check("echo \"a\n<<E\"\nrm x\nE", &["echo a\n<<E", "rm x", "E"], &[]);
    check("echo \\<<'E'\nrm x\nE", &["echo <", "rm x", "E"], &[]);
}

#[test]
fn what_would_hide_a_command_is_doubted() {
    for line in [
        // Arithmetic and subscripts.
        "((1<<2))\nrm x\n2",
        "(( x = 1 << 2 ))\nrm x\n2",
        "for ((i=1<<2;;)); do :; done\nrm x\n2",
        "a[1<<2]=3\nrm x\n2]=3",
        "a[ 1 << 2 ]=3\nrm x\n2",
        "a[ 1 << E ]=3\nrm x\nE",
        "declare a[ 1 << E ]=3\nrm x\nE",
        "echo $[1<<2]\nrm x\n2]",
        "a=(x <<E)\nrm x\nE",
        "echo ${x:1<<2}\nrm x\n2}",
        // Delimiters that are not what they seem.
        "cat <<$x\nrm x\n$x",
        "cat <<$(x)\nrm x\n$(x)",
        "cat <<`x`\nrm x\n`x`",
        "cat <<$'E'\nrm x\nE",
        "cat <<\"E\\E\"\nrm x\nE",
        "cat <<''\n\nrm x",
        "cat <<E\\\nF\nE",
        "cat <<\\\nE\nrm x\nE",
        "cat <<*\nrm x\n*",
        "cat <<{a,b}\nx\n{a,b}",
        "cat <<E#\nx\nE#",
        "cat <<!\nx\n!",
        // Ends that are none, and none at all.
        "cat <<E\nrm x",
        "cat <<E\nrm x\nE ",
        "cat <<E\nrm x\n E",
        "cat <<E\nrm x\n\tE",
        "cat <<E\nrm x\nE\\",
        "cat <<E\nE\\",
        "cat <<'E'\nrm x\nEE",
        "cat <<A <<B\n1\nA\n",
        // Where bash looks for a parenthesis, it takes a line that only begins with the delimiter.
        "x $(cat <<E\nE) ; rm x; (\nE\n)",
        "x $(cat <<'E'\nEvil); rm x; y $(\nE\n)",
        "x <(cat <<E\n1\nE)\nrm x",
        // The first line goes on somewhere else.
        "cat <<E 'a\nb'\nx\nE",
        "cat <<E \"a\nb\"\nx\nE",
        "cat <<E $(a\n)\nx\nE",
        "cat <<E <(a\n)\nx\nE",
        "cat <<E ${x:-a\n}\nx\nE",
        "cat <<E x=(a\n)\nx\nE",
        "cat $(a <<E)\nx\nE",
        "x=$(a <<E\n1\nE",
        "cat <<E `a\n`\nx\nE",
        // In backticks, bash reads the text anew.
        "echo `cat <<E\n$(rm x)\nE`",
        "echo \"`cat <<'E'\nx\nE`\"",
        // What is expanded ends elsewhere.
        "cat <<E\n$(case x in x) rm y;; esac)\nE",
        "cat <<E\n$(rm x\nE\n)\nE",
        "cat <<E\n${x:-'}'}$(rm y)\nE",
        "cat <<E\n${x:-\"}\"}$(rm y)\nE",
        "cat <<E\n`echo \\`rm x\\``\nE",
        "cat <<E\n$\\\n(rm x)\nE",
        "cat <<-E\n$(a\n\tb)\nE",
        "cat <<E\n$(cat <<F\nx\nF\n)\nE",
        "cat <<<<E\nx\nE",
        "cat <<<<<E\nx\nE",
    ] {
        let parsed = parse(line);
        let is_seen = |parsed: &super::super::ParsedCommand| {
            parsed.parts.iter().any(|part| part.unquoted().starts_with("rm "))
        };
        let hides = parsed.as_ref().is_ok_and(|parsed| !is_seen(parsed));
        assert!(!hides, "{line}: {parsed:?}");
    }
    for line in
        ["((1<<2))\nrm x\n2", "cat <<E\nrm x", "cat <<$x\nrm x\n$x", "a[ 1 << E ]=3\nrm x\nE"]
    {
        check_doubt(line);
    }
    // Line ends of another system belong to the delimiter.
    assert_eq!(parse("cat <<E\r\nx\r\nE\r\n").unwrap_err().doubt, Doubt::Characters);
}

#[test]
fn the_commit_command_of_models_is_one_command() {
    let commit = "git commit -m \"$(cat <<'EOF'\nfix: it's \"done\" ($5, `x`)\n\nBody )\nEOF\n)\"";
    let parsed = parse(commit).unwrap();
    let [part] = parsed.parts.as_slice() else { panic!("{:?}", parsed.parts) };
    assert_eq!(part.words[3].literal(), Some("fix: it's \"done\" ($5, `x`)\n\nBody )"));
    assert_eq!(part.text(), commit);
    assert!(parsed.programs().any(|name| name == "cat"));
    let rule = BashPattern::parse("git commit *").unwrap();
    assert!(parsed.is_allowed_by(&[&rule]));
    // Its exact rule holds the whole message.
    let exact = parsed.exact_patterns().unwrap();
    let exact = BashPattern::parse(&exact[0]).unwrap();
    let other = parse(&commit.replace("Body", "Soul")).unwrap();
    assert!(parsed.is_allowed_by(&[&exact]) && !other.is_allowed_by(&[&exact]));

    check(
        "git add -A && git commit -m \"$(cat <<EOF\nOne\nEOF\n)\"",
        &["git add -A", "git commit -m One"],
        &[],
    );
    check(
        "gh pr create --title a --body \"$(cat <<'EOF'\n## S\n- b\nEOF\n)\"",
        &["gh pr create --title a --body ## S\n- b"],
        &[],
    );
    check("a \"x $(cat <<-'E'\n\tb\n\tE\n) y\"", &["a x b y"], &[]);
}

#[test]
fn what_is_more_than_a_text_stays_a_substitution() {
    for line in [
        "git commit -m \"$(cat <<EOF\n$(rm x)\nEOF\n)\"",
        "git commit -m \"$(cat f <<'EOF'\nx\nEOF\n)\"",
        "git commit -m \"$(cat <<'EOF' | sh\nx\nEOF\n)\"",
        "git commit -m \"$(cat <<'EOF'\nx\nEOF\nrm x)\"",
        "git commit -m \"$(sh <<'EOF'\nx\nEOF\n)\"",
        "git commit -m $(cat <<'EOF'\nx\nEOF\n)",
        "cat() { rm x; }; git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\"",
        "hash -p ./evil cat; git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\"",
        "PATH=.; git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\"",
    ] {
        let parsed = parse(line).unwrap_or_else(|unparsed| panic!("{line}: {}", unparsed.doubt));
        assert!(parsed.parts.iter().any(|part| part.is_substituted), "{line}: {parsed:?}");
    }
}

#[test]
fn a_shell_obeys_its_document() {
    let denied = BashPattern::parse("rm *").unwrap();
    for line in [
        "bash <<'E'\nrm x\nE",
        "cat <<'E' | sh\nrm x\nE",
        "sudo bash -s <<E\nrm x\nE",
        "ssh host <<'E'\nrm x\nE",
        "docker exec -i c sh <<'E'\nrm x\nE",
        "xargs -I{} sh -c '{}' <<'E'\nrm x\nE",
        "source /dev/stdin <<'E'\nrm x\nE",
        "{ bash; } <<'E'\nrm x\nE",
        "bash <<'E'\nif :; then rm x; fi\nE",
        "bash -c \"$(cat <<'E'\nrm x\nE\n)\"",
        "eval \"$(cat <<'E'\nrm x\nE\n)\"",
    ] {
        let parsed = parse(line).unwrap_or_else(|unparsed| panic!("{line}: {}", unparsed.doubt));
        assert!(parsed.is_matched_by(&denied), "{line}");
    }
    for line in ["cat <<'E'\nrm x\nE", "python3 <<'E'\nrm x\nE", "cat <<'E' > f\nrm x\nE"] {
        assert!(!parse(line).unwrap().is_matched_by(&denied), "{line}");
    }
}

#[test]
fn no_exact_rule_is_made_of_what_its_input_decides() {
    for line in [
        "python3 - <<'E'\nx\nE",
        "bash <<'E'\nx\nE",
        "kubectl apply -f - <<E\nx\nE",
        "python3 <<< x",
    ] {
        assert_eq!(parse(line).unwrap().exact_patterns(), None, "{line}");
    }
    assert!(parse("cat <<'E' > f\nx\nE").unwrap().exact_patterns().is_some());
}

#[test]
fn a_part_is_written_as_in_the_line() {
    let sources = |line: &str| -> Vec<String> {
        parse(line).unwrap().parts.iter().map(|part| part.source.clone()).collect()
    };
    assert_eq!(sources("a <<'E' > f && b c\nx\nE\nd"), ["a <<'E' > f", "b c", "d"]);
    assert_eq!(sources("a <<E\n\"$(b  'c') ${x:-$(d)}\nE"), ["b  'c'", "d", "a <<E"]);
    let raw = |line: &str| parse(line).unwrap().parts[0].text();
    assert_eq!(raw("a <<E\n\"$(b  'c')\nE"), "b 'c'");
    assert_eq!(sources("<<E a\nx\nE"), ["<<E a"]);
    assert_eq!(sources("a $(b <<E\nx\nE\n) y"), ["b <<E", "a $(b <<E\nx\nE\n) y"]);
}
