# What the scripts of the booted guest share. Their output goes to the host.
# shellcheck shell=bash
set -u
exec >>/job/said 2>&1

step() {
	echo "== $* ($(cut -d' ' -f1 /proc/uptime) s after boot)"
}
die() {
	echo "FAILED: $*"
	systemctl --no-pager --full status 'tccc*' || true
	journalctl --boot --no-pager --priority info | tail -n 80
	echo 1 >/job/code
	systemctl poweroff --force
	exit 1
}
must() {
	"$@" || die "$* ended with $?"
}
# must_say WORDS COMMAND...: the command succeeds and its output holds the words.
must_say() {
	words=$1
	shift
	said=$("$@") || die "$* ended with $?: $said"
	case $said in
	*"$words"*) ;;
	*) die "$* does not say \"$words\": $said" ;;
	esac
}
# The algorithm of a connection to an address of this host.
given() {
	perl -MIO::Socket::INET -e '
		my $listener = IO::Socket::INET->new(Listen => 1, LocalAddr => $ARGV[0]) or die "listen: $!";
		my $sender = IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => $listener->sockport) or die "connect: $!";
		print unpack("Z*", getsockopt($sender, 6, 13)), "\n"' "$1"
}
# await SECONDS COMMAND...
await() {
	limit=$1
	shift
	end=$(($(date +%s) + limit))
	until "$@"; do
		[ "$(date +%s)" -lt "$end" ] || die "not within $limit s: $*"
		sleep 1
	done
}
