//! Brings a picture into a form that models take: one frame, upright, and not too large.

mod gif;
mod limits;
mod png;

use std::io;

use bytes::Bytes;
use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::{JpegDecoder, JpegEncoder};
use image::codecs::png::{CompressionType, FilterType as PngFilter, PngDecoder, PngEncoder};
use image::codecs::webp::WebPDecoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{
    DynamicImage, GenericImageView as _, ImageBuffer, ImageDecoder, ImageError, ImageResult,
    Limits, Rgb, Rgba, RgbaImage,
};

pub(crate) use self::limits::DecodingTime;

use self::limits::{HeldMemory, MAX_SECONDS, TimedFile};
use super::tool::{Picture, PictureFormat};

/// The longest side of a picture that is sent. Providers shrink larger ones by themselves, or
/// refuse them.
const MAX_SIDE: u32 = 2000;

/// The most bytes of a picture that is sent: in base64 one megabyte, of which a request may
/// hold a few dozen.
const MAX_BYTES: usize = 768 << 10;

/// The most pixels that are decoded, and the most memory of it. The largest cameras stay below.
const MEGAPIXELS: u64 = 100;
const MAX_DECODED_MIB: u64 = 512;

/// Of a picture that is too long in bytes, each attempt is this part as wide and as high.
const SHRINK: (u32, u32) = (3, 4);

/// Differences can be seen below this, and above it files grow quickly.
const JPEG_QUALITY: u8 = 85;

/// A picture as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prepared {
    pub(crate) format: PictureFormat,
    pub(crate) bytes: Bytes,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Width and height before it was turned and scaled.
    pub(crate) original: (u32, u32),
}

impl Prepared {
    /// What was attached, in words. `written` is the format in which it came.
    pub(crate) fn described(&self, written: PictureFormat) -> String {
        let (width, height) = self.original;
        let text = format!("{}, {width} x {height} pixels", written.name());
        if (self.format, self.width, self.height) == (written, width, height) {
            return text;
        }
        let (format, width, height) = (self.format.name(), self.width, self.height);
        format!("{text}, shown as {format} of {width} x {height}")
    }

    pub(crate) fn attached(self, name: String) -> Picture {
        let Self { format, bytes, width, height, .. } = self;
        Picture { name, format, bytes, width, height }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PictureError {
    #[error("it has {0} x {1} pixels, and at most {MEGAPIXELS} megapixels are decoded")]
    TooLarge(u32, u32),
    #[error("decoding it takes more than {MAX_DECODED_MIB} MiB of memory")]
    TooMuchMemory,
    #[error("decoding the pictures of one call takes at most {MAX_SECONDS} seconds")]
    TooSlow,
    #[error(
        "other pictures take the memory for decoding, {MAX_DECODED_MIB} MiB in all; try again later"
    )]
    Busy,
    #[error("it has no pixels")]
    Empty,
    #[error("it is cut short or damaged ({0})")]
    Damaged(String),
}

impl PictureFormat {
    /// The format of a file, by its first bytes.
    pub(crate) fn recognise(file: &[u8]) -> Option<Self> {
        match file {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            // A text may begin so as well. The size and colours of a picture are no text.
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', rest @ ..] => {
                let is_text = rest.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n'));
                (!is_text).then_some(Self::Gif)
            }
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
            Self::WebP => "WebP",
        }
    }

    /// Whether files of this format have this ending.
    pub(crate) fn is_called(self, extension: &str) -> bool {
        let is = |endings: &[&str]| endings.iter().any(|end| end.eq_ignore_ascii_case(extension));
        match self {
            Self::Png => is(&["png", "apng"]),
            Self::Jpeg => is(&["jpg", "jpeg", "jpe", "jfif"]),
            Self::Gif => is(&["gif"]),
            Self::WebP => is(&["webp"]),
        }
    }
}

/// Decodes the file, so that a damaged one never goes upstream. It is sent as it is if it fits
/// and needs no turning. Computes for up to some seconds, and waits for memory.
pub(crate) fn prepare(
    file: Bytes,
    format: PictureFormat,
    time: DecodingTime,
) -> Result<Prepared, PictureError> {
    let file = if format == PictureFormat::Png { png::without_bombs(file) } else { file };
    let Decoded { image, orientation, is_still, memory } = decode(&file, format, time)?;
    let original = image.dimensions();
    let fits = file.len() <= MAX_BYTES && original.0.max(original.1) <= MAX_SIDE;
    if fits && is_still && orientation == Orientation::NoTransforms {
        let (width, height) = original;
        return Ok(Prepared { format, bytes: file, width, height, original });
    }
    drop(file);
    // Turning it first would take as much memory again.
    let mut small = shrunk(image, MAX_SIDE);
    small.apply_orientation(orientation);
    let (format, bytes, (width, height)) = encode(small).map_err(damaged)?;
    drop(memory);
    Ok(Prepared { format, bytes: bytes.into(), width, height, original })
}

struct Decoded {
    image: DynamicImage,
    orientation: Orientation,
    /// Whether it has one frame alone.
    is_still: bool,
    /// What decoding and scaling it takes.
    memory: HeldMemory<'static>,
}

fn decode(file: &[u8], format: PictureFormat, time: DecodingTime) -> Result<Decoded, PictureError> {
    time.check(0)?;
    if format == PictureFormat::Jpeg && !has_end(file) {
        // The decoder would fill up the rest with grey.
        return Err(PictureError::Damaged("the end of the JPEG data is missing".to_owned()));
    }
    let (mut decoder, is_still) = decoder(file, format, time).map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err(PictureError::Empty);
    }
    if u64::from(width) * u64::from(height) > MEGAPIXELS * 1_000_000 {
        return Err(PictureError::TooLarge(width, height));
    }
    let memory = limits::hold(limits::estimate(&*decoder, file, format), time)?;
    // After waiting for memory there may be less time.
    time.check(u64::from(width) * u64::from(height))?;
    let mut limits = limits();
    limits.reserve(decoder.total_bytes()).map_err(damaged)?;
    decoder.set_limits(limits).map_err(damaged)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let image = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    Ok(Decoded { image, orientation, is_still, memory })
}

/// Reads the head of the file.
fn decoder(
    file: &[u8],
    format: PictureFormat,
    time: DecodingTime,
) -> ImageResult<(Box<dyn ImageDecoder + '_>, bool)> {
    let reader = TimedFile::new(file, time);
    Ok(match format {
        PictureFormat::Png => {
            let decoder = PngDecoder::with_limits(reader, limits())?;
            let is_still = !decoder.is_apng()?;
            (Box::new(decoder), is_still)
        }
        PictureFormat::Jpeg => (Box::new(JpegDecoder::new(reader)?), true),
        PictureFormat::Gif => (Box::new(GifDecoder::new(reader)?), !gif::has_several_frames(file)),
        PictureFormat::WebP => {
            let decoder = WebPDecoder::new(reader)?;
            let is_still = !decoder.has_animation();
            (Box::new(decoder), is_still)
        }
    })
}

fn limits() -> Limits {
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MAX_DECODED_MIB << 20);
    limits
}

fn damaged(error: ImageError) -> PictureError {
    match error {
        ImageError::Limits(_) => PictureError::TooMuchMemory,
        ImageError::IoError(error) if error.kind() == io::ErrorKind::TimedOut => {
            PictureError::TooSlow
        }
        error => PictureError::Damaged(error.to_string()),
    }
}

/// Whether the data of a JPEG has its end. A preview before the data has one of its own.
fn has_end(file: &[u8]) -> bool {
    let last = |marker: [u8; 2]| file.windows(2).rposition(|bytes| bytes == marker);
    last([0xff, 0xda]).is_some_and(|data| last([0xff, 0xd9]).is_some_and(|end| data < end))
}

/// The picture with sides of at most `side`.
fn shrunk(image: DynamicImage, side: u32) -> DynamicImage {
    if image.width().max(image.height()) <= side {
        return image;
    }
    // A quick step first: the slow one takes 16 bytes of memory for each pixel.
    let image = if image.width().max(image.height()) > 2 * side {
        let thumbnail = image.thumbnail(2 * side, 2 * side);
        // Both of them and the slow step together would take too much memory.
        drop(image);
        thumbnail
    } else {
        image
    };
    image.resize(side, side, FilterType::Triangle)
}

/// Encodes the picture as PNG, or as JPEG where that is shorter, and scales it down until it
/// fits.
fn encode(mut image: DynamicImage) -> ImageResult<(PictureFormat, Vec<u8>, (u32, u32))> {
    loop {
        image = plain(image);
        let (format, bytes) = shortest(&image)?;
        if bytes.len() <= MAX_BYTES {
            return Ok((format, bytes, image.dimensions()));
        }
        let side = image.width().max(image.height());
        image = shrunk(image, (side * SHRINK.0 / SHRINK.1).max(1));
    }
}

fn shortest(image: &DynamicImage) -> ImageResult<(PictureFormat, Vec<u8>)> {
    let mut png = Vec::new();
    let encoder =
        PngEncoder::new_with_quality(&mut png, CompressionType::Default, PngFilter::Adaptive);
    image.write_with_encoder(encoder)?;
    if image.color().has_alpha() && png.len() <= MAX_BYTES {
        return Ok((PictureFormat::Png, png));
    }
    let mut jpeg = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut jpeg, JPEG_QUALITY);
    match image.as_rgba8() {
        Some(transparent) => on_white(transparent).write_with_encoder(encoder)?,
        None => image.write_with_encoder(encoder)?,
    }
    let is_shorter = jpeg.len() < png.len();
    Ok(if is_shorter { (PictureFormat::Jpeg, jpeg) } else { (PictureFormat::Png, png) })
}

/// The picture with 8 bits a channel, and without transparency where it has none.
fn plain(image: DynamicImage) -> DynamicImage {
    let is_transparent =
        image.color().has_alpha() && image.pixels().any(|(_, _, Rgba([.., alpha]))| alpha < 255);
    match image.color().has_color() {
        _ if is_transparent => DynamicImage::ImageRgba8(image.into_rgba8()),
        true => DynamicImage::ImageRgb8(image.into_rgb8()),
        false => DynamicImage::ImageLuma8(image.into_luma8()),
    }
}

/// JPEG has no transparency.
fn on_white(image: &RgbaImage) -> ImageBuffer<Rgb<u8>, Vec<u8>> {
    ImageBuffer::from_fn(image.width(), image.height(), |x, y| {
        let Rgba([red, green, blue, alpha]) = *image.get_pixel(x, y);
        let alpha = u16::from(alpha);
        let mixed = |channel: u8| {
            u8::try_from((u16::from(channel) * alpha + 255 * (255 - alpha)) / 255).unwrap_or(255)
        };
        Rgb([mixed(red), mixed(green), mixed(blue)])
    })
}

#[cfg(test)]
mod tests;
