//! Splits source text into code, comments and literals.
//!
//! It is no parser, and relies on the formatters, which CI checks first.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Raw strings, lifetimes.
    Rust,
    C,
}

/// A file's code and comments, one entry per line, and its literals.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Comments and the content of literals are blanks, which keeps the columns.
    pub code: Vec<String>,
    pub comments: Vec<String>,
    /// Contents of string literals, with their first line from 1.
    pub literals: Vec<(usize, String)>,
    /// Whether the line belongs to a `#[cfg(test)]` item.
    pub is_test: Vec<bool>,
}

/// The kind and length of a text's first token.
enum TextToken {
    /// One character.
    Code,
    /// Length in bytes with the marks.
    Comment(usize),
    /// Lengths of opening, content and closing mark, bytes.
    Quoted([usize; 3]),
}

impl Scanned {
    pub fn new(text: &str, language: Language) -> Self {
        let mut scanned = Scanned::default();
        scanned.end_line();
        let (mut read, mut rest) = ("", text);
        while let Some(first) = rest.chars().next() {
            let is_in_word = read.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let length = match token(rest, language == Language::Rust && !is_in_word) {
                TextToken::Code => scanned.code(&rest[..first.len_utf8()]),
                TextToken::Comment(length) => scanned.blank(&rest[..length], true),
                TextToken::Quoted([open, content, close]) => {
                    let end = open + content;
                    if first != '\'' {
                        scanned.literals.push((scanned.code.len(), rest[open..end].to_owned()));
                    }
                    scanned.code(&rest[..open])
                        + scanned.blank(&rest[open..end], false)
                        + scanned.code(&rest[end..end + close])
                }
            };
            rest = &rest[length..];
            read = &text[..text.len() - rest.len()];
        }
        scanned.is_test = test_lines(&scanned.code);
        scanned
    }

    /// The code of lines outside tests, with line numbers from 1.
    pub fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.iter().zip(&self.is_test).enumerate();
        lines.filter(|(_, (_, is_test))| !**is_test).map(|(index, (line, _))| (index + 1, line.as_str()))
    }

    fn end_line(&mut self) {
        self.code.push(String::new());
        self.comments.push(String::new());
    }

    /// Adds code; returns its length.
    fn code(&mut self, text: &str) -> usize {
        match text {
            "\n" => self.end_line(),
            _ => self.code.last_mut().expect("there is a line").push_str(text),
        }
        text.len()
    }

    /// Adds text that is no code; returns its length.
    fn blank(&mut self, text: &str, is_comment: bool) -> usize {
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.end_line();
            }
            self.code(&" ".repeat(line.chars().count()));
            if is_comment {
                self.comments.last_mut().expect("there is a line").push_str(line);
            }
        }
        text.len()
    }
}

fn token(rest: &str, may_be_raw: bool) -> TextToken {
    if rest.starts_with("//") {
        return TextToken::Comment(rest.find('\n').unwrap_or(rest.len()));
    }
    if let Some(comment) = rest.strip_prefix("/*") {
        return TextToken::Comment(comment.find("*/").map_or(rest.len(), |end| end + 4));
    }
    if let Some(text) = rest.strip_prefix('"') {
        let mut is_escaped = false;
        let end = text.find(|c: char| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        return quoted(rest, 1, end);
    }
    if let Some(open) = raw_opening(rest).filter(|_| may_be_raw) {
        let hashes = rest[..open].matches('#').count();
        return quoted(rest, open, rest[open..].find(&format!("\"{}", "#".repeat(hashes))));
    }
    character(rest).map_or(TextToken::Code, |end| quoted(rest, 1, Some(end)))
}

/// A literal; without an end it extends to the end of the text.
fn quoted(rest: &str, open: usize, end: Option<usize>) -> TextToken {
    TextToken::Quoted([open, end.unwrap_or(rest.len() - open), end.map_or(0, |_| 1)])
}

/// Length of a leading `r"`, `r#"` or `br"`.
fn raw_opening(rest: &str) -> Option<usize> {
    let marks = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let content = marks.trim_start_matches('#').strip_prefix('"')?;
    Some(rest.len() - content.len())
}

/// Length of a character in apostrophes; `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let content = rest.strip_prefix('\'')?;
    let escape = content.strip_prefix('\\');
    let first = escape.unwrap_or(content).chars().next()?.len_utf8() + usize::from(escape.is_some());
    match escape {
        Some(_) => content[first..].find('\'').map(|end| first + end),
        None => content[first..].starts_with('\'').then_some(first),
    }
}

/// Marks the lines from `#[cfg(test)]` to the last line of its item, which has the same indent.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut item = None;
    let is_test = |line: &String| {
        let (indent, text) = (line.len() - line.trim_start().len(), line.trim());
        if item.is_none() && text.starts_with("#[cfg(test)]") {
            item = Some(indent);
            return true;
        }
        let is_inside = item.is_some();
        let is_end_of_text = text.starts_with('"');
        if item == Some(indent) && text.ends_with(['}', ';']) && !is_end_of_text {
            item = None;
        }
        is_inside
    };
    code.iter().map(is_test).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_leave_the_code() {
        let text = "let a = \"// x\"; // y\n/* b\n c */ let d = 'e';\nlet f: &'a str = r#\"g\"h\"#;\n";
        let scanned = Scanned::new(text, Language::Rust);
        assert_eq!(scanned.code[0].trim_end(), "let a = \"    \";");
        assert_eq!(scanned.code[2].trim(), "let d = ' ';");
        assert!(scanned.code[3].starts_with("let f: &'a str = r#\""));
        assert_eq!(scanned.comments[0], "// y");
        assert_eq!(scanned.literals, [(1, "// x".into()), (4, "g\"h".into())]);
    }

    #[test]
    fn text_over_several_lines_keeps_the_line_numbers() {
        let scanned = Scanned::new("let a = \"b \\\n    c\";\nlet d = '\\'';\nlet e = \"f\";\n", Language::Rust);
        assert_eq!(scanned.code.len(), 5);
        assert_eq!(scanned.literals[1], (4, "f".into()));
        assert_eq!(scanned.code[2].trim_end(), "let d = '  ';");
    }

    #[test]
    fn tests_are_told_from_the_rest() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    const B: &str = \"\n\";\n}\nfn c() {}\n";
        let scanned = Scanned::new(text, Language::Rust);
        assert_eq!(scanned.is_test, [false, true, true, true, true, true, false, false]);
    }
}
