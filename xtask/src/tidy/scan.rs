//! Splits source text into code, comments and literals, and finds the functions in it.
//!
//! Not a parser: it relies on the formatters having run, which CI checks first.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Raw strings, nested comments, lifetimes.
    Rust,
    C,
}

/// A file split by what its characters are; all three have one entry a line.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Code; comments and the content of literals are blanks, so columns stay.
    pub code: Vec<String>,
    pub comments: Vec<String>,
    /// Contents of string literals, with the line from 1 they begin on.
    pub literals: Vec<(usize, String)>,
    /// Whether the line belongs to a `#[cfg(test)]` item.
    pub is_test: Vec<bool>,
}

/// What the characters at hand belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Code,
    LineComment,
    BlockComment(usize),
    Text,
    RawText(usize),
}

impl Scanned {
    pub fn new(text: &str, language: Language) -> Self {
        let mut scanner = Scanner { language, within: Within::Code, literal: None, scanned: Scanned::default() };
        scanner.next_line();
        let characters: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < characters.len() {
            at += scanner.take(&characters[at..], at.checked_sub(1).map(|before| characters[before]));
        }
        let mut scanned = scanner.scanned;
        scanned.is_test = test_lines(&scanned.code);
        scanned
    }

    /// The code of lines outside tests, with line numbers from 1.
    pub fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.iter().zip(&self.is_test).enumerate();
        lines.filter(|(_, (_, is_test))| !**is_test).map(|(index, (line, _))| (index + 1, line.as_str()))
    }
}

struct Scanner {
    language: Language,
    within: Within,
    literal: Option<(usize, String)>,
    scanned: Scanned,
}

impl Scanner {
    fn next_line(&mut self) {
        self.scanned.code.push(String::new());
        self.scanned.comments.push(String::new());
    }

    /// Takes what stands at the beginning of `rest`; returns how many characters that was.
    fn take(&mut self, rest: &[char], before: Option<char>) -> usize {
        if rest[0] == '\n' {
            self.end_line();
            return 1;
        }
        match self.within {
            Within::Code => self.take_code(rest, before),
            Within::LineComment => self.comment(rest, 1),
            Within::BlockComment(depth) => self.take_block_comment(rest, depth),
            Within::Text => self.take_text(rest),
            Within::RawText(hashes) => self.take_raw_text(rest, hashes),
        }
    }

    fn end_line(&mut self) {
        if self.within == Within::LineComment {
            self.within = Within::Code;
        }
        if let Some((_, content)) = &mut self.literal {
            content.push('\n');
        }
        self.next_line();
    }

    fn take_code(&mut self, rest: &[char], before: Option<char>) -> usize {
        let is_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        match rest {
            ['/', '/', ..] => self.begin(Within::LineComment, rest, 2),
            ['/', '*', ..] => self.begin(Within::BlockComment(1), rest, 2),
            ['"', ..] => self.begin(Within::Text, rest, 1),
            ['r', ..] | ['b', 'r', ..] if self.language == Language::Rust && !is_word => self.take_raw_start(rest),
            ['\'', ..] => self.take_quote(rest),
            _ => self.code(rest, 1),
        }
    }

    /// `r"`, `r#"`, `br"`: raw text; anything else that begins with these letters: code.
    fn take_raw_start(&mut self, rest: &[char]) -> usize {
        let start = if rest[0] == 'b' { 2 } else { 1 };
        let hashes = rest[start..].iter().take_while(|&&c| c == '#').count();
        if rest.get(start + hashes) != Some(&'"') {
            return self.code(rest, 1);
        }
        self.begin(Within::RawText(hashes), rest, start + hashes + 1)
    }

    /// A character literal, or in Rust the beginning of a lifetime.
    fn take_quote(&mut self, rest: &[char]) -> usize {
        let length = match rest {
            [_, '\\', _, tail @ ..] => tail.iter().position(|&c| c == '\'').map(|end| end + 4),
            [_, _, '\'', ..] => Some(3),
            _ => None,
        };
        let Some(length) = length else { return self.code(rest, 1) };
        self.line().push_str(&format!("'{}'", " ".repeat(length - 2)));
        length
    }

    fn take_block_comment(&mut self, rest: &[char], depth: usize) -> usize {
        match rest {
            ['*', '/', ..] => {
                self.within = if depth == 1 { Within::Code } else { Within::BlockComment(depth - 1) };
                self.blank(2)
            }
            ['/', '*', ..] if self.language == Language::Rust => {
                self.within = Within::BlockComment(depth + 1);
                self.blank(2)
            }
            _ => self.comment(rest, 1),
        }
    }

    fn take_text(&mut self, rest: &[char]) -> usize {
        match rest {
            ['"', ..] => self.end_literal(1),
            // The end of the line is left to `take`, which counts lines.
            ['\\', '\n', ..] => self.blank(1),
            ['\\', _, ..] => self.literal(rest, 2),
            _ => self.literal(rest, 1),
        }
    }

    fn take_raw_text(&mut self, rest: &[char], hashes: usize) -> usize {
        let is_end = rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|&c| c == '#');
        if is_end { self.end_literal(1 + hashes) } else { self.literal(rest, 1) }
    }

    fn begin(&mut self, within: Within, rest: &[char], length: usize) -> usize {
        self.within = within;
        if matches!(within, Within::Text | Within::RawText(_)) {
            self.literal = Some((self.scanned.code.len(), String::new()));
            return self.code(rest, length);
        }
        self.blank(length)
    }

    fn end_literal(&mut self, length: usize) -> usize {
        self.within = Within::Code;
        self.scanned.literals.extend(self.literal.take());
        self.line().push('"');
        self.blank(length - 1);
        length
    }

    fn literal(&mut self, rest: &[char], length: usize) -> usize {
        if let Some((_, content)) = &mut self.literal {
            content.extend(&rest[..length]);
        }
        self.blank(length)
    }

    fn code(&mut self, rest: &[char], length: usize) -> usize {
        self.line().extend(&rest[..length]);
        length
    }

    fn comment(&mut self, rest: &[char], length: usize) -> usize {
        self.scanned.comments.last_mut().expect("there is a line").extend(&rest[..length]);
        self.blank(length)
    }

    fn blank(&mut self, length: usize) -> usize {
        self.line().push_str(&" ".repeat(length));
        length
    }

    fn line(&mut self) -> &mut String {
        self.scanned.code.last_mut().expect("there is a line")
    }
}

/// From `#[cfg(test)]` to the end of the item it stands on.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut is_test = vec![false; code.len()];
    let mut at = 0;
    while at < code.len() {
        if !code[at].trim_start().starts_with("#[cfg(test)]") {
            at += 1;
            continue;
        }
        let end = item_end(code, at);
        is_test[at..=end].fill(true);
        at = end + 1;
    }
    is_test
}

/// The line on which the item that begins at `start` ends: its closing brace, or the first semicolon.
fn item_end(code: &[String], start: usize) -> usize {
    let mut depth = 0_usize;
    for (index, line) in code.iter().enumerate().skip(start) {
        for character in line.chars() {
            match character {
                '{' => depth += 1,
                '}' if depth <= 1 => return index,
                '}' => depth -= 1,
                ';' if depth == 0 => return index,
                _ => (),
            }
        }
    }
    code.len() - 1
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
        assert_eq!(scanned.comments[0], " y");
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
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let scanned = Scanned::new(text, Language::Rust);
        assert_eq!(scanned.is_test, [false, true, true, true, true, false, false]);
    }
}
