#!/usr/bin/env bash
# The long form of every test whose name begins with TestSoak, and of a few that search or break all points; the short form runs with the other tests. -v shows seeds and figures.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/modules.sh
for dir in "${modules[@]}"; do
  (cd "$dir" && RETRYSAFE_SOAK=long go test -v -run '^(TestSoak|TestModel$|TestOutboxRelay|TestRedis(Sentinel|Cluster)Store$|Test(MySQL|Postgres)StrangeDefaults$|TestRedisLock$)' -count=1 -timeout 60m ./...)
done
