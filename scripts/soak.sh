#!/usr/bin/env bash
# The long form of every test whose name begins with TestSoak; the short form runs with the other tests.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/modules.sh
for dir in "${modules[@]}"; do
  packages=$(cd "$dir" && grep -rlE --include='*_test.go' '^func TestSoak' . | grep -vE '^\./(bench|gateway|integration|cmd)/' | xargs -r -n1 dirname | sort -u || true)
  if [ "$dir" != . ]; then packages=$(cd "$dir" && grep -rlE --include='*_test.go' '^func TestSoak' . | xargs -r -n1 dirname | sort -u || true); fi
  [ -n "$packages" ] || continue
  (cd "$dir" && GOWORK=off RETRYSAFE_SOAK=long go test -run '^TestSoak' -count=1 -timeout 60m -v $packages | grep -vE '^=== ')
done
