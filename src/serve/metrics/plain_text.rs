//! The text format that came before OpenMetrics, for whoever does not ask for the later one: `curl`, `promtool`.

/// OpenMetrics in the earlier format: there a family bears the name of its samples, and knows neither units, infos nor an
/// end.
pub fn plain_text(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let (mut name, mut help): (&str, Option<&str>) = ("", None);
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            (name, help) = rest.split_once(' ').map_or((rest, None), |(name, help)| (name, Some(help)));
        } else if let Some(kind) = line.strip_prefix("# TYPE ").and_then(|rest| rest.rsplit_once(' ')) {
            let (suffix, kind) = match kind.1 {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            if let Some(help) = help.take() {
                text += &format!("# HELP {name}{suffix} {help}\n");
            }
            text += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}
