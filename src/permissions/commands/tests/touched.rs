//! Which files a line names.

use std::path::Path;

use super::*;

/// `r a`, `w a`: reading and writing. `*` after it: recursive. `?`: only possible.
fn operands(line: &str) -> Vec<String> {
    let place = Place { directory: Path::new("/ws"), home: Path::new("/home/me") };
    let shown = |operand: Operand| {
        let access = if operand.access == OperandAccess::Read { "r" } else { "w" };
        let path = match operand.path {
            OperandPath::Known(path) => {
                path.strip_prefix("/ws").unwrap_or(&path).to_str().unwrap().to_owned()
            }
            OperandPath::Relative(path) => format!("unknown/{}", path.display()),
            OperandPath::Pattern(pattern) => format!("pattern {pattern}"),
            OperandPath::Unknown(raw) => format!("unknown {raw}"),
        };
        let recursive = if operand.is_recursive { "*" } else { "" };
        let possible = if operand.is_possible { "?" } else { "" };
        format!("{access} {path}{recursive}{possible}")
    };
    parse(line).unwrap().operands(&place).into_iter().map(shown).collect()
}

#[track_caller]
fn check(line: &str, expected: &[&str]) {
    assert_eq!(operands(line), expected, "{line}");
}

#[test]
fn reading_programs() {
    check("cat a 'b c' -n", &["r a", "r b c"]);
    check("cat -- -n", &["r -n"]);
    check("cat -", &[]);
    check("head -n 5 a", &["r a"]);
    check("head -n5 -c 3 a", &["r a"]);
    check("tail -5 a", &["r a"]);
    check("wc --files0-from=a", &["r a"]);
    check("grep -n x a b", &["r a", "r b"]);
    check("grep -e x a", &["r a"]);
    check("grep -f p a", &["r a", "r p"]);
    check("grep --file=p a", &["r a", "r p"]);
    check("grep -rn x src", &["r src*"]);
    check("grep -r x", &["r *"]);
    check("grep -A 3 x a", &["r a"]);
    check("rg x", &["r *"]);
    check("rg -g '*.rs' x src", &["r src*"]);
    check("sed -n 1,5p a", &["r a"]);
    check("sed -n -e 1p a", &["r a"]);
    check("awk '{print $1}' a", &["r a"]);
    check("awk -F : '{print $1}' a", &["r a"]);
    check("sort -k 2 a", &["r a"]);
    check("cut -d , -f 1 a", &["r a"]);
    check("diff -r a b", &["r a*", "r b*"]);
    check("cmp a b", &["r a", "r b"]);
    check("file -m m a", &["r a", "r m"]);
    check("base64 -d a", &["r a"]);
    check("od -c a", &["r a"]);
    check("strings -n 8 a", &["r a"]);
    check("tr a b", &[]);
    check("ls", &["r "]);
    check("ls -R src", &["r src*"]);
    check("stat -c %s a", &["r a"]);
    check("cat < a", &["r a"]);
    check("/bin/cat a", &["r a"]);
    check("'cat' a", &["r a"]);
}

#[test]
fn writing_programs() {
    check("cp a b", &["r a", "w b", "w b/a?"]);
    check("cp -r a b c", &["r a*", "r b*", "w c*", "w c/a*?", "w c/b*?"]);
    check("cp -t d a", &["r a", "w d", "w d/a?"]);
    check("cp --target-directory=d x/a", &["r x/a", "w d", "w d/a?"]);
    check("cp .x/.bashrc .", &["r .x/.bashrc", "w ", "w .bashrc?"]);
    check("mv a b", &["r a*", "w b*", "w b/a*?", "w a*"]);
    check("rm -rf a b", &["w a*", "w b*"]);
    check("rmdir a", &["w a"]);
    check("mkdir -p -m 755 a/b", &["w a/b"]);
    check("touch -r a b", &["w b", "r a"]);
    check("tee -a a b", &["w a", "w b"]);
    check("ln -s a b", &["r a", "w b", "w b/a?"]);
    check("ln -s x/a", &["r x/a", "w a?"]);
    check("chmod 755 a", &["w a"]);
    check("chmod -R u+x a", &["w a*"]);
    check("chown --reference=r a", &["w a", "r r"]);
    check("truncate -s 0 a", &["w a"]);
    check("dd if=a of=b bs=1", &["r a", "w b"]);
    check("dd of=~/b", &["w /home/me/b"]);
    check("install -m 755 a b", &["r a", "w b", "w b/a?"]);
    check("install -d a b", &["w a", "w b"]);
    check("sort -o a b", &["r b", "w a"]);
    check("sort --outp=a b", &["r b", "w a"]);
    check("sort -oa b", &["r b", "w a"]);
    check("uniq a b", &["r a", "w b"]);
    check("xxd -r a b", &["r a", "w b"]);
    check("sed -i s/a/b/ f", &["r f", "w f"]);
    check("sed -ni.bak 1p f", &["r f", "w f", "w f.bak"]);
    check("sed --in-place=.bak 1p f", &["r f", "w f", "w f.bak"]);
    check("sed -is s/a/b/ .gitmodule", &["r .gitmodule", "w .gitmodule", "w .gitmodules"]);
    check("sed -ie s/a/b/ f", &["r f", "w f", "w fe"]);
    check("sed -i'x/*' p f", &["r f", "w f", "w unknown fx/*"]);
    check("sed 'w x' f", &["r f", "w unknown (files of the sed script)"]);
    check("sed -f s f", &["r f", "r s", "w unknown (files of the sed script)"]);
    check(
        "awk '{print > \"x\"}' f",
        &["r f", "r unknown (files of the awk script)", "w unknown (files of the awk script)"],
    );
}

#[test]
fn redirects() {
    check("a > b", &["w b"]);
    check("a >> b 2> c", &["w b", "w c"]);
    check("a &> b", &["w b"]);
    check("a > /dev/null 2>&1", &[]);
    check("a > $b", &["w unknown $b"]);
    check("a > \"$HOME/b\"", &["w /home/me/b"]);
    check("(a) > b", &["w b"]);
    check("a <<< b", &[]);
    check("while a; do b; done > c", &["w c"]);
    check("cat $(a > b)", &["w b", "r unknown $(a > b)"]);
    check("a > b c", &["w b"]);
    check("{ a > b; }", &["w b"]);
}

#[test]
fn expansions() {
    check("cat ~/a ~ \"~\"", &["r /home/me/a", "r /home/me", "r ~"]);
    check("cat $HOME/a ${HOME}/b $PWD/c", &["r /home/me/a", "r /home/me/b", "r c"]);
    check("cat ~other/a", &["r unknown ~other/a"]);
    check("cat $x '$x'", &["r unknown $x", "r $x"]);
    check("cat *.rs", &["r pattern /ws/*.rs"]);
    check("cat 'a*'b?", &["r pattern /ws/a\\*b?"]);
    check("cat /a/*", &["r pattern /a/*"]);
    check("cat {a,b}", &["r unknown {a,b}"]);
    check("cp $x b", &["r unknown $x", "w b", "w pattern /ws/b/*?"]);
}

#[test]
fn a_change_of_directory_moves_what_follows() {
    check("cd a && cat b", &["r a/b"]);
    check("cd a && x && cat b", &["r a/b"]);
    check("cd a; cat b", &["r b", "r a/b"]);
    check("cd a || cat b", &["r b", "r a/b"]);
    check("(cd a); cat b", &["r b", "r a/b"]);
    check("cd /x && cat b /c", &["r /x/b", "r /c"]);
    check("cd && cat b", &["r /home/me/b"]);
    check("cd ~/x && cat b", &["r /home/me/x/b"]);
    check("cd $x && cat b", &["r unknown/b"]);
    check("cd - && cat b", &["r unknown/b"]);
    check("cd $x; cat b", &["r b", "r unknown/b"]);
    check("pushd a; cat b", &["r b", "r a/b"]);
    check("pushd; cat b", &["r b", "r unknown/b"]);
    check("pushd +1 && cat b", &["r unknown/b"]);
    check("popd && cat b", &["r unknown/b"]);
    check("cd a && cd b && cat c", &["r a/b/c"]);
    check("cd a/.. && cat b", &["r b", "r a/../b"]);
    check("cd a && echo x > b", &["w a/b"]);
    check("f() { cd x; }; f; cat b", &["r b", "r x/b", "r unknown/b"]);
    check("for i in a; do cat b; cd ..; done", &["r b", "r unknown/b"]);
    check("HOME=/x; cat b", &["r b", "r unknown/b"]);
    check(". f; cat b", &["r b", "r unknown/b"]);
    check("eval 'cd x' && cat b", &["r b", "r x/b"]);
    check("cd a | cat b", &["r b", "r a/b"]);
    check("command cd a && cat b", &["r a/b"]);
    check("cd -P a && cat b", &["r a/b"]);
    check("cd -P -e -- a && cat b", &["r a/b"]);
}

#[test]
fn commands_inside_wrappers_touch_files_too() {
    check("sudo cat a", &["r a"]);
    check("timeout 5 rm a", &["w a"]);
    check("sh -c 'cat a > b'", &["r a", "w b"]);
    check("sh -c 'cd x && cat a'", &["r a", "r x/a"]);
    check("xargs cat", &["r unknown (arguments from standard input)"]);
    check("find . -exec cat {} \\;", &["r ", "r unknown {}"]);
    check("echo $(cat a)", &["r a"]);
    check("eval \"cat a\"", &["r a"]);
}

#[test]
fn a_write_after_a_change_of_directory_is_found_where_it_lands() {
    check("cd .claude && echo x > settings.json", &["w .claude/settings.json"]);
    check(
        "cd .git/hooks; cp ~/x pre-commit",
        &[
            "r /home/me/x",
            "w pre-commit",
            "w .git/hooks/pre-commit",
            "w pre-commit/x?",
            "w .git/hooks/pre-commit/x?",
        ],
    );
}
