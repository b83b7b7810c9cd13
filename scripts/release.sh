#!/usr/bin/env bash
# Releases every module under one version: shows what would change and which tags it would make.
# With -really it changes, commits and tags. Nothing is pushed.
#
#   scripts/release.sh v0.1.0
#   scripts/release.sh -really v0.1.0
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./scripts/release "$@"
