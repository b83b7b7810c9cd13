#!/usr/bin/env bash
# Runs all tests with the race detector, also those that start servers. Three large dependencies are
# compiled without it: SQLite, which is translated from C and takes twenty times as long with it,
# ZooKeeper's client, which has a race when it reconnects (it reads the number of the last change
# that it saw while an answer raises it, and at worst asks for a few events too many), and RocketMQ's
# client, which writes without a lock that it is closed, and the name of its group, always the same.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/steps.sh
. scripts/modules.sh
export GOFLAGS="${GOFLAGS:-} -race -gcflags=modernc.org/...=-race=false -gcflags=github.com/go-zookeeper/zk=-race=false -gcflags=github.com/apache/rocketmq-client-go/v2/...=-race=false"

raced() { # raced DIR
  (cd "$1" && go test -vet=off -count=1 -timeout 60m -skip '^TestSoak' -parallel 6 ./...)
}
for dir in "${modules[@]}"; do
  case $dir in
    test/bench) ;; # checks allocations, and the race detector adds some
    *) step "race $dir" raced "$dir" ;;
  esac
done
summary
