//! The fields of a policy, and the types that are read from them.

use std::path::PathBuf;
use std::time::Duration;

use derive_more::Display;
use toml::de::DeValue;

use crate::policy::rule::{
    Arm, CgroupName, GuardLimit, OnFail, Portion, Ports, RULE_NAME_MAX, RolloutStep, SplitBy, Treatment, Undecided, Way,
};
use crate::toml_reader::{Apart, Found, Kind, OneOrMore, Read, Result, Value, each};
use crate::{fields, read_with};
use shared::suggest::nearest;
use shared::units::parse_duration;
use shared::units::prefix::Prefix;

use super::prefixes::prefix_in;

/// Name of a unit, or one component of a cgroup's path, bytes.
const COMPONENT_MAX: usize = 127;
/// Name or path of a network namespace, bytes.
const NETNS_MAX: usize = 255;
/// Units that have a cgroup.
const SUFFIXES: [&str; 4] = [".service", ".socket", ".slice", ".scope"];
/// The slice that has all units, whose cgroup is the root.
const ROOT_SLICE: &str = "-.slice";
/// Where systemd mounts cgroup v2, the second beside cgroup v1. Paths in a policy are relative to it.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
/// Characters of a pattern.
const PATTERN: [char; 3] = ['*', '?', '['];
/// Bytes.
const ALGORITHM_MAX: usize = 15;
const ALGORITHM: &str = "an algorithm's name of 1 to 15 letters, digits, _, . and -";
const ARMS: std::ops::RangeInclusive<usize> = 2..=16;
const STEPS_MAX: usize = 16;
const STEPS: &str = "1 to 16 steps such as { percent = 5, for = \"2h\" }";
const TIME: &str = "a time from 10s to 30d, such as \"6h\"";
const TIMES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(30 * 86_400)];

fields! {
    pub(super) section POLICY {
        /// The version of the format.
        /// Example: version = 1
        version: Apart = Kind::Is("1"), apart;
        /// A rule. The first one that matches a connection decides.
        /// Example: rule = [{ name = "all", use = "dtcp" }]
        rule: Apart = Kind::Tables(&RULE), apart;
    }
}

fields! {
    /// The fields of a rule.
    pub(super) struct RuleFields: RULE {
        /// 1 to 32 letters, digits, `_`, `.` and `-`; unique
        /// Example: name = "web"
        name: RuleName = Kind::Form("a name of 1 to 32 letters, digits, _, . and -"), needed;
        /// systemd unit: `.service`, `.socket`, `.slice` or `.scope`
        /// Example: unit = "nginx.service"
        unit: OneOrMore<UnitName> = Kind::Form("the name of a systemd unit such as \"nginx.service\""),
            empty "every cgroup";
        /// path below the cgroup2 mount: `/system.slice/nginx.service`
        /// Example: cgroup = "/system.slice"
        cgroup: OneOrMore<CgroupPath> = Kind::Form("a path below the cgroup2 mount such as \"/system.slice\""),
            empty "every cgroup";
        /// network namespace: name, path or process id
        /// Example: netns = ["blue", 1234]
        netns: OneOrMore<Netns> = Kind::Is("names"), empty "every namespace";
        /// remote address or prefix: `10.0.0.1`, `10.0.0.0/8`, `fd00::/8`
        /// Example: to = ["10.0.0.0/8"]
        to: OneOrMore<Prefix> = Kind::Form("an address or a prefix such as \"10.0.0.0/8\""), empty "every address";
        /// file with more prefixes, one a line, `#` for comments; relative to the policy file
        /// Example: to_file = "cdn.txt"
        to_file: String = Kind::Form("the path of a list of prefixes"), unless "none";
        /// `443` or `"8000-8099"`
        /// Example: local_port = [443, "8000-8099"]
        local_port: OneOrMore<Ports> = Kind::Is("ports"), empty "every port";
        /// `443` or `"8000-8099"`
        /// Example: remote_port = 443
        remote_port: OneOrMore<Ports> = Kind::Is("ports"), empty "every port";
        /// `in`: accepted by this host; `out`: opened by it
        /// Example: direction = "in"
        direction: Way = Kind::Words(&["in", "out"]), unless "both";
        /// algorithm that the connection would have without a policy
        /// Example: current = "cubic"
        current: OneOrMore<CurrentName> = Kind::Form(ALGORITHM), empty "every algorithm";
        /// an algorithm, or `keep` for no change
        /// Example: use = "dtcp"
        r#use: Treatment = Kind::Form(ALGORITHM), unless "`split` is needed";
        /// percent of each of 2 to 16 arms, at most two decimals, 100 in total
        /// Example: split = { dtcp = 5, keep = 95 }
        split: Arms = Kind::Is("percentages"), unless "`use` is needed";
        /// what chooses the arm: `connection`, `peer` or `prefix`
        /// Example: by = "peer"
        by: SplitBy = Kind::Words(&["connection", "peer", "prefix"]), or "connection";
        /// `true` also replaces what a program chose by `setsockopt(TCP_CONGESTION)`
        /// Example: override = true
        r#override: bool = Kind::Is("true or false"), or "false";
        /// limits of a trial, see below
        /// Example: guard = ["retransmitted<1.2x"]
        guard: OneOrMore<GuardLimit> = Kind::Form("a limit such as \"retransmitted<1.2x\""), empty "no limits";
        /// how long the guard watches, `10s` to `30d`
        /// Example: deadline = "6h"
        deadline: TrialTime = Kind::Form(TIME), unless "until a person ends it";
        /// when the time is over and the guard cannot decide: `revert`, `proceed` or `hold`
        /// Example: undecided = "hold"
        undecided: Undecided = Kind::Words(&["revert", "proceed", "hold"]), or "revert";
        /// when a limit is crossed: `revert` or `freeze`
        /// Example: on_fail = "freeze"
        on_fail: OnFail = Kind::Words(&["revert", "freeze"]), or "revert";
        /// up to 16 rising shares of `use`, each for `10s` to `30d`: `[{ percent = 1, for = "30m" }, …]`
        /// Example: steps = [{ percent = 1, for = "30m" }, { percent = 100, for = "2h" }]
        steps: Steps = Kind::Tables(&STEP), empty "one share";
    }
}

fields! {
    struct StepFields: STEP {
        /// The share of `use`.
        /// Example: percent = 5
        percent: Portion = Kind::Form(STEPS), needed;
        /// How long the step takes at least.
        /// Example: for = "2h"
        r#for: TrialTime = Kind::Form(STEPS), needed;
    }
}

pub(super) struct RuleName(pub String);
#[derive(Display)]
pub(super) struct UnitName(pub CgroupName);
#[derive(Display)]
pub(super) struct CgroupPath(pub CgroupName);
#[derive(Display)]
pub(super) struct Netns(pub String);
#[derive(Display)]
pub(super) struct CurrentName(pub String);
/// 2 to 16 arms, which are all connections together; in the order of the file, `keep` last.
pub(super) struct Arms(pub Vec<Arm>);
pub(super) struct TrialTime(pub Duration);
#[derive(Default)]
pub(super) struct Steps(pub Vec<RolloutStep>);

read_with!(Value::word => Way, SplitBy, Undecided, OnFail);

impl Read for RuleName {
    fn read(value: &Value<'_>) -> Result<Self> {
        let name = value.quoted()?;
        if is_name(&name, RULE_NAME_MAX) { Ok(RuleName(name.into_owned())) } else { Err(value.unlike().into()) }
    }
}

impl Read for UnitName {
    fn read(value: &Value<'_>) -> Result<Self> {
        let text = value.quoted()?;
        if is_component(&text) && is_unit(&text) {
            return match fault_of_unit(&text) {
                None => Ok(UnitName(CgroupName::Unit(text.into_owned()))),
                Some((expected, hint)) => Err(value.refuse(expected).or_hint(hint).into()),
            };
        }
        Err(Found::from(if text.starts_with('/') {
            value.refuse("expected the name of a systemd unit, not a path").or_hint("a path goes into `cgroup`")
        } else if is_component(&text) {
            let expected = "expected a systemd unit that ends in .service, .socket, .slice or .scope";
            value.refuse(expected).suggest(with_suffix(&text))
        } else {
            value.refuse("expected a name of at most 127 bytes without / and control characters")
        }))
    }
}

impl Read for CgroupPath {
    fn read(value: &Value<'_>) -> Result<Self> {
        let text = value.quoted()?;
        let meant = |path: &str| format!("did you mean \"{path}\"?");
        let below = MOUNTS
            .iter()
            .find_map(|mount| text.strip_prefix(mount).filter(|below| below.is_empty() || below.starts_with('/')));
        let (expected, hint) = match text.strip_prefix('/') {
            None if is_unit(&text) && is_component(&text) => {
                ("expected an absolute path", Some("a unit's name goes into `unit`".to_owned()))
            }
            None => ("expected an absolute path", Some(meant(&format!("/{text}")))),
            Some("") => (
                "expected a cgroup below the root, because the root has every connection",
                Some("leave `cgroup` out: a rule without it is for all cgroups".to_owned()),
            ),
            Some(_) if below.is_some() => {
                ("expected a path without the mount point", below.filter(|below| below.len() > 1).map(meant))
            }
            Some(path) if path.contains(PATTERN) => (
                "expected one cgroup, because a rule has no patterns",
                Some("name the cgroup above them: its connections include theirs".to_owned()),
            ),
            Some(path) if !path.split('/').all(|part| is_component(part) && part != "." && part != "..") => (
                "expected components of 1 to 127 bytes, without control characters, none of them . or ..",
                text.strip_suffix('/').filter(|text| !text.ends_with('/')).map(meant),
            ),
            Some(_) => return Ok(CgroupPath(CgroupName::Path(PathBuf::from(&*text)))),
        };
        let mut mistake = value.refuse(expected);
        mistake.hint = hint;
        Err(mistake.into())
    }
}

impl Read for Netns {
    fn read(value: &Value<'_>) -> Result<Self> {
        let namespace = match value.written.get_ref() {
            DeValue::String(text) => is_netns(text).then(|| text.to_string()),
            _ => value.integer().filter(|pid| (1..=u32::MAX.into()).contains(pid)).map(|pid| pid.to_string()),
        };
        let refuse = || value.refuse("expected a network namespace by name, absolute path or process id").into();
        namespace.map(Netns).ok_or_else(refuse)
    }
}

impl Read for Prefix {
    fn read(value: &Value<'_>) -> Result<Self> {
        prefix_in(&value.quoted()?).map_err(|error| value.wrong(error).into())
    }
}

impl Read for Ports {
    fn read(value: &Value<'_>) -> Result<Self> {
        let ports = match value.written.get_ref() {
            DeValue::String(text) => text.parse().ok(),
            _ => {
                let port = value.integer().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
                port.map(|port| Ports(port..=port))
            }
        };
        ports.ok_or_else(|| value.refuse("expected a port from 1 to 65535, or a range such as \"8000-8099\"").into())
    }
}

impl Read for CurrentName {
    fn read(value: &Value<'_>) -> Result<Self> {
        let name = value.quoted()?;
        if name == "keep" {
            return Err(value.refuse(format!("expected {ALGORITHM}; \"keep\" is not an algorithm")).into());
        }
        if is_algorithm_name(&name) { Ok(CurrentName(name.into_owned())) } else { Err(value.unlike().into()) }
    }
}

impl Read for Treatment {
    fn read(value: &Value<'_>) -> Result<Self> {
        let name = value.quoted()?;
        treatment(&name).ok_or_else(|| value.refuse(format!("expected \"keep\" or {ALGORITHM}")).into())
    }
}

impl Read for Portion {
    fn read(value: &Value<'_>) -> Result<Self> {
        let number: Option<f64> = match value.written.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => value.integer().map(|number| number as f64),
        };
        let expected = "expected a percentage from 0 to 100 with at most two decimals, without quotes";
        number.and_then(Portion::of_percent).ok_or_else(|| value.refuse(expected).into())
    }
}

impl Read for Arms {
    fn read(value: &Value<'_>) -> Result<Self> {
        if !value.written.get_ref().is_table() {
            return Err(value.refuse("expected percentages such as { dtcp = 5, keep = 95 }").into());
        }
        let mut arms = each(value.table()?.entries(), |(name, value)| {
            let mut found = Found::default();
            let unlike = || Found::from(value.mistake(format!("expected \"keep\" or {ALGORITHM}")));
            let treatment = found.keep(treatment(name).ok_or_else(unlike));
            let portion = found.keep(Portion::read(&value));
            treatment.zip(portion).map(|(treatment, portion)| Arm { treatment, portion }).ok_or(found)
        })?;
        if !ARMS.contains(&arms.len()) {
            let mistake = value.refuse(format!("expected {} to {} arms", ARMS.start(), ARMS.end()));
            return Err(Found::from(match &arms[..] {
                [arm] => mistake.or_hint(format!("`use = \"{}\"` is for all connections of a rule", arm.treatment)),
                _ => mistake,
            }));
        }
        let sum: u32 = arms.iter().map(|arm| u32::from(arm.portion.0)).sum();
        if sum != u32::from(Portion::ALL.0) {
            let percent = f64::from(sum) / 100.0;
            let expected = format!("expected percentages that add up to 100; their sum is {percent}");
            return Err(value.refuse(expected).into());
        }
        arms.sort_by_key(|arm| arm.treatment == Treatment::Keep);
        Ok(Arms(arms))
    }
}

impl Read for GuardLimit {
    fn read(value: &Value<'_>) -> Result<Self> {
        value.quoted()?.parse().map_err(|error| value.wrong(error).into())
    }
}

impl Read for TrialTime {
    fn read(value: &Value<'_>) -> Result<Self> {
        let meant = match parse_duration(&value.quoted_as(Some(TIME))?) {
            Ok(time) if (TIMES[0]..=TIMES[1]).contains(&time) => return Ok(TrialTime(time)),
            Ok(_) => None,
            Err(error) => error.meant,
        };
        Err(value.refuse(format!("expected {TIME}")).suggest(meant).into())
    }
}

impl Read for Steps {
    fn read(value: &Value<'_>) -> Result<Self> {
        let items = value.items();
        if !value.written.get_ref().is_array() || !(1..=STEPS_MAX).contains(&items.len()) {
            return Err(value.refuse(format!("expected {STEPS}")).into());
        }
        let mut before: Option<Portion> = None;
        let steps = each(&items, |item| {
            if !item.written.get_ref().is_table() {
                return Err(item.refuse(format!("expected {STEPS}")).into());
            }
            let table = item.table()?;
            let StepFields { percent: portion, r#for: TrialTime(duration) } = StepFields::of_table(&table)?;
            if let Some(expected) = why_not_after(before, portion) {
                return Err(table.need("percent")?.refuse(expected).into());
            }
            before = Some(portion);
            Ok(RolloutStep { portion, duration })
        })?;
        Ok(Steps(steps))
    }
}

/// Shares rise from step to step, and the first step leaves some connections unchanged.
fn why_not_after(before: Option<Portion>, portion: Portion) -> Option<String> {
    match before {
        None if portion == Portion(0) => Some("expected more than 0 in the first step".to_owned()),
        None if portion == Portion::ALL => Some("expected less than 100 in the first step".to_owned()),
        Some(before) if portion <= before => Some(format!("expected more than the {before} of the step before")),
        _ => None,
    }
}

/// `None` if the name is not that of an algorithm.
pub(super) fn treatment(name: &str) -> Option<Treatment> {
    is_algorithm_name(name).then(|| name.into())
}

fn is_algorithm_name(text: &str) -> bool {
    is_name(text, ALGORITHM_MAX)
}

/// Whether a text is a name of at most `longest` bytes. Rules allow the same characters as the kernel's algorithms.
fn is_name(text: &str, longest: usize) -> bool {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    (1..=longest).contains(&text.len()) && text.chars().all(is_of_a_name)
}

/// A name or an absolute path.
fn is_netns(text: &str) -> bool {
    let is_path = text.starts_with('/') && text.len() > 1;
    let is_name = !text.is_empty() && !text.contains('/') && ![".", ".."].contains(&text);
    (is_path || is_name) && text.len() <= NETNS_MAX && !text.contains(char::is_control)
}

fn is_unit(text: &str) -> bool {
    SUFFIXES.iter().any(|suffix| text.strip_suffix(suffix).is_some_and(|stem| !stem.is_empty()))
}

/// Why a unit with this name has no cgroup of its own: what is expected, and a hint.
fn fault_of_unit(text: &str) -> Option<(&'static str, &'static str)> {
    let stem = text.rsplit_once('.').map_or(text, |(stem, _)| stem);
    let is_of_a_unit = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    if text == ROOT_SLICE {
        return Some((
            "expected a unit below the root slice, because that has every connection",
            "leave `unit` out: a rule without it is for all units",
        ));
    }
    if text.contains(PATTERN) {
        return Some((
            "expected one unit, because a rule has no patterns",
            "list the units, or name the slice that has them",
        ));
    }
    if stem.ends_with('@') {
        return Some((
            "expected an instance, because a template has no cgroup",
            "name it such as web@1.service, or the slice that has all instances: system-web.slice",
        ));
    }
    let is_valid = text.chars().all(is_of_a_unit);
    (!is_valid).then_some((
        "expected the name of a systemd unit, of letters, digits and : - _ . \\ @",
        "`systemd-escape` writes other characters, and `systemctl list-units` shows the names",
    ))
}

/// The unit that a name with another ending probably means.
fn with_suffix(text: &str) -> Option<String> {
    match text.rsplit_once('.') {
        None => Some(format!("{text}.service")),
        Some(("", _)) => None,
        Some((stem, ending)) => nearest(&format!(".{ending}"), SUFFIXES).map(|suffix| format!("{stem}{suffix}")),
    }
}

fn is_component(text: &str) -> bool {
    (1..=COMPONENT_MAX).contains(&text.len()) && !text.contains(|c: char| c == '/' || c.is_control())
}
