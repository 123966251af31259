//! `tccc serve`: the web dashboard and `/metrics`.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::signals::stop_flag;
use super::systemd;
use super::trials::HostTrials;
use super::watched::WatchedSource;
use crate::cli::output::arms::find_labels;
use crate::cli::output::{note, tell, warn};
use host::loader::survey;
use host::policy::change;
use host::policy::ending::{LimitAtEnd, TrialEnding};
use host::policy::record::PolicyRecord;
use host::policy::rule::Rule;
use host::serve::{
    self, AccessToken, ArmShare, ExporterSettings, Heartbeat, HostConfig, LastTrial, LimitShown, Listen, PolicyNow,
    ReadHostConfig, Registered, Trials,
};
use host::state::Store;
use host::trace::cost;
use host::trial::journal::{self, TrialEnd};
use shared::failure::Failure;
use shared::kernel::probe::Features;
use shared::kernel::{congestion, namespaces, process};
use shared::units::time_within;

const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9444);
/// Enough characters of a digest to distinguish versions.
const DIGEST_SHOWN: usize = 12;

/// Serve a web page of every TCP connection, and `/metrics` for Prometheus
///
/// Listens on 127.0.0.1 unless you give another address. Other hosts then need a token, which is printed once.
///
/// The page begins with the last hour: goodput, retransmitted share, RTT and connections of each algorithm and of each arm of
/// a policy. It also has everything that `tccc top` shows, the running trial and earlier incidents.
///
/// `--metrics-only` follows no single connection; the kernel sums up the connections of each algorithm, cgroup, rule and arm.
/// `/healthz` answers 200 while sampling works and 503 when it has stalled; it needs no token.
///
/// Changes nothing: its BPF programs disappear with the process.
///
/// Example: `tccc serve`; `tccc serve --metrics-only --listen 10.0.0.1:9444 --token-file /etc/tccc/token`;
/// `tccc serve --replay night.tccc`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address and port [default: the socket passed by systemd, else 127.0.0.1:9444]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Another host name that browsers may use for this server
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Read the token from a file instead of creating one; requests from this host then need it, too
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve only /metrics, without a page
    #[arg(long, conflicts_with_all = ["replay", "interval", "ring", "refresh"])]
    metrics_only: bool,
    /// Time between sweeps over all connections for /metrics
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time_within(["100ms", "1h"]))]
    #[arg(conflicts_with = "replay")]
    sweep: Duration,
    /// Time between two updates of the page
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time_within(["100ms", "60s"]))]
    refresh: Duration,
    /// With --replay, also show the trials and incidents of this host; otherwise they are always shown
    #[arg(long, requires = "replay")]
    trials: bool,
    #[command(flatten)]
    source: WatchedSource,
}

impl Args {
    /// Serves until a signal.
    ///
    /// # Errors
    /// The address cannot be used; the tracer lacks a requirement; the recording or the token cannot be read.
    pub fn run(&self) -> Result<()> {
        let stop = stop_flag()?;
        let (listen, is_loopback) = self.address()?;
        let token = self.token(is_loopback)?;
        let source = (!self.metrics_only).then(|| self.source.opener()).transpose()?;
        let created = token.clone().filter(|_| self.token_file.is_none());
        let own_name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let shows_trials = !self.metrics_only && (self.source.replay.is_none() || self.trials);
        let settings = serve::ServerSettings {
            listen,
            names: self.host.iter().cloned().chain(own_name).collect(),
            token,
            exporter: self.exporter()?,
            source,
            trials: shows_trials.then(|| Arc::new(HostTrials::new()) as Arc<dyn Trials>),
            refresh: self.refresh,
            heartbeat: Heartbeat::default(),
        };
        let heartbeat = settings.heartbeat.clone();
        self.source.selection.warn_of_unknown_rules();
        if !self.metrics_only && !serve::has_page() {
            let hint = "`cargo xtask web` bundles it for the next build; /metrics works";
            warn("this tccc was built without its web page", Some(hint));
        }
        if self.source.replay.is_none() && !process::sees_all() {
            warn(namespaces::PARTIAL, Some(namespaces::SEE_ALL));
        }
        serve::run(settings, &stop, |address, notices| {
            notices.iter().for_each(|notice| warn(notice, None));
            self.announce(address, created.as_ref());
            systemd::ready(&format!("serving http://{address}"));
            systemd::start_watchdog(move || heartbeat.stalled());
        })
        .inspect(|()| systemd::stopping())
    }

    /// The address, and whether only this host can reach it.
    fn address(&self) -> Result<(Listen, bool)> {
        let passed = systemd::listener()?;
        match (self.listen, passed) {
            (Some(wanted), Some(passed)) if passed.local_addr()? != wanted => {
                let what = format!("cannot listen on {wanted}: systemd passes the socket {}", passed.local_addr()?);
                Err(Failure::usage(what).hint("leave `--listen` out, or change tccc-serve.socket").into())
            }
            (_, Some(passed)) => {
                let is_loopback = passed.local_addr()?.ip().is_loopback();
                Ok((Listen::On(passed), is_loopback))
            }
            (wanted, None) => {
                let address = wanted.unwrap_or(DEFAULT_ADDRESS);
                Ok((Listen::At(address), address.ip().is_loopback()))
            }
        }
    }

    /// Prints the address and a new token; `--quiet` does not suppress the token.
    fn announce(&self, address: SocketAddr, created: Option<&AccessToken>) {
        let what = if self.metrics_only { "/metrics" } else { "" };
        note(&format!("serving http://{address}{what}, until Ctrl-C"));
        if !address.ip().is_loopback() {
            warn(
                "plain HTTP is not private: anyone on the network path can read the token and the data",
                Some(
                    "listen on 127.0.0.1 and connect through `ssh -L 9444:127.0.0.1:9444`, or put a TLS proxy in front of it",
                ),
            );
        }
        if let Some(token) = created.map(AccessToken::text) {
            tell(&format!("tccc: note: the token, shown only once: {token}\n"));
            tell(&format!("  hint: open http://{address}/#token={token}, or send `Authorization: Bearer {token}`\n"));
        }
    }

    fn token(&self, is_loopback: bool) -> Result<Option<AccessToken>> {
        if let Some(file) = &self.token_file {
            let mut text = String::new(); // a pipe may have more than a token
            let read = File::open(file).and_then(|it| it.take(2 * serve::TOKEN_MAX as u64).read_to_string(&mut text));
            read.with_context(|| format!("read the token from \"{}\"", file.display()))?;
            let refuse = |why| Failure::usage(format!("cannot take the token from \"{}\": {why}", file.display()));
            return Ok(Some(AccessToken::parse(&text).map_err(refuse)?));
        }
        (!is_loopback).then(AccessToken::make).transpose()
    }

    fn exporter(&self) -> Result<Option<ExporterSettings>> {
        if self.source.replay.is_some() {
            return Ok(None);
        }
        let warn = Box::new(|what: &str| warn(what, None));
        let (filter, rules) = (self.source.selection.filter()?, self.source.selection.rules());
        Ok(Some(ExporterSettings { filter, rules, labels: find_labels(), every: self.sweep, look: look(), warn }))
    }
}

/// Reads what is registered, what decides about new connections, and the cost of callbacks; omits what it cannot read.
fn look() -> ReadHostConfig {
    let features = Features::probe().ok();
    Box::new(move || {
        let costs = features.as_ref().and_then(|features| cost::costs(features).ok()).unwrap_or_default();
        let registered = features.as_ref().map(registered).unwrap_or_default();
        let last = journal::last();
        let ended = last.as_ref().map(|TrialEnd { subject, ending, .. }| {
            format!("trial of {} was {}: {}", subject.phrase(), ending.verdict(), ending.reason())
        });
        let default = congestion::default().ok();
        let last_trial = last.map(|end| last_trial(&end.ending));
        (HostConfig { registered, default, policy: policy_now(), ended, last_trial }, costs)
    })
}

fn last_trial(ending: &TrialEnding) -> LastTrial {
    let limits = ending.counts().map(|(shown, count)| (shown.name(), count as u64));
    let each = ending.limits.iter().map(|LimitAtEnd { rule, limit, arm, shown, .. }| LimitShown {
        rule: rule.clone(),
        arm: arm.clone(),
        limit: limit.clone(),
        state: shown.name(),
    });
    LastTrial { result: ending.result.to_string(), limits: limits.to_vec(), each: each.collect() }
}

/// `None` without a policy, or if its record cannot be read.
fn policy_now() -> Option<PolicyNow> {
    let record = PolicyRecord::read(&Store::of_host()).ok()?;
    if record.generations.is_empty() {
        return None;
    }
    let generation = change::deciding().ok()??;
    let trial = record.trial.or(record.next_trial).filter(|trial| trial.generation == generation.number);
    let is_tried = |rule: &Rule| trial.iter().flat_map(|trial| &trial.rules).any(|tried| tried.rule == rule.name);
    let arms = generation.policy.rules.iter().flat_map(|rule| {
        let on_trial = is_tried(rule);
        rule.split.arms.iter().map(move |arm| ArmShare {
            rule: rule.name.clone(),
            arm: arm.treatment.to_string(),
            share: arm.portion.fraction(),
            on_trial,
        })
    });
    let title = trial.as_ref().map(|trial| trial.subject.phrase());
    Some(PolicyNow { generation: generation.number, trial: title, arms: arms.collect() })
}

fn registered(features: &Features) -> Vec<Registered> {
    let ours = survey::instances(&Store::of_host(), features).unwrap_or_default();
    let release = nix::sys::utsname::uname();
    let release = release.map_or_else(|_| String::new(), |name| name.release().to_string_lossy().into_owned());
    let available = congestion::available().unwrap_or_default().into_iter();
    let registered = available.map(|name| {
        let record = ours.iter().find(|it| it.name == name && it.is_registered).and_then(|it| it.record.as_ref());
        match record {
            Some(record) => {
                let version = record.digest.chars().take(DIGEST_SHOWN).collect();
                Registered { name, version, source: "tccc", generation: Some(record.generation) }
            }
            None => Registered { name, version: release.clone(), source: "kernel", generation: None },
        }
    });
    registered.collect()
}
