#!/usr/bin/env bash
# Looks for tests whose result depends on chance or on the machine's speed. On two cores each package
# ends within two hours, and a piece with many takes longer: name packages to run a part of it. At
# the end it lists every test that failed, and how often.
#
#   scripts/stress.sh                     all pieces, one after the other
#   scripts/stress.sh PIECE...            these
#   scripts/stress.sh alone outbox lock   only these packages of a piece
#
#   whole        make test, once, beside busy loops
#   alone        packages that start nothing: 200 times, in a random order
#   servers      stores, locks and HTTP on real servers: 20 times, beside busy loops
#   command      the command line, the examples and the browser: 20 times, beside busy loops
#   brokers      consumers and publishers on real brokers: 20 times, beside busy loops
#
# TIMES=1000 scripts/stress.sh alone outbox finds a test there that fails once in 128 runs, in 2500
# of 2501 cases; 200 times find it in four of five.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/steps.sh
. scripts/modules.sh
. scripts/gotest.sh

pieces=() packages=()
for word in "$@"; do
  case $word in
    whole | alone | servers | command | brokers) pieces+=("$word") ;;
    *) packages+=("$word") ;;
  esac
done
if [ "${#pieces[@]}" -ne 1 ] && [ "${#packages[@]}" -gt 0 ]; then
  echo "name one piece with packages of it: whole, alone, servers, command or brokers"
  exit 2
fi
[ "${#pieces[@]}" -gt 0 ] || pieces=(whole alone servers command brokers)

busy() { # busy COMMAND...: runs it beside four busy loops, which end with this script at the latest
  local result=0 loops=()
  for _ in 1 2 3 4; do
    sh -c 'while kill -0 "$1" 2>/dev/null; do i=0; while [ "$i" -lt 200000 ]; do i=$((i + 1)); done; done' sh "$$" &
    loops+=($!)
  done
  "$@" || result=1
  kill "${loops[@]}" 2>/dev/null
  return "$result"
}

again() { # again TIMES MODULE...: the tests of these modules, or of the packages that were named
  local times=${TIMES:-$1}
  shift
  [ "${#packages[@]}" -eq 0 ] || set -- "${packages[@]}"
  go_test "$*" -count="$times" -timeout 150m -shuffle on
}

whole() { LOGS="$logs/whole" scripts/test.sh; }

for piece in "${pieces[@]}"; do
  case $piece in
    whole) shown "whole" busy whole ;;
    alone) shown "alone" again 200 "${alone[@]}" ;;
    servers) shown "servers" busy again 20 test/servers ;;
    command) shown "command" busy again 20 cmd/retrysafe test/browser examples examples/orders ;;
    brokers) shown "brokers" busy again 20 "${brokers[@]}" ;;
  esac
done

# Each failed test, and how often it failed.
failed_tests() {
  cat "$logs"/*.json "$logs"/whole/*.json 2>/dev/null |
    grep -o '"Action":"fail","Package":"[^"]*","Test":"[^"]*"' |
    sed 's/.*"Package":"\([^"]*\)","Test":"\([^"]*\)"/\1 \2/' | sort | uniq -c | sort -rn
}
printf '\nfailed tests, and how often:\n'
failed=$(failed_tests)
printf '%s\n' "${failed:-  none}"
summary
