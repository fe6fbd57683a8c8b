//! What the tests need beside Rust: installed once by `scripts/test-env.sh`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What is kept from one run of the tests to the next.
pub(crate) fn kept(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    target.join("test-env").join(name)
}

/// The directory of programs of a virtual environment: the one for `tests/NAME`.
pub(crate) fn venv(name: &str) -> PathBuf {
    install();
    kept(name).join("bin")
}

/// Makes sure that all of it is there. Costs nothing when it is.
pub(crate) fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let target = kept("..");
        let status = Command::new(root().join("scripts/test-env.sh"))
            .env("CARGO_TARGET_DIR", target)
            .status()
            .expect("bash is there");
        assert!(status.success(), "scripts/test-env.sh failed: run it to see why");
    });
}
