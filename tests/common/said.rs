//! The output of a command, and assertions about it.

use std::process::Output;

use derive_more::Deref;
use serde_json::Value;

/// A command's output after it ended with the code that the test expects.
#[derive(Debug, Deref)]
pub struct CommandOutput {
    #[deref]
    output: Output,
    command: String,
}

impl CommandOutput {
    /// Fails the test unless the command ended with `code`.
    #[track_caller]
    pub fn of(code: i32, command: String, output: Output) -> CommandOutput {
        let (said, erred) = (super::stdout(&output), super::stderr(&output));
        assert_eq!(output.status.code(), Some(code), "{command}: {said}{erred}");
        CommandOutput { output, command }
    }

    pub fn stdout(&self) -> String {
        super::stdout(self)
    }

    pub fn stderr(&self) -> String {
        super::stderr(self)
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.output.stdout)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.command, self.stdout()))
    }

    #[track_caller]
    pub fn stdout_has(&self, words: impl AsRef<str>) -> &Self {
        self.expect(&self.stdout(), words.as_ref(), true)
    }

    #[track_caller]
    pub fn stdout_lacks(&self, words: impl AsRef<str>) -> &Self {
        self.expect(&self.stdout(), words.as_ref(), false)
    }

    #[track_caller]
    pub fn stderr_has(&self, words: impl AsRef<str>) -> &Self {
        self.expect(&self.stderr(), words.as_ref(), true)
    }

    #[track_caller]
    pub fn stderr_lacks(&self, words: impl AsRef<str>) -> &Self {
        self.expect(&self.stderr(), words.as_ref(), false)
    }

    #[track_caller]
    fn expect(&self, text: &str, words: &str, is_there: bool) -> &Self {
        let verb = if is_there { "lacks" } else { "has" };
        assert_eq!(text.contains(words), is_there, "{}: the output {verb} {words:?}:\n{text}", self.command);
        self
    }
}
