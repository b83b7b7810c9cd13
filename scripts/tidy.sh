#!/usr/bin/env bash
# Tidies every module separately, as a user without the workspace sees it.
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./scripts/release tidy
