#!/usr/bin/env bash
# Runs all tests with the race detector, those that start servers too. What is not ours and large is
# compiled without it: SQLite, which is C made into Go and takes twenty times as long with it, and
# ZooKeeper's client, which has a race of its own when it connects again (it reads the number of the
# last change that it saw while an answer raises it, and asks for a few events too many at worst).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/steps.sh
. scripts/modules.sh
export GOFLAGS="${GOFLAGS:-} -race -gcflags=modernc.org/...=-race=false -gcflags=github.com/go-zookeeper/zk=-race=false"

raced() { # raced DIR
  (cd "$1" && go test -vet=off -count=1 -timeout 60m -skip '^TestSoak' -parallel 6 ./...)
}
for dir in "${modules[@]}"; do
  case $dir in
    bench) ;; # asserts on allocations, which the race detector adds to
    *) step "race $dir" raced "$dir" ;;
  esac
done
summary
