//! What the alert rules watch.

/// Alert: name, condition, how long it holds, what it means, what to do.
pub const ALERTS: [(&str, &str, &str, &str, &str); 7] = [
    (
        "TcccManyRetransmissions",
        "sum by (instance, algorithm) (rate(tccc_retransmitted_segments_total[5m])) / sum by (instance, algorithm) (rate(tccc_segments_sent_total[5m])) > 0.05 and sum by (instance, algorithm) (rate(tccc_segments_sent_total[5m])) > 10",
        "10m",
        "{{ $labels.algorithm }} on {{ $labels.instance }} retransmits {{ $value | humanizePercentage }} of its segments",
        "`tccc top` with the filter `retrans>5%` shows which connections; compare with other algorithms on the same path",
    ),
    (
        "TcccArmRetransmits",
        "sum by (instance, rule, arm) (rate(tccc_retransmitted_segments_total{rule!=\"\",arm!=\"keep\"}[10m])) / sum by (instance, rule, arm) (rate(tccc_segments_sent_total{rule!=\"\",arm!=\"keep\"}[10m])) > on (instance, rule) group_left () (1.5 * sum by (instance, rule) (rate(tccc_retransmitted_segments_total{arm=\"keep\"}[10m])) / sum by (instance, rule) (rate(tccc_segments_sent_total{arm=\"keep\"}[10m]))) and sum by (instance, rule, arm) (rate(tccc_segments_sent_total{rule!=\"\",arm!=\"keep\"}[10m])) > 10",
        "10m",
        "arm {{ $labels.arm }} of rule {{ $labels.rule }} on {{ $labels.instance }} retransmits {{ $value | humanizePercentage }} of its segments, more than one and a half times as much as the connections that did not change",
        "`tccc policy show` and the page's overview compare the arms; `tccc policy remove` undoes the policy",
    ),
    (
        "TcccTimeInLoss",
        "sum by (instance, algorithm) (rate(tccc_ca_state_seconds_total{state=\"Loss\"}[5m])) / sum by (instance, algorithm) (rate(tccc_ca_state_seconds_total[5m])) > 0.1",
        "10m",
        "connections of {{ $labels.algorithm }} on {{ $labels.instance }} are in state Loss for {{ $value | humanizePercentage }} of their time",
        "timeouts stop a connection for at least 200 ms each: look for a path that drops whole windows",
    ),
    (
        "TcccEventsDropped",
        "rate(tccc_events_dropped_total[5m]) > 0",
        "5m",
        "{{ $value | humanize }} events a second of the web page on {{ $labels.instance }} are dropped",
        "start `tccc serve` with a larger `--ring` or a longer `--interval`; metrics are not affected",
    ),
    (
        "TcccConnectionsNotCounted",
        "increase(tccc_uncounted_total[10m]) > 0",
        "0m",
        "connections on {{ $labels.instance }} are missing in the metrics",
        "there are more pairs of algorithm and cgroup than the kernel side has room for: narrow with `--cgroup`",
    ),
    (
        "TcccSweepsFail",
        "increase(tccc_failed_sweeps_total[10m]) > 0",
        "0m",
        "metrics on {{ $labels.instance }} stand still now and then: sweeps over its connections fail",
        "what `tccc serve` says on stderr names the reason: most often too few file descriptors (`LimitNOFILE=`)",
    ),
    (
        "TcccDown",
        "up{job=\"tccc\"} == 0",
        "5m",
        "{{ $labels.instance }} does not answer",
        "`systemctl status tccc-serve`, or is its token another than the one of the scrape configuration?",
    ),
];
