#!/usr/bin/env bash
# Makes a fresh Debian or Ubuntu machine ready, and changes nothing on one that is.
#
#   .ci/setup.sh build|demo|test|bench
#
# Looks for the programs that the purpose needs, installs the packages of those that are missing, and
# checks the Rust toolchain. A service that a package brings along is neither started nor enabled.
set -euo pipefail

purpose=${1:-build}
rust_needed=1.95
# Debian keeps servers where only root looks for them.
PATH=$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin

say() { printf 'set-up: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

# === Operating system packages

# program:package:service ("-" where a package has none)
case $purpose in
    test) needs=(git:git:- python3:python3:- nginx:nginx:nginx prometheus:prometheus:prometheus promtool:prometheus:prometheus chromium:chromium:-
        dnsmasq:dnsmasq-base:-) ;;
    bench) needs=(nginx:nginx:nginx haproxy:haproxy:haproxy) ;;
    build | demo) needs=() ;;
    *) fail "unknown purpose $purpose" ;;
esac

# A compiler without the C library's objects is there and links nothing.
links() {
    command -v cc >/dev/null && printf 'int main(void) { return 0; }\n' | cc -x c -o /dev/null - 2>/dev/null
}

packages=()
services=()
links || packages+=(gcc libc6-dev)
for need in "${needs[@]}"; do
    IFS=: read -r program package service <<<"$need"
    if ! command -v "$program" >/dev/null && [[ " ${packages[*]-} " != *" $package "* ]]; then
        packages+=("$package")
        [[ $service = - ]] || services+=("$service")
    fi
done

# Environments of Python need a package that brings no program.
if [[ $purpose = test ]] && ! python3 -c 'import ensurepip' 2>/dev/null; then
    packages+=(python3-venv)
fi

as_root=()
if [[ ${#packages[@]} -gt 0 ]]; then
    command -v apt-get >/dev/null || fail "install these yourself, this is no Debian or Ubuntu: ${packages[*]}"
    if [[ $(id -u) -ne 0 ]]; then
        command -v sudo >/dev/null || fail "run as root, or install sudo, or: apt-get install ${packages[*]}"
        as_root=(sudo)
    fi
fi

# Packages of servers start them when installed; a policy of our own for that while says no.
policy=/usr/sbin/policy-rc.d
policy_is_ours=no
remove_policy() {
    if [[ $policy_is_ours = yes ]]; then
        "${as_root[@]}" rm -f "$policy"
        policy_is_ours=no
    fi
}
trap remove_policy EXIT

install_packages() {
    say "installing ${packages[*]}"
    if [[ ! -e $policy ]]; then
        policy_is_ours=yes
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
    fi
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
    "${apt[@]}" update </dev/null >&2 || say "apt-get update failed; trying with the lists at hand"
    "${apt[@]}" install --no-install-recommends "${packages[@]}" </dev/null >&2 ||
        fail "apt-get could not install ${packages[*]}"
    remove_policy
    # Only what came just now: a service that was here before is somebody's.
    if command -v systemctl >/dev/null && [[ -d /run/systemd/system ]]; then
        for service in "${services[@]}"; do
            "${as_root[@]}" systemctl disable --now "$service" >/dev/null 2>&1 || true
        done
    fi
}

if [[ ${#packages[@]} -gt 0 ]]; then
    install_packages
    links || fail "cc still cannot link a program after the installation"
    for need in "${needs[@]}"; do
        command -v "${need%%:*}" >/dev/null || fail "${need%%:*} is still missing after the installation"
    done
fi

# === Rust

command -v cargo >/dev/null ||
    fail "cargo is missing: install Rust $rust_needed or newer from https://rustup.rs, then run this again"
rust_found=$(cargo --version | sed -E 's/^cargo ([0-9]+\.[0-9]+).*/\1/')
if [[ $(printf '%s\n' "$rust_needed" "$rust_found" | sort -V | head -n 1) != "$rust_needed" ]]; then
    fail "Rust $rust_found is too old, $rust_needed is needed: run 'rustup update stable'"
fi
if [[ $purpose = test ]]; then
    for component in fmt:rustfmt clippy:clippy; do
        cargo "${component%%:*}" --version >/dev/null 2>&1 && continue
        command -v rustup >/dev/null || fail "cargo ${component%%:*} is missing: install ${component##*:}"
        say "adding ${component##*:} to the toolchain"
        rustup component add "${component##*:}" >&2 || fail "rustup could not add ${component##*:}"
    done
fi

# === Consul

# It is in no current archive, so an old one has to be reached; without, its stand-in of the tests is asked.
if [[ $purpose = test ]] && ! "$(dirname "$0")/../tests/wire/get_consul.sh"; then
    say "Consul cannot be had: the tests of discovery by Consul run against their own stand-in, and fail where CI is set"
fi

# === moto

if [[ $purpose = test ]] && ! "$(dirname "$0")/../tests/wire/get_moto.sh"; then
    say "moto cannot be had: the tests of discovery by AWS that need it run against nothing, say so, and fail where CI is set"
fi
say "ready for $purpose"
