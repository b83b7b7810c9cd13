#!/bin/sh
# Makes what archives and packages contain besides programs, in build/: manual pages, completion,
# and the unit for /usr/bin.
set -eu
cd "$(dirname "$0")/../.."
rm -rf build
mkdir -p build/man build/man-gz build/completions
for program in retrysafe retrysafe-advise; do
  (cd "cmd/$program" && go build -tags man -o "../../build/$program" .)
  "build/$program" man-pages build/man
  "build/$program" completion bash >"build/completions/$program.bash"
  "build/$program" completion zsh >"build/completions/_$program"
  "build/$program" completion fish >"build/completions/$program.fish"
  "build/$program" completion powershell >"build/completions/$program.ps1"
  rm "build/$program"
done
for page in build/man/*.1; do
  gzip -9nc "$page" >"build/man-gz/$(basename "$page").gz"
done
# The unit is written for a program that was installed by hand.
sed 's,/usr/local/bin/,/usr/bin/,; /^#   /d' deploy/retrysafe.service >build/retrysafe.service
