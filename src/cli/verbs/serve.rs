//! `tccc serve`: the web dashboard and `/metrics`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::selection::Selection;
use super::top::parse_refresh;
use super::trace::{parse_interval, parse_ring, stop_flag};
use super::trials::HostTrials;
use super::{capabilities, systemd};
use crate::cli::output::arms::find_labels;
use crate::cli::output::{naming, note, tell, warn};
use crate::failure::Failure;
use crate::kernel::congestion;
use crate::kernel::probe::Features;
use crate::loader::survey;
use crate::policy::change;
use crate::policy::record::{PolicyRecord, TrialResult};
use crate::policy::rule::Rule;
use crate::serve::{
    self, AccessToken, ArmShare, ExporterSettings, Listen, MakeSource, PolicyNow, Pulse, ReadSituation, Registered,
    Situation, Trials,
};
use crate::state::Store;
use crate::trace::cost;
use crate::trace::replay::Replay;
use crate::trace::rules::OfRules;
use crate::trace::source::EventSource;
use crate::trace::watch::{self, Watch};
use crate::trial::journal;
use crate::units::{parse_duration, within};

/// Where it listens unless told otherwise.
const USUAL_PLACE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9444);
/// Fastest and slowest sweep.
const SWEEPS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3600)];
/// Characters of a digest that tell versions apart.
const DIGEST_SHOWN: usize = 12;

/// Show every TCP connection in a web page, and `/metrics` to Prometheus
///
/// Answers only this host, unless you give another address. Others then need a token, which is printed once.
/// The page begins with the last hour: goodput, retransmitted share, RTT and connections of each algorithm and of each arm of
/// a policy. It also shows what `tccc top` shows, the running trial and earlier incidents. `--metrics-only` follows no single
/// connection: what connections of each algorithm, cgroup, rule and arm do is added up in the kernel. `/healthz`
/// answers 200 while sampling goes on, and 503 when it has stalled; it needs no token.
///
/// Example: `tccc serve`; `tccc serve --metrics-only --listen 10.0.0.1:9444 --token-file /etc/tccc/token`;
/// `tccc serve --replay night.tccc`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("serve", " A replay needs none."))]
pub struct Args {
    /// Address and port; without it the socket that systemd passes, else 127.0.0.1:9444
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Another name by which browsers may ask for this server
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Take the token from a file instead of making one; also asks for it on this host
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve /metrics without a page
    #[arg(long, conflicts_with_all = ["replay", "interval", "ring", "refresh"])]
    metrics_only: bool,
    /// Time between sweeps over all connections for /metrics
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_sweep)]
    sweep: Duration,
    /// Time between samples of one connection; a longer one costs less
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_interval)]
    interval: Duration,
    /// Time between two updates of the page
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_refresh)]
    refresh: Duration,
    /// Buffer between kernel and reader, rounded up to a power of two
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_ring)]
    ring: u32,
    /// Show a recording of `tccc trace --record` instead of this host
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["interval", "ring", "sweep", "port", "address", "algorithm", "cgroup", "netns"]
    )]
    replay: Option<PathBuf>,
    /// Show the trials and incidents of this host beside a recording; without --replay they are always shown
    #[arg(long, requires = "replay")]
    trials: bool,
    #[command(flatten)]
    selection: Selection,
}

impl Args {
    /// Serves until a signal comes.
    ///
    /// Errors: the address cannot be listened on; a need of the tracer is missing; the recording or the token cannot be
    /// read.
    pub fn run(&self) -> Result<()> {
        let stop = stop_flag()?;
        let (listen, is_loopback) = self.place()?;
        let token = self.token(is_loopback)?;
        let is_made = self.token_file.is_none();
        let shown = token.clone().filter(|_| is_made);
        let settings = serve::ServerSettings {
            listen,
            names: self.names(),
            token,
            exporter: self.exporter()?,
            source: self.source()?,
            trials: self.trials(),
            refresh: self.refresh,
            pulse: Pulse::default(),
        };
        let pulse = settings.pulse.clone();
        self.selection.warn_of_unknown_rules();
        if !self.metrics_only && !serve::has_page() {
            let hint = "`cargo xtask web` bundles it for the next build; /metrics works";
            warn("this tccc was built without its web page", Some(hint));
        }
        serve::run(settings, &stop, |address, notices| {
            notices.iter().for_each(|notice| warn(notice, None));
            self.say(address, shown.as_ref());
            systemd::ready(&format!("serving http://{address}"));
            systemd::give_signs(move || pulse.stalled());
        })
        .inspect(|()| systemd::stopping())
    }

    /// Where it listens, and whether only this host can ask there.
    fn place(&self) -> Result<(Listen, bool)> {
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
                let address = wanted.unwrap_or(USUAL_PLACE);
                Ok((Listen::At(address), address.ip().is_loopback()))
            }
        }
    }

    /// Says where it is, and to whom it answers; what must be known is not left out by `--quiet`.
    fn say(&self, address: SocketAddr, made: Option<&AccessToken>) {
        let what = if self.metrics_only { "/metrics" } else { "" };
        note(&format!("serving http://{address}{what}, until Ctrl-C"));
        if !address.ip().is_loopback() {
            warn(
                "plain HTTP is not private: who is on the way can read the token and what is shown",
                Some("listen on 127.0.0.1 and come through `ssh -L 9444:127.0.0.1:9444`, or put a TLS proxy before it"),
            );
        }
        if let Some(token) = made {
            let token = token.text();
            tell(&format!("tccc: note: the token, shown only now: {token}\n"));
            tell(&format!("  hint: open http://{address}/#token={token}, or send `Authorization: Bearer {token}`\n"));
        }
    }

    fn names(&self) -> Vec<String> {
        let own = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        self.host.iter().cloned().chain(own).collect()
    }

    fn token(&self, is_loopback: bool) -> Result<Option<AccessToken>> {
        if let Some(file) = &self.token_file {
            let text = bounded_text(file).with_context(|| format!("read the token from \"{}\"", file.display()))?;
            let refuse = |why| Failure::usage(format!("cannot take the token from \"{}\": {why}", file.display()));
            return Ok(Some(AccessToken::parse(&text).map_err(refuse)?));
        }
        (!is_loopback).then(AccessToken::make).transpose()
    }

    fn exporter(&self) -> Result<Option<ExporterSettings>> {
        if self.replay.is_some() {
            return Ok(None);
        }
        let warn = Box::new(|what: &str| warn(what, None));
        let (filter, rules) = (self.selection.filter()?, self.selection.rules());
        Ok(Some(ExporterSettings { filter, rules, labels: find_labels(), every: self.sweep, look: look(), warn }))
    }

    fn trials(&self) -> Option<Arc<dyn Trials>> {
        let are_shown = !self.metrics_only && (self.replay.is_none() || self.trials);
        are_shown.then(|| Arc::new(HostTrials::new()) as Arc<dyn Trials>)
    }

    fn source(&self) -> Result<Option<MakeSource>> {
        if self.metrics_only {
            return Ok(None);
        }
        let rules = self.selection.rules();
        if let Some(file) = self.replay.clone() {
            return Ok(Some(Box::new(move || replay(&file, rules))));
        }
        let (interval, ring_bytes, layouts) = (self.interval, self.ring, naming::layouts());
        let settings = watch::WatchSettings { filter: self.selection.filter()?, interval, ring_bytes, layouts };
        let start = move || Ok(Box::new(OfRules::new(Watch::start(settings)?, rules)) as Box<dyn EventSource>);
        Ok(Some(Box::new(start)))
    }
}

/// Text of a file or a pipe; what is longer than a token may be is left unread.
fn bounded_text(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(2 * serve::TOKEN_MAX as u64).read_to_string(&mut text)?;
    Ok(text)
}

fn replay(file: &Path, rules: BTreeSet<String>) -> Result<Box<dyn EventSource>> {
    Ok(Box::new(OfRules::new(Replay::open(file)?, rules)))
}

/// Looks what connections are set to, and what callbacks of algorithms cost.
fn look() -> ReadSituation {
    let features = Features::probe().ok();
    Box::new(move || {
        // What cannot be looked at is not shown.
        let costs = features.as_ref().and_then(|features| cost::costs(features).ok()).unwrap_or_default();
        let registered = features.as_ref().map(registered).unwrap_or_default();
        (Situation { registered, default: congestion::default().ok(), policy: policy_now(), ended: trial_end() }, costs)
    })
}

/// The policy that decides; none also where that may not be looked at.
fn policy_now() -> Option<PolicyNow> {
    let record = PolicyRecord::read(&Store::of_host()).ok()?;
    if record.generations.is_empty() {
        return None;
    }
    let generation = change::current().ok()??;
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

fn trial_end() -> Option<String> {
    let end = journal::last()?;
    let result = match end.result {
        TrialResult::Kept => "kept",
        TrialResult::Reverted => "reverted",
    };
    Some(format!("trial of {} was {result}: {}", end.subject.phrase(), end.why))
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

fn parse_sweep(text: &str) -> Result<Duration, String> {
    within(parse_duration(text), SWEEPS[0]..=SWEEPS[1], "expected 100ms to 1h")
}
