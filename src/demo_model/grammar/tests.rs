//! Tests what each sentence is understood as.

use super::*;

/// Compares the rounds, one on each line, with `expected`.
fn check(sentence: &str, expected: &str) {
    let rounds = rounds(sentence).unwrap_or_else(|part| panic!("not understood: {part}"));
    let shown: Vec<String> = rounds
        .iter()
        .map(|round| {
            let calls: Vec<String> =
                round.iter().map(|call| format!("{}{}", call.tool, call.arguments)).collect();
            calls.join(" ")
        })
        .collect();
    assert_eq!(shown.join("\n"), expected, "{sentence}");
}

#[test]
fn reads_a_file() {
    let expected = r#"Read{"file_path":"README.md"}"#;
    check("read README.md", expected);
    check("Please READ the file README.md.", expected);
    check("can you read README.md?", expected);
    check("Read README.md and tell me what it is", expected);
    check("read \"my notes.txt\"", r#"Read{"file_path":"my notes.txt"}"#);
    check("read ../up.txt", r#"Read{"file_path":"../up.txt"}"#);
    check(
        "read a.txt, b.txt and c.txt",
        r#"Read{"file_path":"a.txt"} Read{"file_path":"b.txt"} Read{"file_path":"c.txt"}"#,
    );
}

#[test]
fn finds_text_literally() {
    check("find TODO in src", r#"Grep{"pattern":"TODO","path":"src","output_mode":"content"}"#);
    check(
        "search for 'fn main()' in the directory src",
        r#"Grep{"pattern":"fn main\\(\\)","path":"src","output_mode":"content"}"#,
    );
    check("find in", r#"Grep{"pattern":"in","output_mode":"content"}"#);
    check("find \"a\" in \"b c\"", r#"Grep{"pattern":"a","path":"b c","output_mode":"content"}"#);
}

#[test]
fn lists_by_glob() {
    check("list *.rs", r#"Glob{"pattern":"*.rs"}"#);
    check("list the files in src", r#"Glob{"pattern":"*","path":"src"}"#);
    check("List all files matching **/*.md in docs.", r#"Glob{"pattern":"**/*.md","path":"docs"}"#);
}

#[test]
fn plans_before_it_changes_anything() {
    check(
        "plan to tidy the notes then write hello to a.txt",
        concat!(
            "EnterPlanMode{}\n",
            r##"ExitPlanMode{"plan":"# Plan\n\n1. Look at what is there.\n2. tidy the notes\n"}"##,
            "\n",
            r#"Write{"file_path":"a.txt","content":"hello"}"#,
        ),
    );
    assert_eq!(rounds("plan").unwrap_err(), "plan");
}

#[test]
fn lists_a_directory_by_its_name() {
    check("list src", r#"Glob{"pattern":"*","path":"src"}"#);
    check("list src/api/", r#"Glob{"pattern":"*","path":"src/api/"}"#);
    check("list the directory .github", r#"Glob{"pattern":"*","path":".github"}"#);
    check("list the contents of src.", r#"Glob{"pattern":"*","path":"src"}"#);
    check("list api in src/", r#"Glob{"pattern":"*","path":"src/api"}"#);
    check("list .", r#"Glob{"pattern":"*","path":"."}"#);
    check("list ..", r#"Glob{"pattern":"*","path":".."}"#);
    check("list 'my files'", r#"Glob{"pattern":"*","path":"my files"}"#);
    check("list", r#"Glob{"pattern":"*"}"#);
    check("list README.md", r#"Glob{"pattern":"README.md"}"#);
    check("list src/*", r#"Glob{"pattern":"src/*"}"#);
}

#[test]
fn runs_a_command_as_it_was_written() {
    check("run cargo --version", r#"Bash{"command":"cargo --version"}"#);
    check(
        "Run echo \"a  b\" | wc and read x",
        r#"Bash{"command":"echo \"a  b\" | wc"} Read{"file_path":"x"}"#,
    );
    check("run `make and read all`", r#"Bash{"command":"make and read all"}"#);
}

#[test]
fn writes_text() {
    check(
        "write hello to the world to x.txt",
        r#"Write{"file_path":"x.txt","content":"hello to the world"}"#,
    );
    check("write \"a\nb\n\" to 'x y.txt'", r#"Write{"file_path":"x y.txt","content":"a\nb\n"}"#);
    check("write \"\" to x", r#"Write{"file_path":"x","content":""}"#);
}

#[test]
fn reads_before_it_replaces() {
    check(
        "replace one with two in x.txt",
        "Read{\"file_path\":\"x.txt\"}\nEdit{\"file_path\":\"x.txt\",\"old_string\":\"one\",\"new_string\":\"two\"}",
    );
    check(
        "read x.txt, then replace 'a with b' with c in x.txt",
        "Read{\"file_path\":\"x.txt\"}\nEdit{\"file_path\":\"x.txt\",\"old_string\":\"a with b\",\"new_string\":\"c\"}",
    );
}

#[test]
fn and_means_one_round_and_then_the_next() {
    check(
        "read a and find b in c, and list *.d then run e and then read f",
        concat!(
            r#"Read{"file_path":"a"} Grep{"pattern":"b","path":"c","output_mode":"content"} Glob{"pattern":"*.d"}"#,
            "\n",
            r#"Bash{"command":"e"}"#,
            "\n",
            r#"Read{"file_path":"f"}"#
        ),
    );
    check(
        "replace a with b in f and read g",
        concat!(
            r#"Read{"file_path":"f"} Read{"file_path":"g"}"#,
            "\n",
            r#"Edit{"file_path":"f","old_string":"a","new_string":"b"}"#
        ),
    );
}

#[test]
fn calls_any_tool_by_name() {
    check(
        r#"call get_weather with {"city": "Oslo"} and read x"#,
        r#"get_weather{"city":"Oslo"} Read{"file_path":"x"}"#,
    );
    check("call note with {“text”: ”a”}", r#"note{"text":"a"}"#);
    check("call now", "now{}");
    check(
        r#"use time get_current_time with {"timezone": "Europe/Oslo"} then use git git_status"#,
        concat!(
            r#"mcp__time__get_current_time{"timezone":"Europe/Oslo"}"#,
            "\n",
            "mcp__git__git_status{}"
        ),
    );
    assert!(rounds("use time").is_err());
    check(
        r#"call note with {"text": "a, read b and find c then run d"}, then call note"#,
        concat!(r#"note{"text":"a, read b and find c then run d"}"#, "\n", "note{}"),
    );
    check(r#"write {"a": 1} to x.json"#, r#"Write{"file_path":"x.json","content":"{\"a\": 1}"}"#);
    check("run awk {print}", r#"Bash{"command":"awk {print}"}"#);
}

#[test]
fn says_which_part_it_did_not_understand() {
    assert_eq!(rounds("what is the weather?"), Err("what is the weather?".to_owned()));
    assert_eq!(rounds("read x and replace a in b"), Err("a in b".to_owned()));
    assert_eq!(rounds(""), Err(String::new()));
    assert_eq!(rounds("read"), Err("read".to_owned()));
}

/// Each of these took time with the square of its length.
#[test]
fn a_sentence_of_open_quotes_braces_or_joints_is_read_once() {
    for piece in ["\"a ", "'a ", "and ", "{\"a\":[0, ", "{ ", "read and ", "x, ", "“ "] {
        let sentence = piece.repeat(100_000 / piece.len());
        let _understood_or_not = rounds(&sentence);
        let _understood_or_not = rounds(&format!("run {sentence}"));
    }
}

#[test]
fn asks_an_agent_to_do_something() {
    check(
        "ask EXPLORE to find TODO in src",
        r#"Task{"description":"find TODO in src","prompt":"find TODO in src","subagent_type":"Explore"}"#,
    );
    check(
        "ask the reviewer to \"read a.txt and b.txt\"",
        r#"Task{"description":"read a.txt and b.txt","prompt":"read a.txt and b.txt","subagent_type":"reviewer"}"#,
    );
}

#[test]
fn a_page_is_fetched() {
    check("fetch https://example.com/", r#"WebFetch{"url":"https://example.com/"}"#);
}
