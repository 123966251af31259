//! How an algorithm's file is compiled for BPF: what this program's own build and `tccc check` share.

/// Options beside the target and the folders of headers. There is no C library in the kernel: its names, such as erfc,
/// are free for algorithms.
pub const BPF_FLAGS: [&str; 5] = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-fno-builtin", "-mcpu=v3"];

/// A header that defines the card: the comment at the top of an algorithm's file as a C string, for `ALGORITHM` to embed.
pub fn card(source: &str) -> String {
    let body = source.split_once("/*").and_then(|(_, rest)| rest.split_once("*/")).map_or("", |(body, _)| body);
    let lines =
        body.lines().map(|line| line.trim_start().trim_start_matches('*').strip_prefix(' ').unwrap_or("").trim_end());
    let quoted: Vec<String> = lines.map(|line| line.replace('\\', "\\\\").replace('"', "\\\"")).collect();
    let text = quoted.join("\\n");
    format!("#define TCCC_CARD \"{text}\"\n")
}
