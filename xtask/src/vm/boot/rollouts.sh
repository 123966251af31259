# Reboots a booted Debian in the middle of declared rollouts and after their ends. Runs once at each boot, as root.
#
# A rollout that a reboot interrupted begins again. One that was kept stays, and one that its guard reverted is not applied.
# /job/stage holds the function for the next boot and its argument.
. /job/common.sh

RANDOM_REBOOTS=5
STEP=100s

# declare_rollout LIMIT: as an operator changes the file of the policy.
declare_rollout() {
	cat >/etc/tccc/policies/web.toml <<EOT
version = 1
[[rule]]
name = "web"
to = "127.0.0.0/8"
use = "dtcp"
steps = [{ percent = 50, for = "$STEP" }, { percent = 100, for = "$STEP" }]
guard = "$1"
undecided = "proceed"
EOT
}
# Connections of a service. Each is reset while /run/harm exists.
start_web() {
	cat >/run/web.pl <<'EOT'
use IO::Socket::INET;
my $listener = IO::Socket::INET->new(Listen => 64, LocalAddr => "127.0.0.1:8080") or die "listen: $!";
while (1) {
	my $client = IO::Socket::INET->new(PeerAddr => "127.0.0.1:8080") or die "connect: $!";
	my $server = $listener->accept;
	$client->syswrite("x" x 1000);
	$server->sysread(my $bytes, 1000);
	setsockopt($client, SOL_SOCKET, SO_LINGER, pack("ii", 1, 0)) if -e "/run/harm";
	select(undef, undef, undef, 0.02);
}
EOT
	must systemd-run --quiet --unit=web /usr/bin/perl /run/web.pl
}
status_says() {
	case $(tccc status 2>&1) in
	*"$1"*) ;;
	*) return 1 ;;
	esac
}
has_applied_again() {
	case $(journalctl --unit tccc-guard --no-pager --output cat) in
	*'its guard died'*'systemd was asked to reload'*) ;;
	*) return 1 ;;
	esac
}
is_settled() {
	case $(systemctl show --property ActiveState --value tccc.service) in
	active | failed) ;;
	*) return 1 ;;
	esac
}
# reboot_at clean|cut STAGE: `cut` ends the machine without any unit being stopped.
reboot_at() {
	echo "$2" >/job/stage
	step "reboot ($1), then $2"
	tccc status
	sync
	case $1 in
	clean) systemctl reboot ;;
	cut) echo b >/proc/sysrq-trigger ;;
	esac
	exit
}
kind() {
	[ $(($1 % 2)) -eq 0 ] && echo clean || echo cut
}
# The rollout runs, and its first step is not over.
must_begin_again() {
	await 180 is_settled
	must_say active systemctl is-active tccc.service
	# Without KVM, a busy host starves the guard at boot for longer than its lease. Then the stand-by has it begun again.
	await 180 status_says 'step 1 of 2'
	must_say 'this host matches' tccc apply --dry-run
	[ ! -e /var/lib/tccc/trials.jsonl ] || tail -n 1 /var/lib/tccc/trials.jsonl
}

install() {
	step install
	must dpkg --install /job/tccc.deb
	must mkdir -p /etc/tccc/policies
	printf 'version = 1\npolicy = "policies/web.toml"\n\n[algorithm.dtcp]\n' >/etc/tccc/10-site.toml
	declare_rollout 'abnormal_ends<50%'
	start_web
	must systemctl enable --now tccc.service tccc-guard.service
	must_begin_again
	step "and again after its guard was killed"
	must systemctl kill --signal=KILL tccc.service
	await 60 has_applied_again
	must_begin_again
	reboot_at clean 'interrupted 1'
}

# interrupted NUMBER: after a reboot in the middle of the rollout, of which all but the first come at a random moment.
interrupted() {
	RANDOM=$(($(cat /job/seed) + $1))
	step "the rollout begins again, reboot $1"
	must_begin_again
	start_web
	if [ "$1" -le "$RANDOM_REBOOTS" ]; then
		pause=$((RANDOM % 180))
		step "waits $pause s"
		sleep "$pause"
		reboot_at "$(kind "$1")" "interrupted $(($1 + 1))"
	fi
	step "the rollout comes to its end"
	await 600 status_says 'the policy, kept'
	reboot_at clean 'kept 1'
}

# kept NUMBER: after a reboot of a host whose rollout was kept.
kept() {
	step "what was kept stays, reboot $1"
	await 180 is_settled
	must_say active systemctl is-active tccc.service
	status_says 'on trial' && die "a rollout that was kept is on trial again: $(tccc status)"
	for _ in 1 2 3 4; do
		must_say dtcp given 127.0.0.1
	done
	must_say 'this host matches' tccc apply --dry-run
	[ "$1" -gt 1 ] || reboot_at cut 'kept 2'

	step "a rollout that does harm is reverted"
	declare_rollout 'abnormal_ends<1%'
	touch /run/harm
	start_web
	must systemctl reload tccc.service
	must_say 'step 1 of 2' tccc status
	await 300 status_says 'the policy, reverted'
	must_say abnormal_ends journalctl --boot --no-pager --output cat
	reboot_at clean 'reverted 1'
}

must_refuse() {
	said=$(tccc apply 2>&1) && die "\`tccc apply\` leaves nothing to a person: $said"
	case $said in
	*reverted*abnormal_ends*) echo "$said" ;;
	*) die "\`tccc apply\` does not say why: $said" ;;
	esac
	must_say 'no policy' tccc policy show
}

# reverted NUMBER: after a reboot of a host whose guard reverted the rollout.
reverted() {
	step "what did harm is not applied again, reboot $1"
	await 180 is_settled
	echo "tccc.service is $(systemctl is-active tccc.service)"
	must_refuse
	[ "$1" -gt 1 ] || reboot_at cut 'reverted 2'

	step "nor after another policy was tried and ended"
	printf 'version = 1\n[[rule]]\nname = "other"\nto = "127.0.0.0/8"\nuse = "bpf_reno"\n' >/run/other.toml
	must tccc policy apply /run/other.toml --trial 5m --accept-risk
	must tccc policy abort
	tccc policy remove
	must_refuse
	step "a changed policy is applied"
	declare_rollout 'abnormal_ends<40%'
	must tccc apply
	must_say 'step 1 of 2' tccc status
	step "all is as it must be"
	echo 0 >/job/code
	systemctl poweroff
}

read -r stage number </job/stage
"$stage" ${number:+"$number"}
