//! Tests what a file keeps and loses when a tool replaces it.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use serde_json::json;

use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// `cap_net_raw` as an extended attribute: version 2, permitted, effective.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 64];
    let length = fgetxattr(File::open(path).ok()?, name, &mut value[..]).ok()?;
    Some(value[..length].to_vec())
}

#[tokio::test]
async fn t24_a_replaced_file_keeps_its_mode_and_attributes_and_loses_what_lends_rights() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    for (number, (before, after)) in
        [(0o6751, 0o751), (0o4755, 0o755), (0o2770, 0o770), (0o2644, 0o644), (0o640, 0o640)]
            .into_iter()
            .enumerate()
    {
        let name = format!("file-{number}");
        let path = server.workspace().join(&name);
        fs::write(&path, "one\n").expect("a new file");
        let file = File::open(&path).expect("our own");
        let is_kept = fsetxattr(&file, "user.note", b"kept", XattrFlags::empty()).is_ok();
        // Only root may set it.
        let is_given =
            fsetxattr(&file, "security.capability", &CAPABILITY, XattrFlags::empty()).is_ok();
        assert_eq!(is_given, rustix::process::geteuid().is_root());
        fs::set_permissions(&path, Permissions::from_mode(before)).expect("our own");
        let was = fs::metadata(&path).expect("a file");

        for call in [
            ("c2", "Edit", json!({ "file_path": name, "old_string": "one", "new_string": "two" })),
            ("c3", "Write", json!({ "file_path": name, "content": "three\n" })),
        ] {
            upstream.round(calls(&[("c1", "Read", json!({ "file_path": name }))]));
            upstream.round(calls(&[call]));
            upstream.round(says("Done."));
            assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
        }

        let is = fs::metadata(&path).expect("a file");
        assert_eq!(fs::read_to_string(&path).expect("text"), "three\n");
        assert_eq!(is.mode() & 0o7777, after, "{before:o}");
        assert_eq!((is.uid(), is.gid()), (was.uid(), was.gid()));
        assert_eq!(attribute(&path, "security.capability"), None, "{before:o}");
        assert_eq!(attribute(&path, "user.note").is_some(), is_kept, "{before:o}");
    }
}
