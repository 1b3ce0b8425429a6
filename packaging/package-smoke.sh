#!/usr/bin/env bash
# Tests the Debian package: dpkg installs, upgrades, removes and purges it in a copy of this machine's root (an overlay
# in its own namespaces, so the machine does not change). systemd does not run there. The test of the guide covers it.
# The package of the other architecture is inspected, and its executable runs under qemu-user-static if that is
# installed.
#
#   packaging/package-smoke.sh       after npm run package -- --all; as root, on Debian or Ubuntu
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/packaging/proof.sh"
trap 'say "FAILED: line $LINENO ended with $?" >&2' ERR

if [ "${1:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || fail 'run it as root'
  native=$(dpkg --print-architecture)
  other=$([ "$native" = amd64 ] && echo arm64 || echo amd64)
  for arch in "$native" "$other"; do
    [ -f "$root/dist/postrider_${version}_$arch.deb" ] || fail "dist/postrider_${version}_$arch.deb does not exist; run npm run package -- --all"
  done
  # All writes go to a file system in memory, which ends with the namespace.
  mkdir "$place/top" "$place/root"
  PROOF_PLACE=$place unshare --mount --pid --fork --net bash "${BASH_SOURCE[0]}" inside "$native" "$other"
  exit
fi

native=$2 other=$3
ip link set lo up
mount -t tmpfs -o size=3g none "$place/top"
mkdir "$place/top/upper" "$place/top/work" "$place/top/new"
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/top/upper,workdir=$place/top/work" "$place/root"
mount -t proc none "$place/root/proc"
mount --bind /dev "$place/root/dev"
for folder in run tmp; do mount -t tmpfs none "$place/root/$folder"; done
mkdir "$place/root/tmp/dist"
cp "$root/dist/"*.deb "$place/root/tmp/dist/"

chrooted=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$place/root")
inside() { "${chrooted[@]}" "$@"; }
at() { printf '%s%s' "$place/root" "$1"; }
installed() { inside dpkg -i "/tmp/dist/$1" </dev/null >"$place/out" 2>&1 || fail "dpkg -i $1"; }
owner_of() { inside stat -c '%U:%G %a' "$1"; }
expect() { [ "$1" = "$2" ] || fail "$3: it is \"$1\", not \"$2\""; }
deb=postrider_${version}_$native.deb

# Removes all traces of a former installation.
inside dpkg --purge postrider >/dev/null 2>&1 || true
rm -rf "$(at /etc/postrider)" "$(at /var/lib/postrider)" "$(at /etc/systemd/system/postrider.service)" "$(at /usr/local/bin/postrider)"
if inside getent passwd postrider >/dev/null; then inside userdel postrider; fi

say 'the dependencies are the libraries that the executable is linked with'
mkdir "$place/top/unpacked"
dpkg-deb -x "$root/dist/$deb" "$place/top/unpacked"
packages=$(ldd "$place/top/unpacked/usr/bin/postrider" "$place/top/unpacked/usr/lib/postrider/better_sqlite3.node" | sed -n 's/.*=> \(.*\) (0x.*/\1/p' | sort -u |
  while read -r library; do dpkg -S "$(basename "$library")" | sed -n "s/^\([^:]*\):$native: \/.*/\1/p" | grep -v -e -dev -e -cross -e dbg | head -n 1; done | sort -u)
depends=$(dpkg-deb -f "$root/dist/$deb" Depends)
for package in $packages; do
  case $depends in *"$package"*) ;; *) fail "it needs $package, but depends on $depends" ;; esac
done

say 'the size'
octets=$(stat -c %s "$root/dist/$deb")
[ "$octets" -le 38000000 ] || fail "the package has $octets bytes, more than 38,000,000"

say 'install: no prompt, no start; creates the user, the directory and the configuration'
installed "$deb"
grep -q 'postrider init' "$place/out" || fail 'the installation does not name the next step'
expect "$(inside postrider --version)" "$version" 'the version'
expect "$(owner_of /etc/postrider/postrider.toml)" 'root:postrider 640' 'the configuration'
expect "$(owner_of /var/lib/postrider)" 'postrider:postrider 700' 'the data directory'
expect "$(inside getent passwd postrider | cut -d: -f6,7)" '/var/lib/postrider:/usr/sbin/nologin' 'the user'
expect "$(inside dpkg-query -W -f '${Conffiles}' postrider | awk '{print $1}' | xargs)" /etc/postrider/postrider.toml 'conffiles'
[ -z "$(inside dpkg --verify postrider)" ] || fail 'dpkg --verify finds changes'
if [ -e "$(at /etc/systemd/system/multi-user.target.wants/postrider.service)" ]; then fail 'the installation enables the service'; fi
for file in alerts.yml dashboard.json; do
  [ -s "$(at "/usr/share/postrider/monitoring/$file")" ] || fail "there is no $file for Prometheus and Grafana"
done
pages=$(inside dpkg -L postrider | grep -c '/man1/postrider.*\.1\.gz$')
commands=$(inside postrider help | sed -n '/^Commands:/,$p' | grep -c '^  [a-z]')
# The command help has no page, and postrider(1) is an additional one.
expect "$pages" "$commands" 'the number of man pages'
inside man -w postrider-domain >/dev/null || fail 'man does not find postrider-domain(1)'
inside bash -c 'source /usr/share/bash-completion/completions/postrider; complete -p postrider' >/dev/null || fail 'bash reads no completion'

say 'the unit: skipped without a hostname, sandboxed, limited, and complete'
condition=$(sed -n "s/^ExecCondition=\/bin\/sh -c '\(.*\)'\$/\1/p" "$(at /usr/lib/systemd/system/postrider.service)" | sed 's/\$\$/$/g')
[ -n "$condition" ] || fail 'the unit has no condition'
if inside sh -c "$condition" 2>"$place/out"; then fail 'the unit would start without a host name'; fi
grep -q 'postrider init' "$place/out" || fail 'the condition does not name the next step'
inside env POSTRIDER_HOSTNAME=mx.example.test sh -c "$condition" || fail 'the unit would not start with the variable'
# Of the score, 0.2 are for NotifyAccess=all, which systemd-notify needs.
exposure=$(inside systemd-analyze security --offline=true postrider.service 2>/dev/null | sed -n 's/.*exposure level.*: \([0-9.]*\) .*/\1/p')
awk -v level="$exposure" 'BEGIN { exit !(level > 0 && level <= 1.6) }' || fail "systemd-analyze security says $exposure"
for line in MemoryHigh=400M OOMPolicy=stop WatchdogSec=60; do
  grep -qx "$line" "$(at /usr/lib/systemd/system/postrider.service)" || fail "the unit has no $line"
done
inside systemd-analyze verify --man=no /usr/lib/systemd/system/postrider.service >"$place/out" 2>&1 || fail "systemd-analyze verify: $(cat "$place/out")"
[ ! -s "$place/out" ] || fail "systemd-analyze verify prints $(cat "$place/out")"
if inside sh -c 'ls /etc/systemd/system/*/postrider.service' >/dev/null 2>&1; then fail 'postrider.service is enabled'; fi

say 'init: a single command between installation and start'
inside postrider --json init --domain example.test --hostname mx.example.test --email me@example.test >"$place/out" || fail 'init'
expect "$(inside sed -n 's/^hostname = //p' /etc/postrider/postrider.toml)" '"mx.example.test"' 'the host name'
expect "$(owner_of /etc/postrider/postrider.toml)" 'root:postrider 640' 'the configuration after init'
foreign=$(inside find /var/lib/postrider ! -user postrider)
[ -z "$foreign" ] || fail "not given to the service: $foreign"
inside sh -c "$condition" || fail 'the unit would not start after init'
inside sh -c 'cd /tmp && exec setpriv --reuid postrider --regid postrider --init-groups postrider --json domain list' >"$place/out" || fail 'the service cannot use its data'
grep -q '"name":"example.test"' "$place/out" || fail 'the domain is not there'
inside sh -c 'cd /tmp && setpriv --reuid nobody --clear-groups --regid nogroup postrider init' 2>"$place/out" && fail 'the user nobody can set it up'
grep -q 'sudo postrider init' "$place/out" || fail "without root it says $(cat "$place/out")"
inside postrider init --hostname mx2.example.test >"$place/out" || fail 'another host name'
grep -q '^Changed hostname from mx.example.test to mx2.example.test' "$place/out" || fail "another host name: $(head -n 1 "$place/out")"

say 'init on a full disk: one-sentence errors'
mkdir "$(at /mnt/full)"
mount -t tmpfs -o size=64k none "$(at /mnt/full)"
dd if=/dev/zero of="$(at /mnt/full/filler)" bs=4k 2>/dev/null || true
inside postrider --config /mnt/full/postrider.toml init --domain a.test --hostname mx.a.test --email me@a.test --data /var/lib/postrider 2>"$place/out" && fail 'init wrote on a full disk'
expect "$(wc -l <"$place/out")" 1 'lines on a full disk'
grep -q 'is full: free some space' "$place/out" || fail "on a full disk it says $(cat "$place/out")"
rm "$(at /mnt/full/filler)"
inside postrider --config /tmp/full.toml init --domain a.test --hostname mx.a.test --email me@a.test --data /mnt/full/data 2>"$place/out" && fail 'init created data on a full disk'
expect "$(wc -l <"$place/out")" 1 'lines on a full data disk'
grep -q 'full' "$place/out" || fail "on a full data disk it says $(cat "$place/out")"

say 'a data directory mounted noexec on a read-only root: SQLite is loaded from the package'
expect "$(inside postrider --json version | sed -n 's/.*"built_from":"\([a-z]*\)".*/\1/p')" package 'built_from in version'
mkdir "$(at /mnt/noexec)" "$(at /opt/bare)"
cp "$(at /usr/bin/postrider)" "$(at /opt/bare/postrider)"
mount -t tmpfs -o noexec none "$(at /mnt/noexec)"
mount -o remount,noexec "$place/root/tmp"
mount -o remount,ro "$place/root"
own() { inside "$1" --config /mnt/noexec/postrider.toml "${@:2}"; }
if inside touch /opt/bare/x 2>/dev/null; then fail 'the root is not read-only'; fi
own postrider init --domain a.test --hostname mx.a.test --email me@a.test --data /mnt/noexec/data >"$place/out" 2>&1 || fail "init: $(cat "$place/out")"
"${chrooted[@]}" env POSTRIDER_HTTP_LISTEN=127.0.0.1:0 POSTRIDER_SMTP_LISTEN=127.0.0.1:0 \
  postrider --config /mnt/noexec/postrider.toml serve >"$place/log" 2>&1 &
server=$!
await '"event":"server_ready"' "$place/log" 'the server'
kill -TERM "$server"
wait "$server" || fail "it ended with $?"
server=
# The executable alone cannot write the addon anywhere, so the file of the package was loaded.
own /opt/bare/postrider domain list 2>"$place/out" && fail 'an executable alone loaded the addon from noexec'
grep -q 'Libraries cannot be loaded' "$place/out" || fail "the executable alone says $(cat "$place/out")"
mount -o remount,rw "$place/root"
mount -o remount,exec "$place/root/tmp"

say 'upgrade: keeps configuration and data, no prompt'
sums() { inside sh -c 'cd / && find etc/postrider var/lib/postrider -type f | sort | xargs sha256sum'; }
before=$(sums)
mkdir "$place/top/newer"
dpkg-deb -R "$root/dist/$deb" "$place/top/newer"
sed -i 's/^Version: .*/&.1/' "$place/top/newer/DEBIAN/control"
echo '# A later package says more.' >>"$place/top/newer/usr/share/doc/postrider/examples/postrider.toml"
dpkg-deb --root-owner-group -Znone -b "$place/top/newer" "$(at /tmp/dist/newer.deb)" >/dev/null
installed newer.deb
expect "$(inside dpkg-query -W -f '${Version}' postrider)" "$version.1" 'the version after the upgrade'
expect "$(sums)" "$before" 'configuration and data after the upgrade'
expect "$(owner_of /etc/postrider/postrider.toml)" 'root:postrider 640' 'the configuration after the upgrade'

say 'dpkg replaces a running executable'
"${chrooted[@]}" postrider dev --http 127.0.0.1:0 --smtp 127.0.0.1:0 >"$place/log" 2>&1 &
server=$!
await '^curl' "$place/log" 'the sandbox'
installed "$deb"
kill -0 "$server" 2>/dev/null || fail 'the running process did not survive the upgrade'
kill -TERM "$server"
wait "$server" || fail "it ended with $? after the upgrade"
server=

say 'remove keeps data and configuration; purge deletes them'
inside dpkg --remove postrider >/dev/null 2>&1
[ ! -e "$(at /usr/bin/postrider)" ] || fail 'the executable is still there'
expect "$(sums)" "$before" 'configuration and data after the removal'
installed "$deb"
expect "$(sums)" "$before" 'configuration and data after a new installation'
inside dpkg --purge postrider >/dev/null 2>&1
left=$(inside find / -xdev \( -path /proc -o -path /tmp -o -path /mnt \) -prune -o -path '*postrider*' -not -path "$root/*" -newer /tmp/dist/newer.deb -print 2>/dev/null | grep -E '^/(etc|usr|var/lib/postrider|var/lib/private)' || true)
[ -z "$left" ] || fail "purge leaves $left"
[ ! -e "$(at /var/lib/postrider)" ] && [ ! -e "$(at /etc/postrider)" ] || fail 'purge leaves data or configuration'

say 'an existing configuration is kept, no prompt'
mkdir "$(at /etc/postrider)"
echo 'hostname = "mx.mine.test"' >"$(at /etc/postrider/postrider.toml)"
installed "$deb"
expect "$(cat "$(at /etc/postrider/postrider.toml)")" 'hostname = "mx.mine.test"' 'the first configuration'
expect "$(owner_of /etc/postrider/postrider.toml)" 'root:postrider 640' 'the first configuration'

say "the package for $other: rejected here, and its executable is for $other"
if inside dpkg -i "/tmp/dist/postrider_${version}_$other.deb" >"$place/out" 2>&1; then fail "dpkg accepted the package for $other"; fi
grep -q "does not match system" "$place/out" || fail "dpkg says $(cat "$place/out")"
mkdir "$place/top/other"
dpkg-deb -x "$root/dist/postrider_${version}_$other.deb" "$place/top/other"
built=$place/top/other/usr/bin/postrider
# e_machine of the ELF header: 62 is x86-64, 183 is AArch64.
machine=$([ "$other" = arm64 ] && echo 183 || echo 62)
expect "$(od -An -j18 -N2 -tu2 "$built" | tr -d ' ')" "$machine" 'the machine of its executable'
qemu=$([ "$other" = arm64 ] && echo qemu-aarch64-static || echo qemu-x86_64-static)
libraries=$([ "$other" = arm64 ] && echo /usr/aarch64-linux-gnu || echo /usr/x86_64-linux-gnu)
expect "$(od -An -j18 -N2 -tu2 "$place/top/other/usr/lib/postrider/better_sqlite3.node" | tr -d ' ')" "$machine" 'the machine of its SQLite addon'
if command -v "$qemu" >/dev/null && [ -e "$libraries/lib/libatomic.so.1" ]; then
  mkdir "$place/top/run"
  POSTRIDER_SMOKE_WITH="$qemu -L $libraries" "$root/packaging/smoke.sh" "$built"
else
  say "not run: $qemu with the libraries of $other is not installed"
fi
say 'all well'
