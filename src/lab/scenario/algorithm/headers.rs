//! Headers of a user's own algorithm. They become part of its text, so that whatever keeps, compares or compiles the text
//! has them too.

use std::path::{Component, Path, PathBuf};

use shared::catalog::source::SOURCES;

use crate::path::trace_file;

/// Below the folder of the file; the Makefile of `tccc new` looks there too.
const BELOW: &str = "include";
/// Headers in headers; deeper nesting is a cycle.
const DEPTH_MAX: usize = 16;
/// Of a file with its headers, bytes.
const TEXT_MAX: usize = 1 << 20;
const ONCE: &str = "#pragma once";

/// A file with its own headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    pub text: String,
    /// The headers in the text, each once.
    pub headers: Vec<PathBuf>,
}

/// The text of a file with every header of its own in the place of its `#include`. The folder is the file's.
///
/// Headers of tccc and those that are not there stay as they are. A header with the name of one of tccc and another text
/// is the user's own.
///
/// # Errors
/// A header cannot be read; headers that include each other; too much text.
pub fn with_headers(name: &str, text: &str, folder: &Path) -> Result<SourceText, String> {
    let mut reader = Reader { top: folder, read: SourceText { text: String::new(), headers: Vec::new() } };
    reader.add(name, text, folder, 0)?;
    Ok(reader.read)
}

/// A file with its own headers.
///
/// # Errors
/// Those of [`trace_file::read`] and [`with_headers`].
pub fn read(file: &Path) -> Result<SourceText, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    with_headers(&name, &trace_file::read(file)?, file.parent().unwrap_or(Path::new("")))
}

struct Reader<'a> {
    /// Folder of the file.
    top: &'a Path,
    read: SourceText,
}

impl Reader<'_> {
    fn add(&mut self, name: &str, text: &str, folder: &Path, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("{name}: headers include each other more than {DEPTH_MAX} deep"));
        }
        for (index, line) in text.split_inclusive('\n').enumerate() {
            match included(line).and_then(|header| self.find(header, folder)) {
                Some((place, text)) => {
                    self.add_header(&place, text, depth)?;
                    self.read.text += &format!("#line {} \"{name}\"\n", index + 2);
                }
                None if depth > 0 && line.trim() == ONCE => self.read.text.push('\n'),
                None => self.read.text += line,
            }
            if self.read.text.len() > TEXT_MAX {
                return Err(format!("{name}: with its headers it is larger than {} MiB", TEXT_MAX >> 20));
            }
        }
        Ok(())
    }

    /// With [`ONCE`] between guards, because the compiler decides which of several places counts.
    fn add_header(&mut self, place: &Path, text: Result<String, String>, depth: usize) -> Result<(), String> {
        let name = place.strip_prefix(self.top).unwrap_or(place).display().to_string();
        let mut text = text.map_err(|why| format!("{name}: {why}"))?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let known = self.read.headers.iter().position(|known| known == place);
        let number = known.unwrap_or(self.read.headers.len());
        if known.is_none() {
            self.read.headers.push(place.to_owned());
        }
        let is_once = text.lines().any(|line| line.trim() == ONCE);
        if is_once {
            self.read.text += &format!("#ifndef TCCC_ONCE_{number}\n#define TCCC_ONCE_{number}\n");
        }
        self.read.text += &format!("#line 1 \"{name}\"\n");
        self.add(&name, &text, place.parent().unwrap_or(self.top), depth + 1)?;
        if is_once {
            self.read.text += "#endif\n";
        }
        Ok(())
    }

    /// A header of the user's own, where the compiler would find it: beside the file that includes it, beside the source,
    /// or in [`BELOW`].
    fn find(&self, header: &str, folder: &Path) -> Option<(PathBuf, Result<String, String>)> {
        let places = [folder.join(header), self.top.join(header), self.top.join(BELOW).join(header)];
        let place = places.into_iter().find(|place| place.is_file())?;
        let text = trace_file::read(&place);
        let ours = SOURCES.iter().find(|(file, _)| file.strip_prefix("include/") == Some(header));
        let is_ours = ours.is_some_and(|(_, ours)| text.as_ref().is_ok_and(|text| text == ours));
        (!is_ours).then_some((place, text))
    }
}

/// The header of a line such as `#include "mine.h"`.
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    let header = rest.trim_start().strip_prefix('"')?.split('"').next()?;
    let is_below = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    (!header.is_empty() && Path::new(header).components().all(is_below)).then_some(header)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn own_headers_become_part_of_the_text_and_those_of_tccc_stay() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("include")).unwrap();
        put("one.h", "#pragma once\n#include \"two.h\"\nint one;");
        put("include/two.h", "int two;\n");
        let ours = SOURCES.iter().find(|(file, _)| *file == "include/tccc.bpf.h").unwrap().1;
        put("include/tccc.bpf.h", ours);
        let text = "#include \"tccc.bpf.h\"\n#include \"one.h\" // mine\n#include <one.h>\n#include \"gone.h\"\n\
                    #include \"../one.h\"\nint x;\n";
        let read = with_headers("x.bpf.c", text, folder.path()).unwrap();
        let expected = "#include \"tccc.bpf.h\"\n#ifndef TCCC_ONCE_0\n#define TCCC_ONCE_0\n#line 1 \"one.h\"\n\n\
                        #line 1 \"include/two.h\"\nint two;\n#line 3 \"one.h\"\nint one;\n#endif\n#line 3 \"x.bpf.c\"\n\
                        #include <one.h>\n#include \"gone.h\"\n#include \"../one.h\"\nint x;\n";
        assert_eq!(read.text, expected);
        assert_eq!(read.headers, ["one.h", "include/two.h"].map(|name| folder.path().join(name)));
        put("include/tccc.bpf.h", &ours.replace("the", "The"));
        let changed = with_headers("x.bpf.c", text, folder.path()).unwrap();
        assert!(changed.text.starts_with("#line 1 \"include/tccc.bpf.h\"\n"), "another text is the user's own");
        put("one.h", "#include \"one.h\"\n");
        let cycle = with_headers("x.bpf.c", text, folder.path()).unwrap_err();
        assert!(cycle.contains("include each other"), "{cycle}");
    }

    #[test]
    fn header_beside_the_one_that_includes_it_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("include")).unwrap();
        put("include/one.h", "#include \"two.h\"\n");
        put("include/two.h", "int below;\n");
        put("two.h", "int beside;\n");
        let of = |text: &str| with_headers("x.bpf.c", text, folder.path()).unwrap().text;
        assert!(of("#include \"one.h\"\n").contains("int below;"));
        assert!(of("#include \"./two.h\"\n").contains("int beside;"));
    }
}
