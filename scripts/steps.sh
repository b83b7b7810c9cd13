# Sourced by scripts that run named steps. The output of each step goes to a file, and is shown if
# the step fails.
logs=${LOGS:-$(mktemp -d "${TMPDIR:-/tmp}/retrysafe-test-XXXXXX")}
mkdir -p "$logs"
step_names=() step_results=() step_seconds=() step_cpu=()
steps_failed=0

# count_cpu sets cpu to the CPU time, in seconds, of all children that have ended. A subshell would
# count its own children.
count_cpu() {
  times >"$logs/times"
  cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += t[1] * 60 + t[2] } printf "%d", sum }' "$logs/times")
}

# shown runs a step and shows its output as it comes.
shown() { # shown NAME COMMAND...
  visible=1 step "$@"
}

step() { # step NAME COMMAND...
  local name=$1 began=$SECONDS result=ok cpu cpu_before
  count_cpu
  cpu_before=$cpu
  local log="$logs/${1//[^a-z0-9]/-}.log"
  shift
  printf '=== %s\n' "$name"
  if [ -n "${visible:-}" ]; then
    "$@" </dev/null 2>&1 | tee "$log" || result=FAIL
  else
    "$@" </dev/null >"$log" 2>&1 &
    local pid=$!
    [ -t 1 ] && progress "$pid" "$log" "$began"
    wait "$pid" || result=FAIL
    [ "$result" = ok ] || failures "$log"
  fi
  [ "$result" = ok ] || steps_failed=$((steps_failed + 1))
  local took=$((SECONDS - began))
  printf -- '--- %s: %s, %d s%s\n' "$name" "$result" "$took" "$(packages_in "$log")"
  step_names+=("$name") step_results+=("$result") step_seconds+=("$took")
  count_cpu
  step_cpu+=($((cpu - cpu_before)))
}

# progress shows the progress of a step on a terminal.
progress() { # progress PID LOG BEGAN
  while kill -0 "$1" 2>/dev/null; do
    printf '\r    %d s%s ' "$((SECONDS - $3))" "$(packages_in "$2")"
    sleep 1
  done
  printf '\r\033[K'
}

# packages_in prints how many packages passed, from a log of go test.
packages_in() {
  local n
  n=$(grep -cE '^(ok|PASS) ' "$1")
  [ "$n" -eq 0 ] || printf ', %d packages passed' "$n"
}

# failures prints a log: all of it if it is short, else the failures and the end. Warnings of passed
# packages stay in the file.
failures() {
  if [ "$(wc -l <"$1")" -le 200 ]; then
    cat "$1"
  else
    grep -nE '^ *--- FAIL|^FAIL|^panic:|DATA RACE|_test\.go:[0-9]+:' "$1" | head -100
    echo "…"
    tail -60 "$1"
  fi
  echo "The whole output is in $1"
}

# summary prints the time of each step, and ends the script.
summary() {
  local i
  printf '\n%-32s %8s %8s  %s\n' step seconds "of CPU" result
  for i in "${!step_names[@]}"; do
    printf '%-32s %8d %8d  %s\n' "${step_names[i]}" "${step_seconds[i]}" "${step_cpu[i]}" "${step_results[i]}"
  done
  local packages
  packages=$(cat "$logs"/*.log | grep -cE '^(ok|PASS) ')
  if [ "$steps_failed" -gt 0 ]; then
    printf 'FAIL: %d of %d steps failed, %d s; their output is in %s\n' "$steps_failed" "${#step_names[@]}" "$SECONDS" "$logs"
    exit 1
  fi
  printf 'PASS: all %d steps, %d packages, %d s\n' "${#step_names[@]}" "$packages" "$SECONDS"
  exit 0
}
