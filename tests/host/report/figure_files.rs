//! `tccc report --figures`: every figure as SVG and PDF for a paper.

use std::collections::BTreeSet;
use std::fs;

use super::command::report;
use super::{before, load};
use crate::lab::results::{Directory, SCENARIO};
use tccc::report::figure_files;

/// A bar chart beside lines, boxes of expected values, crosses of published ones, and windows over time.
const FIGURES: &str = r#"
[[figure]]
title = "Delivered against loss: \"SACK\" & <other>"
x = "loss"
y = "delivered_pkts"
draw = "bars"

[[figure]]
title = "Goodput"
x = "loss"
y = "goodput_bps"

[[figure]]
title = "Windows"
x = "time"
y = "cwnd_pkts"
together = true
at = { loss = "1%" }
"#;

fn directory() -> Directory {
    let directory = Directory::of(&format!("{SCENARIO}{FIGURES}"));
    directory.add_each(&["0", "0.1%", "1%"], 3, &[("SACK", 6000), ("Other", 9000)], 90);
    directory
}

#[test]
fn each_figure_is_written_as_svg_and_pdf_beside_the_report() {
    let directory = directory();
    let into = directory.place().join("new/figures");
    let said = report(0, &[directory.path.to_str().unwrap(), "--figures", into.to_str().unwrap()]);
    said.stdout_has("measured").stderr_has("3 figures written to ").stderr_has("(svg and pdf)");
    let names = fs::read_dir(&into).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let expected = ["table-2-01-delivered-against-loss-sack-other", "table-2-02-goodput", "table-2-03-windows"];
    let expected = expected.iter().flat_map(|name| ["pdf", "svg"].map(|extension| format!("{name}.{extension}")));
    assert_eq!(names.collect::<BTreeSet<_>>(), expected.collect::<BTreeSet<_>>());
}

#[test]
fn svg_stands_alone_with_its_own_colours_and_escapes_texts() {
    let files = figure_files(&[load(&directory())]);
    for file in &files {
        let svg = &file.svg;
        assert!(svg.contains("xmlns=\"http://www.w3.org/2000/svg\"") && svg.contains("font-family=\"Helvetica"));
        assert!(["class=", "var(", "style=", "href", "<script"].iter().all(|it| !svg.contains(it)), "{svg}");
        assert!(svg.contains("fill=\"#ffffff\"/>") && svg.contains("stroke=\"#0072b2\""), "{}", file.name);
        assert!(svg.contains(">SACK</text>") && svg.contains(">Other</text>"), "a legend of its own");
    }
    assert!(files[0].svg.contains("<title>Delivered against loss: &quot;SACK&quot; &amp; &lt;other&gt;</title>"));
    assert!(files[2].svg.contains("stroke-dasharray=\"7 3\""), "lines that share a chart differ without colour");
    assert_eq!(files[0].svg.matches("fill-opacity=\"0.38\"").count(), 6 + 2, "bars and their legend");
}

#[test]
fn pdf_has_one_page_of_a_column_and_a_font_of_every_reader() {
    for file in figure_files(&[load(&directory())]) {
        let pdf = String::from_utf8_lossy(&file.pdf).into_owned();
        assert!(pdf.starts_with("%PDF-") && pdf.trim_end().ends_with("%%EOF"), "{}", file.name);
        assert_eq!(pdf.matches("/Type /Page\n").count(), 1);
        assert!(pdf.contains("/MediaBox [0 0 252 "), "3.5 inches are 252 points: {pdf}");
        assert!(pdf.contains("/BaseFont /Helvetica\n") && !pdf.contains("/FontFile"));
        assert!(pdf.contains("(SACK) Tj") && pdf.contains("(Other) Tj"), "{pdf}");
    }
}

#[test]
fn several_charts_abreast_take_two_columns_and_reports_of_one_scenario_keep_apart() {
    let [one, other] = [load(&directory()), load(&Directory::complete())];
    let files = figure_files(&[one, other]);
    let names: BTreeSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names.len(), files.len());
    assert!(names.iter().any(|name| name.starts_with("table-2-1-")), "{names:?}");
    let two = format!(
        "{}\n{FIGURES}",
        before(SCENARIO, "[[published]]")
            .replace("[sweep]", "[sweep]\nrate = [\"10mbit\", \"100mbit\"]")
            .replace("rate = \"100mbit\"", "rate = \"$rate\"")
    );
    let directory = Directory::of(&two);
    for rate in ["10mbit", "100mbit"] {
        let mut record = crate::lab::results::run("1%", "SACK", 0, 6000);
        record.at.insert("rate".into(), rate.into());
        record.id = format!("{}-{rate}", record.id);
        directory.add(&record);
    }
    let goodput = figure_files(&[load(&directory)]).remove(1);
    assert!(goodput.svg.contains("width=\"516.0pt\""), "{}", &goodput.svg[..300]);
}

#[test]
fn figures_that_cannot_be_written_are_refused_with_the_reason() {
    let directory = directory();
    let path = directory.path.to_str().unwrap();
    let file = directory.path.join("plan.json");
    report(2, &[path, "--figures", file.to_str().unwrap()]).stderr_has("plan.json\": it is a file");
    report(2, &[path, "--figures", "x", "--per-run"]).stderr_has("--per-run");
}
