//! Turns the contents of a file into others step by step, and recognises a file in which that
//! was interrupted. Pure, but for the file that is written.
//!
//! The file is first made as long as the longer of both contents, then its common part is
//! written over from the beginning, then it is cut to its new length. So a full disk is met
//! before anything is lost, and whatever the step, each byte is the old or the new one of its
//! place.

use std::io;

/// The parts in which a kernel brings a file to the disk. A loss of power may leave each of them
/// in either state.
const BLOCK: usize = 4096;

/// The bytes of one write. Parts that need no change are passed over.
const PIECE: usize = 64 << 10;

/// A file that is written over.
pub(super) trait Medium {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;
    fn set_length(&mut self, length: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
}

/// Makes a file that holds `is` hold `wanted`, and syncs it.
pub(super) fn write_over(file: &mut impl Medium, is: &[u8], wanted: &[u8]) -> io::Result<()> {
    write_in_pieces(file, is, wanted, PIECE)
}

fn write_in_pieces(
    file: &mut impl Medium,
    is: &[u8],
    wanted: &[u8],
    piece: usize,
) -> io::Result<()> {
    let common = is.len().min(wanted.len());
    if common < wanted.len() {
        let mut at = common;
        for piece in wanted[common..].chunks(piece) {
            file.write_at(piece, offset(at))?;
            at += piece.len();
        }
        // Some file systems find out only now that there is no room.
        file.sync()?;
    }
    let mut at = 0;
    for (is, wanted) in is[..common].chunks(piece).zip(wanted[..common].chunks(piece)) {
        if is != wanted {
            file.write_at(wanted, offset(at))?;
        }
        at += wanted.len();
    }
    if wanted.len() < is.len() {
        file.set_length(offset(wanted.len()))?;
    }
    file.sync()
}

fn offset(at: usize) -> u64 {
    // No machine has a `usize` that is longer.
    at as u64
}

/// What was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Writing the new contents.
    ToNew,
    /// Putting the old ones back, after the new ones were begun.
    ToOld,
}

/// Whether a file with these contents was left by [`write_over`] from `old` to `new`, or on the
/// way back, at any moment. Contents that another program has changed since are not taken for
/// that: a byte that is neither the old nor the new one, a length that is outside of both, or
/// parts of both in an order that we do not write.
pub(super) fn is_half_written(found: &[u8], old: &[u8], new: &[u8], direction: Direction) -> bool {
    is_half_written_in_blocks(found, old, new, direction, BLOCK)
}

fn is_half_written_in_blocks(
    found: &[u8],
    old: &[u8],
    new: &[u8],
    direction: Direction,
    block: usize,
) -> bool {
    let (shorter, longer) = if old.len() < new.len() { (old, new) } else { (new, old) };
    if found.len() < shorter.len() || longer.len() < found.len() {
        return false;
    }
    let (body, tail) = found.split_at(shorter.len());
    let is_body_ours = body
        .chunks(block)
        .zip(old.chunks(block).zip(new.chunks(block)))
        .all(|(found, (old, new))| is_cut(found, old, new, direction));
    // What was made longer but not yet written reads as zeros after a loss of power.
    let zeros = vec![0; block];
    let is_tail_ours = tail
        .chunks(block)
        .zip(longer[shorter.len()..].chunks(block))
        .all(|(found, longer)| is_cut(found, longer, &zeros, Direction::ToOld));
    is_body_ours && is_tail_ours
}

/// Whether `found` begins like `new` and ends like `old`, of which either may be empty. On the
/// way back it begins like `old` once more. The others may be longer.
fn is_cut(found: &[u8], old: &[u8], new: &[u8], direction: Direction) -> bool {
    let put_back = match direction {
        Direction::ToNew => 0,
        // The longest run will do: where both are the same, either may be taken.
        Direction::ToOld => common_prefix(found, old),
    };
    let written = put_back + common_prefix(&found[put_back..], &new[put_back..]);
    found[written..] == old[written..found.len()]
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file whose writer is killed after so many bytes and changes of length.
    struct Mortal {
        contents: Vec<u8>,
        left: usize,
    }

    impl Mortal {
        fn step(&mut self) -> io::Result<()> {
            self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(())
        }
    }

    impl Medium for Mortal {
        fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
            let at = usize::try_from(at).unwrap();
            for (number, byte) in bytes.iter().enumerate() {
                self.step()?;
                assert!(at + number <= self.contents.len(), "a hole");
                if at + number == self.contents.len() {
                    self.contents.push(*byte);
                } else {
                    self.contents[at + number] = *byte;
                }
            }
            Ok(())
        }

        fn set_length(&mut self, length: u64) -> io::Result<()> {
            self.step()?;
            self.contents.resize(usize::try_from(length).unwrap(), 0);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            self.step()
        }
    }

    /// The contents after so many steps, and whether these were all.
    fn killed_after(left: usize, is: &[u8], wanted: &[u8], piece: usize) -> (Vec<u8>, bool) {
        let mut file = Mortal { contents: is.to_vec(), left };
        let is_done = write_in_pieces(&mut file, is, wanted, piece).is_ok();
        (file.contents, is_done)
    }

    /// The contents after each number of steps.
    fn cuts(is: &[u8], wanted: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let mut cuts = Vec::new();
        for left in 0.. {
            let (contents, is_done) = killed_after(left, is, wanted, piece);
            cuts.push(contents);
            if is_done {
                break;
            }
        }
        cuts
    }

    fn contents() -> impl Strategy<Value = Vec<u8>> {
        // Few different bytes, so that old and new are often the same.
        proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(0), Just(b'c')], 0..24)
    }

    proptest! {
        #[test]
        fn files_12_every_cut_is_recognised_and_put_back(
            old in contents(), new in contents(), block in 1_usize..9, times in 1_usize..4,
        ) {
            let piece = block * times;
            let is_ours = |found: &[u8], direction| {
                is_half_written_in_blocks(found, &old, &new, direction, block)
            };
            let written = cuts(&old, &new, piece);
            prop_assert_eq!(written.last(), Some(&new));
            for found in written {
                prop_assert!(is_ours(&found, Direction::ToNew), "{found:?}");
                let restored = cuts(&found, &old, piece);
                prop_assert_eq!(restored.last(), Some(&old));
                for again in restored {
                    prop_assert!(is_ours(&again, Direction::ToOld), "{again:?}");
                    prop_assert_eq!(cuts(&again, &old, piece).pop(), Some(old.clone()));
                }
            }
        }

        /// Of the blocks that were written any may have reached the disk.
        #[test]
        fn files_12_a_loss_of_power_is_recognised_and_put_back(
            old in contents(), new in contents(), block in 1_usize..9, kept: u64, lost: u64,
            tail in 0_usize..24,
        ) {
            let (shorter, longer) = if old.len() < new.len() { (&old, &new) } else { (&new, &old) };
            let mut found = longer[..longer.len().min(shorter.len() + tail)].to_vec();
            for (at, byte) in found.iter_mut().enumerate() {
                if at < shorter.len() {
                    let is_kept = kept >> (at / block) & 1 == 1;
                    *byte = if is_kept { new[at] } else { old[at] };
                } else if lost >> ((at - shorter.len()) / block) & 1 == 1 {
                    *byte = 0;
                }
            }
            for direction in [Direction::ToNew, Direction::ToOld] {
                let is_ours = is_half_written_in_blocks(&found, &old, &new, direction, block);
                prop_assert!(is_ours, "{found:?}");
            }
            prop_assert_eq!(cuts(&found, &old, block).pop(), Some(old));
        }

        #[test]
        fn files_12_a_foreign_byte_or_length_is_not_ours(
            old in contents(), new in contents(), block in 1_usize..9, at: prop::sample::Index,
            left in 0_usize..60,
        ) {
            let (mut found, _) = killed_after(left, &old, &new, block);
            let is_ours = |found: &[u8]| {
                [Direction::ToNew, Direction::ToOld]
                    .into_iter()
                    .any(|way| is_half_written_in_blocks(found, &old, &new, way, block))
            };
            let mut longer = found.clone();
            longer.resize(old.len().max(new.len()) + 1, b'a');
            prop_assert!(!is_ours(&longer));
            let shortest = old.len().min(new.len());
            if shortest > 0 {
                prop_assert!(!is_ours(&found[..shortest - 1]));
            }
            if !found.is_empty() {
                let at = at.index(found.len());
                found[at] = b'x';
                prop_assert!(!is_ours(&found));
            }
        }
    }

    #[test]
    fn parts_of_both_in_another_order_are_not_ours() {
        let (old, new) = (b"a=1\nb=1\nc=1\nd=1\n", b"a=2\nb=2\nc=2\nd=2\n");
        for (found, to_new, to_old) in [
            ("a=1\nb=1\nc=1\nd=1\n", true, true),
            ("a=2\nb=2\nc=1\nd=1\n", true, true),
            ("a=2\nb=2\nc=2\nd=2\n", true, true),
            ("a=1\nb=2\nc=1\nd=1\n", false, true),
            ("a=1\nb=2\nc=2\nd=2\n", false, true),
            ("a=1\nb=2\nc=1\nd=2\n", false, false),
            ("a=2\nb=2\nc=2\nd=2\ne", false, false),
            ("a=2\nb=2\nc=2\nd=2", false, false),
            ("", false, false),
        ] {
            for (direction, expected) in [(Direction::ToNew, to_new), (Direction::ToOld, to_old)] {
                let is_ours = is_half_written(found.as_bytes(), old, new, direction);
                assert_eq!(is_ours, expected, "{direction:?} {found}");
            }
        }
    }
}
