#!/usr/bin/env bash
# Releases every module under one version. Shows what would change and which tags it would create.
# With -really it makes the changes, commits and tags. It pushes nothing.
#
#   scripts/release.sh v0.1.0
#   scripts/release.sh -really v0.1.0
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./scripts/release "$@"
