//! What rules deny is masked in bubblewrap.

use super::*;

#[tokio::test]
async fn what_rules_deny_cannot_be_read_or_changed_in_bubblewrap() {
    let ground = Ground::new(Level::Bwrap);
    if let Some(fault) = ground.sandbox.outcome().await.fault() {
        return not_run(Level::Bwrap, &fault);
    }
    for name in ["secret", "keys/a/b", "docs/plan", "linked", "deep/in/secret"] {
        let path = ground.path("root").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, SECRET).unwrap();
    }
    symlink("linked", ground.path("root/link")).unwrap();
    let paths = |names: &[&str]| names.iter().map(|name| ground.path("root").join(name)).collect();
    let denied = DeniedPaths {
        reading: paths(&["secret", "keys", "link", "deep/in/secret"]),
        editing: paths(&["docs"]),
        is_cut: false,
    };
    ground.sandbox.deny(Box::new(move |_, _| denied.clone()));
    let closed = "for file in secret link; do (: <$file) 2>&1 | grep -c 'Permission denied'; done; \
        ls keys 2>&1 | grep -c 'Permission denied'; [ -e secret ] && chmod 700 secret keys 2>&1 | \
        grep -c 'Read-only'";
    assert_eq!(ground.output(closed).await, "1\n1\n1\n2\n");
    for attack in [
        "cat secret keys/a/b linked link; cp secret copy; cat copy",
        "mv keys moved; cat moved/a/b; ls -R moved",
        "ln linked hard; cat hard",
        "/usr/bin/python3 -c 'print(open(\"secret\").read())'",
        "echo x >docs/plan; mv docs moved; rm -rf docs; mkdir -p docs; echo x >docs/plan",
        "echo x >secret; echo x >keys/new; rm -f linked; echo y >linked",
        // The next command would find it where nothing closes it.
        "mv deep moved; mv deep/in moved; mkdir other; mv deep other/",
    ] {
        let said = ground.output(attack).await;
        assert!(!said.contains(SECRET), "{attack}: {said}");
        for name in ["secret", "keys/a/b", "docs/plan", "linked", "deep/in/secret"] {
            let kept = fs::read_to_string(ground.path("root").join(name)).unwrap();
            assert_eq!(kept, SECRET, "{attack}: {name}");
        }
    }
    assert_eq!(ground.output("cat docs/plan").await, SECRET);
}

/// What nobody has approved sees no secrets, and what somebody has approved does.
#[tokio::test]
async fn secrets_are_closed_to_what_nobody_has_approved() {
    let ground = Ground::new(Level::Bwrap);
    if let Some(fault) = ground.sandbox.outcome().await.fault() {
        return not_run(Level::Bwrap, &fault);
    }
    let root = ground.path("root");
    fs::write(root.join(".env"), SECRET).unwrap();
    let found = root.join(".env");
    ground.sandbox.deny(Box::new(move |_, secrets| {
        let reading = (secrets == Secrets::Denied).then(|| found.clone());
        DeniedPaths { reading: reading.into_iter().collect(), ..DeniedPaths::default() }
    }));
    let unapproved = ground.sandbox.confine_unapproved(vec![root.clone()], None).await;
    let reading = ground.sandbox.confine_to_reading(vec![root.clone()], None).await;
    let approved = ground.sandbox.confine(vec![root.clone()], None).await;
    let text = "cat .env own; grep -r secret .; cp .env own2; mv .env moved; cat own2 moved";
    for (confined, sees) in [(unapproved, false), (reading, false), (approved, true)] {
        let confined = confined.unwrap().unwrap();
        let command = shell(&confined, root.clone(), text);
        let finished = runner().run(&command, LIMITS, &CancellationToken::new()).await.unwrap();
        let said = finished.output.render(3000, "");
        assert!(said.contains(SECRET) == sees && said.contains("own"), "{said}");
        assert!(sees || said.contains(".env: Permission denied"), "{said}");
    }
}
