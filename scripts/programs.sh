#!/usr/bin/env bash
# Sees that the programs are there that the tests run beside Go's own. What is missing is installed where nobody has to be asked: on
# Debian and its like, as root. Elsewhere this names the command and fails, as the tests will.
set -uo pipefail

missing=()
need() { # need PACKAGE PROGRAM...: any one of the programs will do
  local package=$1 program
  shift
  for program in "$@"; do
    command -v "$program" >/dev/null && return
  done
  echo "missing: $1"
  missing+=("$package")
}

need_file() { # need_file PACKAGE FILE: what is no program
  [ -e "$2" ] && return
  echo "missing: $1"
  missing+=("$1")
}

look() {
  missing=()
  need chromium chromium chromium-browser google-chrome
  need curl curl
  need util-linux prlimit
  need redis-server redis-server
  need redis-sentinel redis-sentinel
  command -v postgres >/dev/null || need_file postgresql /usr/lib/postgresql/*/bin/postgres
  command -v mariadbd >/dev/null || need_file mariadb-server /usr/sbin/mariadbd
  need pgbouncer pgbouncer
  need_file rabbitmq-server /usr/lib/rabbitmq/bin/rabbitmq-server
  need default-jre-headless java
  need_file zookeeper /usr/share/java/zookeeper.jar
  need_file libslf4j-java /usr/share/java/slf4j-simple.jar
  need nginx nginx
  need_file libnginx-mod-http-lua /usr/share/nginx/modules/ngx_http_lua_module.so
  need_file lua-nginx-redis /usr/share/lua/5.1/nginx/redis.lua
  need_file lua-nginx-string /usr/share/lua/5.1/nginx/sha256.lua
  need_file lua-cjson /usr/share/lua/5.1/cjson/util.lua
}

look
if [ "${#missing[@]}" -eq 0 ]; then
  echo "all programs are there"
  exit 0
fi

install="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -ne 0 ] || ! grep -qsE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release; then
  echo "The tests need them; on Debian install them with: sudo sh -c '$install'"
  exit 1
fi
echo "installing: ${missing[*]}"
# Servers are started by the tests that need them, on ports of their own: the packages must not leave one running.
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
[ "${#missing[@]}" -eq 0 ]
