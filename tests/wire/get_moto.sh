#!/usr/bin/env bash
# Makes a Python environment with moto, which plays EC2, ECS, STS and IAM for the tests of discovery by AWS.
#
#   tests/wire/get_moto.sh [DEST]
#
# DEST is where it is made; without, where the tests look for it: outside of the clone, about 300 MB. Does nothing
# when it is there, and installs nothing elsewhere.
set -euo pipefail

version=5.2.5
dest=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/ringway/moto-$version}

say() { printf 'moto: %s\n' "$*" >&2; }

if [[ -e $dest/complete ]]; then
    exit 0
fi
mkdir -p "$(dirname "$dest")"
# Programs of an environment name its folder, so it cannot be made elsewhere and moved. One set-up makes it, the others
# wait for that.
exec 9>"$dest.lock"
flock -w 600 9
if [[ -e $dest/complete ]]; then
    exit 0
fi
rm -rf "$dest"
trap '[[ -e $dest/complete ]] || rm -rf "$dest"' EXIT
say "fetching version $version from PyPI into $dest"
if ! python3 -m venv "$dest" >&2; then
    say "python3 cannot make environments: install python3-venv"
    exit 1
fi
"$dest/bin/pip" install -q --disable-pip-version-check --no-input --timeout 20 --retries 1 "moto[server]==$version" >&2
"$dest/bin/python" -c 'import moto.server' >&2
: >"$dest/complete"
