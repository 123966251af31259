//! Sizes: soft limits warn, hard limits fail.

use super::Finding;
use super::scan::Language;
use super::tree::SourceFile;

/// Soft and hard limit.
type Limits = (usize, usize);

const RUST_LINES: Limits = (400, 700);
const C_LINES: Limits = (400, 700);
const ALGORITHM_LINES: Limits = (400, 600);
const MAIN_LINES: Limits = (40, 40);
const README_LINES: Limits = (250, 250);
const FUNCTION_LINES: Limits = (40, 60);
const NESTING: Limits = (3, 4);
const PARAMETERS: Limits = (4, 5);
const FILE_BYTES: u64 = 1 << 20;

/// Lines of a file.
pub fn file_is_not_too_long(file: &SourceFile) -> Vec<Finding> {
    let limits = match file.path.as_str() {
        "src/main.rs" => MAIN_LINES,
        "README.md" => README_LINES,
        _ if file.algorithm().is_some() => ALGORITHM_LINES,
        _ => match file.language() {
            Some(Language::Rust) => RUST_LINES,
            Some(Language::C) => C_LINES,
            None => return Vec::new(),
        },
    };
    over(limits, file.text.lines().count(), 0, "lines in this file").into_iter().collect()
}

/// Bytes of a file.
pub fn file_is_not_too_big(file: &SourceFile) -> Vec<Finding> {
    if file.bytes <= FILE_BYTES {
        return Vec::new();
    }
    vec![Finding::hard(0, format!("{} bytes, more than 1 MiB: generate it or fetch it when needed", file.bytes))]
}

/// Lines, nesting and parameters of every function outside tests.
pub fn functions_are_small(file: &SourceFile) -> Vec<Finding> {
    let functions = match file.language() {
        Some(Language::Rust) if !file.path.starts_with("tests/") => rust_functions(&file.scanned().code),
        Some(Language::C) => c_functions(&file.scanned().code),
        _ => return Vec::new(),
    };
    let scanned = file.scanned();
    let product = functions.iter().filter(|function| !scanned.is_test[function.line - 1]);
    product
        .flat_map(|function| {
            let text = |what: &str| format!("{what} in `{}`", function.name);
            [
                over(FUNCTION_LINES, function.lines, function.line, &text("lines")),
                over(NESTING, function.nesting, function.line, &text("nested blocks")),
                over(PARAMETERS, function.parameters, function.line, &text("parameters")),
            ]
        })
        .flatten()
        .collect()
}

fn over((soft, hard): Limits, measured: usize, line: usize, what: &str) -> Option<Finding> {
    match measured {
        m if m > hard => Some(Finding::hard(line, format!("{measured} {what}, at most {hard}"))),
        m if m > soft => Some(Finding::soft(line, format!("{measured} {what}, better at most {soft}"))),
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

/// Functions with a body; relies on rustfmt's layout of signatures.
fn rust_functions(code: &[String]) -> Vec<Function> {
    let starts = code.iter().enumerate().filter_map(|(index, line)| Some((index, rust_function_name(line)?)));
    starts.filter_map(|(index, name)| measure_rust(code, index, name)).collect()
}

/// `run` in `pub(crate) unsafe fn run(`.
fn rust_function_name(line: &str) -> Option<&str> {
    const BEFORE: [&str; 8] = ["pub(crate)", "pub(super)", "pub", "const", "async", "unsafe", "extern", "\""];
    let (before, rest) = line.split_once("fn ")?;
    let is_item = before.split_whitespace().all(|word| BEFORE.contains(&word));
    let name = rest.split(['(', '<']).next().filter(|name| !name.is_empty())?;
    (is_item && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(name)
}

fn measure_rust(code: &[String], start: usize, name: &str) -> Option<Function> {
    let text = code[start..].join("\n");
    let signature = &text[text.find(&format!("fn {name}"))? + 3 + name.len()..];
    let signature = &signature[generics_length(signature)..];
    let list = &signature[1..closing(signature)?];
    let after = &signature[list.len() + 2..];
    let body_start = body_of(after)?;
    let (body_lines, nesting) = measure_body(&after[body_start..])?;
    let head_lines = text.len() - after.len() + body_start;
    let lines = text[..head_lines].matches('\n').count() + body_lines;
    Some(Function { name: name.into(), line: start + 1, lines, nesting, parameters: parameter_count(list) })
}

/// Length of `<…>` at the beginning; arrows inside do not close it.
fn generics_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => return at,
            _ => (),
        }
        before = character;
    }
    0
}

/// Where the parenthesis that the text begins with closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(at),
            ')' => depth = depth.checked_sub(1)?,
            _ => (),
        }
    }
    None
}

/// Where the body begins; none for a declaration, which ends in a semicolon.
fn body_of(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' => return Some(at),
            ';' if depth == 0 => return None,
            _ => (),
        }
    }
    None
}

/// Parameters other than the receiver.
fn parameter_count(list: &str) -> usize {
    let mut depth = 0_i32;
    let mut before = ' ';
    let mut parts = vec![String::new()];
    for character in list.chars() {
        match character {
            '(' | '[' | '<' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            _ => (),
        }
        before = character;
        match character {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().expect("there is a part").push(character),
        }
    }
    let is_receiver = |part: &str| {
        part.split(':')
            .next()
            .unwrap_or(part)
            .split_whitespace()
            .last()
            .is_some_and(|word| word.trim_start_matches('&') == "self")
    };
    parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty() && *part != "void" && !is_receiver(part))
        .count()
}

/// Lines of a body that begins with its brace, and how deep its control blocks nest.
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

/// Whether the text before a brace is the head of a control block; a guard of a match arm is not.
fn is_control(header: &str) -> bool {
    const WORDS: [&str; 8] = ["if", "else", "for", "while", "loop", "match", "switch", "do"];
    let header = header.rsplit("=>").next().unwrap_or(header);
    header.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| WORDS.contains(&word))
}

/// Functions in the kernel's layout: the braces of the body stand in the first column.
fn c_functions(code: &[String]) -> Vec<Function> {
    let opens = code.iter().enumerate().filter(|(_, line)| line.trim_end() == "{");
    opens.filter_map(|(open, _)| measure_c(code, open)).collect()
}

fn measure_c(code: &[String], open: usize) -> Option<Function> {
    let is_before =
        |line: &String| line.trim().is_empty() || line.starts_with(['}', '#']) || line.trim_end().ends_with(';');
    let start = code[..open].iter().rposition(is_before).map_or(0, |before| before + 1);
    let signature = code[start..open].join(" ");
    let list_start = signature.find('(')?;
    let list = &signature[list_start + 1..list_start + closing(&signature[list_start..])?];
    let (lines, nesting) = measure_body(&code[open..].join("\n"))?;
    let word = signature[..list_start].split_whitespace().last()?.trim_start_matches('*');
    // A callback's parameters are the kernel's choice: CC_OP(return type, name, parameters...).
    let is_callback = word == "CC_OP";
    let name = if is_callback { list.split(',').nth(1)?.trim() } else { word };
    let parameters = if is_callback { 0 } else { parameter_count(list) };
    Some(Function { name: name.into(), line: start + 1, lines: lines + open - start, nesting, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::check;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn long_file_is_refused() {
        check(file_is_not_too_long, "src/a.rs", &"\n".repeat(701), &"\n".repeat(400));
        check(file_is_not_too_long, "src/main.rs", &"\n".repeat(41), &"\n".repeat(40));
        check(file_is_not_too_long, "bpf/cc/a.bpf.c", &"\n".repeat(601), &"\n".repeat(400));
        check(file_is_not_too_long, "README.md", &"\n".repeat(251), &"\n".repeat(250));
    }

    #[test]
    fn big_file_is_refused() {
        check(file_is_not_too_big, "tests/a.bin", &"a".repeat((1 << 20) + 1), "a");
    }

    #[test]
    fn long_function_is_refused() {
        let function = |lines: usize| format!("fn a() {{\n{}}}\n", "    b();\n".repeat(lines));
        check(functions_are_small, "src/a.rs", &function(60), &function(30));
        let in_c = |lines: usize| format!("static void a(void)\n{{\n{}}}\n", "\tb();\n".repeat(lines));
        check(functions_are_small, "bpf/a.c", &in_c(60), &in_c(30));
    }

    #[test]
    fn rust_function_is_measured() {
        let text = "impl A {\n    pub(crate) fn b<F: Fn(u8, u8) -> u8>(&mut self, f: F, c: HashMap<u8, u8>) -> [u8; 2]\n    where\n        F: Send,\n    {\n        \
                    for x in y {\n            match x {\n                Z { q } if q => {\n                    g();\n                }\n                _ => if h {},\n            }\n        }\n    }\n}\n";
        let functions = rust_functions(&lines(text));
        assert_eq!(functions, [Function { name: "b".into(), line: 2, lines: 13, nesting: 3, parameters: 2 }]);
    }

    #[test]
    fn declaration_has_no_size() {
        assert_eq!(rust_functions(&lines("trait A {\n    fn b(&self) -> [u8; 2];\n}\n")), []);
        assert_eq!(rust_functions(&lines("type F = fn (u8) -> u8;\nlet a: fn() = b;\n")), []);
    }

    #[test]
    fn c_function_is_measured() {
        let text = "struct a\n{\n};\n\nstatic u32 b(u32 c,\n\t     u32 d)\n{\n\tif (c)\n\t\treturn 0;\n\treturn d;\n}\n\nu32 CC_OP(u32, e, struct sock *sk, u32 f)\n{\n}\n";
        let functions = c_functions(&lines(text));
        assert_eq!(functions[0], Function { name: "b".into(), line: 5, lines: 7, nesting: 0, parameters: 2 });
        assert_eq!((functions[1].name.as_str(), functions[1].parameters), ("e", 0));
    }
}
