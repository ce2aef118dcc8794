#!/usr/bin/env bash
# Starts a container engine (dockerd) where none answers, as root and without systemd.
# Usage: engine.sh FOLDER; its log goes there, and dockerd.pid if it was started here.
set -euo pipefail
folder=$1

answers() { docker info >/dev/null 2>&1; }

start() {
  dockerd --pidfile "$folder/dockerd.pid" "$@" >"$folder/dockerd.log" 2>&1 &
  for _ in {1..120}; do
    if answers; then return 0; fi
    kill -0 $! 2>/dev/null || return 1
    sleep 0.25
  done
  kill $!
  wait $! || true
  return 1
}

if answers; then exit 0; fi
# Plain first; then for kernels without its firewall rules, and for file systems without overlays.
for options in "" "--iptables=false" "--storage-driver=vfs" "--iptables=false --storage-driver=vfs"; do
  # shellcheck disable=SC2086 # several options are several words
  if start $options; then
    echo "dockerd runs${options:+ with $options}"
    exit 0
  fi
  echo "dockerd${options:+ with $options} did not start:"
  tail -n 5 "$folder/dockerd.log"
done
exit 1
