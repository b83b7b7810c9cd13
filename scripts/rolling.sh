#!/usr/bin/env bash
# Runs gateways of another revision and of this tree at the same time, on one store of each kind.
#
#   scripts/rolling.sh            beside the newest release before this commit
#   scripts/rolling.sh REVISION   beside a release (v0.1.0) or a commit
#
# A release is its tag. A clone may have no tags: then it is the commit "Release VERSION", which
# scripts/release made.
set -euo pipefail
cd "$(dirname "$0")/.."

release_commit() { # VERSION, or nothing for the newest
  git log -1 --format=%H --extended-regexp --grep="^Release ${1:-v[0-9.]+}\$"
}

revision=${1:-$(git describe --tags --abbrev=0 2>/dev/null || release_commit)}
if ! commit=$(git rev-parse --quiet --verify "$revision^{commit}"); then
  commit=$(release_commit "$revision")
  if [ -z "$commit" ]; then
    echo "rolling.sh: this clone has neither the tag nor the commit of ${revision:-a release}; get them with \"git fetch --tags --unshallow\", or name a commit" >&2
    exit 2
  fi
  echo "this clone has no tag $revision; its commit is $commit"
fi
stage=$(mktemp -d "${TMPDIR:-/tmp}/rolling-XXXXXX")
clean_up() {
  git worktree remove --force "$stage/old"
  rm -rf "$stage"
}
trap clean_up EXIT
git worktree add --quiet --detach "$stage/old" "$commit"
printf 'gateways of %s and of this tree\n' "$(git -C "$stage/old" log -1 --format='%h %s')"
(cd "$stage/old/cmd/retrysafe" && go build -o "$stage/retrysafe" .)
cd test/servers
RETRYSAFE_OLD="$stage/retrysafe" go test -count=1 -v -run '^TestRollingChange$' ./http
