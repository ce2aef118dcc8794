#!/usr/bin/env bash
# Builds the image orderly/rocketmq-offline:5.5.0 without a registry of images: from Debian packages
# and the jars of broker and proxy. The base is made once, the rest each time.
# Needs root, a container engine, mmdebstrap, and a Python that has orderly (PYTHON=…).
set -euo pipefail
cd "$(dirname "$0")"
image=orderly/rocketmq-offline:5.5.0
python=${PYTHON:-../../.venv/bin/python}
base=$(./base.sh java openjdk-17-jre-headless,passwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "Making $image …"
mkdir "$work/context"
"$python" stage.py "$work/context/rocketmq"
docker build --force-rm --build-arg base="$base" --tag "$image" --file Dockerfile "$work/context" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
echo "$image is ready; to use it: export ORDERLY_ROCKETMQ_IMAGE=$image"
