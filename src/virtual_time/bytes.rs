//! Encodes and decodes structs as the laboratory in the guest kernel does: the bytes of their fields without padding.

/// The native compiler of the host ring, for tests that compare C of `bpf/guest` with its Rust.
#[cfg(test)]
#[path = "../../tests/host/compile.rs"]
#[allow(dead_code, reason = "the algorithms' tests use the rest")]
pub(super) mod compile;

/// A value that is encoded little endian.
pub trait Bytes: Sized {
    fn append_to(&self, bytes: &mut Vec<u8>);

    /// Decodes a value and leaves the bytes that follow; none when there are too few.
    fn take_from(bytes: &mut &[u8]) -> Option<Self>;

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Bytes for $number {
            fn append_to(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }

            fn take_from(bytes: &mut &[u8]) -> Option<Self> {
                let (value, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(<$number>::from_le_bytes(*value))
            }
        }
    )*};
}

numbers!(u8, u32, i32, u64);

impl<T: Bytes + Default + Copy, const N: usize> Bytes for [T; N] {
    fn append_to(&self, bytes: &mut Vec<u8>) {
        self.iter().for_each(|one| one.append_to(bytes));
    }

    fn take_from(bytes: &mut &[u8]) -> Option<Self> {
        let mut all = [T::default(); N];
        for one in &mut all {
            *one = T::take_from(bytes)?;
        }
        Some(all)
    }
}

/// Structs with the same layout as in C. [`assert_same_in_c`] compares their `LAYOUT` in a test.
macro_rules! structs {
    ($($(#[$about:meta])* $name:ident in C: $c_name:literal { $($field:ident: $kind:ty),* $(,)? })*) => {
        $(
            $(#[$about])*
            #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
            #[repr(C)]
            pub struct $name { $(pub $field: $kind),* }

            impl $crate::virtual_time::bytes::Bytes for $name {
                fn append_to(&self, bytes: &mut Vec<u8>) {
                    $($crate::virtual_time::bytes::Bytes::append_to(&self.$field, bytes);)*
                }

                fn take_from(bytes: &mut &[u8]) -> Option<Self> {
                    let read = $name { $($field: $crate::virtual_time::bytes::Bytes::take_from(bytes)?),* };
                    Some(read)
                }
            }
        )*

        /// The offset of every field and the size of every struct: the expression in C, and its value here.
        #[cfg(test)]
        pub const LAYOUT: &[(&str, usize)] = &[
            $($((concat!("offsetof(struct ", $c_name, ", ", stringify!($field), ")"), std::mem::offset_of!($name, $field)),)*
              (concat!("sizeof(struct ", $c_name, ")"), size_of::<$name>()),)*
        ];
    };
}
pub(super) use structs;

/// Asserts that expressions in C have these values, where `bpf/guest/lab.h` is included.
///
/// Panics: with the first that differs.
#[cfg(test)]
pub fn assert_same_in_c(expressions: &[(&str, usize)]) {
    let header = compile::in_tree("bpf/guest/lab.h");
    let list: Vec<&str> = expressions.iter().map(|(expression, _)| *expression).collect();
    let source = format!(
        "#include <stddef.h>\n#include \"{}\"\nconst uint64_t numbers[] = {{{}}};\n",
        header.display(),
        list.join(",\n")
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout.c");
    std::fs::write(&path, source).unwrap();
    let (_library_folder, library) = compile::library(&[&path]);
    // SAFETY: the library is data only.
    let library = unsafe { libloading::Library::new(library) }.unwrap();
    // SAFETY: the array has a number for each expression.
    let numbers = unsafe {
        let numbers = library.get::<*const u64>("numbers").unwrap();
        std::slice::from_raw_parts(*numbers, expressions.len()).to_vec()
    };
    for ((expression, here), in_c) in expressions.iter().zip(numbers) {
        assert_eq!(*here as u64, in_c, "{expression}");
    }
}
