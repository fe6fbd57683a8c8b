//! Takes out of a PNG file what would inflate to far more than it is.

use bytes::Bytes;

const SIGNATURE: usize = 8;

/// Bytes of a chunk besides its data: length, type and checksum.
const FRAME: usize = 12;

/// The chunks whose data is compressed and no part of the picture: a colour profile, texts. The
/// limits of the decoder do not hold for them.
const COMPRESSED: [&[u8]; 3] = [b"iCCP", b"zTXt", b"iTXt"];

/// Bytes of such chunks in one file. They may inflate to a thousand times as much.
const MAX_COMPRESSED: usize = 16 << 10;

/// The file, without its compressed chunks if they are long. A damaged one is left as it is, for
/// the decoder to say so.
pub(super) fn without_bombs(file: Bytes) -> Bytes {
    let Some(chunks) = chunks(&file) else { return file };
    let (compressed, mut kept): (Vec<&[u8]>, Vec<&[u8]>) =
        chunks.into_iter().partition(|chunk| COMPRESSED.contains(&&chunk[4..8]));
    if compressed.iter().map(|chunk| chunk.len()).sum::<usize>() <= MAX_COMPRESSED {
        return file;
    }
    kept.insert(0, &file[..SIGNATURE]);
    kept.concat().into()
}

/// Each chunk with its frame; `None` if they do not follow one another.
fn chunks(file: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = file.get(SIGNATURE..)?;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let (length, _) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?.checked_add(FRAME)?;
        let (chunk, behind) = rest.split_at_checked(length)?;
        let is_end = &chunk[4..8] == b"IEND";
        chunks.push(chunk);
        if is_end {
            break;
        }
        rest = behind;
    }
    Some(chunks)
}
