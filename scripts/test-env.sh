#!/usr/bin/env bash
# Installs what the tests need beside Rust, once, under target/ and tests/sdk/:
# virtual environments for the OpenAI Python SDK and schemathesis, node_modules for
# the OpenAI Node SDK, and Debian's ripgrep. Quick when all of it is there. LiteLLM is not here: the tests
# install it the way users do, with `toolhand up`.
set -euo pipefail
cd "$(dirname "$0")/.."

root="${CARGO_TARGET_DIR:-target}/test-env"
mkdir -p "$root"
# Several tests may call this at the same time.
exec 9>"$root/lock"
flock 9

# venv NAME REQUIREMENTS
venv() {
  local place="$root/$1" requirements="$2"
  cmp -s "$requirements" "$place/.installed" && return
  echo "installing $place" >&2
  rm -rf "$place"
  python3 -m venv "$place"
  "$place/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
    --no-deps --require-hashes -r "$requirements"
  cp "$requirements" "$place/.installed"
}

node_modules() {
  local place="$1"
  cmp -s "$place/package-lock.json" "$place/node_modules/.installed" && return
  echo "installing $place/node_modules" >&2
  npm ci --prefix "$place" --no-audit --no-fund --silent
  cp "$place/package-lock.json" "$place/node_modules/.installed"
}

# Grep is held against the real ripgrep; `make test` insists on it.
ripgrep() {
  command -v rg >/dev/null && return
  echo "installing ripgrep" >&2
  { apt-get update -qq && apt-get install -y -qq ripgrep; } >/dev/null 2>&1 ||
    echo "ripgrep cannot be installed here; install it yourself (apt install ripgrep)" >&2
}

ripgrep
node_modules tests/sdk
for requirements in tests/*/requirements.txt; do
  name="$(basename "$(dirname "$requirements")")"
  venv "$name" "$requirements"
done
