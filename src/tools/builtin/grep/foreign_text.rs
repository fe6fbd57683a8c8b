//! Decodes files that are not UTF-8, in the encoding in which Read shows them.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use super::file_bytes::Interruptible;
use crate::encoding::{DeclaredEncoding, Encoding, Newline};
use crate::files::Files;
use crate::sync;
use crate::tools::agent_context::AgentContext;
use crate::tools::walk::Bounds;

/// Bytes of the largest file whose encoding is sought: it takes all of the file.
const MAX_BYTES: u64 = 64 << 20;

/// Of larger files only one is held in memory at a time, whatever the number of threads.
const LARGE_BYTES: u64 = 4 << 20;

/// Bytes that are decoded at a time.
const PIECE: usize = 32 << 10;

/// Bytes at the beginning of a file with NUL bytes that tell what it is.
const SAMPLE_BYTES: usize = 8 << 10;

/// One NUL in so many bytes is a slip in a text. Binary data has more.
const BYTES_PER_NUL: usize = 100;

static LARGE: Mutex<()> = Mutex::new(());

/// Knows the encodings that somebody has named for files.
#[derive(Debug)]
pub(super) struct NamedEncodings {
    pub(super) files: Arc<Files>,
    pub(super) agent: Arc<AgentContext>,
}

impl NamedEncodings {
    fn of(&self, real_path: &Path) -> Option<DeclaredEncoding> {
        self.files.declared_encoding(real_path, &self.agent.read_state)
    }
}

/// What a file turns out to be that is not UTF-8.
pub(super) enum ForeignText<'a> {
    /// A text in this encoding.
    Text(Encoding, TextSource<'a>),
    /// It is searched as bytes.
    Bytes,
    /// It is searched as bytes since it is too large.
    TooLarge,
}

/// The bytes of a text behind its byte order mark.
pub(super) enum TextSource<'a> {
    Whole {
        bytes: Vec<u8>,
        _turn: Option<MutexGuard<'static, ()>>,
    },
    /// A file that is decoded as it is read.
    File {
        bytes: Interruptible<'a>,
        ends_at_returns: bool,
    },
}

/// A file to search.
#[derive(Clone, Copy)]
pub(super) struct SearchedFile<'a> {
    pub(super) file: &'a File,
    /// Zero where it is not known.
    pub(super) length: u64,
    pub(super) bounds: &'a Bounds,
    /// The path below the searched directory.
    pub(super) relative: &'a Path,
    pub(super) real_path: &'a Path,
    /// Whether `\r` stays as it is where it ends the lines.
    pub(super) keeps_returns: bool,
}

impl<'a> SearchedFile<'a> {
    pub(super) fn bytes(&self) -> Interruptible<'a> {
        let bytes = Interruptible::new(self.file, self.length, self.bounds);
        if self.keeps_returns { bytes.with_returns() } else { bytes }
    }

    /// Finds the encoding of a file that is not UTF-8.
    pub(super) fn foreign_text(&self, named: &NamedEncodings) -> io::Result<ForeignText<'a>> {
        let mut mark = [0; 3];
        let read = self.file.read_at(&mut mark, 0)?;
        if let Some(encoding) = Encoding::by_mark(&mark[..read]) {
            let behind = || self.bytes().behind_mark(encoding.mark());
            // In UTF-16 only decoded text shows its line ends.
            let ends_at_returns =
                !self.keeps_returns && !DecodingReader::new(behind(), encoding).has_feed()?;
            let source = TextSource::File { bytes: behind(), ends_at_returns };
            return Ok(ForeignText::Text(encoding, source));
        }
        if self.length > MAX_BYTES {
            return Ok(ForeignText::TooLarge);
        }
        let turn = (self.length > LARGE_BYTES).then(|| sync::lock(&LARGE));
        let mut bytes = Vec::new();
        self.bytes().take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Ok(ForeignText::TooLarge);
        }
        Ok(match Encoding::recognise_declared(&bytes, true, named.of(self.real_path)) {
            // A few bytes of it are broken.
            Ok(encoding) if encoding.is_utf_8() => ForeignText::Bytes,
            Ok(encoding) => ForeignText::Text(encoding, TextSource::Whole { bytes, _turn: turn }),
            Err(_) => ForeignText::Bytes,
        })
    }

    /// Looks at a file with NUL bytes.
    pub(super) fn with_nul(&self) -> WithNul {
        let mut sample = vec![0; SAMPLE_BYTES];
        let read = self.file.read_at(&mut sample, 0).unwrap_or(0);
        sample.truncate(read);
        let is_whole = read < SAMPLE_BYTES;
        if Encoding::recognise(&sample, is_whole).is_ok_and(|it| it.newline() != Newline::Byte) {
            return WithNul::Utf16;
        }
        let text: Vec<u8> = sample.iter().copied().filter(|byte| *byte != 0).collect();
        let nuls = sample.len() - text.len();
        // It may have only one byte, and that is a NUL.
        let is_rare = nuls <= 1 + sample.len() / BYTES_PER_NUL;
        let is_text = !text.is_empty() && Encoding::recognise(&text, is_whole).is_ok();
        if is_rare && is_text { WithNul::Text } else { WithNul::Binary }
    }
}

/// What a file with NUL bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithNul {
    /// Text in UTF-16 without a byte order mark.
    Utf16,
    /// Text, but for a few NUL bytes.
    Text,
    Binary,
}

/// Reads a text in UTF-8 that is in another encoding.
pub(super) struct DecodingReader<R> {
    source: R,
    decoder: encoding_rs::Decoder,
    bytes: Vec<u8>,
    text: String,
    /// How much of the text was passed on.
    passed: usize,
    has_ended: bool,
    /// Whether each `\r` becomes a `\n`.
    ends_at_returns: bool,
}

impl<R: Read> DecodingReader<R> {
    /// `source` begins behind the byte order mark.
    pub(super) fn new(source: R, encoding: Encoding) -> Self {
        Self {
            source,
            decoder: encoding.decoder(),
            bytes: vec![0; PIECE],
            text: String::new(),
            passed: 0,
            has_ended: false,
            ends_at_returns: false,
        }
    }

    /// Puts a `\n` at the end of each line of a text that has none.
    pub(super) fn ending_at_returns(self, ends_at_returns: bool) -> Self {
        Self { ends_at_returns, ..self }
    }

    /// Whether there is a `\n`. Reads up to the first one.
    fn has_feed(mut self) -> io::Result<bool> {
        while !self.has_ended {
            self.decode_more()?;
            if self.text.contains('\n') {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn decode_more(&mut self) -> io::Result<()> {
        let read = self.source.read(&mut self.bytes)?;
        self.has_ended = read == 0;
        self.text.clear();
        self.passed = 0;
        let room = self.decoder.max_utf8_buffer_length(read).unwrap_or(PIECE * 4);
        self.text.reserve(room);
        // With room for the most that can come, all bytes are taken.
        _ = self.decoder.decode_to_string(&self.bytes[..read], &mut self.text, self.has_ended);
        if self.ends_at_returns && self.text.contains('\r') {
            self.text = self.text.replace('\r', "\n");
        }
        Ok(())
    }
}

impl<R: Read> Read for DecodingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.passed == self.text.len() {
            if self.has_ended {
                return Ok(0);
            }
            self.decode_more()?;
        }
        let mut rest = &self.text.as_bytes()[self.passed..];
        let read = rest.read(buffer)?;
        self.passed += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_23_a_text_is_decoded_across_the_borders_of_pieces() {
        let text = "字符 déjà ".repeat(9_000);
        for encoding in [encoding_rs::GBK, encoding_rs::SHIFT_JIS, encoding_rs::EUC_JP] {
            let is_in = |c: &char| !encoding.encode(c.encode_utf8(&mut [0; 4])).2;
            let text: String = text.chars().filter(is_in).collect();
            let (bytes, _, _) = encoding.encode(&text);
            let declared = DeclaredEncoding::parse(encoding.name());
            let encoding = Encoding::recognise_declared(&bytes, true, declared).unwrap();
            let mut decoded = String::new();
            DecodingReader::new(&bytes[..], encoding).read_to_string(&mut decoded).unwrap();
            assert!(decoded == text, "{}", encoding.name());
        }
    }
}
