//! Tests that nothing a model says hides the question behind it: what four Markdown renderers show
//! of a message, each behind a sanitiser.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::sessions::asking::{Talk, codes, marks, server, times_run};
use crate::support::chunks::{call, end, says, text};
use crate::support::environment;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// What a model may say last, so that a reader of Markdown or HTML takes what follows for a part
/// of it.
const OPENINGS: [&str; 96] = [
    "<!-- ",
    "<!--",
    "<!---",
    "<!-- a -- b",
    "<!-- a --!> b <!-- ",
    "<!-->",
    "<![CDATA[",
    "<![CDATA[ a ]] b",
    "<?",
    "<?php echo",
    "<!X",
    "<!DOCTYPE html [",
    "<!ELEMENT br",
    "<script>",
    "<script",
    "<script src=\"",
    "<script><!--",
    "<script><!--<script>",
    "<SCRIPT type='text/x'>\n\nvar a;",
    "<style>",
    "<style>\n* { color: white }",
    "<textarea>",
    "<textarea rows=1>a",
    "<title>",
    "<template>",
    "<template><div>",
    "<details>",
    "<details><summary>More</summary>",
    "<details>\n<summary>More</summary>\n\nText\n",
    "<div hidden>",
    "<div hidden/>",
    "<div style=\"display:none\">",
    "<DIV\nHIDDEN>",
    "<p hidden>",
    "<span hidden>",
    "<b hidden>",
    "<a hidden href=x><b hidden>",
    "<pre hidden>",
    "<pre hidden><code>",
    "<section hidden><article hidden>",
    "<dialog>",
    "<noscript>",
    "<noframes>",
    "<noembed>",
    "<iframe>",
    "<iframe srcdoc=\"",
    "<xmp>",
    "<plaintext>",
    "<select>",
    "<select><option>",
    "<datalist>",
    "<object>",
    "<audio>",
    "<video>",
    "<canvas>",
    "<svg>",
    "<svg><style>",
    "<svg><title>",
    "<svg><desc><script>",
    "<svg><![CDATA[",
    "<math>",
    "<math><mtext><style>",
    "<math><annotation-xml encoding=\"text/html\"><style>",
    "<table>",
    "<table><tr><td hidden>",
    "<table><caption hidden>",
    "<a href=\"",
    "<a href='",
    "<a title=\"</a>",
    "<img alt=\"",
    "<div title=\"",
    "<div title='\n\na",
    "<div\n",
    "<x-y hidden>",
    "<x:y hidden>",
    "<div><x\"y hidden>",
    "\\<div hidden>\n\n<div hidden>\\</div>",
    "`</div>` <div hidden>",
    "```",
    "````html\n<div>\n```",
    "~~~",
    "~~~~~ sh\n~~~",
    "    ```\n\n```\n    ```",
    "`` `",
    "`",
    "$$",
    "$$\na",
    "\\[",
    ":::details",
    "[a]: <",
    "| a | b |\n|---|---|\n| `x | <script> ` | <style> |",
    "[^1]: a\n\n    <div hidden>",
    "| a | b |\n|---|---|\n| `x | <script> ` |",
    "`a\n<script>\n`",
    "```html\n<script>\n  ```x",
    "- ```html\n<script>\n```",
];

/// What leaves the bare choice, and must not hide the question.
const HARMLESS: [&str; 20] = [
    "I look at the files.",
    "It is `<div hidden>`.",
    "```html\n<script>\n```",
    "~~~\n<!--\n~~~",
    "- a\n  - b\n    - c",
    "> a\n>> b",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "A heading",
    "[a](",
    "[a]: /b \"",
    "![a](b \"",
    "**a",
    "*a _b",
    "&lt;div hidden&gt; &#60;!--",
    "a\\",
    "a  ",
    "# a",
    "***",
    "1) a\n2) b",
    "[^1]: a",
];

/// Where it stands in the model's text.
const PLACES: [&str; 5] =
    ["Words. {}", "Words.\n\n{}", "- Words.\n- {}", "> Words.\n> {}", "1. Words.\n\n   {}"];

/// Asks about a command behind this text.
async fn question(upstream: &Upstream, talk: &mut Talk, said: &str) -> String {
    let calling = call(0, "c1", "Bash", &marks("a"));
    upstream.round([vec![text(said)], calling, end("tool_calls")].concat());
    talk.say("Do it.").await
}

fn requires_code(question: &str) -> bool {
    question.contains("A number alone does not count here.")
}

/// The messages of which some renderer does not show the question.
async fn hidden(messages: &[Value]) -> Vec<Value> {
    environment("renderers").await;
    let mut command = Command::new("node");
    command.arg(Path::new("tests/renderers/visible.mjs"));
    let mut node = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("node");
    let mut stdin = node.stdin.take().expect("a pipe");
    let input = json!(messages).to_string();
    let (written, output) = tokio::join!(
        async move { stdin.write_all(input.as_bytes()).await },
        node.wait_with_output()
    );
    written.expect("node reads");
    let output = output.expect("node ends");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn shown(opening: &str, question: &str) -> Value {
    let code = codes(question).pop().expect("a code");
    let marks = ["needs your approval", &code, "echo ran >> a", "allow once"];
    json!({ "opening": opening, "message": question, "marks": marks })
}

#[tokio::test]
async fn x13_nothing_that_a_model_says_hides_the_question_or_the_code_is_required() {
    let upstream = Upstream::start();
    let server: Server = server(&upstream).await;
    let mut messages = Vec::new();
    for opening in OPENINGS {
        for place in PLACES {
            let said = place.replace("{}", opening);
            let mut talk = Talk::new(server.client());
            let question = question(&upstream, &mut talk, &said).await;
            messages.push((requires_code(&question), shown(&said, &question)));
        }
    }

    let all: Vec<Value> = messages.iter().map(|(_, message)| message.clone()).collect();
    let hidden = hidden(&all).await;

    let requires = |opening: &Value| {
        let of = messages.iter().find(|(_, message)| message["opening"] == *opening);
        of.is_some_and(|(requires, _)| *requires)
    };
    let unsafe_ones: Vec<_> = hidden.iter().filter(|one| !requires(&one["opening"])).collect();
    assert!(unsafe_ones.is_empty(), "{unsafe_ones:#?}");
    // Nothing ends a `plaintext`; showdown writes the end of `svg` into its title, and takes a fence
    // behind words for a span that reaches into what follows.
    let is_known = |one: &&Value| {
        let opening = one["opening"].to_string();
        let is_of_showdown = opening.contains("<svg><title>") || opening.contains("```html");
        opening.contains("<plaintext>") || (is_of_showdown && one["renderer"] == "showdown")
    };
    let unexpected: Vec<_> = hidden.iter().filter(|one| !is_known(one)).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    assert_eq!(times_run(&server, "a"), 0);
}

#[tokio::test]
async fn x13_what_hides_nothing_leaves_the_bare_choice_and_the_question_is_shown() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut messages = Vec::new();
    for harmless in HARMLESS {
        for place in PLACES {
            let said = place.replace("{}", harmless);
            let mut talk = Talk::new(server.client());
            let question = question(&upstream, &mut talk, &said).await;
            // Words before it make another thing of a fence, and a picture may show a question.
            let is_fence = place != PLACES[1] && harmless.contains('<');
            let may_require = is_fence || harmless.contains("![");
            assert!(!requires_code(&question) || may_require, "{said:?}");
            if !requires_code(&question) {
                messages.push(shown(&said, &question));
            }
        }
    }
    assert!(messages.len() > 80, "{}", messages.len());
    assert_eq!(hidden(&messages).await, [] as [Value; 0]);
}

#[tokio::test]
async fn x13_behind_what_may_hide_the_question_only_the_code_counts() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut ran = 0;
    for opening in OPENINGS {
        let mut talk = Talk::new(server.client());
        let said = format!("Shall I list the files?\n\n1. Yes\n2. No\n\n{opening}");
        let first = question(&upstream, &mut talk, &said).await;
        assert!(requires_code(&first), "{opening:?}");
        for bare in ["1", "yes", "2", "3"] {
            let again = talk.say(bare).await;
            assert_eq!(codes(&again), codes(&first), "{opening:?} {bare:?}: asked again");
            assert_eq!(times_run(&server, "a"), ran, "{opening:?} {bare:?}");
        }
        upstream.round(says("Done."));
        let code = codes(&first).pop().expect("a code");
        assert_eq!(talk.say(&format!("{code} 1")).await, "Done.", "{opening:?}");
        ran += 1;
        assert_eq!(times_run(&server, "a"), ran, "{opening:?}");
    }
}
