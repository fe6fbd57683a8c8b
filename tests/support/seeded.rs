//! Generates random numbers that are repeatable: all follow from one seed.

/// A small generator (`SplitMix64`), good enough to vary tests and the same on every
/// machine.
#[derive(Clone, Debug)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    /// The numbers of `seed`, different for each `part` that it decides.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ part.rotate_left(32));
        dice.next();
        dice
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("64 bits");
        usize::try_from(self.next() % end).expect("smaller than end")
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

#[test]
fn a_seed_throws_the_same_again() {
    let throws = |seed| {
        let mut dice = SeededRandom::new(seed, 1);
        (0..20).map(|_| dice.below(6)).collect::<Vec<_>>()
    };
    assert_eq!(throws(7), throws(7));
    assert_ne!(throws(7), throws(8));
    assert!((0..6).all(|side| throws(7).iter().chain(&throws(9)).any(|thrown| *thrown == side)));
}
