//! Encodes and decodes structs as the laboratory in the guest kernel does: little endian, without padding.

use std::time::Duration;

/// Compiles C of `bpf/guest`, for tests that compare it with Rust.
#[cfg(test)]
#[path = "../../../tests/host/compile.rs"]
#[allow(dead_code, reason = "the algorithms' tests use the rest")]
pub(super) mod compile;

pub trait GuestBytes: Sized {
    fn append_to(&self, bytes: &mut Vec<u8>);

    /// Decodes a value and removes its bytes from the front. `None`: too few bytes.
    fn take_from(bytes: &mut &[u8]) -> Option<Self>;

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl GuestBytes for $number {
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

pub fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl<T: GuestBytes + Default + Copy, const N: usize> GuestBytes for [T; N] {
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

/// Declares structs that have the same layout in C. A test passes `LAYOUT` to [`assert_same_in_c`].
macro_rules! structs {
    ($($(#[$about:meta])* $name:ident in C: $c_name:literal { $($field:ident: $kind:ty),* $(,)? })*) => {
        $(
            $(#[$about])*
            #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
            #[repr(C)]
            pub struct $name { $(pub $field: $kind),* }

            impl $crate::virtual_time::bytes::GuestBytes for $name {
                fn append_to(&self, bytes: &mut Vec<u8>) {
                    $($crate::virtual_time::bytes::GuestBytes::append_to(&self.$field, bytes);)*
                }

                fn take_from(bytes: &mut &[u8]) -> Option<Self> {
                    let read = $name { $($field: $crate::virtual_time::bytes::GuestBytes::take_from(bytes)?),* };
                    Some(read)
                }
            }
        )*

        /// The offset of every field and the size of every struct: the expression in C, and its value in Rust.
        #[cfg(test)]
        pub const LAYOUT: &[(&str, usize)] = &[
            $($((concat!("offsetof(struct ", $c_name, ", ", stringify!($field), ")"), std::mem::offset_of!($name, $field)),)*
              (concat!("sizeof(struct ", $c_name, ")"), size_of::<$name>()),)*
        ];
    };
}
pub(super) use structs;

/// Panics: an expression has another value in C, with `bpf/guest/layout.h` included.
#[cfg(test)]
pub fn assert_same_in_c(expressions: &[(&str, usize)]) {
    let header = compile::in_tree("bpf/guest/layout.h");
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
