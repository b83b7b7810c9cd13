#!/usr/bin/env bash
# Lints every module with the versions that the rules in .golangci.yaml were written for.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/modules.sh

missing=0
need() { # need COMMAND PACKAGE@VERSION
  command -v "$1" >/dev/null && return
  echo "$1 is not installed; install it with"
  echo "  go install $2"
  echo "and put \"\$(go env GOPATH)/bin\" on your PATH"
  missing=1
}
need golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
need gofumpt mvdan.cc/gofumpt@v0.12.0
[ "$missing" -eq 0 ] || exit 1

failed=0
unformatted=$(gofumpt -l .)
if [ -n "$unformatted" ]; then
  printf 'not formatted (gofumpt -w . does it):\n%s\n' "$unformatted"
  failed=1
fi
go run ./scripts/wrap -check || {
  echo 'lines of comments and pages are too long (go run ./scripts/wrap breaks them)'
  failed=1
}
go run ./scripts/words || failed=1
for dir in "${modules[@]}"; do
  echo "lint $dir"
  (cd "$dir" && golangci-lint run ./...) || failed=1
done
exit "$failed"
