# Sourced by the other scripts. Sets modules to the directories of all modules in go.work, the root
# (.) first.
# A test checks that go.work has all modules.
export GOWORK="$PWD/go.work"
modules=()
while read -r dir; do
  dir=${dir#"$PWD"}
  dir=${dir#/}
  modules+=("${dir:-.}")
done < <(go list -m -f '{{.Dir}}')
if [ "${#modules[@]}" -eq 0 ]; then
  echo "go list found no modules; run this in the repository, with Go 1.26 or newer and no -mod in GOFLAGS" >&2
  exit 1
fi
