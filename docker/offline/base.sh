#!/usr/bin/env bash
# Makes an image from Debian packages of this machine's own sources, if it does not exist, and prints
# its name. Usage: base.sh NAME PACKAGES (as mmdebstrap's --include). Needs root and an engine.
set -euo pipefail
packages=$2
base=orderly/$1-base:$({ cat "$0"; echo "$packages"; } | sha256sum | cut -c1-12) # another recipe, another base

for tool in docker mmdebstrap; do
  command -v "$tool" >/dev/null || { echo "$tool is missing; on Debian: apt install docker.io mmdebstrap" >&2; exit 3; }
done
docker info >/dev/null 2>&1 || { echo "no container engine answers: start dockerd, or set DOCKER_HOST" >&2; exit 3; }

if ! docker image inspect "$base" >/dev/null 2>&1; then
  echo "Making $base from Debian packages (once, about a minute) …" >&2
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mapfile -t sources < <(find /etc/apt/sources.list /etc/apt/sources.list.d \( -name '*.list' -o -name '*.sources' \) 2>/dev/null)
  { apt-config dump | grep -iE '^Acquire::https?::' || true; } >"$work/apt.conf" # proxies, certificates
  mmdebstrap --quiet --variant=essential --include="$packages" --aptopt="$work/apt.conf" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "" "$work/base.tar" "${sources[@]}" >&2
  docker import "$work/base.tar" "$base" >/dev/null
fi
echo "$base"
