//! How an algorithm's file is compiled for BPF. Shared by the build script and `tccc check`.

/// `-fno-builtin` because the kernel has no C library: algorithms may use its names, such as erfc.
pub const BPF_FLAGS: [&str; 5] = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-fno-builtin", "-mcpu=v3"];

/// A header that defines the comment at the top of an algorithm's file as a C string, for `ALGORITHM` to embed.
pub fn card(source: &str) -> String {
    let body = source.split_once("/*").and_then(|(_, rest)| rest.split_once("*/")).map_or("", |(body, _)| body);
    let lines =
        body.lines().map(|line| line.trim_start().trim_start_matches('*').strip_prefix(' ').unwrap_or("").trim_end());
    let quoted: Vec<String> = lines.map(|line| line.replace('\\', "\\\\").replace('"', "\\\"")).collect();
    format!("#define TCCC_CARD \"{}\"\n", quoted.join("\\n"))
}
