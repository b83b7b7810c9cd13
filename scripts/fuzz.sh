#!/usr/bin/env bash
# Runs each fuzz target for as many inputs as take some minutes. Their seeds and earlier finds run
# with the other tests.
# The limit is a count: with a time limit, go test of Go 1.26 sometimes fails with "context deadline
# exceeded" although it found nothing.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
readonly inputs=${1:-100000x}
failed=()
while IFS=: read -r file func; do
  dir=$(dirname "${file#./}")
  printf '=== %s %s\n' "$dir" "$func"
  (cd "$dir" && go test -run '^$' -fuzz "^$func\$" -fuzztime "$inputs" -fuzzminimizetime 1000x .) || failed+=("$dir $func")
done < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/func //' | sort)
[ "${#failed[@]}" -eq 0 ] && exit
printf 'FAIL: %s\n' "${failed[@]}"
exit 1
