//! The catalogue: declarations of every embedded algorithm, and refusals of hostile object files.

use tccc::catalog::{self, Algorithm};
use tccc::failure::FailureKind;

use crate::compile;

/// Headings of an algorithm's file header, in order.
const HEADINGS: [&str; 7] = ["Source", "Idea", "Equations", "Units", "Life", "Differs", "Kernel"];

fn each(check: impl FnMut(&Algorithm)) {
    assert!(!catalog::all().is_empty());
    catalog::all().iter().for_each(check);
}

#[test]
fn every_source_file_defines_an_algorithm_of_its_name() {
    let ids: Vec<&str> = catalog::all().iter().map(|algorithm| algorithm.id.as_str()).collect();
    assert_eq!(ids, compile::sources().iter().map(|source| compile::stem(source)).collect::<Vec<_>>());
    each(|algorithm| {
        assert!(algorithm.id.len() <= catalog::NAME_LENGTH_MAX, "{}", algorithm.id);
        assert_eq!(catalog::find(&algorithm.id).unwrap().id, algorithm.id);
    });
}

#[test]
fn every_declared_companion_is_embedded() {
    let mut asked = 0;
    each(|algorithm| {
        if let Some(companion) = &algorithm.companion {
            asked += 1;
            assert!(!companion.object().unwrap().is_empty(), "{}", algorithm.id);
            let shares = companion.map().is_some_and(|map| !map.is_empty());
            assert!(shares || companion.is_at_egress(), "{} shares nothing with {}", algorithm.id, companion.program);
        }
    });
    assert!(asked > 0);
}

#[test]
fn every_algorithm_has_a_complete_header_and_state_layout() {
    each(|algorithm| {
        let id = &algorithm.id;
        assert!(!algorithm.title.is_empty() && !algorithm.source.is_empty(), "{id}");
        assert!(algorithm.card.summary.ends_with('.') && !algorithm.card.summary.contains('\n'), "{id}");
        let headings: Vec<&str> = algorithm.card.sections.iter().map(|(heading, _)| heading.as_str()).collect();
        let patents = headings.strip_prefix(&HEADINGS);
        assert!(matches!(patents, Some([] | ["Patents"])), "{id} has the headings {headings:?}");
        assert_eq!(algorithm.patents().is_some(), patents != Some(&[]), "{id}");
        assert!(algorithm.card.sections.iter().all(|(_, text)| !text.is_empty()), "{id} has an empty heading");
        assert!(!algorithm.callbacks.is_empty(), "{id}");
        let layout = &algorithm.layout;
        assert!(!layout.phases.is_empty(), "{id}");
        assert!((1..=catalog::STATE_BYTES_MAX).contains(&layout.size), "{id}");
        assert_eq!((layout.fields[0].name.as_str(), layout.fields[0].offset), ("phase", 0), "{id}");
        let last = layout.fields.iter().map(|field| field.offset + field.size).max().unwrap();
        assert!(last <= layout.size, "{id}");
        for phase in &layout.phases {
            let state = [phase.value; catalog::STATE_BYTES_MAX];
            assert_eq!(layout.phase_name(&state), Some(phase.name.as_str()), "{id}");
            assert_eq!(layout.decode(&state).len(), layout.fields.len(), "{id}");
        }
    });
}

#[test]
fn every_tunable_has_a_reason_and_a_default_in_range() {
    each(|algorithm| {
        for tunable in &algorithm.tunables {
            let name = &tunable.name;
            assert!((tunable.low..=tunable.high).contains(&tunable.default), "{name}");
            assert!(!tunable.unit.is_empty() && !tunable.why.is_empty(), "{name}");
            let setting = algorithm.settings(&[format!("{name}={}", tunable.high)]).unwrap().remove(0);
            let mut rodata = vec![0; tunable.offset + tunable.size];
            setting.write(&mut rodata).unwrap();
            assert_eq!(tunable.value_in(&rodata), Some(tunable.high), "{name}");
            assert!(setting.write(&mut rodata[..tunable.offset]).is_err());
        }
    });
}

#[test]
fn former_names_of_tunables_are_not_reused() {
    let mut renamed = 0;
    each(|algorithm| {
        for former in algorithm.tunables.iter().flat_map(|tunable| &tunable.former) {
            renamed += 1;
            assert!(algorithm.tunables.iter().all(|tunable| tunable.name != *former), "{former} of {}", algorithm.id);
            assert!(algorithm.settings(&[format!("{former}=1")]).is_err(), "{former} of {}", algorithm.id);
        }
    });
    assert!(renamed > 0);
}

#[test]
fn settings_refuse_a_name_given_twice() {
    let dtcp = catalog::find("dtcp").unwrap();
    let failure = dtcp.settings(&["keep_avoidance=700", "keep_avoidance=701"]).unwrap_err();
    assert_eq!(failure.what, "tunable keep_avoidance for \"dtcp\" is set twice");
}

/// The object of `dtcp` with every occurrence of a text replaced by another of the same length.
fn altered(from: &[u8], to: &[u8]) -> Vec<u8> {
    let original = catalog::find("dtcp").unwrap().object.to_vec();
    let mut bytes = original.clone();
    for at in (0..original.len()).filter(|&at| original[at..].starts_with(from)) {
        bytes[at..at + from.len()].copy_from_slice(to);
    }
    assert_ne!(bytes, original);
    bytes
}

fn refusal(bytes: Vec<u8>) -> String {
    catalog::from_bytes(bytes).unwrap_err()
}

#[test]
fn open_refuses_files_that_are_not_objects() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, contents: Option<&[u8]>, why: &str| {
        let path = folder.path().join(name);
        if let Some(contents) = contents {
            std::fs::write(&path, contents).unwrap();
        }
        let failure = catalog::open(&path).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Usage);
        assert_eq!(failure.what, format!("cannot read \"{}\": {why}", path.display()));
    };
    check("absent.o", None, "no such file or directory");
    check("empty.o", Some(b""), "it is not an ELF object");
    check("text.o", Some(b"int main(void);"), "it is not an ELF object");
    check(".", None, "it is not a regular file");
    let large = std::fs::File::create(folder.path().join("large.o")).unwrap();
    large.set_len(17 << 20).unwrap();
    check("large.o", None, "it is larger than 16 MiB");
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(refusal(program), "it is not a little-endian BPF object; compile it with clang --target=bpf");
}

#[test]
fn incomplete_objects_are_refused_with_the_reason() {
    let check = |from: &[u8], to: &[u8], why: &str| assert_eq!(refusal(altered(from, to)), why);
    check(b"\0.BTF\0", b"\0.XTF\0", "it has no type information (BTF); compile it with clang -g");
    check(b"\x9f\xeb\x01\x00", b"\x9f\xeb\x07\x00", "its type information (BTF) is damaged");
    let none = "it has no ops table: no variable of type tcp_congestion_ops in .struct_ops or .struct_ops.link";
    check(b"tcp_congestion_ops", b"tcp_congestion_xxx", none);
    check(b"GPL\0", b"BSD\0", "its licence \"BSD\" is not compatible with the GPL, which the kernel requires");
    check(
        b"GPL\0",
        b"\0\0\0\0",
        "it declares no licence: the kernel requires char LICENSE[] SEC(\"license\") = \"GPL\"",
    );
    check(b"=768|1|1023|", b"=768|1|x023|", "its tunable \"keep_avoidance\" is not well-formed");
    check(b"=768|1|1023|", b"=768|900|99|", "its tunable \"keep_avoidance\" is not well-formed");
}

/// The header of a section has its offset before its size.
#[test]
fn type_information_past_the_end_of_the_file_is_damaged() {
    let mut object = catalog::find("dtcp").unwrap().object.to_vec();
    let starts = |bytes: &[u8], with: &[u8]| bytes.windows(with.len()).position(|window| window == with).unwrap();
    let offset = starts(&object, b"\x9f\xeb\x01\x00") as u64;
    let size = starts(&object, &offset.to_le_bytes()) + 8;
    object[size..size + 8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    assert_eq!(refusal(object), "its type information (BTF) is damaged");
}

#[test]
fn invalid_kernel_names_are_refused() {
    let check = |name: &str, why: &str| assert_eq!(catalog::check_name(name).unwrap_err(), why);
    assert_eq!(catalog::check_name("fifteen_letters"), Ok(()));
    check("sixteen__letters", "the name \"sixteen__letters\" has 16 characters: at most 15");
    check("dt-cp", "the name \"dt-cp\" may hold only letters, digits and _");
    check("", "the name \"\" may hold only letters, digits and _");
    check("a b\x1b[31m", "the name \"a b\\u{1b}[31m\" may hold only letters, digits and _");
}

/// Nested empty structs add no fields, so the limit on fields never stopped the reader. Reading them once never ended.
#[test]
fn nested_empty_structs_are_refused_at_once() {
    crate::common::needs!(clang);
    const NESTED: usize = 7;
    let mut source = String::from(
        "struct tcp_congestion_ops { void *ssthresh; char name[16]; };\n\
         char LICENSE[] __attribute__((section(\"license\"))) = \"GPL\";\nstruct s0 {};\n",
    );
    for depth in 1..=NESTED {
        let members: String = (0..2000).map(|n| format!("struct s{} m{n};", depth - 1)).collect();
        source.push_str(&format!("struct s{depth} {{ {members} }};\n"));
    }
    source.push_str(&format!(
        "struct s{NESTED} *tccc_state;\n__attribute__((section(\".struct_ops.link\"))) \
         struct tcp_congestion_ops deep = {{ .name = \"deep\" }};\n"
    ));
    let folder = tempfile::tempdir().unwrap();
    let (text, object) = (folder.path().join("deep.bpf.c"), folder.path().join("deep.bpf.o"));
    std::fs::write(&text, source).unwrap();
    let mut clang = std::process::Command::new("clang");
    clang.args(["-target", "bpf", "-g", "-O2", "-w", "-c", "-o"]).args([&object, &text]);
    assert!(clang.status().unwrap().success());
    assert_eq!(refusal(std::fs::read(object).unwrap()), "the type of its private state cannot be read");
}

#[test]
fn truncated_objects_never_panic() {
    let whole = catalog::find("dtcp").unwrap().object.to_vec();
    for length in (0..whole.len()).step_by(7) {
        // The file ends with the section table, without which nothing can be read.
        assert!(catalog::from_bytes(whole[..length].to_vec()).is_err(), "{length} bytes of the object were accepted");
    }
}
