#!/usr/bin/env bash
# Makes a directory with the programs of a minimal Debian and those that README asks for, and
# prints it: the search path on which `make test` must work. `scripts/bare-path.sh DIRECTORY`
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/require.sh rust python node
place="$(realpath -m "$1")"
rm -rf "$place"
mkdir -p "$place"

# Every Debian has them, whatever else was left out.
for package in $(dpkg-query -W -f '${Package} ${Essential}\n' | sed -n 's/ yes$//p') dash; do
  for program in $(dpkg -L "$package" | grep -E '^(/usr)?/s?bin/[^/]+$'); do
    if [ -x "$program" ]; then ln -sf "$program" "$place/"; fi
  done
done

# A program, not a link: managers of versions choose by the path a program was started by.
# wrap NAME PROGRAM
wrap() {
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$2" >"$place/$1"
  chmod +x "$place/$1"
}

# rustup's own cargo would put its whole directory on the search path again.
sysroot="$(rustc --print sysroot)"
for program in cargo rustc rustdoc; do
  if [ -x "$sysroot/bin/$program" ]; then
    wrap "$program" "$sysroot/bin/$program"
  else
    wrap "$program" "$(type -P "$program")"
  fi
done
wrap python3 "$(python3 -c 'import sys; print(sys.executable)')"
wrap node "$(node -p process.execPath)"
wrap npm "$(type -P npm)"
# The C compiler, which Rust and two of its crates need, with its parts.
for program in make cc gcc as ld ar ranlib; do
  if type -P "$program" >/dev/null; then wrap "$program" "$(type -P "$program")"; fi
done
echo "$place"
