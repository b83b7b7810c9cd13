#!/usr/bin/env bash
# Checks that no result depends on the machine's speed: full runs of `make test` beside four busy
# loops, and then repeated runs of each package that starts servers or waits, also beside the loops.
#
#   scripts/stress.sh               three full runs, then ten of each package
#   RUNS=1 TIMES=3 scripts/stress.sh
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/steps.sh
. scripts/modules.sh
export GOFLAGS="${GOFLAGS:-} -trimpath"

loops=()
for _ in 1 2 3 4; do
  sh -c 'while :; do :; done' &
  loops+=($!)
done
trap 'kill "${loops[@]}" 2>/dev/null' EXIT

whole_run() { LOGS="$logs/run-$1" scripts/test.sh; }
for run in $(seq "${RUNS:-3}"); do
  step "whole run $run" whole_run "$run"
  tail -14 "$logs/whole-run-$run.log"
done

again() { # again TIMES DIR [ARGUMENT...]
  local times=$1 dir=$2
  shift 2
  (cd "$dir" && go test -vet=off -count="$times" -timeout 60m -skip '^TestSoak' -parallel 6 "$@" ./...)
}
times=${TIMES:-10}
for dir in integration/brokers adapters/amqpidem adapters/redisstreamidem adapters/natsidem adapters/kafkaidem adapters/zklock \
  examples examples/orders examples/http browser/browsertest; do
  step "$times times $dir" again "$times" "$dir"
done
for dir in gateway mqidem lock httpidem; do
  step "$times times $dir" again "$times" "$dir" -race
done
for dir in cmd/retrysafe integration; do
  step "$times times $dir" again "$times" "$dir"
done
summary
