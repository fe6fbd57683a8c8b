//! Bounds what decoding takes: the time of one call, and the memory of all that decode at once.

use std::io::{self, BufRead, Cursor, Read, Seek, SeekFrom};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use image::{ColorType, ImageDecoder};

use super::{MAX_DECODED_MIB, MAX_SIDE, PictureError};
use crate::sync;
use crate::tools::tool::PictureFormat;

/// How long the pictures of one call may take together.
pub(super) const MAX_SECONDS: u64 = 10;

/// What a pixel takes at most on a machine of today, with scaling. A picture that would take
/// longer than is left is not begun, since most decoders cannot be stopped.
const NANOSECONDS_OF_A_PIXEL: u64 = 50;

/// The memory of all decoders.
static MEMORY: DecodingMemory = DecodingMemory::new(MAX_DECODED_MIB << 20);

/// The time that the pictures of one call have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodingTime {
    start: Instant,
    limit: Duration,
}

impl DecodingTime {
    /// Begins now.
    pub(crate) fn of_a_call() -> Self {
        Self::with_limit(Duration::from_secs(MAX_SECONDS))
    }

    #[expect(clippy::disallowed_methods, reason = "bounds work in threads that run no async code")]
    pub(super) fn with_limit(limit: Duration) -> Self {
        Self { start: Instant::now(), limit }
    }

    fn left(self) -> Duration {
        self.limit.saturating_sub(self.start.elapsed())
    }

    /// Fails where a picture of so many pixels would take longer than is left.
    pub(super) fn check(self, pixels: u64) -> Result<(), PictureError> {
        let needed = Duration::from_nanos(pixels.saturating_mul(NANOSECONDS_OF_A_PIXEL));
        let left = self.left();
        if left.is_zero() || left < needed { Err(PictureError::TooSlow) } else { Ok(()) }
    }
}

/// A file that cannot be read any more when the time is over.
pub(super) struct TimedFile<'a> {
    file: Cursor<&'a [u8]>,
    time: DecodingTime,
}

impl<'a> TimedFile<'a> {
    pub(super) fn new(file: &'a [u8], time: DecodingTime) -> Self {
        Self { file: Cursor::new(file), time }
    }

    fn check(&self) -> io::Result<()> {
        self.time.check(0).map_err(|error| io::Error::new(io::ErrorKind::TimedOut, error))
    }
}

impl Read for TimedFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        self.file.read(buffer)
    }
}

impl BufRead for TimedFile<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.check()?;
        self.file.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.file.consume(amount);
    }
}

impl Seek for TimedFile<'_> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

/// Bytes that decoders share.
#[derive(Debug)]
struct DecodingMemory {
    most: u64,
    taken: Mutex<u64>,
    given_back: Condvar,
}

/// The bytes that one decoder holds. They are given back on drop.
#[derive(Debug)]
pub(super) struct HeldMemory<'a> {
    memory: &'a DecodingMemory,
    bytes: u64,
}

/// Waits until the bytes are free, as long as there is time.
pub(super) fn hold(bytes: u64, time: DecodingTime) -> Result<HeldMemory<'static>, PictureError> {
    MEMORY.hold(bytes, time)
}

impl DecodingMemory {
    const fn new(most: u64) -> Self {
        Self { most, taken: Mutex::new(0), given_back: Condvar::new() }
    }

    fn hold(&self, bytes: u64, time: DecodingTime) -> Result<HeldMemory<'_>, PictureError> {
        if self.most < bytes {
            return Err(PictureError::TooMuchMemory);
        }
        let taken = sync::lock(&self.taken);
        let is_full = |taken: &mut u64| self.most < *taken + bytes;
        let waited = self.given_back.wait_timeout_while(taken, time.left(), is_full);
        let (mut taken, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        if is_full(&mut taken) {
            return Err(PictureError::Busy);
        }
        *taken += bytes;
        Ok(HeldMemory { memory: self, bytes })
    }
}

impl Drop for HeldMemory<'_> {
    fn drop(&mut self) {
        *sync::lock(&self.memory.taken) -= self.bytes;
        self.memory.given_back.notify_all();
    }
}

/// The most bytes that decoding and scaling take at once.
pub(super) fn estimate(decoder: &dyn ImageDecoder, file: &[u8], format: PictureFormat) -> u64 {
    let (width, height) = decoder.dimensions();
    let (width, height) = (u64::from(width), u64::from(height));
    let color = decoder.color_type();
    let whole = decoded_bytes(width * height, color, file, format);
    let [thumbnail, step] = scaled_bytes(width, height, color);
    (whole + thumbnail).max(thumbnail + step).saturating_add(file.len() as u64)
}

fn decoded_bytes(pixels: u64, color: ColorType, file: &[u8], format: PictureFormat) -> u64 {
    let total = pixels.saturating_mul(u64::from(color.bytes_per_pixel()));
    match format {
        // All coefficients are kept until the last scan, in two bytes for each channel.
        PictureFormat::Jpeg if is_progressive(file) => {
            total.saturating_add(total.saturating_mul(2))
        }
        PictureFormat::Png | PictureFormat::Jpeg => total,
        // The frame, and the picture that it is put into.
        PictureFormat::Gif | PictureFormat::WebP => total.saturating_mul(2),
    }
}

/// The thumbnail, and the four floats of each pixel of the step between both directions.
fn scaled_bytes(width: u64, height: u64, color: ColorType) -> [u64; 2] {
    let side = u64::from(MAX_SIDE);
    if width.max(height) <= side {
        return [0, 0];
    }
    let (width, height) = (width.min(2 * side), height.min(2 * side));
    let thumbnail = width * height * u64::from(color.bytes_per_pixel());
    [thumbnail, width * height.min(side) * 16]
}

/// Whether a frame of a JPEG comes in several scans.
fn is_progressive(file: &[u8]) -> bool {
    file.windows(2).any(|marker| matches!(marker, [0xff, 0xc2 | 0xc6 | 0xca | 0xce]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn p22_decoders_share_their_memory_and_wait_for_it() {
        let memory = DecodingMemory::new(100);
        let long = DecodingTime::with_limit(LONG);
        let over = DecodingTime::with_limit(Duration::ZERO);
        assert!(matches!(memory.hold(101, long), Err(PictureError::TooMuchMemory)));
        let first = memory.hold(60, long).unwrap();
        assert!(matches!(memory.hold(60, over), Err(PictureError::Busy)));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| memory.hold(60, long).is_ok());
            drop(first);
            assert!(second.join().unwrap());
        });
        assert_eq!(*sync::lock(&memory.taken), 0);
    }

    #[test]
    fn p22_six_large_pictures_never_hold_more_than_the_limit() {
        let memory = DecodingMemory::new(MAX_DECODED_MIB << 20);
        let bytes = decoded_bytes(99_000_000, ColorType::Rgb8, &[], PictureFormat::Png);
        let most = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let held = memory.hold(bytes, DecodingTime::with_limit(LONG)).unwrap();
                    let taken = *sync::lock(&memory.taken);
                    let mut most = sync::lock(&most);
                    *most = taken.max(*most);
                    drop(held);
                });
            }
        });
        assert_eq!(*sync::lock(&most), bytes, "one after the other");
    }

    #[test]
    fn p22_of_a_notebook_no_picture_is_begun_that_would_take_longer_than_is_left() {
        let time = DecodingTime::with_limit(LONG);
        assert!(time.check(99_000_000).is_ok());
        let short = DecodingTime::with_limit(Duration::from_secs(2));
        assert!(matches!(short.check(99_000_000), Err(PictureError::TooSlow)));
        assert!(short.check(1_000_000).is_ok());
        let largest = 100_000_000 * NANOSECONDS_OF_A_PIXEL;
        assert!(largest < MAX_SECONDS * 1_000_000_000, "one of the largest has time alone");
    }

    #[test]
    fn p22_a_progressive_jpeg_is_estimated_with_its_coefficients() {
        let progressive = [0xff, 0xd8, 0xff, 0xc2];
        let plain = [0xff, 0xd8, 0xff, 0xc0];
        let bytes = |file| decoded_bytes(1_000_000, ColorType::Rgb8, file, PictureFormat::Jpeg);
        assert_eq!((bytes(&plain), bytes(&progressive)), (3_000_000, 9_000_000));
    }
}
