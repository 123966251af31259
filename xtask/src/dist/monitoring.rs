//! Checks the Grafana dashboard and the Prometheus alert rules with the tools that read them.

use anyhow::{Context, Result};
use fs_err as fs;
use serde_json::Value;

use crate::process::{self, command};
use crate::web;

const DASHBOARD: &str = "xtask/package/tccc-grafana-dashboard.json";
const ALERTS: &str = "xtask/package/tccc-alerts.yml";
/// Time series, and the alerts that they fire.
const ALERT_TESTS: &str = "tests/dashboard/alerts.test.yml";
/// Grafana's own types and the compiler that knows them.
const TYPES: &str = "tests/dashboard";

/// Checks rules and queries with promtool, runs its tests of the alerts, and type-checks the dashboard.
pub fn check() -> Result<()> {
    let place = process::target().join("dist/alert-tests");
    fs::create_dir_all(&place)?;
    let text = read(DASHBOARD)?;
    fs::write(place.join("queries.yml"), as_rules(&expressions(&text)?))?;
    process::run("dist", command!("promtool check rules {ALERTS} {place}/queries.yml"))?;
    process::run("dist", command!("cp {ALERTS} {ALERT_TESTS} {place}"))?;
    process::run("dist", command!("promtool test rules {place}/alerts.test.yml"))?;
    check_dashboard(&text)
}

fn read(path: &str) -> Result<String> {
    Ok(fs::read_to_string(process::workspace().join(path))?)
}

/// The queries of the dashboard's panels, then of its annotations.
fn expressions(dashboard: &str) -> Result<Vec<String>> {
    let dashboard: Value = serde_json::from_str(dashboard).with_context(|| format!("read {DASHBOARD}"))?;
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let annotations = dashboard["annotations"]["list"].as_array().into_iter().flatten();
    let queries = targets.chain(annotations).filter_map(|query| query["expr"].as_str());
    Ok(queries.map(str::to_owned).collect())
}

/// The queries as recording rules, because promtool checks rules only.
fn as_rules(queries: &[String]) -> String {
    let rule = |(number, query): (usize, &String)| {
        let query = query.replace("$__rate_interval", "5m").replace('\'', "''");
        format!("      - record: query_{number}\n        expr: '{query}'\n")
    };
    let rules: String = queries.iter().enumerate().map(rule).collect();
    format!("groups:\n  - name: queries\n    rules:\n{rules}")
}

/// Type-checks the dashboard against Grafana's published types.
fn check_dashboard(text: &str) -> Result<()> {
    let place = web::install(TYPES, "dashboard")?;
    process::run("dist", command!("cp {TYPES}/schema.ts {place}"))?;
    let head = "import type { Checked } from \"./schema\";\nexport const dashboard: Checked = ";
    fs::write(place.join("document.ts"), format!("{head}{text};\n"))?;
    let options =
        "--strict --noEmit --skipLibCheck --target es2022 --module esnext --moduleResolution bundler".split(' ');
    process::run("dist", command!("{place}/node_modules/.bin/tsc {options...} {place}/document.ts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a key in the alert rules, in order.
    fn of_alerts(key: &str) -> Vec<String> {
        let text = read(ALERTS).unwrap();
        text.lines().filter_map(|line| Some(line.trim().strip_prefix(key)?.trim().to_owned())).collect()
    }

    fn queries() -> Vec<String> {
        expressions(&read(DASHBOARD).unwrap()).unwrap()
    }

    #[test]
    fn every_alert_is_tested_and_says_what_happens_and_what_to_do() {
        let tests = read(ALERT_TESTS).unwrap();
        let names = of_alerts("- alert:");
        assert!(!names.is_empty());
        for name in names {
            let of = format!("alertname: {name}\n");
            assert!(tests.matches(&of).count() >= 2, "{name} needs a test where it fires and one where it does not");
        }
        let [what, next] = ["summary:", "description:"].map(of_alerts);
        assert_eq!([what.len(), next.len()], [of_alerts("- alert:").len(); 2]);
        assert!(what.iter().all(|text| text.len() > 22) && next.iter().all(|text| text.len() > 42));
    }

    #[test]
    fn every_metric_that_is_asked_for_is_exported() {
        let exported = read("src/host/serve/metrics.rs").unwrap(); // names that `/metrics` has
        let text = [queries(), of_alerts("expr:")].concat().join(" ");
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let metrics: Vec<&str> = words.filter_map(|word| word.strip_prefix("tccc_")).collect();
        assert!(metrics.len() > 20);
        for metric in metrics {
            let name =
                ["_total", "_bucket", "_info"].iter().fold(metric, |name, end| name.strip_suffix(end).unwrap_or(name));
            assert!(exported.contains(&format!("\"{name}\"")), "tccc_{metric} is not exported");
        }
    }

    #[test]
    fn dashboard_is_well_formed_and_queries_the_chosen_host() {
        let document: Value = serde_json::from_str(&read(DASHBOARD).unwrap()).unwrap();
        for (at, panel) in document["panels"].as_array().unwrap().iter().enumerate() {
            assert_eq!(panel["id"], at + 1);
            let place = &panel["gridPos"];
            assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24);
            assert!(panel["type"] == "row" || panel["datasource"]["uid"] == "${datasource}");
        }
        for query in queries() {
            assert_eq!(query.matches('(').count(), query.matches(')').count(), "{query}");
            let selectors = query.matches("tccc_").count() + query.matches("process_").count();
            assert_eq!(query.matches(r#"instance=~"$instance""#).count(), selectors, "{query}");
        }
        let variables = document["templating"]["list"].as_array().unwrap();
        let names: Vec<&str> = variables.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["datasource", "instance", "algorithm", "cgroup", "rule", "arm"]);
    }
}
