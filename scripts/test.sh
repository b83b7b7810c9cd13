#!/usr/bin/env bash
# Runs every test once, those that need servers on real ones. `make verify` has the other checks.
#
#   scripts/test.sh                 everything; installs missing servers on Debian, as root
#   SERVERS=none scripts/test.sh    only what needs no programs besides Go
#   LOGS=DIR scripts/test.sh        where the output is kept
#
# Soak tests have a separate target: make soak. The modules test/bench and scripts/release are part of
# make verify.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/steps.sh
. scripts/modules.sh
. scripts/gotest.sh

readonly servers=${SERVERS:-all}
case $servers in
  all | none) ;;
  *)
    echo "SERVERS=$servers: write SERVERS=none to leave out what needs servers, or nothing"
    exit 2
    ;;
esac

chosen=() left=()
for dir in "${served[@]}" "${alone[@]}"; do
  case $servers:" ${served[*]} " in
    none:*" $dir "*) left+=("$dir") ;;
    *) chosen+=("$dir") ;;
  esac
done

[ "$servers" = none ] || shown "programs" scripts/programs.sh
# The race detector's step of make verify disturbs a cluster of Kafka.
shown "tests" go_test "${chosen[*]}" -skip '^(TestSoak|TestKafkaCluster$)'
if [ "$servers" = none ]; then
  echo
  echo "Left out, as they start servers, or a browser: ${left[*]}"
fi
summary
