//! The packet-pair option: which segments the sender marks, and which intervals the receiver measures.

use std::sync::LazyLock;

use libloading::Library;

use crate::compile;

const BYTES: u32 = 1440;
const FIRST: u32 = 0;
const SECOND: u32 = 1;

/// The functions of pair.c.
struct PairFunctions {
    next_mark: unsafe extern "C" fn(*mut u64, u32, u32) -> i32,
    wants_mark: unsafe extern "C" fn(*const u64) -> u32,
    pairs_acknowledged: unsafe extern "C" fn(*const u64, u32) -> u32,
    arrive: unsafe extern "C" fn(*mut u64, *const PairSegment, u64) -> u32,
}

static PAIR: LazyLock<PairFunctions> = LazyLock::new(|| {
    let (_folder, path) = compile::library(&[&compile::in_tree("tests/host/pair.c")]);
    // SAFETY: the library runs no code when loaded and is never unloaded; the types are those of pair.c.
    unsafe {
        let library = Box::leak(Box::new(Library::new(path).expect("the library of pair.c loads")));
        PairFunctions {
            next_mark: *library.get("host_next_mark").unwrap(),
            wants_mark: *library.get("host_wants_mark").unwrap(),
            pairs_acknowledged: *library.get("host_pairs_acknowledged").unwrap(),
            arrive: *library.get("host_arrive").unwrap(),
        }
    }
});

/// `struct pair_segment`.
#[repr(C)]
struct PairSegment {
    seq: u32,
    end: u32,
    flags: u8,
    pair: u8,
}

/// Memory for either struct of pair.h.
#[derive(Default)]
struct PairEnd([u64; 8]);

impl PairEnd {
    /// The exchange of a socket whose algorithm asks for marks.
    fn marking() -> PairEnd {
        const IS_MARKING_AT: usize = 20;
        let mut end = PairEnd::default();
        end.0[IS_MARKING_AT / 8] = 1 << (8 * (IS_MARKING_AT % 8));
        end
    }

    fn mark(&mut self, seq: u32, bytes: u32) -> i32 {
        // SAFETY: the memory holds a `struct pair_exchange`.
        unsafe { (PAIR.next_mark)(self.0.as_mut_ptr(), seq, bytes) }
    }

    fn wants_mark(&self) -> bool {
        // SAFETY: as above.
        unsafe { (PAIR.wants_mark)(self.0.as_ptr()) != 0 }
    }

    fn pairs_acknowledged(&self, una: u32) -> u32 {
        // SAFETY: as above.
        unsafe { (PAIR.pairs_acknowledged)(self.0.as_ptr(), una) }
    }

    /// The interval that segment `number` of the stream completes, microseconds; 0 for none.
    fn arrive(&mut self, number: u32, flags: u32, pair: u32, now_ns: u64) -> u32 {
        let seq = number.wrapping_mul(BYTES);
        let segment = PairSegment { seq, end: seq.wrapping_add(BYTES), flags: flags as u8, pair: pair as u8 };
        // SAFETY: the memory holds a `struct pair_arrival`.
        unsafe { (PAIR.arrive)(self.0.as_mut_ptr(), &raw const segment, now_ns) }
    }
}

#[test]
fn four_full_segments_are_two_pairs() {
    for start in [1000, u32::MAX - 2 * BYTES] {
        let mut end = PairEnd::marking();
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
    assert!(!PairEnd::default().wants_mark());
    assert_eq!(PairEnd::default().pairs_acknowledged(u32::MAX), 0);
}

#[test]
fn pair_broken_by_another_segment_is_given_up() {
    let mut end = PairEnd::marking();
    // The segment after this First is not the next one, so it begins another pair.
    assert_eq!([end.mark(0, BYTES), end.mark(2 * BYTES, BYTES), end.mark(3 * BYTES, BYTES)], [0, 0, 1]);
    assert!(!end.wants_mark());
    assert_eq!([end.pairs_acknowledged(2 * BYTES), end.pairs_acknowledged(4 * BYTES)], [0, 1]);
    // A Second of another size makes no pair, because its size would change the interval.
    let mut end = PairEnd::marking();
    assert_eq!([end.mark(0, BYTES), end.mark(BYTES, BYTES / 2)], [0, 0]);
}

#[test]
fn interval_is_second_minus_first_to_the_microsecond() {
    for (dt_ns, expected) in
        [(7_772_021, 7_772), (231_481, 231), (231_500, 232), (499, 0), (500, 1), (u64::from(u32::MAX) * 1000 + 500, 0)]
    {
        let mut end = PairEnd::default();
        assert_eq!(end.arrive(0, FIRST, 1, 5_000), 0);
        assert_eq!(end.arrive(1, SECOND, 1, 5_000 + dt_ns), expected, "{dt_ns} ns");
    }
}

#[test]
fn second_that_does_not_match_its_first_measures_nothing() {
    let check = |what: &str, arrivals: &[(u32, u32, u32)]| {
        let mut end = PairEnd::default();
        let found =
            arrivals.iter().zip(1..).map(|(&(number, flags, pair), at)| end.arrive(number, flags, pair, at * 100_000));
        assert!(found.into_iter().all(|dt_us| dt_us == 0), "{what}");
    };
    check("no First", &[(1, SECOND, 1)]);
    check("reordered", &[(1, SECOND, 1), (0, FIRST, 1)]);
    check("another pair's First", &[(0, FIRST, 1), (3, SECOND, 2)]);
    check("a segment between was lost", &[(0, FIRST, 1), (2, SECOND, 1)]);
    check("the pair's number is another", &[(0, FIRST, 1), (1, SECOND, 2)]);
    let mut end = PairEnd::default();
    end.arrive(0, FIRST, 1, 100_000);
    assert_eq!(end.arrive(1, SECOND, 1, 200_000), 100);
    assert_eq!(end.arrive(1, SECOND, 1, 300_000), 0, "the same Second again");
}
