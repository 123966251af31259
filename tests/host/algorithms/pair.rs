//! The packet-pair option: which segments are marked, and what the receiver makes of marked ones, in order or not.

use std::sync::OnceLock;

use libloading::Library;

use crate::compile;

const BYTES: u32 = 1440;
const FIRST: u32 = 0;
const SECOND: u32 = 1;

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let (_folder, path) = compile::library(&[&compile::in_tree("tests/host/pair.c")]);
        // SAFETY: the library is ours and runs no code when loaded.
        unsafe { Library::new(path) }.expect("the library of pair.c loads")
    })
}

/// SAFETY: `F` is the signature of a function of pair.c.
unsafe fn function<F: Copy>(name: &str) -> F {
    // SAFETY: the caller's; the library is never unloaded.
    unsafe { *library().get::<F>(name).expect("the function is in the library") }
}

/// `struct pair_segment`.
#[repr(C)]
struct Segment {
    seq: u32,
    end: u32,
    flags: u8,
    pair: u8,
}

/// One end's memory: larger than either struct, and aligned as both.
#[derive(Default)]
struct End([u64; 8]);

impl End {
    /// The exchange of a socket whose algorithm wants marks.
    fn marking() -> End {
        const IS_MARKING_AT: usize = 20;
        let mut end = End::default();
        end.0[IS_MARKING_AT / 8] = 1 << (8 * (IS_MARKING_AT % 8));
        end
    }

    fn mark(&mut self, seq: u32, bytes: u32) -> i32 {
        // SAFETY: the signature of pair.c; the memory holds a `struct pair_exchange`.
        unsafe {
            function::<unsafe extern "C" fn(*mut u64, u32, u32) -> i32>("host_next_mark")(
                self.0.as_mut_ptr(),
                seq,
                bytes,
            )
        }
    }

    fn wants_mark(&self) -> bool {
        // SAFETY: as above.
        unsafe { function::<unsafe extern "C" fn(*const u64) -> u32>("host_wants_mark")(self.0.as_ptr()) != 0 }
    }

    fn pairs_acknowledged(&self, una: u32) -> u32 {
        // SAFETY: as above.
        unsafe {
            function::<unsafe extern "C" fn(*const u64, u32) -> u32>("host_pairs_acknowledged")(self.0.as_ptr(), una)
        }
    }

    /// The interval in microseconds that a segment `number` segments into the stream completes, 0 for none.
    fn arrive(&mut self, number: u32, flags: u32, pair: u32, now_ns: u64) -> u32 {
        let seq = number.wrapping_mul(BYTES);
        let segment = Segment { seq, end: seq.wrapping_add(BYTES), flags: flags as u8, pair: pair as u8 };
        type Arrive = unsafe extern "C" fn(*mut u64, *const Segment, u64) -> u32;
        // SAFETY: the signature of pair.c; the memory holds a `struct pair_arrival`.
        unsafe { function::<Arrive>("host_arrive")(self.0.as_mut_ptr(), &raw const segment, now_ns) }
    }
}

#[test]
fn four_full_segments_are_two_pairs() {
    for start in [1000, u32::MAX - 2 * BYTES] {
        let mut end = End::marking();
        let seq = |number: u32| start.wrapping_add(number * BYTES);
        let marks: Vec<i32> = (0..4).map(|number| end.mark(seq(number), BYTES)).collect();
        assert_eq!(marks, [0, 1, 0, 1]);
        assert!(!end.wants_mark());
        assert_eq!(end.mark(seq(4), BYTES), -1);
        let acknowledged: Vec<u32> = (0..=4).map(|number| end.pairs_acknowledged(seq(number))).collect();
        assert_eq!(acknowledged, [0, 0, 1, 1, 2]);
        assert_eq!(end.pairs_acknowledged(seq(4).wrapping_sub(1)), 1);
    }
}

#[test]
fn socket_without_the_algorithm_marks_nothing() {
    assert!(!End::default().wants_mark());
    assert_eq!(End::default().pairs_acknowledged(u32::MAX), 0);
}

#[test]
fn pair_broken_by_another_segment_is_given_up() {
    let mut end = End::marking();
    // A First, then a segment that does not follow it, which is the First of the next.
    assert_eq!([end.mark(0, BYTES), end.mark(2 * BYTES, BYTES), end.mark(3 * BYTES, BYTES)], [0, 0, 1]);
    assert!(!end.wants_mark());
    assert_eq!([end.pairs_acknowledged(2 * BYTES), end.pairs_acknowledged(4 * BYTES)], [0, 1]);
    // A Second of another size would be timed by its own length.
    let mut end = End::marking();
    assert_eq!([end.mark(0, BYTES), end.mark(BYTES, BYTES / 2)], [0, 0]);
}

#[test]
fn interval_is_second_minus_first_to_the_microsecond() {
    for (dt_ns, expected) in
        [(7_772_021, 7_772), (231_481, 231), (231_500, 232), (499, 0), (500, 1), (u64::from(u32::MAX) * 1000 + 500, 0)]
    {
        let mut end = End::default();
        assert_eq!(end.arrive(0, FIRST, 1, 5_000), 0);
        assert_eq!(end.arrive(1, SECOND, 1, 5_000 + dt_ns), expected, "{dt_ns} ns");
    }
}

#[test]
fn second_that_does_not_match_its_first_measures_nothing() {
    let check = |what: &str, arrivals: &[(u32, u32, u32)]| {
        let mut end = End::default();
        let found =
            arrivals.iter().zip(1..).map(|(&(number, flags, pair), at)| end.arrive(number, flags, pair, at * 100_000));
        assert!(found.into_iter().all(|dt_us| dt_us == 0), "{what}");
    };
    check("no First", &[(1, SECOND, 1)]);
    check("reordered", &[(1, SECOND, 1), (0, FIRST, 1)]);
    check("another pair's First", &[(0, FIRST, 1), (3, SECOND, 2)]);
    check("a segment between was lost", &[(0, FIRST, 1), (2, SECOND, 1)]);
    check("the pair's number is another", &[(0, FIRST, 1), (1, SECOND, 2)]);
    let mut end = End::default();
    end.arrive(0, FIRST, 1, 100_000);
    assert_eq!(end.arrive(1, SECOND, 1, 200_000), 100);
    assert_eq!(end.arrive(1, SECOND, 1, 300_000), 0, "the same Second again");
}
