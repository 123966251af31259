//! Explains in one sentence which callback the kernel refused and why. The verifier's full log goes to a file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use shared::failure::Failure;
use shared::kernel::io_error;
use shared::sanitize::plain;

/// Messages of the verifier or libbpf with their meaning. The first that occurs counts.
///
/// `{}` stands for the text between the message and the next quote or blank.
const MEANINGS: [(&str, &str); 33] = [
    (
        "invalid variable offset",
        "it indexes a field with a variable: arrays in the private state and in the socket need constant indices, so \
         unroll the loop",
    ),
    ("unbounded min value", "it adds a number to a pointer that is not checked: compare it with its bounds first"),
    ("unbounded memory access", "it adds a number to a pointer that is not checked: compare it with its bounds first"),
    ("struct ops programs must have a GPL", "its licence is not compatible with the GPL"),
    ("attach to unsupported member ", "this kernel does not offer the callback {} to BPF"),
    ("extern (func ksym) '", "it calls the kernel function {}, which this kernel lacks or declares otherwise"),
    ("calling kernel function ", "it calls the kernel function {}, which congestion control may not call"),
    ("cannot use helper ", "it calls the helper {}, which congestion control may not call"),
    ("unknown func ", "it calls the helper {}, which this kernel or congestion control lacks"),
    ("invalid func ", "it calls the helper {}, which this kernel lacks"),
    ("_or_null'", "it uses a pointer that may be null without checking it"),
    ("invalid mem access 'scalar'", "it uses a number as a pointer"),
    ("invalid mem access", "it reads or writes memory through an invalid pointer"),
    ("div by zero", "division by a value that may be 0"),
    ("infinite loop detected", "it has a loop without a bound that the verifier can see"),
    ("back-edge from insn", "it has a loop without a bound that the verifier can see"),
    ("loop is not bounded", "it has a loop without a bound that the verifier can see"),
    ("BPF program is too large", "it is too long for the verifier, usually because a loop has no small bound"),
    ("jumps is too complex", "it branches too much for the verifier, usually because a loop has no small bound"),
    ("no write support to ", "it writes a field of {} that the kernel keeps read-only"),
    ("only read is supported", "it writes a field of the socket that the kernel keeps read-only"),
    ("beyond the member ", "it writes past the end of the field {}"),
    ("access beyond struct ", "it reads past the end of {}"),
    ("stack size of", "its local variables need more than the 512 bytes of stack that the kernel allows"),
    ("invalid write to stack", "its local variables need more than the 512 bytes of stack that the kernel allows"),
    ("stack limit", "its local variables need more than the 512 bytes of stack that the kernel allows"),
    ("invalid read from stack", "it reads a local variable that was never set"),
    ("!read_ok", "it uses a value that was never set"),
    ("' doesn't have ", "it takes more parameters than this kernel gives to the callback"),
    ("invalid bpf_context access", "it writes to its parameters or reads a part of one: they can only be read whole"),
    ("unreachable insn", "it has instructions that are never reached"),
    (
        "Error loading .BTF into kernel",
        "the kernel refuses its type information, usually because clang puts a constant table of at most 16 bytes into \
         a section of its own: make the table longer",
    ),
    ("unknown opcode", "it has an instruction that this kernel does not know"),
];

/// `words`: libbpf's messages, which include the verifier's log.
///
/// Side effects: writes the log to `NAME.verifier.log` in `folder`, or else in the system's folder for temporary files.
/// Without a folder nothing is written.
pub fn explain(name: &str, words: &str, error: &str, folder: Option<&Path>) -> Failure {
    let error = io_error::without_number(error);
    let why = match (refused_program(words), sentence(words), verdict(words)) {
        (Some(program), Some(why), _) => format!("the verifier refused {program}{}: {why}", at_line(words)),
        (Some(program), None, Some(verdict)) => {
            format!("the verifier refused {program}{}: {verdict}", at_line(words))
        }
        (Some(program), None, None) => format!("the kernel refused {program}: {error}"),
        (None, Some(why), _) => why,
        (None, None, _) => libbpfs_reason(words).unwrap_or_else(|| format!("the kernel refused it: {error}")),
    };
    let failure = Failure::failed(format!("cannot load \"{name}\": {why}"));
    let Some(folder) = folder else {
        return failure.hint("`tccc load` without `--dry-run` writes the full log to a file");
    };
    match write_log(name, words, folder).or_else(|_| write_log(name, words, &std::env::temp_dir())) {
        Ok(place) => failure.hint(format!("full log in {}", place.display())),
        Err(_) => failure,
    }
}

/// `libbpf: prog 'NAME': -- BEGIN PROG LOAD LOG --` names the program.
fn refused_program(words: &str) -> Option<&str> {
    let is_head = |line: &&str| line.contains("BEGIN PROG LOAD LOG") || line.contains("BPF program load failed");
    let line = words.lines().find(is_head)?;
    line.split_once("prog '")?.1.split_once('\'').map(|(program, _)| program)
}

fn sentence(words: &str) -> Option<String> {
    let (phrase, meaning) = MEANINGS.iter().find(|(phrase, _)| words.contains(phrase))?;
    let after = words.split_once(phrase).map_or("", |(_, after)| after);
    let subject = after.split(|c: char| c == '\'' || c.is_whitespace()).next().unwrap_or_default();
    Some(meaning.replace("{}", subject))
}

/// The source line of the refused instruction, such as ` at mine.bpf.c:45`, or nothing without line information.
///
/// The log has it before the instructions of each line: `; state->rtt[i] = 0; @ mine.bpf.c:45`.
fn at_line(words: &str) -> String {
    let (_, log) = words.split_once("BEGIN PROG LOAD LOG --").unwrap_or(("", words));
    let place = log.lines().rev().find_map(|line| Some(line.strip_prefix("; ")?.rsplit_once(" @ ")?.1.trim()));
    place.map_or_else(String::new, |place| format!(" at {}", place.rsplit('/').next().unwrap_or(place)))
}

/// The verifier's verdict, the last line of its log before the statistics.
///
/// None: the log has no other line. The kernel then refused the program for a reason that the verifier does not know,
/// such as too many open files.
fn verdict(words: &str) -> Option<String> {
    let (_, log) = words.split_once("BEGIN PROG LOAD LOG --")?;
    let log = log.split("-- END PROG LOAD LOG --").next()?;
    let verdict = log.lines().rev().find(|line| !line.trim().is_empty() && !line.starts_with("processed "));
    verdict.map(|line| line.trim().to_owned())
}

/// libbpf's own reason, for an object that never reached the verifier.
///
/// Lines about a skipped member are no reason, and lines that end an attempt only name the object again.
fn libbpfs_reason(words: &str) -> Option<String> {
    let mut lines = words.lines().filter_map(|line| line.trim().strip_prefix("libbpf: "));
    let is_reason = |line: &&str| !line.contains("skipping it as it's set to zero") && !line.contains("failed to load");
    lines.rfind(is_reason).map(plain)
}

/// Replaces an old file. Never writes through somebody else's link.
fn write_log(name: &str, words: &str, folder: &Path) -> io::Result<PathBuf> {
    let place = folder.join(format!("{name}.verifier.log"));
    let _ = fs::remove_file(&place);
    File::create_new(&place)?.write_all(words.as_bytes())?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(log: &str, expected: &str) {
        let words = format!(
            "libbpf: prog 'my_ssthresh': BPF program load failed: -EACCES\n\
             libbpf: prog 'my_ssthresh': -- BEGIN PROG LOAD LOG --\n{log}\n\
             processed 9 insns (limit 1000000)\n-- END PROG LOAD LOG --\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let failure = explain("mine", &words, "permission denied", Some(folder.path()));
        assert_eq!(failure.what, format!("cannot load \"mine\": the verifier refused my_ssthresh: {expected}"));
        let place = folder.path().join("mine.verifier.log");
        assert_eq!(failure.hint.unwrap(), format!("full log in {}", place.display()));
        assert_eq!(fs::read_to_string(place).unwrap(), words);
    }

    #[test]
    fn verdicts_become_sentences() {
        check("R1 invalid mem access 'scalar'", "it uses a number as a pointer");
        check("R0 invalid mem access 'map_value_or_null'", "it uses a pointer that may be null without checking it");
        check("infinite loop detected at insn 3", "it has a loop without a bound that the verifier can see");
        check(
            "calling kernel function bbr_main is not allowed",
            "it calls the kernel function bbr_main, which congestion control may not call",
        );
        check("no write support to tcp_sock at off 8", "it writes a field of tcp_sock that the kernel keeps read-only");
        check(
            "combined stack size of 2 calls is 544. Too large",
            "its local variables need more than the 512 bytes of stack that the kernel allows",
        );
        check("div by zero", "division by a value that may be 0");
        let context = "it writes to its parameters or reads a part of one: they can only be read whole";
        check("invalid bpf_context access off=0 size=8", context);
        let more = "func 'ssthresh' doesn't have 2-th argument\ninvalid bpf_context access off=8 size=8";
        check(more, "it takes more parameters than this kernel gives to the callback");
        check("unreachable insn 4", "it has instructions that are never reached");
        check(
            "R4 is ptr_tcp_sock invalid variable offset: off=1288, var_off=(0x0; 0xffffffff)",
            "it indexes a field with a variable: arrays in the private state and in the socket need constant indices, \
             so unroll the loop",
        );
        check("unknown opcode 8f", "it has an instruction that this kernel does not know");
        check("R0 !read_ok", "it uses a value that was never set");
        check("3: (85) call 7\nthe moon is down", "the moon is down");
        let folder = tempfile::tempdir().unwrap();
        let words = "libbpf: extern (func ksym) 'tcp_moon': not found in kernel or module BTFs\n";
        let failure = explain("mine", words, "no such entry", Some(folder.path()));
        let why = "it calls the kernel function tcp_moon, which this kernel lacks or declares otherwise";
        assert_eq!(failure.what, format!("cannot load \"mine\": {why}"));
    }

    /// Only `-v` once showed the line.
    #[test]
    fn refused_source_line_is_named() {
        let words = "libbpf: prog 'my_ssthresh': -- BEGIN PROG LOAD LOG --\n\
                     ; u32 i = 3; @ mine.bpf.c:44\n0: (b7) r1 = 3\n\
                     ; state->rtt[i] = 0; @ ./src/mine.bpf.c:45\n1: (7b) *(u64 *)(r4 +8) = r1\n\
                     R4 invalid mem access 'scalar'\n-- END PROG LOAD LOG --\n";
        let expected =
            "cannot load \"mine\": the verifier refused my_ssthresh at mine.bpf.c:45: it uses a number as a pointer";
        assert_eq!(explain("mine", words, "permission denied", None).what, expected);
    }

    /// "The verifier refused" was said of a program that it had accepted, and libbpf's own reason was lost.
    #[test]
    fn refusal_without_a_verdict_is_not_the_verifiers() {
        let said = |words: &str, error: &str| explain("mine", words, error, None).what;
        let accepted = "libbpf: prog 'my_ssthresh': BPF program load failed: -EMFILE\n\
                        libbpf: prog 'my_ssthresh': -- BEGIN PROG LOAD LOG --\n\
                        processed 7 insns (limit 1000000)\n-- END PROG LOAD LOG --\n\
                        libbpf: prog 'my_ssthresh': failed to load: -EMFILE\nlibbpf: failed to load object 'mine'\n";
        let expected = "cannot load \"mine\": the kernel refused my_ssthresh: too many open files";
        assert_eq!(said(accepted, "Too many open files (os error 24)"), expected);
        let unknown = "libbpf: struct_ops mine: member more not found in kernel, skipping it as it's set to zero\n\
                       libbpf: struct_ops init_kern mine: Cannot find member rounds in kernel BTF\n\
                       libbpf: failed to load object 'mine'\n";
        let expected = "cannot load \"mine\": struct_ops init_kern mine: Cannot find member rounds in kernel BTF";
        assert_eq!(said(unknown, "Operation not supported (os error 95)"), expected);
        assert_eq!(
            said("", "Invalid argument (os error 22)"),
            "cannot load \"mine\": the kernel refused it: invalid argument"
        );
    }

    #[test]
    fn log_is_not_written_without_a_folder_or_through_a_link() {
        let failure = explain("unlogged", "words", "error", None);
        assert!(failure.hint.unwrap().contains("without `--dry-run`"));
        assert!(!Path::new("unlogged.verifier.log").exists());
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, folder.path().join("mine.verifier.log")).unwrap();
        explain("mine", "words", "error", Some(folder.path()));
        assert!(!target.exists());
    }
}
