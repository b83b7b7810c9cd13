#!/usr/bin/env bash
# Runs every check that a change must pass, as named steps. All of them run, also after a failure.
#
#   scripts/test.sh                 every step
#   SERVERS=none scripts/test.sh    only what needs no programs besides Go, git and a C compiler
#   LOGS=DIR scripts/test.sh        where the output of the steps is kept
#
# The output of a step is shown if it fails. Soak tests have a separate target: make soak.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/steps.sh
. scripts/modules.sh

readonly servers=${SERVERS:-all}
case $servers in
  all | none) ;;
  *)
    echo "SERVERS=$servers: write SERVERS=none to leave out what needs servers, or nothing"
    exit 2
    ;;
esac

# Without paths of this machine, everything is compiled only once for the tests and for the
# rehearsal of a release, which has the modules in another directory.
export GOFLAGS="${GOFLAGS:-} -trimpath"

# The race detector runs for packages in which our own goroutines interact within one process.
# Packages that start servers and processes are compiled once, without it. So are adapters of
# frameworks, which are large and use the framework's goroutines. `make race` uses it everywhere.
raced=(. filter gateway httpsig adapters/kafkaidem adapters/natsidem adapters/otelidem adapters/watermillidem)

# Modules whose tests start servers or a browser, the slowest first.
served=(
  integration cmd/retrysafe integration/brokers adapters/amqpidem browser/browsertest examples examples/orders
  adapters/redisstreamidem adapters/zklock
)

# The other modules need neither.
plain=()
for dir in "${modules[@]}"; do
  case " ${raced[*]} ${served[*]} " in
    *" $dir "*) ;;
    *) plain+=("$dir") ;;
  esac
done

patterns() { # patterns DIR...: all packages of these modules
  local dir
  for dir in "$@"; do
    printf './%s/...\n' "$dir"
  done | sed 's#^\./\./#./#'
}

formatted() {
  local files
  files=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l) || return 1
  [ -z "$files" ] && return
  printf 'not formatted (gofmt -w does it):\n%s\n' "$files"
  return 1
}

# The race detector needs cgo, and cgo needs a C compiler.
need_cgo() {
  local cc
  cc=$(go env CC)
  if ! command -v "${cc%% *}" >/dev/null; then
    echo "The race detector needs a C compiler and there is no ${cc%% *}; install it with: sudo apt-get install gcc libc6-dev"
    exit 1
  fi
  if [ "$(go env CGO_ENABLED)" != 1 ]; then
    echo "The race detector needs cgo and it is off; switch it on with: export CGO_ENABLED=1"
    exit 1
  fi
}
need_cgo

tests() { # tests ARGUMENT...: go test as all steps run it
  go test -vet=off -count=1 -timeout 40m -skip '^TestSoak' "$@"
}

tests_of() { # tests_of "MODULE..." ARGUMENT...: the tests of all packages of these modules
  local dirs packages
  read -ra dirs <<<"$1"
  shift
  mapfile -t packages < <(patterns "${dirs[@]}")
  tests "$@" "${packages[@]}"
}

[ "$servers" = none ] || shown "programs" scripts/programs.sh
step "format" formatted
mapfile -t all < <(patterns "${modules[@]}")
step "vet" go vet "${all[@]}"
step "release rehearsal" go run ./scripts/release rehearse

# A search of the models runs one step at a time, and is five times as slow with the race detector.
step "models" tests -skip '^(TestRace$|TestSoak)' ./internal/statespace ./shardstore
step "tests in one process, race" tests_of "${raced[*]}" -race -p 4 -parallel 4
step "tests without race" tests_of "${plain[*]}" -p 4 -parallel 4
if [ "$servers" = none ]; then
  echo
  echo "Left out, as they start servers, or a browser: ${served[*]}"
else
  step "tests on servers" tests_of "${served[*]}" -p 3 -parallel 6
fi
summary
