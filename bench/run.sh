#!/usr/bin/env bash
# Builds ringway and the instruments as they are shipped and compares ringway with the proxies found here.
# `make bench` calls this. Arguments go to ringway-bench (see --help). The build comes first and is not
# part of the three minutes that the measurement may take.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v cargo >/dev/null; then
  echo "bench: cargo is missing: install Rust 1.95 or newer, see https://rustup.rs" >&2
  exit 1
fi

# With --binary the ringway to measure is given, so none is built.
build_ringway=yes
for argument in "$@"; do
  case "$argument" in
    --binary | --binary=*) build_ringway=no ;;
  esac
done

cargo build --quiet --profile bench -p ringway-bench --bins
if [ "$build_ringway" = yes ]; then
  cargo build --quiet --profile bench -p ringway --bins
fi

# Cargo's profile "bench" shares the directory of "release".
exec "${CARGO_TARGET_DIR:-target}/release/ringway-bench" "$@"
