#!/bin/sh
# Runs before the files are removed. An upgrade leaves the service running ($1: for deb remove or
# upgrade, for rpm the number of versions that stay).
set -eu
case "${1:-}" in
remove | 0)
  if [ -d /run/systemd/system ]; then
    systemctl disable --now retrysafe.service || true
  fi
  ;;
esac
