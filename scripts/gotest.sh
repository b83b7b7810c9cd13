# Sourced by scripts that run tests, after modules.sh and steps.sh.

# Everything is compiled once, with the flags of a user's go build, so that the demo, the tests and
# what the tests build share it. Binaries without symbols link in two thirds of the time. gin's
# MessagePack (nomsgpack leaves it out) takes as long to compile as half of the standard library.
# What the user has set with go env -w counts too, apart from other -ldflags and -tags.
GOFLAGS="$(go env GOFLAGS) -ldflags=-s -tags=nomsgpack"
export GOFLAGS

# Modules whose tests start brokers of messages, or ZooKeeper.
brokers=(
  test/servers/brokers adapters/amqpidem adapters/kafkaidem adapters/natsidem
  adapters/redisstreamidem adapters/rocketmqidem adapters/zklock
)

# Modules whose tests start servers or a browser, the slowest first: they wait, and what needs no
# server is compiled meanwhile.
served=(test/servers cmd/retrysafe "${brokers[@]}" test/browser examples examples/orders)

# Modules whose tests run in make verify: test/bench compiles rivals of retrysafe, and the tests of the
# release install every module of a tree as a user does.
verified=(test/bench scripts/release)

# The other modules need neither, and run in their own processes alone.
alone=()
for dir in "${modules[@]}"; do
  case " ${served[*]} ${verified[*]} " in
    *" $dir "*) ;;
    *) alone+=("$dir") ;;
  esac
done

patterns() { # patterns DIR...: all packages of these modules
  local dir
  for dir in "$@"; do
    printf './%s/...\n' "$dir"
  done | sed 's#^\./\./#./#'
}

# go_test runs the tests of modules, and shows each package when it has ended, and each failure at
# the end. gotestsum reads the output of go test. What tests print is in a file.
go_test() { # go_test "MODULE..." ARGUMENT...
  local dirs packages
  read -ra dirs <<<"$1"
  shift
  mapfile -t packages < <(patterns "${dirs[@]}")
  go run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-icons text --format-hide-empty-pkg \
    --hide-summary skipped --jsonfile "$logs/tests-$$-$RANDOM.json" -- \
    -vet=off -count=1 -timeout 40m -p "${PACKAGES:-4}" -parallel 6 -skip '^TestSoak' "$@" "${packages[@]}"
}
