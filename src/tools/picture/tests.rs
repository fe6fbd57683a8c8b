use super::*;

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!("../../../tests/documents/", $name)).as_slice()
    };
}

fn prepared(file: &[u8]) -> Result<Prepared, PictureError> {
    let format = PictureFormat::recognise(file).expect("a picture");
    prepare(Bytes::copy_from_slice(file), format, DecodingTime::of_a_call())
}

#[track_caller]
fn sent(file: &[u8]) -> Prepared {
    let prepared = prepared(file).unwrap();
    let again = decode(&prepared.bytes, prepared.format, DecodingTime::of_a_call()).unwrap();
    assert!(again.is_still, "one frame");
    assert_eq!(again.image.dimensions(), (prepared.width, prepared.height));
    assert!(prepared.width.max(prepared.height) <= MAX_SIDE && prepared.bytes.len() <= MAX_BYTES);
    prepared
}

fn encoded(image: &DynamicImage) -> Vec<u8> {
    let mut png = Vec::new();
    image.write_with_encoder(PngEncoder::new(&mut png)).unwrap();
    png
}

#[test]
fn what_fits_is_sent_as_it_is() {
    for (file, format, size) in [
        (file!("picture.png"), PictureFormat::Png, (40, 30)),
        (file!("picture.jpg"), PictureFormat::Jpeg, (60, 40)),
        (file!("still.gif"), PictureFormat::Gif, (20, 10)),
        (file!("picture.webp"), PictureFormat::WebP, (30, 20)),
    ] {
        let sent = sent(file);
        assert_eq!((sent.format, sent.original), (format, size));
        assert_eq!(sent.bytes, file, "{format:?}");
    }
}

#[test]
fn a_picture_is_turned_as_its_camera_says() {
    let sent = sent(file!("turned.jpg"));
    assert_eq!((sent.width, sent.height, sent.original), (40, 60, (60, 40)));
    let image = decode(&sent.bytes, sent.format, DecodingTime::of_a_call()).unwrap().image;
    // Red at the upper left is at the upper right after a turn to the right.
    let Rgba([red, _, blue, _]) = image.get_pixel(35, 5);
    assert!(red > 180 && blue < 90, "{red} {blue}");
}

#[test]
fn of_an_animation_the_first_frame_is_sent() {
    for file in [file!("animation.gif"), file!("animation.webp")] {
        let sent = sent(file);
        assert_eq!((sent.format, sent.width, sent.height), (PictureFormat::Png, 20, 10));
        let Rgba([red, green, ..]) = decode(&sent.bytes, sent.format, DecodingTime::of_a_call())
            .unwrap()
            .image
            .get_pixel(2, 2);
        assert!(red > 180 && green < 90, "{red} {green}");
    }
}

#[test]
fn t33_frames_are_counted_without_being_decoded() {
    let file = file!("animation.gif");
    assert!(gif::has_several_frames(file) && !gif::has_several_frames(file!("still.gif")));
    let cut = &file!("still.gif")[..80];
    assert!(gif::has_several_frames(cut), "one without an end is decoded and encoded anew");
    let many = [file, &vec![0x2c; 1_000_000]].concat();
    assert!(gif::has_several_frames(&many));
    assert!(gif::has_several_frames(b"GIF89a"));
}

#[test]
fn a_large_picture_is_scaled_down() {
    let flat = DynamicImage::new_rgb8(3000, 600);
    let wide = sent(&encoded(&flat));
    assert_eq!((wide.format, wide.width, wide.height), (PictureFormat::Png, 2000, 400));
    assert_eq!(wide.original, (3000, 600));
    let line = sent(&encoded(&DynamicImage::new_rgba16(1, 5000)));
    assert_eq!((line.width, line.height), (1, 2000));
}

/// Noise, which no encoder makes shorter.
fn noise(width: u32, height: u32, alpha: Option<u8>) -> DynamicImage {
    let mut state = 1_u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u8::try_from(state >> 24).unwrap()
    };
    let pixel = |_, _| Rgba([next(), next(), next(), alpha.unwrap_or(255)]);
    DynamicImage::ImageRgba8(ImageBuffer::from_fn(width, height, pixel))
}

#[test]
fn what_is_too_long_as_png_is_sent_as_jpeg_and_smaller() {
    let photo = sent(&encoded(&noise(700, 400, None)));
    assert_eq!((photo.format, photo.width), (PictureFormat::Jpeg, 700));
    let large = sent(&encoded(&noise(1200, 1000, None)));
    assert!(large.width < 1200 && large.height < 1000, "{} {}", large.width, large.height);
}

#[test]
fn transparency_is_kept_while_it_fits() {
    let small = sent(&encoded(&noise(100, 2500, Some(100))));
    assert_eq!(small.format, PictureFormat::Png);
    let kept = decode(&small.bytes, small.format, DecodingTime::of_a_call()).unwrap().image;
    assert!(kept.color().has_alpha());
    let white = on_white(&RgbaImage::from_pixel(1, 1, Rgba([0, 100, 255, 0])));
    assert_eq!(white.get_pixel(0, 0).0, [255, 255, 255]);
}

#[test]
fn t33_a_damaged_picture_or_one_of_too_many_pixels_is_not_sent() {
    for (file, expected) in [
        (file!("bomb.png"), "it has 50000 x 50000 pixels, and at most 100 megapixels are decoded"),
        (file!("deep.png"), "decoding it takes more than 512 MiB of memory"),
        (file!("cut.jpg"), "it is cut short or damaged (the end of the JPEG data is missing)"),
    ] {
        assert_eq!(prepared(file).unwrap_err().to_string(), expected);
    }
    let whole = [
        file!("picture.png"),
        file!("picture.jpg"),
        file!("animation.gif"),
        file!("picture.webp"),
        file!("cut.png"),
    ];
    for file in whole {
        for end in 12..file.len() - 12 {
            let cut = &file[..end];
            let outcome = PictureFormat::recognise(cut).map(|format| {
                prepare(Bytes::copy_from_slice(cut), format, DecodingTime::of_a_call())
                    .map(|sent| sent.format)
            });
            // A GIF is whole when its first frame is.
            let is_fine = matches!(outcome, None | Some(Err(PictureError::Damaged(_))))
                || matches!(outcome, Some(Ok(PictureFormat::Png)) if file == whole[2]);
            assert!(is_fine, "{end} of {}: {outcome:?}", file.len());
        }
    }
}

#[test]
fn the_format_is_told_by_the_first_bytes() {
    let recognise = PictureFormat::recognise;
    for text in [&b""[..], b"GIF", b"GIF8 text", b"\xff\xd8", b"RIFF\0\0\0\0WAVE", b"<svg>"] {
        assert_eq!(recognise(text), None);
    }
    assert!(PictureFormat::Jpeg.is_called("JPG") && !PictureFormat::Png.is_called("jpg"));
}

#[test]
fn t33_chunks_that_may_inflate_are_taken_out_where_they_are_long() {
    let picture = file!("picture.png");
    // The signature, and the chunk with the head.
    let (head, rest) = picture.split_at(8 + 25);
    let with = |name: &[u8; 4], length: usize| {
        let size = u32::try_from(length).unwrap().to_be_bytes();
        [head, &size, name, &vec![b'x'; length], &[0; 4], rest].concat()
    };
    let plain = |file: Vec<u8>| png::without_bombs(file.into());
    for name in [b"iCCP", b"zTXt", b"iTXt"] {
        let bomb = with(name, 20 << 10);
        assert_eq!(plain(bomb.clone()), picture);
        assert_eq!(prepared(&bomb).unwrap().bytes, picture, "it is not sent either");
        let short = with(name, 2 << 10);
        assert_eq!(plain(short.clone()), short);
    }
    let text = with(b"tEXt", 20 << 10);
    assert_eq!(plain(text.clone()), text);
    for damaged in [&b""[..], &picture[..8], &picture[..40], &[picture, b"more"].concat()] {
        assert_eq!(plain(damaged.to_vec()), damaged);
    }
}

#[test]
fn p22_no_picture_is_decoded_when_the_time_of_the_call_is_over() {
    let over = DecodingTime::with_limit(std::time::Duration::ZERO);
    for file in
        [file!("picture.png"), file!("picture.jpg"), file!("still.gif"), file!("picture.webp")]
    {
        let format = PictureFormat::recognise(file).unwrap();
        let refused = prepare(Bytes::from_static(file), format, over).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "decoding the pictures of one call takes at most 10 seconds"
        );
    }
}
