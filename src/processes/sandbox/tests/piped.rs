//! A program that stays is held back like a command.

use std::net::TcpListener;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::*;

/// Answers each line of shell with the line that it prints.
const SERVE: &str = "while read -r line; do echo \"$(eval \"$line\" 2>&1 | tail -n 1)\"; done";

async fn answers(ground: &Ground, questions: &[String]) -> Vec<String> {
    let roots = vec![ground.path("root")];
    let confined = ground.sandbox.confine(roots, None).await.unwrap().unwrap();
    let command = shell(&confined, ground.path("root"), SERVE);
    let mut process = runner().spawn_piped(&command, Vec::new()).unwrap();
    let mut lines = BufReader::new(process.stdout).lines();
    let mut answers = Vec::new();
    for question in questions {
        process.stdin.write_all(format!("{question}\n").as_bytes()).await.unwrap();
        answers.push(lines.next_line().await.unwrap().unwrap());
    }
    drop(process.stdin);
    assert_eq!(process.tree.ended().await.unwrap().exit, Some(Exit::Code(0)));
    answers
}

#[tokio::test]
async fn a_program_that_stays_reads_and_writes_only_its_root() {
    for ground in Ground::each().await {
        let outside = ground.path("outside/file");
        let questions = [
            "cat own".to_owned(),
            format!("cat {}", outside.display()),
            format!("echo x >{}", outside.display()),
            "echo new >written; cat written".to_owned(),
        ];

        let said = answers(&ground, &questions).await;

        assert_eq!((&*said[0], &*said[3]), ("own", "new"), "{}", ground.level);
        assert!(!said[1].contains(SECRET), "{}: {said:?}", ground.level);
        assert_eq!(fs::read_to_string(outside).unwrap(), SECRET, "{}", ground.level);
    }
}

#[tokio::test]
async fn a_program_that_stays_has_the_network_only_where_it_is_let() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let question =
        format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo open || echo shut");
    for ground in Ground::each().await {
        let shut = answers(&ground, std::slice::from_ref(&question)).await;
        let open = Ground::with(ground.level, Network::Full);
        let open = answers(&open, std::slice::from_ref(&question)).await;

        assert_eq!((&*shut[0], &*open[0]), ("shut", "open"), "{}", ground.level);
    }
}
