//! Which lines have which risks.

use std::path::Path;

use super::super::parse;
use super::*;

fn risks(line: &str) -> Vec<Risk> {
    let place = Place { directory: Path::new("/ws"), home: Path::new("/home/me") };
    let is_sensitive = |path: &OperandPath| match path {
        OperandPath::Known(path) => path.ends_with(".bashrc"),
        _ => true,
    };
    match parse(line) {
        Ok(parsed) => parsed.risks(&place, &is_sensitive),
        Err(unparsed) => unparsed.risks(),
    }
}

#[track_caller]
fn check(line: &str, kind: RiskKind, severity: Severity) {
    let found = risks(line);
    let is_found = |risk: &Risk| risk.kind == kind && risk.severity == severity;
    assert!(found.iter().any(is_found), "{line}: {found:?}");
}

#[test]
fn a_substitution_that_only_tells_something_is_none() {
    for line in [
        "for i in $(seq 1 40); do echo $i; done",
        "make VERSION=$(cat VERSION)",
        "cp a b-$(date +%F)",
        "cd $(dirname \"$0\")",
        "echo $(git status --short)",
    ] {
        let found = risks(line);
        assert!(found.iter().all(|risk| risk.kind != RiskKind::Substitution), "{line}: {found:?}");
    }
}

#[test]
fn names_what_is_suspicious() {
    check("echo $(touch x)", RiskKind::Substitution, Severity::Medium);
    check("cat <(make)", RiskKind::Substitution, Severity::Medium);
    check("echo $(ls > x)", RiskKind::Substitution, Severity::Medium);
    check("echo $(cat $(make))", RiskKind::Substitution, Severity::Medium);
    check("$x y", RiskKind::Obfuscation, Severity::High);
    check("t''ouch x", RiskKind::Obfuscation, Severity::High);
    check("$'\\x74ouch' x", RiskKind::Obfuscation, Severity::High);
    check("/usr/bin/touc? x", RiskKind::Obfuscation, Severity::High);
    check("lѕ x", RiskKind::Obfuscation, Severity::High);
    check("ls\u{a0}x", RiskKind::Obfuscation, Severity::High);
    check("ls \u{202e}x", RiskKind::Obfuscation, Severity::High);
    check("echo eA== | base64 -d | sh", RiskKind::Obfuscation, Severity::Critical);
    check("echo x > ~/.bashrc", RiskKind::SensitiveRedirect, Severity::High);
    check("echo x >> .bashrc", RiskKind::SensitiveRedirect, Severity::High);
    check("curl x", RiskKind::Network, Severity::Medium);
    check("sudo curl x", RiskKind::Network, Severity::Medium);
    check("git push origin", RiskKind::Network, Severity::Medium);
    check("echo > /dev/tcp/1.2.3.4/5", RiskKind::Network, Severity::High);
    check("curl x | sh", RiskKind::CodeExecution, Severity::Critical);
    check("bash -c 'curl x | python3 -'", RiskKind::CodeExecution, Severity::Critical);
    check("sudo ls", RiskKind::Privilege, Severity::High);
    check("chmod u+s x", RiskKind::Privilege, Severity::High);
    check("chmod 4755 x", RiskKind::Privilege, Severity::High);
    check("rm -rf x", RiskKind::Tampering, Severity::Medium);
    check("dd if=x of=/dev/sda", RiskKind::Tampering, Severity::Critical);
    check("cat x > /dev/sda", RiskKind::Tampering, Severity::Critical);
    check("git reset --hard", RiskKind::Tampering, Severity::Medium);
    check("pkill x", RiskKind::Tampering, Severity::High);
    check("eval \"$x\"", RiskKind::CodeExecution, Severity::High);
    check("PATH=. ls", RiskKind::CodeExecution, Severity::High);
    check("find . -exec ls {} +", RiskKind::CodeExecution, Severity::Medium);
    check("python3 x.py", RiskKind::CodeExecution, Severity::Medium);
    check("git -c core.pager=x log", RiskKind::CodeExecution, Severity::High);
    check("(( a[x] ))", RiskKind::CodeExecution, Severity::Medium);
}

#[test]
fn p13_the_environment_of_processes_is_denied() {
    for line in [
        "cat /proc/1/environ",
        "cat /proc/$PPID/environ",
        "strings '/proc/self/environ'",
        "cat /pro''c/self/environ",
        "cat < /proc/1/environ",
        "cd /proc/1 && cat environ",
        "cat /proc/*/environ",
        "cat /proc/self/env*",
        "cat //proc//self//environ",
        "python3 -c 'open(\"/proc/1/environ\")'",
        "tr a b </proc/1/task/1/environ",
        "cat /proc/self/./environ",
        "cat \"/proc/1/environ",
        "cd /proc; cat 1/environ",
        "cat /proc/1/{environ,status}",
        "cat /proc/1/{stat,environ}",
        "cat /proc/1/?nviron",
    ] {
        check(line, RiskKind::ProcessEnvironment, Severity::Critical);
    }
    for line in ["cat /proc/cpuinfo", "ls /proc/*", "cat proc/env.rs", "cat environ"] {
        assert!(risks(line).iter().all(|risk| !risk.kind.is_denied()), "{line}");
    }
}

#[test]
fn control_characters_are_denied() {
    for line in ["ls\r\n", "ls \0", "echo \x1b[2J", "ls \x7f", "ls \u{85}", "ls\x0bx"] {
        check(line, RiskKind::ControlCharacters, Severity::Critical);
    }
    assert!(risks("ls\t-l\nls").iter().all(|risk| !risk.kind.is_denied()));
}

#[test]
fn an_ordinary_line_has_no_risk() {
    for line in [
        "ls -la",
        "cargo test 2>&1 | tail -n 5",
        "npm run build > out.txt",
        "cd src && grep -rn 'a b' .",
        "\\ls",
        "\"ls\" x",
        "git commit -m 'x y'",
        "rm a.txt",
    ] {
        assert_eq!(risks(line), [], "{line}");
    }
}

#[test]
fn the_gravest_comes_first() {
    let found = risks("sudo curl $(x) | sh");
    assert!(found.is_sorted_by_key(|risk| std::cmp::Reverse(risk.severity)), "{found:?}");
    assert_eq!(found[0].severity, Severity::Critical);
    assert_eq!(found[0].severity.as_str(), "critical");
}

#[test]
fn every_kind_is_in_the_description_of_the_api() {
    let text = include_str!("../../../../openapi.yaml");
    for kind in RiskKind::ALL {
        assert!(text.contains(&format!("- {}\n", kind.as_str())), "{}", kind.as_str());
    }
}
