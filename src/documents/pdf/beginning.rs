//! Recognises a PDF file by its first bytes. Pure.

use memchr::memmem;

use crate::text::BYTE_ORDER_MARK;

/// How a PDF file begins, in front of its version.
const MARK: &[u8] = b"%PDF-";

/// How far behind the beginning of a file the mark may be: ISO 32000 leaves it open, and readers
/// look at so many bytes.
const MAX_FRONT: usize = 1024;

/// The bytes of a file that tell whether it is a PDF file.
pub(crate) const FIRST_BYTES: usize = 4 * MAX_FRONT;

/// Whether a file that begins so is a PDF file. What stands in front of the mark is no part of it:
/// blanks, a byte order mark, the headers of a message, or binary data. A text that has the mark in
/// it stays a text.
pub(crate) fn is_document(first: &[u8]) -> bool {
    if is_archive(first) {
        return false;
    }
    let behind = offset(first).is_some_and(|at| {
        let (front, document) = first.split_at(at);
        front.is_empty()
            || ((is_blank(front) || are_headers(front)) && has_object(document))
            || has_binary_mark(document)
            || is_binary(front, document)
    });
    behind || is_of_postscript(first)
}

/// Whether it is an archive, whose first file may be a PDF file.
fn is_archive(first: &[u8]) -> bool {
    const TAR_MARK_AT: usize = 257;
    let is_tar = first.get(TAR_MARK_AT..).is_some_and(|rest| rest.starts_with(b"ustar"));
    is_tar || first.starts_with(b"PK\x03\x04")
}

/// Whether the file begins as the first PDF files did: `%!PS-Adobe-3.0 PDF-1.2`.
fn is_of_postscript(first: &[u8]) -> bool {
    let line = first.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    line.starts_with(b"%!PS-Adobe-") && memmem::find(line, b" PDF-").is_some()
}

/// Where the mark with a version is.
pub(super) fn offset(first: &[u8]) -> Option<usize> {
    let first = &first[..first.len().min(MAX_FRONT + MARK.len() + 1)];
    let has_version = |at: &usize| first.get(at + MARK.len()).is_some_and(u8::is_ascii_digit);
    memmem::find_iter(first, MARK).find(has_version)
}

fn is_blank(front: &[u8]) -> bool {
    let front = front.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(front);
    front.iter().all(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
}

/// Whether an object begins behind the mark: the line may as well be one of a text about PDF files.
fn has_object(document: &[u8]) -> bool {
    let is_numbered = |at: usize| document[..at].last().is_some_and(u8::is_ascii_digit);
    memmem::find_iter(document, b" obj").any(is_numbered)
}

/// Whether behind the mark stands the comment by which programs see that the file is binary: bytes
/// that are not ASCII.
fn has_binary_mark(document: &[u8]) -> bool {
    let mut lines = document.splitn(3, |byte| matches!(byte, b'\r' | b'\n'));
    let comment = lines
        .nth(1)
        .filter(|line| !line.is_empty())
        .or_else(|| document.split(|byte| matches!(byte, b'\r' | b'\n')).nth(2));
    let rest = comment.and_then(|line| line.strip_prefix(b"%")).unwrap_or_default();
    rest.len() >= 4 && rest[..4].iter().all(|byte| !byte.is_ascii())
}

/// Whether these are the headers of HTTP or of mail, with the empty line behind them.
fn are_headers(front: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(front) else { return false };
    let is_header = |line: &str| {
        let name = line.split_once(':').map_or("", |(name, _)| name);
        let is_named = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        is_named || line.starts_with([' ', '\t'])
    };
    let mut lines = text.trim_start().lines().peekable();
    // Or the border between the parts of a message.
    lines.next_if(|line| line.starts_with("HTTP/") || line.starts_with("--"));
    let is_ended = text.ends_with("\n\n") || text.ends_with("\r\n\r\n");
    is_ended && lines.take_while(|line| !line.is_empty()).all(is_header)
}

/// Whether the mark begins a line among bytes that are no text.
fn is_binary(front: &[u8], document: &[u8]) -> bool {
    let is_text = |bytes: &[u8]| {
        let is_utf_8 =
            str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true);
        let is_control = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
        is_utf_8 && !bytes.iter().any(is_control)
    };
    let begins_line = !matches!(front.last(), Some(b' '..=b'~' | b'\t'));
    !is_text(front) || (begins_line && !is_text(document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_17c_bytes_in_front_of_the_mark_are_allowed() {
        let binary = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n";
        let plain = b"%PDF-1.4\n1 0 obj\n";
        let with = |front: &[u8], document: &[u8]| is_document(&[front, document].concat());
        for front in [
            &b""[..],
            b"\n",
            b"\r\n \t\0",
            b"\xef\xbb\xbf",
            b"\xef\xbb\xbf\n",
            b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n",
            b"Content-Type: application/pdf\nContent-Disposition: attachment;\n filename=a.pdf\n\n",
            &[b'\n'; 1024],
            b"\0\x01junk\xff",
            b"--70097268-67dc\nContent-Disposition: form-data; name=a; filename=a.pdf\n\n",
        ] {
            assert!(with(front, plain) && with(front, binary), "{front:?}");
        }
        for front in [&b"a line of text\n"[..], b"PKabcd\xc3\xa23454"] {
            assert!(with(front, binary) && !with(front, plain), "{front:?}");
        }
        assert!(with(b"%!PS-Adobe-3.0 PDF-1.2\n1 0 obj\n", b""));
        assert!(!with(&[b'\n'; 1025], binary), "too late");
        let tar = [&b"a.pdf"[..], &[0; 252], b"ustar\0", &[0; 249]].concat();
        for archive in [&b"PK\x03\x04\x14"[..], &tar] {
            assert!(!with(archive, binary) && !with(archive, plain));
        }
    }

    #[test]
    fn files_17c_a_text_that_has_the_mark_stays_a_text() {
        for text in [
            "const MAGIC: &[u8] = b\"%PDF-1.7\";\n",
            "# PDF\n\n%PDF-1.4 begins such a file, \u{fc}ber alles\n",
            "cat >a.pdf <<EOF\n%PDF-1.4\n%%EOF\nEOF\n",
            "Note: see\n%PDF-1.4\n",
            "\n\n%PDF-1.7 is how such a file begins\n",
            "Subject: an object\n\n%PDF-1.4 is all that I see of the object\n",
            "HTTP/1.1 200 OK\r\nX: y\r\n\r\n%PDF-1.4\r\n",
            "%PDF-x\n",
            "",
        ] {
            assert!(!is_document(text.as_bytes()), "{text}");
        }
    }
}
