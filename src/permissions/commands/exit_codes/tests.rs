//! Tries whole lines: which of them answer with exit code 1.

use super::super::parse;

fn answers(line: &str) -> bool {
    parse(line).is_ok_and(|parsed| parsed.exit_one_is_an_answer())
}

#[test]
fn what_has_found_nothing_answers() {
    for line in [
        "grep x f",
        "rg x",
        "/usr/bin/diff a b",
        "test -f a",
        "[ -f a ]",
        "find . -name x",
        "git diff --exit-code",
        "egrep x f | fgrep y",
        "cmp a b",
        "pgrep -x nginx",
        "which cargo",
        "command -v cargo >/dev/null",
        "[[ -f a ]]",
        "[[ -f a && ( -d b || c < d ) ]]",
        "make; [[ $x =~ ^a ]]",
        "git -C sub --no-pager grep x",
        "cd sub && grep -r 'a; b' . 2>&1",
        "cat f | LC_ALL=C grep \"a && b\" > /dev/null",
        "sleep 1 & grep x f",
        "grep x f &> out",
        "cd sub && grep x f 2>/dev/null",
        "cd sub && make | grep x 2>/dev/null",
        "grep x < f",
        "grep x f # then what?\n",
        "echo a\ngrep x \\\n f;",
        "diff <(echo a) <(echo b)",
        "grep x < <(echo a)",
        "grep x <<< abc",
        "grep x <<E\na; false\nE",
        "grep x <<-'E' >out\n\ta\n\tE\n",
        "grep x $(make)",
        "grep \"$(make \"all\")\" f",
        "grep `make` f",
        "x=$(ls | wc -l); grep $x f",
        "while false; do :; done; grep x /dev/null",
        "if make; then ls; else pwd; fi; grep x f",
        "for f in a b; do cat $f; done; diff a b",
        "{ make; }; grep x f",
        "command -pv zzz",
        "make test | grep FAIL",
        "grep a f && grep b f",
        "grep a f || grep b f",
        "make || grep x log",
        "make && exitless || grep x log",
        "true && grep x f",
        "echo === && grep -c x f",
        "export A=1 && grep x f",
        "x=1 && grep $x f",
        "x=$(grep y f)",
        "(grep x f)",
        "{ make; grep x f; }",
        "if make; then grep x f; fi",
        "if make; then grep x f; else diff a b; fi",
        "for f in a b; do grep x $f; done",
        "while make; do grep x f; done",
        "case $x in a) make; grep x f;; *) diff a b;; esac",
        "time grep x f",
        "timeout 10 grep x f",
        "nice -n 5 rg x",
        "LC_ALL=C grep x f",
        "test -f a && test -f b",
        "grep x f; exitcode=1; grep y f",
        "f() { make; }; grep x f",
    ] {
        assert!(answers(line), "{line}");
    }
}

#[test]
fn everything_else_fails_with_one() {
    for line in [
        "",
        "false",
        "make",
        "git status",
        "git",
        "git -C diff commit",
        "grep x f; make",
        "grep x f || exit 1",
        "exit 1; grep x f",
        "set -e; make; grep x f",
        "set -o pipefail; make | grep x",
        "! grep x f",
        "! grep x f | grep y",
        "if grep x f; then make; fi",
        "if grep x f; then grep y f; else make; fi",
        "x=$(false)",
        "grep x f &",
        "grep x <(make",
        "grep \"$(make\" f",
        "grep x <<E\nE\nmake",
        "cat <<E; make\ngrep x f\nE",
        "if make; then exit 1; fi; grep x f",
        "function f { make; exit 1; }; grep x f",
        "grep() { make; }; grep x f",
        "echo() { make; }; echo && grep x f",
        "grep 'x f",
        "echo grep",
        "> grep",
        "xargs grep x",
        "ls | xargs grep x",
        "trap 'exit 1' EXIT; grep x f",
        "command make",
        "command",
        "[[ -f a ]] && make",
        "[[ -f a ]] || (exit 1)",
        "! [[ -f a ]]",
        "[[ -f a ]] &",
        "[[ -f 'a ]]",
        // The exit code may be that of what stands before.
        "tests && grep -c x f",
        "false && grep -c x f",
        "npm test && grep x f",
        "npm test && grep x f && grep y f",
        "grep x f && npm test",
        "grep x f && npm test && grep y f",
        "npm test || make && grep x f",
        "make | tee log && grep x log",
        "(make && grep x f)",
        "{ false && grep x f; }",
        "if true; then make && grep x f; fi",
        "x=$(make && grep y f)",
        "x=$(make) && grep y f",
        "cd sub 2>/dev/null && grep x f",
        "{ cd sub && grep x f; } 2>/dev/null",
        "(cd sub && grep x f) &> log",
        "make; { cd sub && grep x f; } 2>log",
        "true && (cd sub && grep x f) 2>log",
        "grep x 2>/dev/null < missing",
        "grep x f; echo $?",
        "grep x f || true",
        "grep x f | wc -l",
        "grep -c x f | cat",
        "source env && grep x f",
        "source env; grep x f",
        "$X; grep x f",
        "eval make; grep x f",
        "sudo grep x f",
        "ssh host grep x f",
        "bash -c 'grep x f'",
        "while grep x f; do make; done",
        "until grep x f; do make; done",
        "for f in a; do make && grep x $f; done",
        "case $x in a) make;; *) grep x f;; esac",
        "((x > 1))",
        "let x=0",
        "grep x f & wait $!",
        "coproc make; grep x f",
    ] {
        assert!(!answers(line), "{line}");
    }
}

/// `&>`, `&>>` and `>&` take what the shell says of a failure, as `2>` does.
#[test]
fn files_29a_the_shell_is_not_heard_where_both_outputs_go_to_a_file() {
    for line in [
        "cd sub &>/dev/null && grep x f",
        "cd sub &>> log && grep x f",
        "cd sub >&/dev/null && test -f a",
        "export A=1 &> log && grep x f",
        "grep x &>/dev/null < missing",
        "grep x >& log < missing",
    ] {
        assert!(!answers(line), "{line}");
    }
    for line in [
        "cd sub > /dev/null && grep x f",
        "cd sub >&1 && grep x f",
        "grep x f &>> log",
        "test -f a >& log",
    ] {
        assert!(answers(line), "{line}");
    }
}
