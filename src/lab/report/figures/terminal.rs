//! Windows over time as a plot of characters.

use textplots::{Chart, Plot, Shape};

use crate::report::judge::number;
use crate::report::judge::windows::{PlotLine, WindowPlot};
use shared::model::series::Series;

/// Width of a plot, columns of two dots.
const TERMINAL_COLUMNS: u32 = 84;
/// Height of one variant's plot, rows of four dots.
const TERMINAL_ROWS: u32 = 6;

/// Draws one small plot per variant, because lines in a shared plot could not be told apart without colour.
pub fn terminal(plot: &WindowPlot) -> String {
    let time = plot.length_s();
    if time <= 0.0 {
        return String::new();
    }
    let variants = plot.variants();
    let margin = variants.iter().map(|variant| number::grouped(plot.top_pkts(variant), 0).len()).max().unwrap_or(1);
    let unit = Series::find(plot.quantity).map_or("", |series| series.unit);
    let mut text = String::new();
    for variant in variants {
        let lines: Vec<&PlotLine> = plot.lines.iter().filter(|line| line.variant == variant).collect();
        let (first, runs) = lines.first().map_or(("", 0), |line| (line.run.as_str(), line.runs));
        let of = if runs > 1 { format!(", median of {runs} runs") } else { String::new() };
        let cut = plot
            .cut_pkts(variant)
            .map_or_else(String::new, |peak| format!(", peak of {} {unit} cut off", number::grouped(peak, 0)));
        text.push_str(&format!("{:margin$} {variant}{of} ({first}){cut}\n", ""));
        text.push_str(&panel(&lines, (time, plot.top_pkts(variant).max(1.0)), margin));
    }
    let right = format!("{} s", number::significant(time));
    let space = (TERMINAL_COLUMNS as usize).saturating_sub(1 + right.len());
    text.push_str(&format!("{:margin$} 0{:space$}{right}\n", "", ""));
    text
}

fn panel(lines: &[&PlotLine], (time, window): (f64, f64), margin: usize) -> String {
    let (width, height) = (TERMINAL_COLUMNS * 2 - 1, TERMINAL_ROWS * 4 - 1);
    let points: Vec<Vec<(f32, f32)>> =
        lines.iter().map(|line| line.points.iter().map(|&(x, y)| (x as f32, y.min(window) as f32)).collect()).collect();
    let shapes: Vec<Shape<'_>> = points.iter().map(|points| Shape::Lines(points)).collect();
    let mut chart = Chart::new_with_y_range(width, height, 0.0, time as f32, 0.0, window as f32);
    // `lineplot` borrows the chart for as long as its shapes live, so the reference is passed on.
    let mut chart = &mut chart;
    for shape in &shapes {
        chart = chart.lineplot(shape);
    }
    chart.figures();
    let mut text = String::new();
    let frame = chart.frame();
    for (row, dots) in frame.lines().take(TERMINAL_ROWS as usize).enumerate() {
        let label = match row {
            0 => number::grouped(window, 0),
            row if row as u32 == TERMINAL_ROWS - 1 => "0".to_owned(),
            _ => String::new(),
        };
        text.push_str(&format!("{label:>margin$} │{}\n", dots.trim_end()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::model::run::At;

    fn line(variant: &str) -> PlotLine {
        PlotLine {
            variant: variant.to_owned(),
            flow: "data".into(),
            algorithm: variant.to_owned(),
            run: "r1".into(),
            runs: 3,
            points: (0..100).map(|i| (f64::from(i) / 10.0, f64::from(10 + i % 40))).collect(),
            ..PlotLine::default()
        }
    }

    #[test]
    fn short_peak_is_cut_off_and_said() {
        let window = |i: i32| if i == 3 { 260.0 } else { f64::from(20 + i % 10) };
        let points = (0..200).map(|i| (f64::from(i) / 10.0, window(i))).collect();
        let line = PlotLine { runs: 1, points, ..line("reno") };
        let plot = WindowPlot { point: At::new(), quantity: "cwnd_pkts", lines: vec![line], beside: Vec::new() };
        assert_eq!((plot.top_pkts("reno"), plot.cut_pkts("reno")), (47.0, Some(260.0)));
        assert!(terminal(&plot).starts_with("   reno (r1), peak of 260 pkts cut off\n47 │"), "{}", terminal(&plot));
    }

    #[test]
    fn terminal_plot_has_axes_and_one_panel_a_variant() {
        let lines = vec![line("reno"), line("cubic")];
        let text = terminal(&WindowPlot { point: At::new(), quantity: "cwnd_pkts", lines, beside: Vec::new() });
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len() as u32, 2 * (TERMINAL_ROWS + 1) + 1);
        assert!(rows[0].ends_with("reno, median of 3 runs (r1)") && rows[7].ends_with("cubic, median of 3 runs (r1)"));
        assert!(rows[1].starts_with("49 │") && rows.last().unwrap().ends_with("9.90 s"), "{text}");
    }
}
