//! Limits of size: soft limits warn, hard limits fail.

use super::Fault;
use super::tree::SourceFile;

/// Soft and hard limit.
type Limits = (usize, usize);

/// Of a hand-written source.
const SOURCE_LINES: Limits = (400, 450);
/// Of an algorithm, or of the header of a family.
const ALGORITHM_LINES: Limits = (400, 700);
const SOURCE_EXTENSIONS: [&str; 8] = [".rs", ".c", ".h", ".js", ".mjs", ".ts", ".sh", ".py"];
const MAIN_LINES: Limits = (40, 40);
const README_LINES: Limits = (150, 150);
const FUNCTION_LINES: Limits = (40, 60);
const NESTING: Limits = (3, 4);
const PARAMETERS: Limits = (4, 5);
const FILE_BYTES: Limits = (1 << 20, 1 << 20);

/// Limits the lines of what people write, and the bytes of any file. Generated source is not tracked by git.
pub fn file_is_not_too_long(file: &SourceFile) -> Vec<Fault> {
    let lines = match file.path.as_str() {
        "src/main.rs" => MAIN_LINES,
        "README.md" => README_LINES,
        path if path.ends_with(".bpf.h") || path.ends_with(".bpf.c") => ALGORITHM_LINES,
        _ if file.ends_with(&SOURCE_EXTENSIONS) && !file.is_in(&["tests/fixtures/"]) => SOURCE_LINES,
        _ => (usize::MAX, usize::MAX),
    };
    let lines = over(lines, file.text.lines().count(), 0, "lines in this file");
    lines.into_iter().chain(over(FILE_BYTES, file.text.len(), 0, "bytes in this file")).collect()
}

fn over((soft, hard): Limits, measured: usize, line: usize, what: &str) -> Option<Fault> {
    let is_soft = measured <= hard;
    let limit = if is_soft { format!("better at most {soft}") } else { format!("at most {hard}") };
    let message = format!("{measured} {what}, {limit}");
    (measured > soft).then_some(Fault { line, message, is_soft })
}

/// Limits lines, nesting and parameters of C functions; `.clippy.toml` limits those of Rust.
pub fn c_functions_are_small(file: &SourceFile) -> Vec<Fault> {
    if !file.ends_with(&[".c", ".h"]) {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let opens = (0..lines.len()).filter(|at| lines[*at] == "{");
    opens.flat_map(|open| c_function(&lines, open)).collect()
}

/// Measures a function in the kernel's layout, which has the body's braces in the first column and a tab for each block.
fn c_function(lines: &[&str], open: usize) -> Vec<Fault> {
    let is_before = |line: &&str| line.is_empty() || line.starts_with(['}', '#']) || line.ends_with([';', '/']);
    let start = lines[..open].iter().rposition(is_before).map_or(0, |before| before + 1);
    let body = &lines[open..];
    let body = &body[..=body.iter().position(|line| line.starts_with('}')).unwrap_or(body.len() - 1)];
    let signature = lines[start..open].join(" ");
    let Some((before, list)) = signature.split_once('(') else { return Vec::new() };
    let name = before.rsplit([' ', '*']).next().unwrap_or_default();
    let ends_block = |line: &&&str| line.trim_start().starts_with('}') && !line.ends_with("};");
    let nesting = body.iter().filter(ends_block).map(|line| line.len() - line.trim_start().len()).max();
    // The kernel chooses a callback's parameters: CC_OP(return type, name, parameters...).
    let is_callback = name == "CC_OP";
    let name = if is_callback { list.split(", ").nth(1).unwrap_or(name) } else { name };
    let parameters = if is_callback { 0 } else { list.matches(", ").count() + 1 };
    let measured = [
        (FUNCTION_LINES, open - start + body.len(), "lines"),
        (NESTING, nesting.unwrap_or_default(), "nested blocks"),
        (PARAMETERS, parameters, "parameters"),
    ];
    let fault = |(limits, measured, what)| over(limits, measured, start + 1, &format!("{what} in `{name}`"));
    measured.into_iter().filter_map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_function_is_measured() {
        let found = |text: &str| {
            let faults = c_functions_are_small(&SourceFile::new("bpf/a.c", text));
            faults.into_iter().map(|fault| (fault.line, fault.message)).collect::<Vec<_>>()
        };
        let long = format!("}};\n\nstatic void b(void)\n{{\n{}}}\n", "\tc();\n".repeat(58));
        assert_eq!(found(&long), [(3, "61 lines in `b`, at most 60".to_owned())]);
        let deep = "u32 b(u32 c, u32 d, u32 e,\n      u32 f, u32 g, u32 h)\n{\n\t\t\t\t\tif (c) {\n\t\t\t\t\t}\n}\n";
        let expected = ["5 nested blocks in `b`, at most 4", "6 parameters in `b`, at most 5"];
        assert_eq!(found(deep), expected.map(|text| (1, text.to_owned())));
        assert_eq!(found(&deep.replace("b(u32 c", "CC_OP(u32, e, u32 c")).len(), 1);
        assert_eq!(found("struct a\n{\n};\n"), []);
    }
}
