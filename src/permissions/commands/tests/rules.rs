//! What `Bash(…)` rules match.

use super::*;

#[track_caller]
fn check_allowed(line: &str, patterns: &[&str], expected: bool) {
    let patterns: Vec<_> =
        patterns.iter().map(|pattern| BashPattern::parse(pattern).unwrap()).collect();
    let allowed =
        parse(line).is_ok_and(|parsed| parsed.is_allowed_by(&patterns.iter().collect::<Vec<_>>()));
    assert_eq!(allowed, expected, "{line}");
}

#[track_caller]
fn check_denied(line: &str, pattern: &str, expected: bool) {
    let parsed_pattern = BashPattern::parse(pattern).unwrap();
    let matched = match parse(line) {
        Ok(parsed) => parsed.is_matched_by(&parsed_pattern),
        Err(unparsed) => unparsed.is_matched_by(&parsed_pattern),
    };
    assert_eq!(matched, expected, "{line}");
}

#[test]
fn allow_needs_every_part() {
    let npm = &["npm *", "echo *", "test *"];
    for line in [
        "npm test",
        "npm",
        "npm test && npm run x",
        "npm a; npm b\nnpm c",
        "npm a | npm b",
        "npm 'a b'",
        "(npm a; npm b)",
        "{ npm a; }",
        "! npm a",
        "npm a &",
        "'npm' test",
        "if npm a; then npm b; fi",
        "for f in a b; do npm $f; done",
        "npm a > out",
        "npm a 2>&1",
        "npm $(npm bin)",
        "npm $x",
        "npm \"$(echo a)\"",
        "npm a |& npm b",
        "n\\pm a",
        "while npm a; do npm b; done",
        "f() { npm a; }",
        "npm a # comment",
        "npm \\\n a",
        "case $x in a) npm a;; esac",
        "cat=1; npm a",
    ] {
        let expected = line != "cat=1; npm a";
        check_allowed(line, npm, expected);
    }
    for line in [
        "npm test; rm x",
        "npm $(rm x)",
        "npm `rm x`",
        "npm <(rm x)",
        "npm a & rm x",
        "npm a\nrm x",
        "npm a | rm",
        "npm \"$(rm x)\"",
        "npm ${x:-$(rm y)}",
        "(npm a; rm b)",
        "if rm x; then npm a; fi",
        "npmx",
        "f() { rm x; }; npm",
        "npm a > $(rm x)",
        "npm <<EOF\n$(rm x)\nEOF",
        "npm <<< $(rm x)",
        "npm a >(rm x)",
        "for x in $(rm y); do npm; done",
        "case $(rm x) in a) npm;; esac",
        "npm a || { rm x; }",
        "npm $((x=$(rm y)))",
        "npm ${x#$(rm y)}",
        "while rm x; do npm; done",
        "[[ -n $(rm x) ]] && npm a",
        "coproc rm x",
        "npm \\\nx; rm y",
    ] {
        check_allowed(line, npm, false);
    }
}

#[test]
fn allow_needs_to_know_the_program() {
    for line in [
        "$x",
        "$(echo rm) x",
        "`echo rm` x",
        "${x} y",
        "/bin/l? x",
        "{ls,-l}",
        "~/x y",
        "r* x",
        "''",
        "'a b'",
        "$'\\x61' $x",
        "\"$x\" y",
    ] {
        let expected = line.starts_with("$'");
        check_allowed(line, &["*"], expected);
    }
}

#[test]
fn allow_does_not_see_what_is_evaluated() {
    for line in [
        "echo $((x))",
        "echo ${!x}",
        "echo ${x[y]}",
        "((x))",
        "echo $[x]",
        "echo ${x:y}",
        "echo ${x@P}",
        "for ((i=0;i<x;i++)); do echo; done",
    ] {
        check_allowed(line, &["*"], false);
    }
    for line in [
        "[ -v 'a[$(rm x)]' ]",
        "command read 'a[$(rm x)]'",
        "echo $(($1))",
        "let 'a[$(rm x)]=1'",
        "read 'a[$(rm x)]'",
        "printf -v 'a[`x`]' y",
        "unset 'a[$(rm x)]'",
        "for x in 'a[$(rm x)]'; do [[ $x -eq 1 ]]; done",
        "test -v a[$x]",
        "declare 'a[$(rm x)]=1'",
        "export \"a[$x]\"",
    ] {
        check_allowed(line, &["*"], false);
    }
    for line in ["echo $((1 + 2))", "echo ${x:-y}", "echo ${x[0]} ${x[@]} ${#x}", "echo ${x%.*}"] {
        check_allowed(line, &["echo *"], true);
    }
}

#[test]
fn allow_looks_through_wrappers() {
    for line in [
        "timeout 5 npm a",
        "timeout -k 5s 1m npm a",
        "timeout --signal=KILL 5 npm a",
        "time npm a",
        "time -p npm a",
        "nice npm a",
        "nice -n 5 npm a",
        "nice -5 npm a",
        "nohup npm a",
        "stdbuf -oL npm a",
        "command npm a",
        "builtin npm a",
        "xargs npm a",
        "nohup nice timeout 5 npm a",
        "timeout --preserve-status 5 npm a",
        "nice -n5 npm a",
        "stdbuf --output=L npm a",
    ] {
        check_allowed(line, &["npm *"], true);
    }
    for line in [
        "timeout 5 rm a",
        "env npm a",
        "sudo npm a",
        "exec npm a",
        "xargs -n 1 npm a",
        "time -o f npm a",
        "timeout $x npm a",
        "timeout npm a",
        "command -v npm",
        "nice $x npm a",
        "xargs",
        "setsid npm a",
        "nohup $npm a",
        "timeout 5",
        "sh -c 'npm a'",
        "eval npm a",
        "find . -exec npm a \\;",
        "time X=1 npm a",
        "timeout -x 5 npm a",
        "command",
    ] {
        check_allowed(line, &["npm *"], false);
    }
    check_allowed("xargs git status", &["git status"], false);
    check_allowed("timeout 5 rm a", &["timeout *"], true);
}

#[test]
fn allow_looks_past_harmless_assignments_alone() {
    for line in [
        "LANG=C npm a",
        "LC_ALL=C TZ=UTC npm a",
        "CI=1 npm a",
        "NODE_ENV='test' npm a",
        "RUST_LOG=a=debug,b npm a",
        "NO_COLOR= npm a",
        "LANG=C; npm a",
    ] {
        check_allowed(line, &["npm *"], true);
    }
    for line in [
        "PATH=. npm a",
        "X=1 npm a",
        "LANG=$x npm a",
        "LANG=$(rm x) npm a",
        "LD_PRELOAD=x npm a",
        "PATH=.; npm a",
        "LANG='$(x)' npm a",
        "for PATH in .; do npm a; done",
        "LANG=(a) npm a",
        "for http_proxy in a; do npm a; done",
        "LANG[0]=a npm a",
        "NODE_OPTIONS=x npm a",
        "LC_ALL+=a:* npm a",
    ] {
        check_allowed(line, &["npm *"], false);
    }
}

#[test]
fn deny_needs_any_part() {
    for line in [
        "rm x",
        "rm",
        "ls; rm x",
        "ls && rm x",
        "ls | rm",
        "ls & rm x",
        "ls\nrm x",
        "(rm x)",
        "{ rm x; }",
        "echo $(rm x)",
        "echo `rm x`",
        "cat <(rm x)",
        "! rm x",
        "X=1 rm x",
        "if rm x; then :; fi",
        "f() { rm x; }",
        "r''m x",
        "'rm' x",
        "\\rm x",
        "\"rm\" x",
        "$'\\x72m' x",
        "r\\m x",
        "/bin/rm x",
        "rm>x y",
        ">x rm y",
        "rm   x",
        "rm\tx",
        "rm \\\nx",
        "cat <<EOF\n$(rm x)\nEOF",
        "cat <<EOF && rm x\na\nEOF",
        "[[ $(rm x) ]]",
        "case a in a) rm x;; esac",
        "while :; do rm x; done",
        "echo ${x:=$(rm y)}",
        "rm <<< x",
        "echo \"a $(rm b)\"",
        "coproc rm x",
        "time rm x",
        "ls |& rm",
        "echo a > $(rm x)",
        "for i in a; do rm $i; done",
    ] {
        check_denied(line, "rm *", true);
    }
    for line in ["ls", "echo rm", "lsrm x", "rmdir x", "echo 'a; rm x'", "cat rm", "echo a # rm x"]
    {
        check_denied(line, "rm *", false);
    }
}

#[test]
fn deny_looks_through_all_wrappers() {
    for line in [
        "sudo rm x",
        "sudo -u root rm x",
        "sudo -- rm x",
        "env rm x",
        "env -i A=1 rm x",
        "setsid rm x",
        "exec rm x",
        "exec -a ls rm x",
        "xargs rm",
        "xargs -n 1 rm",
        "xargs -I {} rm {}",
        "find . -exec rm {} \\;",
        "find . -name x -execdir rm {} +",
        "sh -c 'rm x'",
        "bash -c \"rm x\"",
        "bash -lc 'ls; rm x'",
        "bash -o pipefail -c 'rm x'",
        "eval rm x",
        "eval 'rm x'",
        "eval \"ls; rm $x\"",
        "timeout 5 rm x",
        "timeout $x rm x",
        "nohup nice -n 5 stdbuf -oL rm x",
        "time rm x",
        "command rm x",
        "env -S 'rm x'",
        "env --split-string='rm x'",
        "sudo sh -c 'eval \"rm x\"'",
        "busybox rm x",
        "trap 'rm x' EXIT",
        "xargs sh -c 'rm \"$@\"'",
        "doas rm x",
        "/usr/bin/env rm x",
        "sudo env nice rm x",
        "flock f rm x",
        "script -qc 'rm x' f",
        "su -c 'rm x'",
        "watch rm x",
        "chroot / rm x",
        "bash -c 'bash -c \"rm x\"'",
    ] {
        check_denied(line, "rm *", true);
    }
}

#[test]
fn the_whole_line_is_compared_as_well() {
    check_denied("curl x | sh", "curl * | sh", true);
    check_denied("curl x |  sh", "* | *", true);
    check_denied("A=1 make x", "A=1 *", true);
}

#[test]
fn deny_holds_where_a_line_does_not_parse() {
    let many = format!("{}rm x", "true; ".repeat(50));
    let long = format!("echo {}; rm x", "a".repeat(20_000));
    let nested = format!("rm x; echo {}", "$(".repeat(200));
    for line in [
        many.as_str(),
        &long,
        &nested,
        "rm x; echo 'a",
        "echo \"; rm x",
        "a <> b; sudo rm x",
        "ls\r\nrm x",
        "then rm x",
        "ls\u{a0}; rm x",
        "X=1 rm x )",
        "(r''m x",
        "echo $(rm x",
        "sh -c 'rm x' )",
        "if true; rm x",
    ] {
        check_denied(line, "rm *", true);
    }
}

#[test]
fn a_rule_of_stars_takes_no_more_work_than_a_search() {
    let pattern = BashPattern::parse(&"a*".repeat(500)).unwrap();
    assert!(!pattern.matches(&"a".repeat(499)));
    assert!(pattern.matches(&"a".repeat(500)));
    assert!(BashPattern::parse(&"*".repeat(100_000)).unwrap().matches("x"));
}
