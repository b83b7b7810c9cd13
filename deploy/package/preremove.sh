#!/bin/sh
# Before the files go; an upgrade leaves the service alone ($1: deb has remove or upgrade, rpm the number of versions that stay).
set -eu
case "${1:-}" in
remove | 0)
  if [ -d /run/systemd/system ]; then
    systemctl disable --now retrysafe.service || true
  fi
  ;;
esac
