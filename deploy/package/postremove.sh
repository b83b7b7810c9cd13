#!/bin/sh
# After the files are gone. The store and the secret stay: without the secret callers of before are not recognised.
set -eu
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
