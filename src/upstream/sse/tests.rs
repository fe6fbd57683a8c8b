//! Tests guard and decoder together: on any bytes, cut anywhere.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::guard::{SseGuard, SseLimits, TooLarge};
use super::*;

const CAPS: SseLimits = SseLimits { line: 8 << 20, response: 64 << 20 };

/// The payloads of a stream that came in these reads.
fn payloads<'a>(
    caps: SseLimits,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Result<String, TooLarge>> {
    let mut guard = SseGuard::new(caps);
    let mut found = Vec::new();
    for read in reads {
        guard.push(Bytes::copy_from_slice(read));
        while let Some(event) = guard.next() {
            match event {
                Ok(event) => found.extend(event.data().map(|data| Ok(data.into_owned()))),
                Err(error) => {
                    found.push(Err(error));
                    return found;
                }
            }
        }
    }
    found.extend(guard.finish().and_then(|event| Some(Ok(event.data()?.into_owned()))));
    found
}

fn check(stream: &[u8], expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|data| Ok((*data).to_owned())).collect();
    for cut in 0..=stream.len() {
        let (one, two) = stream.split_at(cut);
        assert_eq!(payloads(CAPS, [one, two]), expected, "cut at {cut}");
    }
    assert_eq!(payloads(CAPS, stream.chunks(1)), expected, "byte by byte");
}

#[test]
fn reads_every_line_end_and_their_mixtures() {
    check(b"data: a\n\ndata: b\n\n", &["a", "b"]);
    check(b"data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
    check(b"data: a\r\rdata: b\r\r", &["a", "b"]);
    check(b"data: a\r\n\ndata: b\n\r\ndata: c\r\n\rdata: d\n\r", &["a", "b", "c", "d"]);
}

#[test]
fn reads_every_form_of_a_field() {
    check(b"data:a\n\n", &["a"]);
    check(b"data:  a\n\n", &[" a"]);
    check(b"data: a\ndata: b\ndata\n\n", &["a\nb\n"]);
    check(b"event: x\nid: 1\nretry: 99999999999999999999\ndata: a\n\n", &["a"]);
    check(b"data\n\ndata:\n\n", &["", ""]);
    check(b"datax: a\n\n data: b\n\nDATA: c\n\n", &[]);
    check(b": comment\n\n:\n\ndata: a\n: more\n\n", &["a"]);
    check(b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", &["a", "b"]);
    check(b"event: ping\n\nretry: 3\n\n", &[]);
}

#[test]
fn goes_over_a_byte_order_mark() {
    check(b"\xEF\xBB\xBFdata: a\n\ndata: b\n\n", &["a", "b"]);
    check(b"\xEF\xBB\xBF\ndata: a\n\n", &["a"]);
    check(b"\xEF\xBB\xBF", &[]);
    check(b"data: a\n\n\xEF\xBB\xBFdata: b\n\ndata: \xEF\xBB\xBFc\n\n", &["a", "\u{feff}c"]);
}

#[test]
fn replaces_invalid_bytes_and_loses_no_event() {
    check(b"data: a\xFFb\n\ndata: c\n\n", &["a\u{fffd}b", "c"]);
    check(b"data: \xF0\x9F\x99\n\ndata: c\n\n", &["\u{fffd}", "c"]);
    check("data: ä€🙂\n\ndata: é\n\n".as_bytes(), &["ä€🙂", "é"]);
}

#[test]
fn closes_the_last_event_at_the_end() {
    check(b"data: a\n\ndata: [DONE]\n", &["a", "[DONE]"]);
    check(b"data: [DONE]", &["[DONE]"]);
    check(b"data: [DONE]\r", &["[DONE]"]);
    check("data: ä".as_bytes(), &["ä"]);
    check(b"", &[]);
    check(b"\n", &[]);
}

#[test]
fn a_line_and_a_response_have_their_caps() {
    let caps = SseLimits { line: 10, response: 40 };
    let stream = b"data: 6789\n\ndata: 6789A\n\n";
    let expected = [Ok("6789".to_owned()), Err(TooLarge::Line(10))];
    for cut in 0..=stream.len() {
        let (one, two) = stream.split_at(cut);
        assert_eq!(payloads(caps, [one, two]), expected, "cut at {cut}");
    }
    let stream = b"data: 6789\n\n".repeat(4);
    let third = Ok("6789".to_owned());
    let expected = [third.clone(), third.clone(), third, Err(TooLarge::Response(40))];
    for cut in 0..=stream.len() {
        let (one, two) = stream.split_at(cut);
        assert_eq!(payloads(caps, [one, two]), expected, "cut at {cut}");
    }
}

#[test]
fn a_whole_event_in_one_read_is_not_copied() {
    let read = Bytes::from_static(b"data: {\"a\":1}\n\n");
    let mut guard = SseGuard::new(CAPS);
    guard.push(read.clone());
    let event = guard.next().unwrap().unwrap();
    assert_eq!(event.bytes.as_ptr(), read.as_ptr());
    assert!(matches!(event.data(), Some(Cow::Borrowed("{\"a\":1}"))));
}

#[test]
fn an_event_of_very_many_lines_costs_no_more_than_its_length() {
    let lines = 200_000;
    let stream = [b"data: x\n".repeat(lines), b"\n".to_vec()].concat();
    let found = payloads(CAPS, stream.chunks(1000));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].as_ref().map(String::len), Ok(2 * lines - 1));
}

/// Decodes a whole stream line by line, following the wording of the standard.
fn decode_line_by_line(stream: &[u8]) -> Vec<String> {
    let stream = String::from_utf8_lossy(stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream));
    let text = stream.replace("\r\n", "\n").replace('\r', "\n") + "\n\n";
    let mut found = Vec::new();
    let mut data: Option<String> = None;
    for line in text.split('\n') {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        if line.is_empty() {
            found.extend(data.take());
        } else if field == "data" {
            data = Some(data.map_or(value.to_owned(), |data| data + "\n" + value));
        }
    }
    found
}

proptest! {
    #[test]
    fn any_bytes_in_any_reads_mean_what_the_standard_says(
        pieces in vec(select(vec![
            &b"data: "[..], b"data:", b"data", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"x",
            b"{\"a\"}", b"event: e", b"id: 1", "ä🙂".as_bytes(), b"\xFF", b"\xF0\x9F", b"\xEF\xBB\xBF",
        ]), 0..40),
        cuts in vec(0_usize..200, 0..6),
    ) {
        let stream = pieces.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let reads = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        let found: Result<Vec<_>, _> = payloads(CAPS, reads).into_iter().collect();
        prop_assert_eq!(found.unwrap(), decode_line_by_line(&stream));
    }
}
