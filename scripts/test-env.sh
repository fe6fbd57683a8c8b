#!/usr/bin/env bash
# Installs what the tests need beside Rust, Python, node and npm, once: virtual environments
# and programs under target/test-env, node_modules under tests/. Changes nothing outside of
# these, caches included, but for git, bubblewrap and fd of the distribution and rust-analyzer of rustup. With names, installs
# those alone: `scripts/test-env.sh ripgrep`; `bench` before them adds what the bench alone needs.
# Quick when all of it is there. LiteLLM is not here: the tests install it the way users do, with
# `toolhand up`.
set -euo pipefail
cd "$(dirname "$0")/.."

root="$(realpath -m "${CARGO_TARGET_DIR:-target}")/test-env"
mkdir -p "$root"
# Several tests may call this at the same time.
exec 9>"$root/lock"
flock 9

export PIP_CACHE_DIR="$root/cache/pip" npm_config_cache="$root/cache/npm"
export npm_config_update_notifier=false

# venv NAME: a virtual environment with what tests/NAME/requirements.txt lists.
venv() {
  local place="$root/$1" requirements="tests/$1/requirements.txt"
  is_whole "$place" "$requirements" && return
  echo "installing $place" >&2
  rm -rf "$place"
  python3 -m venv "$place"
  "$place/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
    --no-deps --require-hashes -r "$requirements"
  cp "$requirements" "$place/.installed"
}

# Whether the last installation was of these requirements, came to its end, and its Python
# is still there.
is_whole() {
  cmp -s "$2" "$1/.installed" && "$1/bin/python" -c 'import pip' 2>/dev/null
}

node_modules() {
  local place="tests/$1"
  cmp -s "$place/package-lock.json" "$place/node_modules/.installed" && return
  echo "installing $place/node_modules" >&2
  npm ci --prefix "$place" --no-audit --no-fund --silent
  cp "$place/package-lock.json" "$place/node_modules/.installed"
}

# The printed curl lines are run as they stand. Where there is no curl, a program that knows
# their options takes its place, last on the search path of `make test`.
stand_in_for_curl() {
  mkdir -p "$root/programs"
  cp tests/support/curl.py "$root/programs/curl"
  chmod +x "$root/programs/curl"
}

# debian PACKAGE PROGRAM: a program of the distribution, installed where that is allowed. The
# tests find it with the other programs, whatever the search path is.
debian() {
  type -P "$2" >/dev/null && return
  if [ ! -x "/usr/bin/$2" ]; then
    if [ "$(id -u)" -ne 0 ] || [ ! -x /usr/bin/apt-get ]; then return 1; fi
    echo "installing $1" >&2
    install_package "$1" || { apt update >/dev/null && install_package "$1"; } || return 1
  fi
  mkdir -p "$root/programs"
  ln -sf "/usr/bin/$2" "$root/programs/$2"
}

install_package() { apt install --yes "$1" >/dev/null; }

# Packages set themselves up with programs that need not be on the search path of the tests.
apt() {
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    DEBIAN_FRONTEND=noninteractive apt-get --quiet --quiet "$@"
}

# What repositories are made with, and the sandbox of most users. Where there is no bubblewrap,
# the tests of its level say that they were not run.
distribution() {
  debian git git || { echo "git is missing: apt install git" >&2; exit 1; }
  debian bubblewrap bwrap ||
    echo "no bubblewrap: the tests of its level of the sandbox are not run" >&2
}

# The language server of the toolchain that builds us. rustup need not be on the search path.
rust_analyzer() {
  local sysroot rustup
  sysroot="$(rustc --print sysroot)"
  [ -x "$sysroot/bin/rust-analyzer" ] && return
  rustup="$(type -P rustup || echo "${CARGO_HOME:-$HOME/.cargo}/bin/rustup")"
  [ -x "$rustup" ] || return 1
  echo "installing rust-analyzer" >&2
  "$rustup" --quiet component add --toolchain "$(basename "$sysroot")" rust-analyzer
}

# What the bench compares Glob with beside ripgrep. Without it, that row is not measured.
if [ "${1-}" = bench ]; then
  debian fd-find fdfind || echo "no fd: Glob is not compared with it" >&2
  shift
fi

names=("$@")
if [ "${#names[@]}" -eq 0 ]; then
  stand_in_for_curl
  distribution
  for directory in tests/*/; do names+=("$(basename "$directory")"); done
fi
for name in "${names[@]}"; do
  if [ -e "tests/$name/package-lock.json" ]; then node_modules "$name"; fi
  if [ -e "tests/$name/requirements.txt" ]; then venv "$name"; fi
  if [ "$name" = lsp ]; then
    rust_analyzer || echo "no rust-analyzer: its test is not run" >&2
  fi
done
