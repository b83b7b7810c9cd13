#!/usr/bin/env bash
# Runs gateways of another revision and of this tree at the same time, on one store of each kind.
#
#   scripts/rolling.sh REVISION    v0.1.0, a commit; default: the newest tag, or the commit before this one
set -euo pipefail
cd "$(dirname "$0")/.."
revision=${1:-$(git describe --tags --abbrev=0 2>/dev/null || echo HEAD~1)}
stage=$(mktemp -d "${TMPDIR:-/tmp}/rolling-XXXXXX")
clean_up() {
  git worktree remove --force "$stage/old"
  rm -rf "$stage"
}
trap clean_up EXIT
git worktree add --quiet --detach "$stage/old" "$revision"
printf 'gateways of %s and of this tree\n' "$(git -C "$stage/old" log -1 --format='%h %s')"
(cd "$stage/old/cmd/retrysafe" && go build -o "$stage/retrysafe" .)
cd test/servers
RETRYSAFE_OLD="$stage/retrysafe" go test -count=1 -v -run '^TestRollingChange$' ./http
