#!/usr/bin/env bash
# Runs the long form of every test whose name begins with TestSoak, and of a few others that search
# for faults or break at every point. -v shows seeds and figures.
#
#   scripts/soak.sh                      the long forms, an hour or more
#   RETRYSAFE_SOAK=short scripts/soak.sh the short forms, minutes
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/modules.sh
export RETRYSAFE_SOAK=${RETRYSAFE_SOAK:-long}
searches='TestModel$|TestOutboxRelay|TestRedis(Sentinel|Cluster)Store$|Test(MySQL|Postgres)StrangeDefaults$|TestRedisLock$'
[ "$RETRYSAFE_SOAK" = long ] || searches='TestModel$'
for dir in "${modules[@]}"; do
  (cd "$dir" && go test -v -run "^(TestSoak|$searches)" -count=1 -timeout 120m ./...)
done
