//! What rules deny is masked in bubblewrap.

use super::*;

#[tokio::test]
async fn what_rules_deny_cannot_be_read_or_changed_in_bubblewrap() {
    let ground = Ground::new(Level::Bwrap);
    if let Some(fault) = ground.sandbox.outcome().await.fault() {
        return not_run(Level::Bwrap, &fault);
    }
    for name in ["secret", "keys/a/b", "docs/plan", "linked"] {
        let path = ground.path("root").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, SECRET).unwrap();
    }
    symlink("linked", ground.path("root/link")).unwrap();
    let paths = |names: &[&str]| names.iter().map(|name| ground.path("root").join(name)).collect();
    let denied = DeniedPaths {
        reading: paths(&["secret", "keys", "link", "missing"]),
        editing: paths(&["docs"]),
        is_cut: false,
    };
    ground.sandbox.deny(Box::new(move |_| denied.clone()));
    for attack in [
        "cat secret keys/a/b linked link; cp secret copy; cat copy",
        "mv keys moved; cat moved/a/b; ls -R moved",
        "ln linked hard; cat hard",
        "/usr/bin/python3 -c 'print(open(\"secret\").read())'",
        "echo x >docs/plan; mv docs moved; rm -rf docs; mkdir -p docs; echo x >docs/plan",
        "echo x >secret; echo x >keys/new; rm -f linked; echo y >linked",
    ] {
        let said = ground.output(attack).await;
        assert!(!said.contains(SECRET), "{attack}: {said}");
        for name in ["secret", "keys/a/b", "docs/plan", "linked"] {
            let kept = fs::read_to_string(ground.path("root").join(name)).unwrap();
            assert_eq!(kept, SECRET, "{attack}: {name}");
        }
    }
    assert_eq!(ground.output("cat docs/plan").await, SECRET);
}
