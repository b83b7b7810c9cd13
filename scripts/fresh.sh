#!/usr/bin/env bash
# Runs `make test` as on a fresh machine: in a clean clone with empty caches of modules and builds,
# and then again with the caches of the first run. The summaries show both totals.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
stage=$(mktemp -d "${TMPDIR:-/tmp}/fresh-XXXXXX")
clean_up() {
  chmod -R u+w "$stage"
  rm -rf "$stage"
}
trap clean_up EXIT
git clone --quiet --no-local . "$stage/clone" && cd "$stage/clone" || exit 1
export GOCACHE="$stage/builds" GOMODCACHE="$stage/modules" GOBIN="$stage/bin"
logs=${LOGS:-$(mktemp -d "${TMPDIR:-/tmp}/retrysafe-fresh-XXXXXX")}
failed=0
for caches in empty warm; do
  printf '##### %s caches\n' "$caches"
  LOGS="$logs/$caches" make --no-print-directory test || failed=1
done
exit "$failed"
