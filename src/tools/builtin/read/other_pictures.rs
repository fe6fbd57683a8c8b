//! Names the formats of pictures that are not shown, by the first bytes of a file. Pure.

/// Formats by their first bytes.
const BY_START: [(&[u8], &str); 22] = [
    (b"BM", "a BMP picture"),
    // Raw pictures of cameras that begin as TIFF files do.
    (b"II*\0\x10\0\0\0CR", "a raw picture of a camera (CR2)"),
    (b"II*\0", "a TIFF picture, or a raw one of a camera"),
    (b"MM\0*", "a TIFF picture, or a raw one of a camera"),
    (b"II+\0", "a TIFF picture (BigTIFF)"),
    (b"MM\0+", "a TIFF picture (BigTIFF)"),
    (b"IIRO", "a raw picture of a camera (ORF)"),
    (b"IIRS", "a raw picture of a camera (ORF)"),
    (b"IIU\0", "a raw picture of a camera (RW2)"),
    (b"FUJIFILMCCD-RAW", "a raw picture of a camera (RAF)"),
    (b"FOVb", "a raw picture of a camera (X3F)"),
    (b"\0\0\x01\0", "an ICO picture"),
    (b"\0\0\x02\0", "a CUR picture"),
    (b"\xff\x0a", "a JPEG XL picture"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "a JPEG XL picture"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000 picture"),
    (b"\xff\x4f\xff\x51", "a JPEG 2000 picture"),
    (b"8BPS", "a Photoshop picture (PSD)"),
    (b"gimp xcf", "a GIMP picture (XCF)"),
    (b"DDS ", "a DDS picture"),
    (b"qoif", "a QOI picture"),
    (b"\x76\x2f\x31\x01", "an OpenEXR picture"),
];

/// Formats of the container of MP4, by their brands.
const BY_BRAND: [(&[u8], &str); 10] = [
    (b"avif", "an AVIF picture"),
    (b"avis", "an AVIF picture"),
    (b"heic", "a HEIC picture"),
    (b"heix", "a HEIC picture"),
    (b"heim", "a HEIC picture"),
    (b"heis", "a HEIC picture"),
    (b"hevc", "a HEIC picture"),
    (b"hevx", "a HEIC picture"),
    (b"crx ", "a raw picture of a camera (CR3)"),
    // Of either kind: the other brands say which.
    (b"mif1", "a HEIF picture"),
];

/// What a binary file that begins so is, if it is a picture in another format than those that are
/// shown.
pub(super) fn name(first: &[u8]) -> Option<&'static str> {
    let by_start = BY_START.iter().find(|(start, _)| first.starts_with(start));
    by_start.map(|(_, name)| *name).or_else(|| by_brand(first))
}

/// The first of the known formats that a brand of the file names.
fn by_brand(first: &[u8]) -> Option<&'static str> {
    let length: [u8; 4] = first.get(..4)?.try_into().ok()?;
    let end = usize::try_from(u32::from_be_bytes(length)).ok()?.min(first.len());
    if first.get(4..8) != Some(b"ftyp") || end < 12 {
        return None;
    }
    let brands = || first[8..end].chunks_exact(4);
    BY_BRAND.iter().find(|(brand, _)| brands().any(|it| it == *brand)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_7f_formats_are_told_by_their_first_bytes() {
        let box_of = |brands: &[&[u8]]| {
            let brands = brands.concat();
            let length = u32::try_from(8 + brands.len()).unwrap();
            [&length.to_be_bytes()[..], b"ftyp", &brands].concat()
        };
        for (first, expected) in [
            (b"BM\x36\0\0\0".to_vec(), "a BMP picture"),
            (b"II*\0\x08\0\0\0".to_vec(), "a TIFF picture, or a raw one of a camera"),
            (b"II*\0\x10\0\0\0CR\x02".to_vec(), "a raw picture of a camera (CR2)"),
            (box_of(&[b"heic", b"\0\0\0\0", b"mif1"]), "a HEIC picture"),
            (box_of(&[b"mif1", b"\0\0\0\0", b"mif1", b"avif"]), "an AVIF picture"),
            (box_of(&[b"mif1", b"\0\0\0\0"]), "a HEIF picture"),
        ] {
            assert_eq!(name(&first), Some(expected));
        }
        assert_eq!(name(&box_of(&[b"isom", b"\0\0\0\0", b"mp41"])), None);
        assert_eq!(name(b"\0\0\0\x08ftyp"), None);
        assert_eq!(name(b""), None);
    }
}
