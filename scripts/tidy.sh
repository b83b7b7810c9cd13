#!/usr/bin/env bash
# Tidies every module on its own, as a user without the workspace sees it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/modules.sh

for dir in "${modules[@]}"; do
  echo "tidy $dir"
  (cd "$dir" && GOWORK=off go mod tidy)
done
