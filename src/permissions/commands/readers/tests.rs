//! Tries what counts as a reader.

use super::super::parse;
use super::Reading;

fn reading(line: &str) -> Reading {
    match parse(line) {
        Ok(parsed) => parsed.reading(),
        Err(unparsed) => Reading::unknown("", &unparsed.doubt.to_string()),
    }
}

#[track_caller]
fn check(lines: &[&str], is_expected: impl Fn(&Reading) -> bool) {
    for line in lines {
        let reading = reading(line);
        assert!(is_expected(&reading), "{line}: {reading:?}");
    }
}

#[test]
fn what_is_on_the_list_reads() {
    let lines = [
        "ls *.md",
        "ls src 2>/dev/null",
        "rg TODO 2>&1 | head -n 5",
        "cat src/*.rs | wc -l",
        "tail -f log",
        "find . -name '*.rs' -not -path './target/*'",
        "find . -type f -print0 | xargs -0 -n 10 grep -l TODO",
        "fd -e rs main",
        "sed -n '1,80p' src/main.rs",
        "sort log | uniq -c | sort -rn | head",
        "awk -F, '{print $1}' a.csv",
        "du -sh * | sort -h",
        "command -v node || which node",
        "type python3",
        "node --version; python3 -V; make --help",
        "go version && go env GOPATH && go list ./...",
        "date +%s",
        "date -u -Iseconds",
        "echo \"$HOME\" $PATH ~",
        "test -f Cargo.toml && echo yes",
        "[ -d src ] && ls src",
        "[[ -n $x && -d src ]] && ls",
        "for f in src/*.rs; do wc -l \"$f\"; done",
        "while IFS= read -r f; do echo \"$f\"; done < list",
        "if [ -f a ]; then cat a; else ls; fi",
        "n=$(ls | wc -l); echo \"$n files\"",
        "echo \"$(git rev-parse HEAD), $(date)\"",
        "diff <(sort a) <(sort b)",
        "cat <<'E' | wc -l\na\nE",
        "grep x <<< \"$y\"",
        "(cd src && ls)",
        "! grep -q x a",
        "time ls",
        "timeout 5 rg x",
        "cargo tree -d",
        "cargo metadata --format-version 1 --no-deps",
        "npm ls --depth=0",
        "pip show requests",
        "jq .name package.json",
        "printf '%s\\n' a b",
        "LC_ALL=C sort a",
        "ls\nls -la",
        "env",
        "set -e; ls",
        "ls |& cat",
    ];
    check(&lines, |reading| *reading == Reading::Reader);
    check(&["ls -la", "cat a | head -n 1"], |reading| *reading == Reading::Proven);
}

#[test]
fn what_writes_or_runs_others_does_not() {
    let lines = [
        "",
        "make",
        "cargo build",
        "cargo tree --config x",
        "npm test",
        "npm view --script-shell=x",
        "pip install x",
        "go build",
        "go env -w X=1",
        "go list -toolexec x ./...",
        "find . -exec cat {} +",
        "find . -delete",
        "find . -fls x",
        "fd -x rm",
        "fd --exec-b rm",
        "rg --pre ./x y",
        "rg --pr=./x y",
        "sed -i s/a/b/ a",
        "sed -ni p a",
        "sed --in-pl s/a/b/ a",
        "sed 'w x' a",
        "sed 's/a/b/e' a",
        "sed -f s a",
        "awk '{print > \"x\"}' a",
        "awk 'BEGIN{system(\"ls\")}'",
        "gawk -i inplace '{print}' a",
        "sort -o a a",
        "sort --compress-prog=./x a",
        "uniq a b",
        "xxd a b",
        "file -C -m a",
        "date -s tomorrow",
        "date 01010000",
        "hostname evil",
        "env x",
        "env -S 'ls'",
        "printf -v x a",
        "command ls > x",
        "xargs rm",
        "xargs -a f ls",
        "xargs git log",
        "nice git diff",
        "ls | xargs -I{} sh -c '{}'",
        "ls > x",
        "ls >> x",
        "ls &> x",
        "cat <> x",
        "ls &",
        "ls() { cat; }; ls",
        "X=1 ls",
        "PATH=. ls",
        "PATH=.; ls",
        "http_proxy=x; ls",
        "GIT_DIR=x git log",
        "for PATH in .; do ls; done",
        "read PATH; ls",
        "./ls",
        "/bin/ls",
        "'ls' $x",
        "$x",
        "l\\s",
        "$(ls)",
        "echo $(rm x)",
        "echo `touch x`",
        "cat <(rm x)",
        "x=$(touch y)",
        "echo $((x))",
        "((x = 1))",
        "bash version",
        "make version",
        "node version",
        "touch version",
        "./x --version",
        "eval --version",
        ". --help",
        "tree -o x",
        "less -o x a",
        "less +!id a",
        "echo x | tee y",
        "export X=1",
        "exec ls",
        "source a",
        "echo 'a",
    ];
    check(&lines, |reading| matches!(reading, Reading::Unknown(_)));
}

#[test]
fn git_reads_with_the_listed_commands() {
    let reading = [
        "git status -sb",
        "git -C src log --oneline -10",
        "git --no-pager diff main...HEAD -- src",
        "git show HEAD:src/main.rs",
        "git branch -vv",
        "git branch --list 'a*'",
        "git rev-parse --abbrev-ref HEAD",
        "git remote -v",
        "git remote get-url origin",
        "git ls-files '*.rs'",
        "git ls-tree -r HEAD",
        "git blame -L 1,5 a",
        "git tag",
        "git tag -l 'v*' -n1",
        "git stash list",
        "git stash show -p",
        "git grep -n TODO",
        "git describe --tags",
        "git shortlog -sn HEAD",
        "git reflog",
        "git config --get user.name",
        "git config --list",
        "git cat-file -p HEAD",
        "git merge-base main HEAD",
        "git for-each-ref refs/tags",
        "git name-rev HEAD",
        "git worktree list",
        "git submodule",
        "git submodule status --recursive",
        "git submodule summary",
        "git rev-list --count HEAD",
        "git check-ignore -v target",
        "git check-attr -a a.txt",
        "git show-ref --heads",
        "git diff-tree -r --name-only HEAD",
        "git diff-index --quiet HEAD",
        "git diff-files --name-status",
        "git count-objects -v",
        "git cherry -v",
        "git range-diff main...HEAD",
        "git --version",
    ];
    check(&reading, |reading| *reading == Reading::Reader);
    let others = [
        "git",
        "git push",
        "git log --output=x",
        "git log --outp x",
        "git -c a=b log",
        "git --git-dir=x log",
        "git -p log",
        "git diff --ext-diff",
        "git show --textconv",
        "git log --show-signature",
        "git branch new",
        "git branch -D x",
        "git branch -avf x",
        "git branch --edit-description",
        "git tag v1",
        "git tag -d v1",
        "git stash",
        "git stash pop",
        "git remote add a b",
        "git remote update",
        "git reflog expire --all",
        "git submodule update --init",
        "git submodule foreach ls",
        "git submodule add x",
        "git diff-tree --output=x HEAD",
        "git diff-index --ext-diff HEAD",
        "git range-diff --output x main...HEAD",
        "git config user.name x",
        "git config --unset x",
        "git worktree add x",
        "git grep -O x",
        "git grep --open-files a",
        "git cat-file --filters HEAD:a",
        "git checkout x",
        "git reset --hard",
        "git 'status'",
        "git st",
        "git $x",
    ];
    check(&others, |reading| matches!(reading, Reading::Unknown(_)));
}

#[test]
fn the_part_that_is_none_is_named_with_the_reason() {
    let told = |line: &str| match reading(line) {
        Reading::Unknown(not) => not.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        told("ls && make x"),
        "`make x`: make is not on the list of programs that only read"
    );
    assert_eq!(told("find . -delete"), "`find . -delete`: find does more than read with -delete");
    assert_eq!(told("ls &"), "a part of it goes to the background");
    assert_eq!(told("ls > x"), "`ls > x`: it redirects its output to a file");
}
