#!/usr/bin/env bash
# Builds the image orderly/rocketmq-offline:5.5.0 without a registry of images: from Debian packages
# of this machine's own sources, and the broker's jars. The base is made once, the rest each time.
# Needs root, a container engine, mmdebstrap, and a Python that has orderly (PYTHON=…).
set -euo pipefail
cd "$(dirname "$0")"
image=orderly/rocketmq-offline:5.5.0
base=orderly/java-base:$(sha256sum build.sh | cut -c1-12) # another recipe, another base
python=${PYTHON:-../../.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in docker mmdebstrap; do
  command -v "$tool" >/dev/null || { echo "$tool is missing; on Debian: apt install docker.io mmdebstrap"; exit 3; }
done
docker info >/dev/null 2>&1 || { echo "no container engine answers: start dockerd, or set DOCKER_HOST"; exit 3; }

if ! docker image inspect "$base" >/dev/null 2>&1; then
  echo "Making $base from Debian packages (once, about a minute) …"
  mapfile -t sources < <(find /etc/apt/sources.list /etc/apt/sources.list.d \( -name '*.list' -o -name '*.sources' \) 2>/dev/null)
  { apt-config dump | grep -iE '^Acquire::https?::' || true; } >"$work/apt.conf" # proxies, certificates
  mmdebstrap --quiet --variant=essential --include=openjdk-17-jre-headless,passwd --aptopt="$work/apt.conf" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "" "$work/base.tar" "${sources[@]}"
  docker import "$work/base.tar" "$base" >/dev/null
  rm "$work/base.tar"
fi

echo "Making $image …"
mkdir "$work/context"
"$python" stage.py "$work/context/rocketmq"
docker build --force-rm --build-arg base="$base" --tag "$image" --file Dockerfile "$work/context" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
echo "$image is ready; to use it: export ORDERLY_ROCKETMQ_IMAGE=$image"
