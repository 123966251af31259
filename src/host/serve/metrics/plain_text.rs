//! The text format before OpenMetrics, for clients that do not ask for OpenMetrics: `curl`, `promtool`.

/// Converts OpenMetrics to the older format. There, a family has the name of its samples, and there are no units, no
/// infos and no end mark.
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
