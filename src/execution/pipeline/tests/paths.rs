//! Tests the answer to a call whose path cannot be resolved.

use std::fs;
use std::os::unix::fs::symlink;

use insta::assert_snapshot;

use super::*;

/// Every tool that takes a path.
const TOOLS: [&str; 6] = ["Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep"];

impl Ground {
    async fn call_for(&self, tool: &str, path: &str) -> String {
        let arguments = match tool {
            "Write" => json!({ "file_path": path, "content": "x" }),
            "Edit" => json!({ "file_path": path, "old_string": "x", "new_string": "y" }),
            "NotebookEdit" => {
                json!({ "notebook_path": path, "cell_id": "x", "edit_mode": "delete" })
            }
            "Glob" | "Grep" => json!({ "pattern": "x", "path": path }),
            _ => json!({ "file_path": path }),
        };
        self.call(tool, &arguments.to_string()).await
    }

    /// The answer of each tool, where all answer alike.
    async fn answer_of_all(&self, path: &str) -> String {
        let answer = self.call_for("Read", path).await;
        for tool in TOOLS {
            assert_eq!(self.call_for(tool, path).await, answer, "{tool}");
        }
        answer
    }
}

#[tokio::test]
async fn t4_a_path_at_fault_is_a_plain_error_in_every_tool() {
    let ground = Ground::new();
    symlink("loop", ground.directory.path().join("loop")).unwrap();
    let faults = [
        "a.txt/b".to_owned(),
        "a.txt/b/../c/d".to_owned(),
        "loop/b".to_owned(),
        "n".repeat(256),
        format!("new/../{}/x", "n".repeat(300)),
        "d/".repeat(2100),
        "a\0b".to_owned(),
        "a\u{1b}[31mb".to_owned(),
    ];
    let mut answers = Vec::new();
    for path in &faults {
        answers.push(ground.answer_of_all(path).await);
    }

    let long = ("n".repeat(256), "n".repeat(300));
    let shown = answers.join("\n").replace(&long.1, "N300").replace(&long.0, "N256");
    let shown = shown.replace(ground.directory.path().to_str().unwrap(), "$WORKSPACE");
    let size = ground.directory.path().as_os_str().len() + 1 + "d/".len() * 2100;
    assert_snapshot!(shown.replace(&size.to_string(), "SIZE"), @r"
    Error: $WORKSPACE/a.txt/b: a part of this path is a file, not a directory
    Error: $WORKSPACE/a.txt/c/d: a part of this path is a file, not a directory
    Error: $WORKSPACE/loop/b: the links of this path lead in a circle
    Error: $WORKSPACE/N256: a name in this path is too long
    Error: $WORKSPACE/N300/x: a name in this path is too long
    Error: the path has SIZE bytes; 4096 are the most
    Error: the path $WORKSPACE/a\u{0}b contains a control character
    Error: the path $WORKSPACE/a\u{1b}[31mb contains a control character
    ");
}

#[tokio::test]
async fn t4_a_control_character_is_refused_also_in_a_name_that_dots_remove() {
    let ground = Ground::new();
    for odd in ["q\0q", "q\u{1}q", "q\nq", "q\u{7f}q", "q\u{85}q", "\0", "\u{1b}2J"] {
        for path in [
            format!("{odd}/../a.txt"),
            format!("new/{odd}/../../a.txt"),
            format!("a.txt/../{odd}/../a.txt"),
            format!("{odd}/./.././a.txt"),
            format!("~/{odd}/../a.txt"),
            format!("/{odd}/../etc/passwd"),
        ] {
            let answer = ground.answer_of_all(&path).await;
            let is_refused = answer.ends_with("contains a control character");
            assert!(answer.starts_with("Error: ") && is_refused, "{path:?}: {answer}");
        }
        for pattern in [format!("{odd}/../*.txt"), format!("~/{odd}/../*")] {
            let answer = ground.call("Glob", &json!({ "pattern": pattern }).to_string()).await;
            assert!(answer.ends_with("contains a control character"), "{pattern:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_border_is_told_as_one_whatever_the_fault_behind_it() {
    let ground = Ground::new();
    for path in ["/etc/passwd/x", "/proc/self/x", "state", "state/x"] {
        for tool in TOOLS {
            let answer = ground.call_for(tool, path).await;
            assert!(answer.starts_with("Error: not permitted: "), "{tool} {path}: {answer}");
        }
    }
}

#[tokio::test]
async fn where_a_file_is_missing_the_closest_name_is_told() {
    let ground = Ground::new();
    let root = ground.directory.path();
    fs::create_dir_all(root.join("source/inner")).unwrap();
    fs::write(root.join("source/config.yaml"), "").unwrap();
    fs::write(root.join("source/unrelated"), "").unwrap();
    for tool in ["Read", "Edit", "Glob", "Grep"] {
        let answer = ground.call_for(tool, "source/config.yml").await;
        let hint = "The closest name there is $WORKSPACE/source/config.yaml";
        assert!(answer.ends_with(hint), "{tool}: {answer}");
        let answer = ground.call_for(tool, "sourec/config.yaml").await;
        let hint = "The closest name there is $WORKSPACE/source";
        assert!(answer.ends_with(hint), "{tool}: {answer}");
        let answer = ground.call_for(tool, "source/nothing-like-it").await;
        assert!(!answer.contains("closest"), "{tool}: {answer}");
    }
}

#[tokio::test]
async fn the_state_directory_is_nobodys_closest_name() {
    let ground = Ground::new();
    fs::create_dir(ground.directory.path().join("state")).unwrap();
    let answer = ground.call_for("Read", "stat").await;
    assert!(!answer.contains("closest"), "{answer}");
}

#[tokio::test]
async fn the_closest_name_is_sought_in_bounded_time_and_told_on_one_line() {
    let ground = Ground::new();
    let root = ground.directory.path();
    for number in 0..3000 {
        // The names are anagrams, so that no cheap comparison tells them apart.
        let (front, back) = ("ab".repeat(number % 60), "ba".repeat(60 - number % 60));
        fs::write(root.join(format!("{front}{back}{number:04}")), "").unwrap();
    }
    fs::write(root.join("evil\n\u{1b}[31mname.txt"), "").unwrap();
    let answer = ground.call_for("Read", "evil-name.txt").await;
    assert!(answer.ends_with(r"The closest name there is $WORKSPACE/evil\n\u{1b}[31mname.txt"));
    assert!(ground.call_for("Read", &"ab".repeat(62)).await.contains("closest"));
}

#[tokio::test]
async fn a_path_that_ends_in_a_slash_names_a_directory() {
    let ground = Ground::new();
    fs::create_dir(ground.directory.path().join("source")).unwrap();
    let answer = ground.answer_of_all("a.txt/").await;
    assert_snapshot!(answer, @"Error: $WORKSPACE/a.txt is no directory, as the slash at the end of the path says");
    assert_eq!(ground.answer_of_all("a.txt/.").await, answer);
    for tool in ["Read", "Write", "Edit"] {
        let answer = ground.call_for(tool, "new/").await;
        assert!(answer.starts_with("Error: "), "{tool}: {answer}");
    }
    assert!(!ground.directory.path().join("new").exists());
    assert_eq!(ground.call_for("Glob", "source/").await, "No files found");
}
