use insta::assert_snapshot;
use unicode_width::UnicodeWidthStr as _;

use super::*;

fn shell(text: &str) -> String {
    in_columns(text, TextKind::Shell)
}

#[test]
fn a_run_of_blanks_pushes_nothing_out_of_sight() {
    let hidden = format!("echo tidy{}; truncate -s0 src/text.rs; make deploy", " ".repeat(160));
    assert_snapshot!(shell(&hidden), @"echo tidy⟨160 blanks⟩; truncate -s0 src/text.rs; make deploy");
    assert_snapshot!(shell("a   b    c\td\t\t e \nf"), @"
    a   b⟨4 blanks⟩c⟨1 tab⟩d⟨1 blank, 2 tabs⟩e⟨1 blank⟩
    f
    ");
    assert_snapshot!(shell(&format!("a{}b", "\u{a0}".repeat(160))), @r"a⟨160 times \u{a0}⟩b");
}

#[test]
fn a_long_line_is_broken_behind_operators_and_else_behind_blanks() {
    let line = "cd /srv/app && git fetch origin && git reset --hard origin/main && npm ci --omit=dev \
                && systemctl restart app 2>&1 | tee out.log";
    assert_snapshot!(shell(line), @"
    cd /srv/app && git fetch origin && git reset --hard origin/main && 
    ↳ npm ci --omit=dev && systemctl restart app 2>&1 | tee out.log
    ");
    let words = format!("make {}", "target ".repeat(20));
    assert_snapshot!(shell(words.trim()), @"
    make target target target target target target target target target target 
    ↳ target target target target target target target target target target
    ");
    assert_eq!(
        shell(&"x".repeat(200)),
        format!("{}\n↳ {}\n↳ {}\n", "x".repeat(80), "x".repeat(78), "x".repeat(42))
    );
}

#[test]
fn the_text_cannot_write_our_marks() {
    assert_snapshot!(shell("echo ⟨3 blanks⟩\n↳ rm"), @r"
    echo \u{27e8}3 blanks\u{27e9}
    \u{21b3} rm
    ");
}

#[test]
fn empty_lines_are_counted_and_indentation_stays() {
    let text = format!("a{}    b\n{}c\n\n\n\n\n", "\n".repeat(300), " ".repeat(200));
    assert_snapshot!(shell(&text), @"
    a
    ⟨299 empty lines⟩
        b
    ⟨200 blanks⟩c
    ⟨4 empty lines⟩
    ");
}

#[test]
fn a_diff_keeps_its_first_column() {
    let text = "@@ -1 +1 @@\n \n-\t\tif a {\n+\t\t\t\tif b { \n+    c\n+\n+\n+  \n+\t\n-\n";
    assert_snapshot!(in_columns(text, TextKind::Diff).replace('\t', "→"), @"
    @@ -1 +1 @@
     
    -→→if a {
    +⟨4 tabs⟩if b {⟨1 blank⟩
    +    c
    +⟨4 empty lines⟩
    -
    ");
}

#[test]
fn marks_stand_on_letters_and_not_many() {
    assert_eq!(shell("e\u{301}"), "e\u{301}\n");
    assert_eq!(shell("\u{301}a"), "\\u{301}a\n");
    assert_eq!(
        shell(&format!("a{}", "\u{301}".repeat(5))),
        "a\u{301}\u{301}\u{301}\\u{301}\\u{301}\n"
    );
    assert_eq!(shell("a \u{301}b"), "a \\u{301}b\n");
}

#[test]
fn no_line_is_wider_than_eighty_columns_and_nothing_is_lost() {
    let samples = [
        "語".repeat(300),
        format!("echo {}", "👩\u{200d}🔬 ".repeat(60)),
        "a;b|c&&d||e&f".repeat(30),
        "e\u{301}".repeat(200),
        "\t".repeat(100) + "x",
        (0..0x3100).filter_map(char::from_u32).collect(),
    ];
    for sample in samples {
        for kind in [TextKind::Shell, TextKind::Diff, TextKind::Other] {
            let shown = in_columns(&sample, kind);
            let widest = shown.lines().map(|line| line.replace('\t', "        ").width()).max();
            assert!(widest <= Some(80), "{widest:?}: {shown}");
            let letters = |text: &str| text.chars().filter(char::is_ascii_alphabetic).count();
            assert!(letters(&sample) <= letters(&shown), "{shown}");
        }
    }
}
