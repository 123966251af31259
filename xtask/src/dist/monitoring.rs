//! Checks the Grafana dashboard and the Prometheus alert rules with the tools that read them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;
use crate::web;

const DASHBOARD: &str = "xtask/package/tccc-grafana-dashboard.json";
const ALERTS: &str = "xtask/package/tccc-alerts.yml";
/// Time series, and the alerts that they fire.
const ALERT_TESTS: &str = "tests/dashboard/alerts.test.yml";
/// Grafana's own types and the compiler that knows them.
const TYPES: &str = "tests/dashboard";

/// Errors: promtool refuses a rule or a query; Grafana's types refuse the dashboard.
pub fn check() -> Result<()> {
    let rules = process::workspace().join(ALERTS);
    process::run("dist", process::program("promtool").args(["check", "rules"]).arg(&rules))?;
    test_rules(&rules)?;
    let text = read(DASHBOARD)?;
    for expression in expressions(&text)? {
        check_expression(&expression.replace("$__rate_interval", "5m"))?;
    }
    check_dashboard(&text)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(process::workspace().join(path)).with_context(|| format!("read {path}"))
}

/// Runs promtool's tests: each alert fires for a bad series and not for a healthy one.
fn test_rules(rules: &Path) -> Result<()> {
    let place = process::target().join("dist/alert-tests");
    fs::create_dir_all(&place).context("create the folder of the alert tests")?;
    let tests = process::workspace().join(ALERT_TESTS);
    fs::copy(rules, place.join("tccc-alerts.yml")).context("hand the alert rules to promtool")?;
    fs::copy(&tests, place.join("alerts.test.yml")).with_context(|| format!("copy {}", tests.display()))?;
    process::run("dist", process::program("promtool").args(["test", "rules"]).arg(place.join("alerts.test.yml")))
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

/// Checks a query as a recording rule, because promtool checks rules only.
fn check_expression(expression: &str) -> Result<()> {
    let place = process::target().join("dist/query.yml");
    let quoted = expression.replace('\'', "''");
    let rule = format!("groups:\n  - name: query\n    rules:\n      - record: query\n        expr: '{quoted}'\n");
    fs::write(&place, rule).with_context(|| format!("write {}", place.display()))?;
    let checked = process::output("dist", process::program("promtool").args(["check", "rules"]).arg(&place));
    fs::remove_file(&place).with_context(|| format!("remove {}", place.display()))?;
    let Err(why) = checked else { return Ok(()) };
    bail!("the query `{expression}` is wrong: {why:#}")
}

/// Type-checks the dashboard against Grafana's published types.
fn check_dashboard(text: &str) -> Result<()> {
    let place = web::install(TYPES, "dashboard")?;
    let types = process::workspace().join(TYPES).join("schema.ts");
    fs::copy(&types, place.join("schema.ts")).with_context(|| format!("copy {}", types.display()))?;
    let head = "import type { Checked } from \"./schema\";\nexport const dashboard: Checked = ";
    let document = place.join("document.ts");
    fs::write(&document, format!("{head}{text};\n")).with_context(|| format!("write {}", document.display()))?;
    let mut compiler = process::program(place.join("node_modules/.bin/tsc"));
    compiler.args(["--strict", "--noEmit", "--skipLibCheck", "--target", "es2022"]);
    process::run("dist", compiler.args(["--module", "esnext", "--moduleResolution", "bundler"]).arg(&document))
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
