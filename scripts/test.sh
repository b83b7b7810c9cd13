#!/usr/bin/env bash
# Every check that a change must pass, as named steps with a budget of seconds each.
# All steps run, also after one that failed. A step over its budget is a loud warning and no failure: machines differ.
# Modules are built in the workspace; the rehearsal of a release builds each alone, as a user sees it.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

readonly total_budget=900
names=() results=() used=() budgets=()
failed=0

step() { # step NAME BUDGET COMMAND...
  local name=$1 budget=$2 began=$SECONDS result=ok
  shift 2
  printf '\n=== %s (budget %d s)\n' "$name" "$budget"
  if ! "$@" </dev/null; then
    result=FAIL
    failed=$((failed + 1))
  fi
  local took=$((SECONDS - began))
  printf -- '--- %s: %s, %d s of %d s\n' "$name" "$result" "$took" "$budget"
  if [ "$took" -gt "$budget" ]; then
    printf '!!! %s took %d s, over its budget of %d s\n' "$name" "$took" "$budget"
    [ "$result" = FAIL ] || result="ok, OVER BUDGET"
  fi
  names+=("$name") results+=("$result") used+=("$took") budgets+=("$budget")
}

in_module() { # in_module DIR COMMAND...
  local dir=$1
  shift
  (cd "$dir" && "$@")
}

formatted() {
  local files
  files=$(gofmt -l .) || return 1
  [ -z "$files" ] && return
  printf 'not formatted (gofmt -w does it):\n%s\n' "$files"
  return 1
}

# The race detector needs cgo, and cgo a C compiler.
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

if ! command -v go >/dev/null; then
  echo "There is no go command; install Go 1.26 or newer from your distribution or from the Go project's download page"
  exit 1
fi
need_cgo
. scripts/modules.sh

step "programs" 90 scripts/programs.sh

step "format" 10 formatted

# What is not ours and large is compiled without the race detector: SQLite, which is C made into Go and takes twenty times as long with it.
# ZooKeeper's client has a race of its own, when it connects again: it reads the number of the last change that it saw while an answer raises it, and asks for a
# few events too many at worst. What we do with them is compiled with it.
readonly foreign=(
  -gcflags=modernc.org/...=-race=false -gcflags=github.com/go-zookeeper/zk=-race=false
)

# Everything is compiled and vetted here (go test need not do it again), and with the race detector where the tests want it, so that it is
# compiled once: the compiler is most of a first run. The root module comes first, as all others stand on it, and then the one that stands on most of what
# the others do: two go commands at one time compile what both want twice. The rest come two at a time, which keeps both cores busy.
vet() { # vet DIR...
  printf '%s\n' "$@" | FOREIGN="${foreign[*]}" xargs -P 2 -I{} sh -c '
    case {} in
      bench | advise) race= ;; # see their tests
      *) race="-race $FOREIGN" ;;
    esac
    cd {} && echo "vet {}" && go vet $race ./...'
}
step "vet ." 90 vet .
step "vet integration" 200 vet integration
others=()
for dir in "${modules[@]:1}"; do
  [ "$dir" = integration ] || others+=("$dir")
done
step "vet the other modules" 230 vet "${others[@]}"

# Built without the race detector only: a search takes one step at a time, and five times as long with it.
step "test models" 90 in_module . go test -vet=off -count=1 -timeout 5m -skip '^TestRace$' ./internal/statespace ./shardstore

# The tests of adapters and brokers wait more than they work, so a few run beside one another.
adapters=()
for dir in "${modules[@]}"; do
  case $dir in
    adapters/* | examples/* | integration/brokers) adapters+=("$dir") ;;
  esac
done
test_adapters() {
  printf '%s\n' "${adapters[@]}" | xargs -P 3 -I{} sh -c "cd {} && go test -vet=off -race ${foreign[*]} -count=1 -timeout 10m ./..."
}
step "test adapters and brokers, race" 150 test_adapters

for dir in "${modules[@]}"; do
  case $dir in
    adapters/* | examples/* | integration/brokers) ;; # above
    integration) # servers that are killed and have to find each other again; tests that wait more than they work. They build the command, of what is compiled already.
      step "test $dir, race" 240 in_module "$dir" env "GOFLAGS=-race ${foreign[*]}" go test -vet=off -count=1 -timeout 10m -parallel 6 ./... ;;
    browser/browsertest) # one browser with a few tabs at a time
      step "test $dir, race" 60 in_module "$dir" go test -vet=off -race "${foreign[@]}" -count=1 -timeout 5m -parallel 4 ./... ;;
    bench) # holds assertions on allocations, which the race detector would break
      step "test $dir" 60 in_module "$dir" go test -vet=off -count=1 -timeout 5m ./... ;;
    advise) # it compiles a parser when it runs, which takes ten times as long with the race detector; but for one lock it shares nothing
      step "test $dir" 60 in_module "$dir" go test -vet=off -count=1 -timeout 5m ./... ;;
    cmd/retrysafe | gateway) # they wait as well
      step "test $dir, race" 120 in_module "$dir" go test -vet=off -race "${foreign[@]}" -count=1 -timeout 10m -parallel 4 ./... ;;
    *) # -p: some packages wait for leases while others work
      step "test $dir, race" 90 in_module "$dir" go test -vet=off -race "${foreign[@]}" -count=1 -timeout 10m -p 4 ./... ;;
  esac
done

printf '\n%-44s %8s %8s  %s\n' step "used s" "budget" result
for i in "${!names[@]}"; do
  printf '%-44s %8d %8d  %s\n' "${names[i]}" "${used[i]}" "${budgets[i]}" "${results[i]}"
done
[ "$SECONDS" -le "$total_budget" ] || printf '!!! the whole run took %d s, over its budget of %d s\n' "$SECONDS" "$total_budget"
if [ "$failed" -gt 0 ]; then
  printf 'FAIL: %d of %d steps failed, %d s\n' "$failed" "${#names[@]}" "$SECONDS"
  exit 1
fi
printf 'PASS: all %d steps, %d s\n' "${#names[@]}" "$SECONDS"
