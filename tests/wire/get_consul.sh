#!/usr/bin/env bash
# Fetches Consul 1.8.7, the one release that is in an archive of Debian, and installs nothing.
#
#   tests/wire/get_consul.sh [DEST]
#
# DEST is where its package is unpacked; without, where the tests look for it. Does nothing when it is there.
# Debian 12 and later have no Consul: apt is given a source, lists and a cache of its own, so that those of the
# machine stay as they are. apt checks the signature of Debian 11's archive.
set -euo pipefail

dest=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/ringway/consul-1.8.7}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=http://deb.debian.org/debian

say() { printf 'consul: %s\n' "$*" >&2; }

if [[ -x $dest/usr/bin/consul ]]; then
    exit 0
fi
for program in apt-get dpkg-deb; do
    command -v "$program" >/dev/null || {
        say "$program is missing: this is no Debian or Ubuntu"
        exit 1
    }
done
[[ -r $keyring ]] || {
    say "$keyring is missing: install debian-archive-keyring"
    exit 1
}

mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$dest.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists,cache}/partial "$work/cache/archives/partial" "$work/unpacked"
echo "deb [signed-by=$keyring] $mirror bullseye main" >"$work/sources.list"
cat >"$work/apt.conf" <<CONF
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/lists";
Dir::Cache "$work/cache";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::http::Timeout "20";
Acquire::Retries "1";
APT::Sandbox::User "";
CONF
export APT_CONFIG=$work/apt.conf
say "fetching it from Debian 11's archive"
# An update that reaches nothing ends well unless told otherwise.
apt-get -q -o APT::Update::Error-Mode=any update </dev/null >&2
(cd "$work" && apt-get -q download consul </dev/null >&2)
dpkg-deb -x "$work"/consul_*.deb "$work/unpacked"
"$work/unpacked/usr/bin/consul" version >&2
# Whole or not at all, whoever else does the same.
mv -T "$work/unpacked" "$dest" 2>/dev/null || [[ -x $dest/usr/bin/consul ]]
