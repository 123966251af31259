//! What the panels of the dashboard show.

/// What a panel shows: title, what it says, unit as Grafana names it, queries with their legends.
pub struct Panel {
    pub title: &'static str,
    pub what: &'static str,
    pub unit: &'static str,
    pub queries: &'static [(&'static str, &'static str)],
}

/// `CHOSEN` in a query stands for the chosen labels.
pub const PANELS: [Panel; 10] = [
    Panel {
        title: "Open connections",
        what: "By algorithm, as of the latest sweep.",
        unit: "short",
        queries: &[(r#"sum by (name) (tccc_algorithm_sockets{name=~"$algorithm",instance=~"$instance"})"#, "{{name}}")],
    },
    Panel {
        title: "Goodput",
        what: "Payload acknowledged, over all connections.",
        unit: "bps",
        queries: &[(
            "8 * sum by (algorithm) (rate(tccc_acked_bytes_total{CHOSEN}[$__rate_interval]))",
            "{{algorithm}}",
        )],
    },
    Panel {
        title: "Retransmitted segments",
        what: "Share of all data segments.",
        unit: "percentunit",
        queries: &[(
            "sum by (algorithm) (rate(tccc_retransmitted_segments_total{CHOSEN}[$__rate_interval])) / \
             sum by (algorithm) (rate(tccc_segments_sent_total{CHOSEN}[$__rate_interval]))",
            "{{algorithm}}",
        )],
    },
    Panel {
        title: "Round-trip time",
        what: "Smoothed RTT of connections that deliver: median and 95th percentile.",
        unit: "s",
        queries: &[
            (
                "histogram_quantile(0.5, sum by (algorithm, le) (rate(tccc_connection_rtt_seconds_bucket{CHOSEN}[$__rate_interval])))",
                "{{algorithm}} p50",
            ),
            (
                "histogram_quantile(0.95, sum by (algorithm, le) (rate(tccc_connection_rtt_seconds_bucket{CHOSEN}[$__rate_interval])))",
                "{{algorithm}} p95",
            ),
        ],
    },
    Panel {
        title: "Congestion window",
        what: "Segments, of connections that deliver: median and 95th percentile.",
        unit: "short",
        queries: &[
            (
                "histogram_quantile(0.5, sum by (algorithm, le) (rate(tccc_connection_cwnd_segments_bucket{CHOSEN}[$__rate_interval])))",
                "{{algorithm}} p50",
            ),
            (
                "histogram_quantile(0.95, sum by (algorithm, le) (rate(tccc_connection_cwnd_segments_bucket{CHOSEN}[$__rate_interval])))",
                "{{algorithm}} p95",
            ),
        ],
    },
    Panel {
        title: "Goodput of one connection",
        what: "Of connections that send: median and 5th percentile.",
        unit: "Bps",
        queries: &[
            (
                "histogram_quantile(0.5, sum by (algorithm, le) (rate(tccc_connection_goodput_bytes_per_second_bucket{CHOSEN}[$__rate_interval])))",
                "{{algorithm}} p50",
            ),
            (
                "histogram_quantile(0.05, sum by (algorithm, le) (rate(tccc_connection_goodput_bytes_per_second_bucket{CHOSEN}[$__rate_interval])))",
                "{{algorithm}} p5",
            ),
        ],
    },
    Panel {
        title: "Time in congestion states",
        what: "Connections in each state on average; Open, the normal one, is left out.",
        unit: "short",
        queries: &[(
            r#"sum by (algorithm, state) (rate(tccc_ca_state_seconds_total{CHOSEN,state!="Open"}[$__rate_interval]))"#,
            "{{algorithm}} {{state}}",
        )],
    },
    Panel {
        title: "Connections opened",
        what: "Per second.",
        unit: "cps",
        queries: &[(
            "sum by (algorithm) (rate(tccc_connections_opened_total{CHOSEN}[$__rate_interval]))",
            "{{algorithm}}",
        )],
    },
    Panel {
        title: "Time per callback",
        what: "Of algorithms that are BPF programs; empty unless kernel.bpf_stats_enabled is 1.",
        unit: "s",
        queries: &[(
            r#"sum by (algorithm) (rate(tccc_callback_duration_seconds_total{algorithm=~"$algorithm",instance=~"$instance"}[$__rate_interval])) / sum by (algorithm) (rate(tccc_callback_calls_total{algorithm=~"$algorithm",instance=~"$instance"}[$__rate_interval]))"#,
            "{{algorithm}}",
        )],
    },
    Panel {
        title: "What tccc itself costs, and misses",
        what: "Processors it takes; time of a sweep; events, connections and processes it could not see.",
        unit: "short",
        queries: &[
            (r#"rate(process_cpu_seconds_total{instance=~"$instance"}[$__rate_interval])"#, "processors"),
            (r#"tccc_sweep_duration_seconds{instance=~"$instance"}"#, "seconds of a sweep"),
            (r#"rate(tccc_events_dropped_total{instance=~"$instance"}[$__rate_interval])"#, "events dropped a second"),
            (r#"rate(tccc_uncounted_total{instance=~"$instance"}[$__rate_interval])"#, "not counted a second"),
            (r#"rate(tccc_failed_sweeps_total{instance=~"$instance"}[$__rate_interval])"#, "failed sweeps a second"),
            (r#"tccc_hidden_processes{instance=~"$instance"}"#, "hidden processes"),
        ],
    },
];

/// What the arms of each rule do; empty on hosts without a policy.
pub const ARM_PANELS: [Panel; 7] = [
    Panel {
        title: "Connections opened, by arm",
        what: "Per second.",
        unit: "cps",
        queries: &[(
            r#"sum by (rule, arm) (rate(tccc_connections_opened_total{CHOSEN,rule!=""}[$__rate_interval]))"#,
            "{{rule}} {{arm}}",
        )],
    },
    Panel {
        title: "Open connections, by arm",
        what: "As of the latest sweep.",
        unit: "short",
        queries: &[(
            r#"sum by (rule, arm) (tccc_arm_sockets{rule=~"$rule",arm=~"$arm",instance=~"$instance"})"#,
            "{{rule}} {{arm}}",
        )],
    },
    Panel {
        title: "Share of new connections, by arm",
        what: "What the policy gives an arm, and what it got: they differ where an arm loses connections.",
        unit: "percentunit",
        queries: &[
            (
                r#"avg by (rule, arm) (tccc_arm_share_ratio{rule=~"$rule",arm=~"$arm",instance=~"$instance"})"#,
                "{{rule}} {{arm}} given",
            ),
            (
                r#"sum by (rule, arm) (rate(tccc_connections_opened_total{CHOSEN,rule!=""}[$__rate_interval])) / on (rule) group_left () sum by (rule) (rate(tccc_connections_opened_total{rule=~"$rule",rule!="",instance=~"$instance"}[$__rate_interval]))"#,
                "{{rule}} {{arm}} got",
            ),
        ],
    },
    Panel {
        title: "Goodput, by arm",
        what: "Payload acknowledged, over all connections of the arm.",
        unit: "bps",
        queries: &[(
            r#"8 * sum by (rule, arm) (rate(tccc_acked_bytes_total{CHOSEN,rule!=""}[$__rate_interval]))"#,
            "{{rule}} {{arm}}",
        )],
    },
    Panel {
        title: "Segments retransmitted, by arm",
        what: "Share of all data segments.",
        unit: "percentunit",
        queries: &[(
            r#"sum by (rule, arm) (rate(tccc_retransmitted_segments_total{CHOSEN,rule!=""}[$__rate_interval])) / sum by (rule, arm) (rate(tccc_segments_sent_total{CHOSEN,rule!=""}[$__rate_interval]))"#,
            "{{rule}} {{arm}}",
        )],
    },
    Panel {
        title: "Round-trip time, by arm",
        what: "Smoothed RTT of connections that deliver: median and 95th percentile.",
        unit: "s",
        queries: &[
            (
                r#"histogram_quantile(0.5, sum by (rule, arm, le) (rate(tccc_connection_rtt_seconds_bucket{CHOSEN,rule!=""}[$__rate_interval])))"#,
                "{{rule}} {{arm}} p50",
            ),
            (
                r#"histogram_quantile(0.95, sum by (rule, arm, le) (rate(tccc_connection_rtt_seconds_bucket{CHOSEN,rule!=""}[$__rate_interval])))"#,
                "{{rule}} {{arm}} p95",
            ),
        ],
    },
    Panel {
        title: "Goodput of one connection, by arm",
        what: "Of connections that send: median and 5th percentile.",
        unit: "Bps",
        queries: &[
            (
                r#"histogram_quantile(0.5, sum by (rule, arm, le) (rate(tccc_connection_goodput_bytes_per_second_bucket{CHOSEN,rule!=""}[$__rate_interval])))"#,
                "{{rule}} {{arm}} p50",
            ),
            (
                r#"histogram_quantile(0.05, sum by (rule, arm, le) (rate(tccc_connection_goodput_bytes_per_second_bucket{CHOSEN,rule!=""}[$__rate_interval])))"#,
                "{{rule}} {{arm}} p5",
            ),
        ],
    },
];
