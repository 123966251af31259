//! Limits of size: soft limits warn, hard limits fail.

use super::Fault;
use super::tree::SourceFile;

/// Soft and hard limit.
type Limits = (usize, usize);

/// Of a hand-written source.
const SOURCE_LINES: Limits = (400, 450);
const SOURCE_EXTENSIONS: [&str; 8] = ["rs", "c", "h", "js", "mjs", "ts", "sh", "py"];
const MAIN_LINES: Limits = (40, 40);
const README_LINES: Limits = (150, 150);
const FUNCTION_LINES: Limits = (40, 60);
const NESTING: Limits = (3, 4);
const PARAMETERS: Limits = (4, 5);
const FILE_BYTES: u64 = 1 << 20;

pub fn file_is_not_too_long(file: &SourceFile) -> Vec<Fault> {
    let limits = match file.path.as_str() {
        "src/main.rs" => MAIN_LINES,
        "README.md" => README_LINES,
        path if is_source(path) => SOURCE_LINES,
        _ => return Vec::new(),
    };
    over(limits, file.text.lines().count(), 0, "lines in this file").into_iter().collect()
}

/// Whether a file is source that people write. Generated source is not tracked by git; fixtures may have any length.
fn is_source(path: &str) -> bool {
    let end = path.rsplit_once('.').map_or("", |(_, end)| end);
    SOURCE_EXTENSIONS.contains(&end) && !path.starts_with("tests/fixtures/")
}

pub fn file_is_not_too_big(file: &SourceFile) -> Vec<Fault> {
    let message = || format!("{} bytes, more than 1 MiB: generate it or fetch it when needed", file.bytes);
    Fault::unless(file.bytes <= FILE_BYTES, 0, message)
}

/// Limits lines, nesting and parameters of C functions; `clippy.toml` limits those of Rust.
pub fn c_functions_are_small(file: &SourceFile) -> Vec<Fault> {
    let measured = |function: &Function| {
        let text = |what: &str| format!("{what} in `{}`", function.name);
        [
            over(FUNCTION_LINES, function.lines, function.line, &text("lines")),
            over(NESTING, function.nesting, function.line, &text("nested blocks")),
            over(PARAMETERS, function.parameters, function.line, &text("parameters")),
        ]
    };
    c_functions(&file.scanned().code).iter().flat_map(measured).flatten().collect()
}

fn over((soft, hard): Limits, measured: usize, line: usize, what: &str) -> Option<Fault> {
    match measured {
        m if m > hard => Some(Fault::hard(line, format!("{measured} {what}, at most {hard}"))),
        m if m > soft => Some(Fault::soft(line, format!("{measured} {what}, better at most {soft}"))),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
    nesting: usize,
    parameters: usize,
}

/// Number of parameters in a list; `void` is none.
fn parameter_count(list: &str) -> usize {
    let mut depth = 0_i32;
    let is_comma = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    list.split(is_comma).map(str::trim).filter(|part| !part.is_empty() && *part != "void").count()
}

/// Lines of a body from its opening brace, and the deepest nesting of control blocks.
fn measure_body(text: &str) -> Option<(usize, usize)> {
    let mut blocks: Vec<bool> = Vec::new();
    let mut header_start = 0;
    let mut deepest = 0;
    for (at, character) in text.char_indices() {
        match character {
            '{' => {
                blocks.push(is_control(&text[header_start..at]));
                deepest = deepest.max(blocks.iter().filter(|is_control| **is_control).count());
            }
            '}' => {
                blocks.pop();
                if blocks.is_empty() {
                    return Some((1 + text[..at].matches('\n').count(), deepest));
                }
            }
            ';' => (),
            _ => continue,
        }
        header_start = at + 1;
    }
    None
}

/// Whether the text before a brace begins a control block.
fn is_control(header: &str) -> bool {
    const WORDS: [&str; 6] = ["if", "else", "for", "while", "switch", "do"];
    header.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| WORDS.contains(&word))
}

/// Functions in the kernel's layout, which has the body's braces in the first column.
fn c_functions(code: &[String]) -> Vec<Function> {
    let opens = code.iter().enumerate().filter(|(_, line)| line.trim_end() == "{");
    opens.filter_map(|(open, _)| measure_c(code, open)).collect()
}

fn measure_c(code: &[String], open: usize) -> Option<Function> {
    let is_before =
        |line: &String| line.trim().is_empty() || line.starts_with(['}', '#']) || line.trim_end().ends_with(';');
    let start = code[..open].iter().rposition(is_before).map_or(0, |before| before + 1);
    let signature = code[start..open].join(" ");
    let (before_list, rest) = signature.split_once('(')?;
    let (list, _) = rest.rsplit_once(')')?;
    let (lines, nesting) = measure_body(&code[open..].join("\n"))?;
    let word = before_list.split_whitespace().last()?.trim_start_matches('*');
    // The kernel chooses a callback's parameters: CC_OP(return type, name, parameters...).
    let is_callback = word == "CC_OP";
    let name = if is_callback { list.split(',').nth(1)?.trim() } else { word };
    let parameters = if is_callback { 0 } else { parameter_count(list) };
    Some(Function { name: name.into(), line: start + 1, lines: lines + open - start, nesting, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::check;

    #[test]
    fn bad_sample_of_each_rule_is_refused() {
        let lines = |number: usize| "\n".repeat(number);
        for path in ["src/a.rs", "bpf/include/a.bpf.h", "bpf/cc/a.bpf.c", "src/a.js", "xtask/a.sh", "tests/a.py"] {
            check(file_is_not_too_long, path, &lines(451), &lines(400));
        }
        check(file_is_not_too_long, "src/main.rs", &lines(41), &lines(40));
        check(file_is_not_too_long, "README.md", &lines(151), &lines(150));
        assert_eq!(file_is_not_too_long(&SourceFile::new("tests/fixtures/a.rs", &lines(451))), []);
        check(file_is_not_too_big, "tests/a.bin", &"a".repeat((1 << 20) + 1), "a");
        let in_c = |lines: usize| format!("static void a(void)\n{{\n{}}}\n", "\tb();\n".repeat(lines));
        check(c_functions_are_small, "bpf/a.c", &in_c(60), &in_c(30));
    }

    #[test]
    fn c_function_is_measured() {
        let text = "struct a\n{\n};\n\nstatic u32 b(u32 c,\n\t     u32 d)\n{\n\tif (c)\n\t\treturn 0;\n\treturn d;\n}\n\nu32 CC_OP(u32, e, struct sock *sk, u32 f)\n{\n}\n";
        let functions = c_functions(&text.lines().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(functions[0], Function { name: "b".into(), line: 5, lines: 7, nesting: 0, parameters: 2 });
        assert_eq!((functions[1].name.as_str(), functions[1].parameters), ("e", 0));
    }
}
