.PHONY: up test bench lint soak

TEST_ENV = $(abspath $(or $(CARGO_TARGET_DIR),target))/test-env

# A debug build: it is ready in a fraction of the time, and beside a model and its
# tools nobody notices the difference. For service: cargo build --release.
# Flags go into ARGS: make up ARGS="--sandbox off".
up:
	@scripts/require.sh rust python
	cargo build --locked
	exec $${CARGO_TARGET_DIR:-target}/debug/toolhand up $(ARGS)

# All tests are one plain `cargo test`; the script brings what they use beside Rust.
test:
	@scripts/require.sh rust python node
	scripts/test-env.sh
	PATH="$$PATH:$(TEST_ENV)/programs" cargo test --locked

# Grep and Glob are measured against ripgrep, the one that the tests use, and Glob against fd.
bench:
	@scripts/require.sh rust python
	scripts/test-env.sh bench ripgrep mcp lsp
	cargo build --release --locked --manifest-path bench/Cargo.toml
	PATH="$(TEST_ENV)/ripgrep/bin:$$PATH:$(TEST_ENV)/programs" \
		cargo run --release --locked --manifest-path bench/Cargo.toml

# What takes minutes: one table of what must hold under load, in memory and in time,
# then a million spellings of inner addresses (R20), then the library's tests with many
# more cases of each property. A line over its limit is an error.
soak:
	cargo test --profile soak --locked --test suite -- --ignored --nocapture soak::
	cargo test --profile soak --locked --lib -- --ignored --nocapture r20_ g7_ g8_
	PROPTEST_CASES=5000 cargo test --profile soak --locked --lib -- --quiet

lint:
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items
	@cargo deny --version >/dev/null 2>&1 || \
		{ echo "cargo deny is missing: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo deny check
