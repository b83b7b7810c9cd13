#!/usr/bin/env bash
# Runs what a build machine checks besides `make test`, as named steps: what takes long and tells
# little to somebody who tries the project, or who changes one part of it. All steps run, also after
# a failure. The output of a step is shown if it fails.
#
#   scripts/verify.sh             every step
#   LOGS=DIR scripts/verify.sh    where the output of the steps is kept
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/steps.sh
. scripts/modules.sh
. scripts/gotest.sh

formatted() {
  local files
  files=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l) || return 1
  [ -z "$files" ] && return
  printf 'not formatted (gofmt -w does it):\n%s\n' "$files"
  return 1
}

pages() {
  local failed=0
  go run ./scripts/translations || failed=1
  go run ./scripts/wrap -check || { echo 'lines of comments and pages are too long (go run ./scripts/wrap breaks them)' && failed=1; }
  go run ./scripts/words || failed=1
  return "$failed"
}

# The race detector runs for packages in which our own goroutines interact within one process.
# Packages that start servers and processes run without it, in make test. So do adapters of
# frameworks, which are large and use the framework's goroutines. `make race` uses it everywhere.
raced=(. filter gateway httpidem/httpsig adapters/kafkaidem adapters/natsidem adapters/otelidem adapters/watermillidem)

# The race detector needs cgo, and cgo needs a C compiler.
race() {
  local cc
  cc=$(go env CC)
  if ! command -v "${cc%% *}" >/dev/null; then
    echo "The race detector needs a C compiler and there is no ${cc%% *}; install it with: sudo apt-get install gcc libc6-dev"
    return 1
  fi
  if [ "$(go env CGO_ENABLED)" != 1 ]; then
    echo "The race detector needs cgo and it is off; switch it on with: export CGO_ENABLED=1"
    return 1
  fi
  go_test "${raced[*]}" -race
}

lint() {
  if command -v golangci-lint >/dev/null && command -v gofumpt >/dev/null; then
    scripts/lint.sh
    return
  fi
  echo 'left out: golangci-lint or gofumpt is not installed; make lint says how to install them'
}

step "format" formatted
step "pages" pages
mapfile -t all < <(patterns "${modules[@]}")
step "vet" go vet "${all[@]}"
step "vet of pages" env RETRYSAFE_PAGES=vet go test -vet=off -count=1 -run '^TestProgramsOfPages$' ./internal/doctest
# A search of the models runs one step at a time, and is five times as slow with the race detector.
models() { RETRYSAFE_MODELS=long go test -vet=off -count=1 -timeout 60m -skip '^(TestRace$|TestSoak)' ./internal/statespace; }

# make test has the suites on the servers of internal/servertest/servers/tested.list, and all other
# tests of these packages on the first version of each product.
other_versions() {
  scripts/programs.sh verify || return 1
  RETRYSAFE_POSTGRES=postgres17 RETRYSAFE_REDIS=valkey9 \
    go_test 'test/servers/sql test/servers/tx test/servers/guards test/servers/locks test/servers/redis adapters/redisstreamidem'
}

step "models" models
step "tests on PostgreSQL 17 and Valkey" other_versions
step "tests beside rivals, and of the release" go_test "${verified[*]}"
step "race" race
step "release rehearsal" go run ./scripts/release rehearse
step "lint" lint
tail -1 "$logs/lint.log"
summary
