# Tries the package in a booted Debian: installed and enabled, rebooted, used, stopped, purged. Runs once at each boot, as root.
#
# /job is a folder of the host with the package, the scripts, and their output.
. /job/common.sh

# Everything that a person would find changed: kind, mode, owner and target of each file, and the content of settings.
files() {
	find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/systemd -o -path /var/cache -o -path /var/log -o -path /var/backups \
		-o -path /var/lib/try -o -path /etc/ld.so.cache \) -prune -o -printf '%y %m %u:%g %p %l\n' | sort
	find /etc -xdev -type f ! -name ld.so.cache -exec sha256sum {} + | sort -k 2
}
default() {
	cat /proc/sys/net/ipv4/tcp_congestion_control
}
# Whether /healthz answers 200.
healthy() {
	perl -MIO::Socket::INET -e '
		alarm 5;
		my $page = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => 9444) or exit 1;
		print $page "GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n";
		exit(<$page> =~ / 200 / ? 0 : 1)'
}
restarted() {
	[ "$(systemctl show --property NRestarts --value tccc-serve.service)" -ge 1 ]
}

# Whole seconds since the boot, which no setting of the clock changes.
uptime() {
	cut -d. -f1 /proc/uptime
}
not_loaded() {
	case $(tccc status) in
	*"$1"*) return 1 ;;
	esac
}

# Prints block number $1 of commands or text in tccc(7); fails if there is no such block or it is empty.
block() {
	zcat /usr/share/man/man7/tccc.7.gz | awk -v wanted="$1" '
		/^\.nf/ { n++; on = 1; next }
		/^\.fi/ { on = 0 }
		on && n == wanted { print; filled = filled || /[^ \t]/ }
		END { exit !filled }'
}
must_follow() {
	commands=$(block "$1") || die "block $1 of tccc(7) is empty"
	must sh -e -c "$commands"
}
# A service with its own connections, under the name in tccc(7).
start_nginx() {
	cat >/run/web.pl <<'EOF'
use IO::Socket::INET;
my $listener = IO::Socket::INET->new(Listen => 64, LocalAddr => "127.0.0.1:8080") or die "listen: $!";
my @open;
while (1) {
	my $client = IO::Socket::INET->new(PeerAddr => "127.0.0.1:8080") or die "connect: $!";
	push @open, [$client, $listener->accept];
	shift @open if @open > 20;
	$client->syswrite("x" x 1000);
	select(undef, undef, undef, 0.1);
}
EOF
	mkdir -p /run/systemd/system
	printf '[Service]\nExecStart=/usr/bin/perl /run/web.pl\n' >/run/systemd/system/nginx.service
	must systemctl daemon-reload
	must systemctl start nginx
}
explained() {
	case $(tccc explain "$(systemctl show --property MainPID --value nginx)") in
	*web*) ;;
	*) return 1 ;;
	esac
}
operators_page() {
	must tccc doctor
	must_follow 2
	block 3 >/etc/tccc/policies/web.toml || die "block 3 of tccc(7) is empty"
	start_nginx
	must_follow 4
	must_say web tccc status
	await 60 explained
	must tccc policy abort
	must tccc policy remove
	must_follow 4
	must tccc confirm
	must_follow 8
	must systemctl reload tccc
	must_say '"web"' tccc policy show -o json
	must systemctl stop nginx
	must_follow 10
	must_say 'nothing is loaded' tccc status
	must_follow 9
	must_say dtcp default
	must tccc unload --all
	must cp /job/10-site.toml /etc/tccc/
	must cp /job/web.toml /etc/tccc/policies/
	must systemctl enable --now tccc.service
	check_declared
}

install() {
	mkdir -p /var/lib/try
	default >/var/lib/try/default
	files >/var/lib/try/before
	step install
	must dpkg --install /job/tccc.deb
	must_say inactive sh -c 'systemctl is-active tccc.service tccc-serve.socket || true'
	must mkdir /etc/tccc/policies
	must cp /job/10-site.toml /etc/tccc/
	must cp /job/web.toml /etc/tccc/policies/
	step enable
	must systemctl enable --now tccc.service tccc-serve.socket
	check_declared
	step reboot
	echo rebooted >/job/stage
	systemctl reboot
}

check_declared() {
	await 180 systemctl is-active --quiet tccc.service
	must_say dtcp default
	must_say '"web"' tccc policy show -o json
	must_say 'this host matches' tccc apply --dry-run
}

rebooted() {
	step "after the reboot"
	check_declared
	tccc=$(systemctl show --property ActiveEnterTimestampMonotonic --value tccc.service)
	network=$(systemctl show --property ActiveEnterTimestampMonotonic --value network-pre.target)
	[ "$tccc" -le "$network" ] || die "tccc.service was up at $tccc us, after network-pre.target at $network us"
	await 60 systemctl is-active --quiet try-route.service
	must_say 'congctl bpf_cubic' ip route show table local to root 198.51.100.0/24
	step "a connection over the route, and one that the policy decides"
	must_say bpf_cubic given 198.51.100.1
	must_say bpf_reno given 127.0.0.1
	step "the page starts when it is asked for"
	must_say inactive sh -c 'systemctl is-active tccc-serve.service || true'
	await 180 healthy
	must_say active systemctl is-active tccc-serve.service
	step "a page that stalls is started again"
	must systemctl kill --kill-whom=main --signal=STOP tccc-serve.service
	await 300 restarted
	await 180 healthy
	step "the clock is set ahead and back during a lease"
	loaded=$(uptime)
	must tccc load bpf_vegas --confirm 40s
	must date --set '+1 day'
	must_say bpf_vegas tccc status
	must date --set '-2 days'
	must_say bpf_vegas tccc status
	await 120 not_loaded bpf_vegas
	[ $(($(uptime) - loaded)) -ge 40 ] || die "the lease of 40 s ended after $(($(uptime) - loaded)) s"
	must_say dtcp default
	step "the operator's page"
	operators_page
	step stop
	must systemctl stop tccc-serve.socket tccc-serve.service tccc.service
	[ "$(default)" = "$(cat /var/lib/try/default)" ] || die "the default is $(default) after the stop"
	must_say 'nothing is loaded' tccc status
	[ ! -e /sys/fs/bpf/tccc ] || die "pins are left"
	step "start again, and purge"
	must systemctl start tccc.service
	must_say dtcp default
	must dpkg --purge tccc
	[ "$(default)" = "$(cat /var/lib/try/default)" ] || die "the default is $(default) after the purge"
	[ ! -e /sys/fs/bpf/tccc ] && [ ! -e /run/tccc ] || die "pins or records are left"
	must systemctl daemon-reload
	files >/var/lib/try/after
	must diff /var/lib/try/before /var/lib/try/after
	step "nothing is left"
	echo 0 >/job/code
	systemctl poweroff
}

"$(cat /job/stage)"
