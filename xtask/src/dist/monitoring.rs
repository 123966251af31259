//! A Grafana dashboard and Prometheus alert rules over the metrics of `tccc serve`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::process;
use crate::web;

mod alerts;
mod panels;

use alerts::ALERTS;
use panels::{ARM_PANELS, PANELS, Panel};

/// Places of Grafana's grid in a row, and the size of a panel.
const GRID_WIDTH: usize = 24;
const PANEL: [usize; 2] = [12, 8];
/// Heading above the panels that compare the arms of a policy.
const ARMS_ROW: &str = "Arms of a policy side by side";
/// The dashboard's own version, for Grafana; raised with every change.
const VERSION: u32 = 4;
/// Grafana's version of the format, of Grafana 9 and later.
const SCHEMA: u32 = 36;

/// Series, and the alerts that fire over them.
const ALERT_TESTS: &str = "tests/dashboard/alerts.test.yml";
/// A step of a trial, a policy that comes and one that goes.
const POLICY_CHANGES: &str = r#"changes(tccc_policy_generation{instance=~"$instance"}[1m]) > 0"#;
/// Grafana's own types and the compiler that knows them.
const TYPES: &str = "tests/dashboard";

/// Labels that the dashboard lets a reader choose.
const CHOSEN: &str = r#"algorithm=~"$algorithm",cgroup=~"$cgroup",rule=~"$rule",arm=~"$arm""#;

/// Writes the dashboard and the alert rules into a folder, and has them checked.
///
/// Errors: a file cannot be written; promtool refuses a rule or a query; Grafana's types refuse the dashboard.
/// Side effects: installs packages of npm below `target/web`.
pub fn write(folder: &Path) -> Result<()> {
    let (dashboard, rules) = (folder.join("tccc-grafana-dashboard.json"), folder.join("tccc-alerts.yml"));
    let text = serde_json::to_string_pretty(&dashboard_document()).context("encode the dashboard")? + "\n";
    fs::write(&dashboard, text).with_context(|| format!("write {}", dashboard.display()))?;
    fs::write(&rules, alert_rules()).with_context(|| format!("write {}", rules.display()))?;
    process::run("dist", process::program("promtool").args(["check", "rules"]).arg(&rules))?;
    test_rules(&rules)?;
    for expression in expressions() {
        check_expression(&expression)?;
    }
    check_dashboard()
}

/// Has promtool fire each alert over made-up series, and not fire it over healthy ones.
fn test_rules(rules: &Path) -> Result<()> {
    let place = process::target().join("dist/alert-tests");
    fs::create_dir_all(&place).context("create the folder of the alert tests")?;
    let tests = process::workspace().join(ALERT_TESTS);
    fs::copy(rules, place.join("tccc-alerts.yml")).context("hand the alert rules to promtool")?;
    fs::copy(&tests, place.join("alerts.test.yml")).with_context(|| format!("copy {}", tests.display()))?;
    process::run("dist", process::program("promtool").args(["test", "rules"]).arg(place.join("alerts.test.yml")))
}

/// Every query of the dashboard, with Grafana's variables as a reader would have them.
fn expressions() -> Vec<String> {
    let queries = PANELS.iter().chain(&ARM_PANELS).flat_map(|panel| panel.queries);
    let all = queries.map(|(query, _)| with_labels(query)).chain([POLICY_CHANGES.to_owned()]);
    all.map(|query| query.replace("$__rate_interval", "5m")).collect()
}

/// Promtool knows rules: a query is one that records.
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

/// Has the compiler hold the dashboard against Grafana's own published types.
fn check_dashboard() -> Result<()> {
    let place = web::install(TYPES, "dashboard")?;
    let types = process::workspace().join(TYPES).join("schema.ts");
    fs::copy(&types, place.join("schema.ts")).with_context(|| format!("copy {}", types.display()))?;
    let head = "import type { Checked } from \"./schema\";\nexport const dashboard: Checked = ";
    let document = place.join("document.ts");
    let text = serde_json::to_string_pretty(&dashboard_document()).context("encode the dashboard")?;
    fs::write(&document, format!("{head}{text};\n")).with_context(|| format!("write {}", document.display()))?;
    let mut compiler = process::program(place.join("node_modules/.bin/tsc"));
    compiler.args(["--strict", "--noEmit", "--skipLibCheck", "--target", "es2022"]);
    process::run("dist", compiler.args(["--module", "esnext", "--moduleResolution", "bundler"]).arg(&document))
}

fn with_labels(query: &str) -> String {
    query.replace("CHOSEN", &format!("{CHOSEN},instance=~\"$instance\""))
}

fn dashboard_document() -> Value {
    let below = grid_height(PANELS.len());
    let first = PANELS.iter().enumerate().map(|(at, panel)| panel_document(panel, at + 1, (at, 0)));
    let row = row_document(PANELS.len() + 1, below);
    let arms = ARM_PANELS.iter().enumerate();
    let arms = arms.map(|(at, panel)| panel_document(panel, PANELS.len() + at + 2, (at, below + 1)));
    let panels: Vec<Value> = first.chain([row]).chain(arms).collect();
    json!({
        "uid": "tccc-hosts", "title": "TCP congestion control (tccc)", "tags": ["tcp", "tccc"], "version": VERSION,
        "schemaVersion": SCHEMA, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
        "description": "What the connections of each algorithm do, from `tccc serve`.",
        "time": { "from": "now-1h", "to": "now" },
        "annotations": { "list": [{
            "name": "Policy changed", "datasource": source(), "enable": true, "iconColor": "blue",
            "expr": POLICY_CHANGES, "titleFormat": "policy changed on {{instance}}",
        }] },
        "links": [],
        "templating": { "list": [
            { "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus" },
            variable("instance", "Host", "label_values(tccc_build_info, instance)"),
            variable("algorithm", "Algorithm", "label_values(tccc_algorithm_sockets, name)"),
            variable("cgroup", "cgroup", "label_values(tccc_segments_sent_total, cgroup)"),
            variable("rule", "Rule", r#"label_values(tccc_segments_sent_total{rule!=""}, rule)"#),
            variable("arm", "Arm", r#"label_values(tccc_segments_sent_total{arm!=""}, arm)"#),
        ]},
        "panels": panels,
    })
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn variable(name: &str, label: &str, query: &str) -> Value {
    json!({
        "name": name, "label": label, "type": "query", "datasource": source(), "query": { "query": query, "refId": name },
        "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
        "current": { "text": "All", "value": "$__all" },
    })
}

/// Places of the grid that so many panels take from top to bottom.
fn grid_height(panels: usize) -> usize {
    panels.div_ceil(GRID_WIDTH / PANEL[0]) * PANEL[1]
}

fn row_document(id: usize, top: usize) -> Value {
    json!({
        "id": id, "type": "row", "title": ARMS_ROW, "collapsed": false, "panels": [],
        "gridPos": { "x": 0, "y": top, "w": GRID_WIDTH, "h": 1 },
    })
}

/// The panel at a place of those that begin at `top`.
fn panel_document(panel: &Panel, id: usize, (at, top): (usize, usize)) -> Value {
    let [width, height] = PANEL;
    let columns = GRID_WIDTH / width;
    let named = panel.queries.iter().zip('A'..);
    let targets = named.map(|((query, legend), name)| {
        json!({ "refId": name.to_string(), "datasource": source(), "expr": with_labels(query), "legendFormat": legend, "range": true })
    });
    json!({
        "id": id, "type": "timeseries", "title": panel.title, "description": panel.what, "datasource": source(),
        "gridPos": { "x": at % columns * width, "y": top + at / columns * height, "w": width, "h": height },
        "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0, "custom": { "fillOpacity": 5, "showPoints": "never" } }, "overrides": [] },
        "options": { "legend": { "displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": [] }, "tooltip": { "mode": "multi", "sort": "desc" } },
        "targets": targets.collect::<Vec<Value>>(),
    })
}

fn alert_rules() -> String {
    let mut text = String::from(
        "# Made by `cargo xtask dist`: alerts over the metrics of `tccc serve`.\ngroups:\n  - name: tccc\n    rules:\n",
    );
    for (name, condition, holds, what, next) in ALERTS {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        text += &format!(
            "      - alert: {name}\n        expr: {}\n        for: {holds}\n        labels:\n          severity: warning\n        \
             annotations:\n          summary: {}\n          description: {}\n",
            quoted(condition),
            quoted(what),
            quoted(next)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alert_is_tested_where_it_fires_and_where_it_does_not() {
        let tests = fs::read_to_string(process::workspace().join(ALERT_TESTS)).unwrap();
        for (name, ..) in ALERTS {
            let of = format!("alertname: {name}\n");
            assert!(tests.matches(&of).count() >= 2, "{name} needs a test where it fires and one where it does not");
        }
    }

    /// Names that `/metrics` has, as far as its own source says.
    fn exported() -> String {
        fs::read_to_string(process::workspace().join("src/serve/metrics.rs")).unwrap()
    }

    #[test]
    fn every_metric_that_is_asked_for_is_exported() {
        let exported = exported();
        let asked = expressions().into_iter().chain(ALERTS.iter().map(|alert| alert.1.to_owned()));
        let text = asked.collect::<Vec<_>>().join(" ");
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
    fn every_query_is_of_the_chosen_host() {
        for expression in expressions() {
            let selectors = expression.matches("tccc_").count() + expression.matches("process_").count();
            assert_eq!(expression.matches(r#"instance=~"$instance""#).count(), selectors, "{expression}");
        }
    }

    #[test]
    fn dashboard_has_what_grafana_needs() {
        let document = dashboard_document();
        let panels = document["panels"].as_array().unwrap();
        assert_eq!(panels.len(), PANELS.len() + 1 + ARM_PANELS.len());
        assert_eq!(
            (&panels[PANELS.len()]["type"], &panels[PANELS.len()]["id"]),
            (&"row".into(), &(PANELS.len() + 1).into())
        );
        for (at, panel) in panels.iter().enumerate().filter(|(at, _)| *at != PANELS.len()) {
            assert_eq!(panel["id"], at + 1);
            assert_eq!(panel["datasource"]["uid"], "${datasource}");
            let place = &panel["gridPos"];
            assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= GRID_WIDTH as u64);
            for target in panel["targets"].as_array().unwrap() {
                let query = target["expr"].as_str().unwrap();
                assert!(
                    !query.contains("CHOSEN") && query.matches('(').count() == query.matches(')').count(),
                    "{query}"
                );
            }
        }
        let variables = document["templating"]["list"].as_array().unwrap();
        let names: Vec<&str> = variables.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["datasource", "instance", "algorithm", "cgroup", "rule", "arm"]);
    }

    #[test]
    fn alerts_say_what_and_what_next() {
        let text = alert_rules();
        assert_eq!(text.matches("- alert:").count(), ALERTS.len());
        assert!(ALERTS.iter().all(|alert| alert.3.len() > 20 && alert.4.len() > 40));
    }
}
