//! Counts the frames of a GIF without decoding them.

/// Whether the file has more than one frame, or does not end as it should.
pub(super) fn has_several_frames(file: &[u8]) -> bool {
    frames(file, 2).is_none_or(|frames| frames > 1)
}

/// The number of frames, at most `most`. `None` for a file without an end.
fn frames(file: &[u8], most: usize) -> Option<usize> {
    let mut rest = file.get(13..)?;
    rest = rest.get(color_table(*file.get(10)?)..)?;
    let mut frames = 0;
    while frames < most {
        match rest {
            [0x21, _, blocks @ ..] => rest = behind_blocks(blocks)?,
            [0x2c, frame @ ..] => {
                let table = color_table(*frame.get(8)?);
                // The descriptor, the colours, and the size of a code.
                rest = behind_blocks(frame.get(9 + table + 1..)?)?;
                frames += 1;
            }
            [0x3b, ..] => break,
            _ => return None,
        }
    }
    Some(frames)
}

/// The bytes of a colour table, by the flags that announce it.
fn color_table(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

/// What follows a run of blocks, each of which says its length. The last one is empty.
fn behind_blocks(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let (length, blocks) = rest.split_first()?;
        rest = blocks.get(usize::from(*length)..)?;
        if *length == 0 {
            return Some(rest);
        }
    }
}
