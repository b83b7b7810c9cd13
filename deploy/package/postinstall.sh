#!/bin/sh
# Runs after the files are installed. Makes a secret for this machine unless there is one. Starts
# nothing: the address of the service must be set first.
set -eu
secret=/etc/retrysafe/environment
if [ ! -e "$secret" ]; then
  (umask 077 && printf 'RETRYSAFE_SECRET=%s\n' "$(head -c 32 /dev/urandom | base64 | tr -d '\n')" >"$secret")
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  systemctl try-restart retrysafe.service || true # an upgrade
fi
