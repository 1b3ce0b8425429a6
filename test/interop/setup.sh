#!/bin/sh
# setup.sh: put on a Debian or Ubuntu machine the foreign programs that test/interop and test/bench measure Postrider
# against.
#
# May be run as often as you like, needs root, asks nothing, stops at the first failure. It starts no service: the rig
# starts private instances of its own in temporary directories, so nothing here may sit on port 25 or be enabled at
# boot.
set -eu

say() { printf 'setup: %s\n' "$*"; }

[ "$(id -u)" = 0 ] || { say 'must run as root'; exit 1; }
command -v apt-get >/dev/null || { say 'needs a Debian or Ubuntu machine (no apt-get)'; exit 1; }

export DEBIAN_FRONTEND=noninteractive

# python3-dkim brings python3-dnspython; openssl makes the receiving exchanger's certificate and the signing key.
# spamassassin brings its rules with it, and no daemon. clamav-daemon is used without the world's signatures: the rig
# writes a database of its own, so nothing has to be fetched.
packages='postfix opendkim opendkim-tools python3 python3-dkim python3-dnspython libmail-dkim-perl swaks openssl ca-certificates spamassassin'
# swaks needs the two Perl modules for STARTTLS and for mail with attachments.
packages="$packages clamav-daemon libnet-ssleay-perl libmime-tools-perl"
# A Debian of its own for the guide of the README, its name server, and what a user has to talk to an API.
packages="$packages mmdebstrap nsd curl iproute2 util-linux"
# Signed zones, a second name server, a resolver that validates, and what goes over the wire.
packages="$packages bind9 bind9-utils unbound tcpdump"
# A browser for the pages that people see, and its WebDriver.
packages="$packages chromium chromium-driver"
# Shells for the completion scripts, and bsdutils for `script`, which gives them a terminal.
packages="$packages zsh fish bsdutils"
# Languages in which receivers of webhooks verify signatures: the examples of docs/webhooks.md run in each.
packages="$packages golang-go php-cli ruby"
# HTTPS of several instances on one address.
packages="$packages haproxy"
# What a server writes, syncs and answers, in order.
packages="$packages strace"
# A generator of HTTP load in C, for the benches.
packages="$packages wrk"

# A certificate authority for tests, a judge of TLS, and programs that send by SMTP with a password.
packages="$packages pebble testssl.sh msmtp libphp-phpmailer git git-email libauthen-sasl-perl libsasl2-modules"
# Writers of aggregate reports, with the databases that they keep them in and the modules that they need.
packages="$packages rspamd redis-server opendmarc mariadb-server libdbd-mysql-perl libswitch-perl libwww-perl"
# The image: engines that need no daemon, the binutils and the emulator of the other architecture, and Debian's keys.
packages="$packages podman runc skopeo umoci binutils-aarch64-linux-gnu qemu-user-static debian-archive-keyring"
# A failover pair: file systems and loop devices.
packages="$packages e2fsprogs mount"
# Another day, for builds that must not depend on it.
packages="$packages faketime"

# Who signs releases and the apt repository.
packages="$packages gnupg minisign"
# Backup destinations: S3 by OpenStack Swift, and the commands ssh, rclone and restic; and what opens backups.
packages="$packages swift-proxy swift-account swift-container swift-object rclone restic openssh-server openssh-client age zstd unzip sqlite3"

# Debian starts what it installs. policy-rc.d is its documented way to say no; ours goes away again when we end.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  say "no service may start during the installation ($policy)"
  trap 'rm -f "$policy"' EXIT
  trap 'exit 1' HUP INT TERM
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi

say 'apt-get update'
apt-get -q update

installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

# What is new here must not start at the next boot; what this machine already used stays as it is.
fresh=
for service in postfix haproxy opendkim clamav-daemon clamav-freshclam nsd unbound rspamd redis-server opendmarc; do
  installed "$service" || fresh="$fresh $service"
done
installed bind9 || fresh="$fresh named"
installed mariadb-server || fresh="$fresh mariadb"
installed openssh-server || fresh="$fresh ssh"
for part in proxy account container object; do
  installed "swift-$part" || fresh="$fresh swift-$part"
done

# Must be answered before the package is unpacked. "Local only" would write a main.cf that some later start would use;
# the rig brings its own configuration, so no configuration is the honest answer.
case $fresh in
*postfix*)
  say "postfix: 'No configuration'"
  echo 'postfix postfix/main_mailer_type select No configuration' | debconf-set-selections
  ;;
esac

say "install $packages"
# shellcheck disable=SC2086 # the list is meant to be split
apt-get -q -y --no-install-recommends install $packages

# Swift's packages bring a script for each of their daemons.
for service in $(for each in $fresh; do echo "$each"; case $each in swift-*) ls /etc/init.d | grep "^$each-" ;; esac; done); do
  say "$service is not to start at boot"
  update-rc.d "$service" disable
done

# What would start a service is unpacked and not installed: the tests want a single program of each.
unpacked() { # FOLDER PROGRAM PACKAGE
  [ ! -x "$1/usr/bin/$2" ] || return 0
  say "unpack $3 in $1"
  mkdir -p "$1"
  (cd "$1" && apt-get -q download "$3" && dpkg-deb -x "$3"_*.deb . && rm -f "$3"_*.deb)
}
unpacked "${POSTRIDER_PROMETHEUS:-/var/tmp/postrider-prometheus}" promtool prometheus
unpacked "${POSTRIDER_REGISTRY:-/var/tmp/postrider-registry}" docker-registry docker-registry
unpacked "${POSTRIDER_FAIL2BAN:-/var/tmp/postrider-fail2ban}" fail2ban-regex fail2ban

# Exim cannot be installed beside Postfix: it is unpacked, and run from where it lies.
exim=${POSTRIDER_EXIM:-/var/tmp/postrider-exim}
# It looks for the account that its package would make.
getent passwd Debian-exim >/dev/null || useradd --system --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin --user-group Debian-exim
if [ ! -x "$exim/usr/sbin/exim4" ]; then
  say "unpack exim4-daemon-light in $exim"
  mkdir -p "$exim"
  (cd "$exim" && apt-get -q download exim4-daemon-light && dpkg-deb -x exim4-daemon-light_*.deb . && rm -f exim4-daemon-light_*.deb)
fi

# What makes clients of the OpenAPI document, and what looks for faults in it: pinned, and no dependency of the project
# itself.
clients=${POSTRIDER_CLIENTS:-/var/tmp/postrider-clients}
if command -v npm >/dev/null; then
  say "npm ci in $clients"
  mkdir -p "$clients"
  cp "$(dirname "$0")/clients/package.json" "$(dirname "$0")/clients/package-lock.json" "$clients"
  (cd "$clients" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
else
  say 'no npm: clients of the OpenAPI document are not made'
fi

# /usr/bin/python3 by its path: a pyenv in front of PATH has no Debian modules, and the rig calls it by path too.
say 'what is there now:'
postconf -d -h mail_version | sed 's/^/  postfix /'
opendkim -V | sed -n '1s/^/  /p'
/usr/bin/python3 -c 'import dkim, dns.version; print("  python3-dkim, dnspython", dns.version.version)'
/usr/bin/perl -MMail::DKIM -e 'print "  Mail::DKIM $Mail::DKIM::VERSION\n"'
swaks --version | sed -n '1s/^/  /p'
openssl version | sed 's/^/  /'
spamassassin --version | sed -n '1s/^/  /p'
clamd --version | sed -n '1s/^/  /p'
chromium --version --no-sandbox | sed -n '1s/^/  /p'
chromedriver --version | sed -n '1s/^/  /p'
go version | sed 's/^/  /'
php --version | sed -n '1s/^/  /p'
ruby --version | sed 's/^/  /'
dpkg-query -W -f '  ${Package} ${Version}\n' pebble testssl.sh msmtp libphp-phpmailer git-email
wrk -v 2>&1 | sed -n '1s/^/  /p' || true
strace --version | sed -n '1s/^/  /p'
nsd -v 2>&1 | sed -n '1s/^/  /p'
named -v | sed 's/^/  /'
unbound -V | sed -n '1s/^/  /p'
mmdebstrap --version | sed 's/^/  /'
podman --version | sed 's/^/  /'
for program in /usr/sbin/smtp-source /usr/sbin/smtp-sink; do
  [ -x "$program" ] || { say "$program is missing"; exit 1; }
  say "  $program"
done
say done
