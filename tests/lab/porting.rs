//! The snippets of `bpf/PORTING.md`, each with the message that it states.

use std::fs;
use std::path::{Path, PathBuf};

use tccc::author::compile::BuildFolder;

use crate::common::{stderr, stdout, tccc};

/// The place of a snippet in the page's frame.
const PLACE: &str = "\t/* the snippet */\n";
/// What a file needs in addition to the page's frame.
const BEFORE: &str = "/* A snippet of bpf/PORTING.md. */\n#include \"tccc.bpf.h\"\n#include \"phase.bpf.h\"\n";
const AFTER: &str = r#"
STATE_FITS(struct mine);
CC_OP(void, mine_init, struct sock *sk)
{
	__builtin_memset(inet_csk_ca(sk), 0, sizeof(struct mine));
}
CC_OP(u32, mine_ssthresh, struct sock *sk)
{
	return reno_ssthresh(tcp_sk(sk));
}
CC_OP(u32, mine_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}
ALGORITHM(mine, "A snippet", "bpf/PORTING.md") = {
	.init = (void *)mine_init,
	.cong_avoid = (void *)mine_cong_avoid,
	.ssthresh = (void *)mine_ssthresh,
	.undo_cwnd = (void *)mine_undo_cwnd,
	.name = "mine",
};
"#;

/// What becomes of a snippet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    RefusedByClang,
    RefusedByVerifier,
    /// As before, after a minute.
    RefusedSlowly,
    /// Refused by a property of `tccc check`.
    RefusedByCheck,
    Accepted,
    /// Part of the DCTCP of `tests/fixtures/author`.
    Example,
}

#[derive(Debug)]
pub struct Snippet {
    pub fate: Fate,
    pub text: String,
    /// Lines, one of which is part of the output: compilers and kernels differ.
    messages: Vec<String>,
}

/// The fenced blocks of the page: what stands behind the three quotes, and the text.
fn blocks(page: &str) -> Vec<(&str, String)> {
    let (mut blocks, mut open) = (Vec::new(), None);
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(kind), None) => open = Some((kind, String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, text))) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    blocks
}

/// The page's frame and its snippets.
pub struct PortingPage {
    frame: String,
    pub snippets: Vec<Snippet>,
}

impl PortingPage {
    /// Panics: a block has another kind, a snippet is refused without a message, or the frame is missing.
    pub fn read() -> Self {
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/PORTING.md")).unwrap();
        let (mut frame, mut snippets) = (None, Vec::new());
        let mut blocks = blocks(&page).into_iter().peekable();
        while let Some((kind, text)) = blocks.next() {
            let fate = match kind {
                "text" => continue,
                "c frame" => {
                    frame = Some(text);
                    continue;
                }
                "c refused by clang" => Fate::RefusedByClang,
                "c refused by verifier" => Fate::RefusedByVerifier,
                "c refused by verifier, slowly" => Fate::RefusedSlowly,
                "c refused by check" => Fate::RefusedByCheck,
                "c accepted" => Fate::Accepted,
                "c example" => Fate::Example,
                other => panic!("a block of the kind {other:?}"),
            };
            let message = blocks.next_if(|(kind, _)| *kind == "text").map(|(_, text)| text).unwrap_or_default();
            let is_refused = !matches!(fate, Fate::Accepted | Fate::Example);
            assert_eq!(is_refused, !message.is_empty(), "the message of {text}");
            snippets.push(Snippet { fate, text, messages: message.lines().map(str::to_owned).collect() });
        }
        PortingPage { frame: frame.expect("the page has a frame"), snippets }
    }

    pub fn of(&self, fate: Fate) -> impl Iterator<Item = &Snippet> {
        self.snippets.iter().filter(move |snippet| snippet.fate == fate)
    }

    /// A snippet as a file `mine.bpf.c` in a folder.
    pub fn write(&self, snippet: &Snippet, folder: &Path) -> PathBuf {
        let (state, callback) = self.frame.split_once("\nCC_OP(").expect("the frame has a state and a callback");
        let callback = format!("CC_OP({callback}");
        assert!(callback.contains(PLACE), "the frame has a place for the snippet");
        let text = &snippet.text;
        let (state, callback) = match text {
            text if text.starts_with("struct mine") => {
                (&**text, callback.replace(PLACE, "\ttp->snd_cwnd += state->phase;\n"))
            }
            text if text.contains("CC_OP(") => (state, text.clone()),
            // The snippet need not use both variables of the frame.
            text => (state, callback.replace(PLACE, &format!("\t(void)state, (void)tp;\n\t{{\n{text}\t}}\n"))),
        };
        let file = folder.join("mine.bpf.c");
        fs::write(&file, format!("{BEFORE}{state}\n{callback}{AFTER}")).unwrap();
        file
    }

    /// Compiles a snippet for BPF and natively, without warnings.
    ///
    /// Errors: what the compiler writes.
    pub fn compile(&self, snippet: &Snippet) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let file = self.write(snippet, folder.path());
        let bench = BuildFolder::set_up(&file).unwrap();
        let compiled = bench.object(&file, &["-Werror"]).and_then(|_| bench.library(&file));
        compiled.map(|_| ()).map_err(|error| format!("{error:#}"))
    }

    /// What `tccc check` writes about a snippet. If that has none of the stated messages, what the verifier writes too.
    ///
    /// Both are not always asked for, because the verifier may write a line for each of a million instructions.
    pub fn check(&self, snippet: &Snippet, group: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = self.write(snippet, folder.path());
        let check = |options: &[&str]| {
            let output = tccc().args(["check", "--only", group]).args(options).arg(&file).output().unwrap();
            format!("{}{}", stdout(&output), stderr(&output))
        };
        Some(check(&[])).filter(|said| snippet.is_in(said)).unwrap_or_else(|| check(&["-v"]))
    }
}

impl Snippet {
    /// Panics: none of the messages is in the output.
    #[track_caller]
    pub fn expect_in(&self, output: &str) {
        assert!(self.is_in(output), "the page states {:?} for\n{}but it is\n{output}", self.messages, self.text);
    }

    fn is_in(&self, output: &str) -> bool {
        self.messages.iter().any(|message| output.contains(message.as_str()))
    }
}
