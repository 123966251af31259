//! Writes the archive that a kernel unpacks as its first file system: cpio in the `newc` format.

/// Longest file of the format, bytes.
const LONGEST: usize = u32::MAX as usize;
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
/// Names and contents are padded to this many bytes.
const PADDING: usize = 4;

/// An archive under construction.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds an empty folder. Its parents must already be in the archive.
    pub fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, &[]);
    }

    /// Adds an executable file.
    ///
    /// # Panics
    /// The file is longer than 4 GiB.
    pub fn program(&mut self, path: &str, content: &[u8]) {
        assert!(content.len() <= LONGEST, "{path} fits into the archive");
        self.entry(path, PROGRAM, content);
    }

    /// Adds the end mark.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// Header of 13 fields in hexadecimal, name with its zero, content; source: cpio(5), "New ASCII Format".
    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let (links, name_bytes) = (1, path.len() as u32 + 1);
        let fields = [self.entries, mode, 0, 0, links, 0, content.len() as u32, 0, 0, 0, 0, name_bytes, 0]
            .map(|field| format!("{field:08X}"));
        self.bytes.extend_from_slice(b"070701");
        self.bytes.extend_from_slice(fields.concat().as_bytes());
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(PADDING), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the archive back as the kernel does: name, mode, content of each entry.
    fn read(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        const HEADER: usize = 110;
        let mut entries = Vec::new();
        let start = bytes.len();
        loop {
            let field = |number: usize| {
                let text = &bytes[6 + 8 * number..14 + 8 * number];
                u32::from_str_radix(std::str::from_utf8(text).unwrap(), 16).unwrap()
            };
            assert_eq!(&bytes[..6], b"070701");
            let (mode, size, name_bytes) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(bytes[HEADER..HEADER + name_bytes - 1].to_vec()).unwrap();
            bytes = &bytes[(HEADER + name_bytes).next_multiple_of(PADDING)..];
            if name == "TRAILER!!!" {
                return entries;
            }
            entries.push((name, mode, bytes[..size].to_vec()));
            bytes = &bytes[size.next_multiple_of(PADDING)..];
            assert_eq!((start - bytes.len()) % PADDING, 0);
        }
    }

    #[test]
    fn archive_reads_back_as_it_was_written() {
        let mut archive = Archive::default();
        archive.folder("bin");
        archive.program("bin/odd", b"12345");
        archive.program("init", b"#!/bin/sh\n");
        let entries = read(&archive.finish());
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[0], ("bin".to_owned(), FOLDER, Vec::new()));
        assert_eq!(entries[1], ("bin/odd".to_owned(), PROGRAM, b"12345".to_vec()));
        assert_eq!(entries[2].2, b"#!/bin/sh\n");
    }
}
