#!/usr/bin/env bash
# Does what README tells a stranger to do, as on a fresh machine: in a clean clone with empty caches
# of modules and builds, the demonstration and `make test`, each with caches of its own, and then
# `make test` again with those of the first run. Prints the seconds and the CPU time of each, and
# of `go build std` with an empty cache, to compare machines by.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/steps.sh
stage=$(mktemp -d "${TMPDIR:-/tmp}/fresh-XXXXXX")
clean_up() {
  chmod -R u+w "$stage"
  rm -rf "$stage"
}
trap clean_up EXIT
git clone --quiet --no-local . "$stage/clone" && cd "$stage/clone" || exit 1
export GOBIN="$stage/bin"

caches() { # caches NAME: the caches that the next commands use
  export GOCACHE="$stage/$1/builds" GOMODCACHE="$stage/$1/modules"
}
run_test() { LOGS="$logs/$1" make --no-print-directory test; }

caches std
step "go build std" go build std
caches demo
shown "demo, empty caches" go run ./cmd/retrysafe/demo --once
caches tests
shown "make test, empty caches" run_test empty
shown "make test, warm caches" run_test warm
summary
