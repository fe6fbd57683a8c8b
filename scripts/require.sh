#!/usr/bin/env bash
# Fails unless everything named is there: `scripts/require.sh rust python node`. Names all
# that is missing at once, with Debian's packages, before anything is built.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()

# missing WHAT HOW
missing() { missing+=("  $1: $2"); }

# A program, not one of the functions here.
is_there() { type -P "$1" >/dev/null; }

# at_least WANTED FOUND
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

rust() {
  local wanted found
  wanted="$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)"
  local remedy="rustup install stable (Debian: apt install rustup, from Debian 13 on)"
  for program in cargo rustc; do
    if ! is_there "$program"; then
      missing "$program, $wanted or newer" "$remedy"
      continue
    fi
    found="$("$program" --version 2>/dev/null | cut -d' ' -f2)" || found=
    at_least "$wanted" "${found:-0}" ||
      missing "$program, $wanted or newer" "${found:-none that works} is here; $remedy"
  done
  is_there cc || missing "cc, which Rust links with" "apt install gcc libc6-dev"
}

python() {
  local found
  if ! is_there python3; then
    missing "python3, 3.11 or newer, with venv" "apt install python3 python3-venv"
    return
  fi
  found="$(python3 -c 'import platform; print(platform.python_version())' 2>/dev/null)" || found=
  at_least 3.11 "${found:-0}" ||
    missing "python3, 3.11 or newer" "${found:-none that works} is here; Debian 12 or newer has one"
  python3 -c 'import venv, ensurepip' 2>/dev/null ||
    missing "python3's venv" "apt install python3-venv"
}

node() {
  is_there node || missing "node" "apt install nodejs"
  is_there npm || missing "npm" "apt install npm"
}

for part in "$@"; do "$part"; done
if [ "${#missing[@]}" -gt 0 ]; then
  { echo "Not on the search path, and needed:" && printf '%s\n' "${missing[@]}"; } >&2
  exit 1
fi
