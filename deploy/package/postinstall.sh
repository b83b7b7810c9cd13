#!/bin/sh
# After the files are there: a secret of this machine's own unless there is one. Nothing is started: the address of the service has to be set first.
set -eu
secret=/etc/retrysafe/environment
if [ ! -e "$secret" ]; then
  (umask 077 && printf 'RETRYSAFE_SECRET=%s\n' "$(head -c 32 /dev/urandom | base64 | tr -d '\n')" >"$secret")
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  systemctl try-restart retrysafe.service || true # an upgrade
fi
