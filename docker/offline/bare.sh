#!/usr/bin/env bash
# Runs both of the README's commands in a fresh clone, in a container that has Python with venv, make,
# and nothing else: what they need beyond that, they must leave out and say so.
# Needs root, a container engine and mmdebstrap. Usage: bare.sh [COMMANDS …] (default: both)
set -euo pipefail
cd "$(dirname "$0")"
base=$(./base.sh bare python3,python3-venv,make,passwd,libstdc++6) # the last is in all that have apt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet ../.. "$work/clone"

# How this machine reaches the registries: its certificates, its pip.conf, and what its environment says.
options=()
for file in /etc/ssl/certs /etc/pip.conf; do
  [ -e "$file" ] && options+=(--volume "$file:$file:ro")
done
while IFS= read -r name; do
  options+=(--env "$name")
done < <(compgen -e | grep -iE "^(pip_.*|uv_.*|.*_proxy|ssl_cert_.*|requests_ca_bundle|orderly_maven_url)$" | grep -vi find_links)

commands=("$@")
((${#commands[@]})) || commands=("make demo" "make test")
for command in "${commands[@]}"; do
  echo "\$ $command"
  docker run --rm --network host --env HOME=/root "${options[@]}" --volume "$work/clone:/clone" --workdir /clone \
    "$base" sh -c "$command"
done
