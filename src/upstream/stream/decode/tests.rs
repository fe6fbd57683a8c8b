//! Tests guard, decoder and assembler together on recorded and written streams, cut at every
//! place.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::upstream::assemble::{Assembler, End};

const CAPS: SseLimits = SseLimits { line: 8 << 20, response: 64 << 20 };

/// All that a stream says, in words: its events, the steps of its calls, and the calls in the
/// end.
fn heard<'a>(reads: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = Decoder::new(CAPS);
    let mut assembler = Assembler::new(|name| !name.is_empty());
    let mut heard = Vec::new();
    let mut is_over = false;
    for read in reads {
        decoder.push(Bytes::copy_from_slice(read));
        is_over |= hear(&mut decoder, &mut assembler, &mut heard);
        if is_over {
            break;
        }
    }
    if !is_over {
        decoder.finish();
        hear(&mut decoder, &mut assembler, &mut heard);
    }
    heard.push(format!("{:?}", assembler.finish(End::Finished)));
    for call in assembler.calls() {
        heard.push(format!("{:?} {} {}", call.name, call.arguments, call.is_sealed()));
    }
    heard
}

/// Writes down the events that can be decoded. Returns true after the last one of the stream.
fn hear(decoder: &mut Decoder, assembler: &mut Assembler, heard: &mut Vec<String>) -> bool {
    while let Some(event) = decoder.next() {
        heard.push(format!("{event:?}"));
        let Ok(StreamEvent::Chunk(chunk)) = event else { return true };
        heard.push(format!("{:?}", assembler.push(&chunk.delta.tool_calls)));
    }
    false
}

fn last(stream: &[u8]) -> Result<StreamEvent, Fault> {
    let mut decoder = Decoder::new(CAPS);
    decoder.push(Bytes::copy_from_slice(stream));
    decoder.finish();
    loop {
        match decoder.next().expect("an end") {
            Ok(StreamEvent::Chunk(_)) => {}
            end => return end,
        }
    }
}

fn recorded() -> BTreeMap<String, Vec<u8>> {
    let streams = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams");
    let paths = std::fs::read_dir(streams).unwrap().map(|file| file.unwrap().path());
    let sse = paths.filter(|path| path.extension().is_some_and(|end| end == "sse"));
    sse.map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect()
}

/// The places to cut: every byte of a short stream; of a long one every seventh, and each byte
/// within a character.
fn cuts(stream: &[u8]) -> impl Iterator<Item = usize> {
    let is_inside = |at: usize| stream.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (0..=stream.len()).filter(move |at| stream.len() <= 8 << 10 || at % 7 == 0 || is_inside(*at))
}

fn check_cuts(name: &str, stream: &[u8]) {
    let expected = heard([stream]);
    for cut in cuts(stream) {
        let (one, two) = stream.split_at(cut);
        assert_eq!(heard([one, two]), expected, "{name} cut at {cut}");
    }
}

/// Checks the cuts of a long stream in linear time. A cut within an event must lead to the same
/// state of decoder and assembler after that event, and so cannot change anything later.
fn check_cuts_event_by_event(name: &str, stream: &[u8]) {
    let mut before = State::new();
    let mut at = 0;
    for event in String::from_utf8_lossy(stream).split_inclusive("\n\n") {
        let bytes = &stream[at..at + event.len()];
        let mut after = before.clone();
        let expected = after.take([bytes]);
        let decoder = format!("{:?}", after.decoder);
        for cut in cuts(stream).filter(|cut| (at..=at + event.len()).contains(cut)) {
            let mut state = before.clone();
            let (one, two) = bytes.split_at(cut - at);
            assert_eq!(state.take([one, two]), expected, "{name} cut at {cut}");
            assert_eq!(format!("{:?}", state.decoder), decoder, "{name} cut at {cut}");
            assert_eq!(state.calls(), after.calls(), "{name} cut at {cut}");
        }
        before = after;
        at += event.len();
    }
}

/// A decoder and an assembler in the middle of a stream.
#[derive(Clone)]
struct State {
    decoder: Decoder,
    assembler: Assembler,
}

impl State {
    fn new() -> Self {
        Self { decoder: Decoder::new(CAPS), assembler: Assembler::new(|name| !name.is_empty()) }
    }

    /// What these reads bring: the events, and the steps that they cause.
    fn take<'a>(&mut self, reads: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut heard = Vec::new();
        for read in reads {
            self.decoder.push(Bytes::copy_from_slice(read));
            if hear(&mut self.decoder, &mut self.assembler, &mut heard) {
                break;
            }
        }
        heard
    }

    /// What is known of the calls so far, without ids that were made up.
    fn calls(&self) -> Vec<String> {
        const MADE_UP: usize = "call_".len() + 32;
        let calls = self.assembler.calls().iter().map(|call| {
            let mut call = call.clone();
            if call.id.starts_with("call_") && call.id.len() == MADE_UP {
                call.id.clear();
            }
            format!("{call:?}")
        });
        calls.collect()
    }
}

#[test]
fn every_recorded_stream_says_the_same_however_it_is_cut() {
    let streams = recorded();
    assert!(streams.len() > 60, "{} recorded streams", streams.len());
    for (name, stream) in streams {
        check_cuts_event_by_event(&name, &stream);
    }
}

const OWN: [&str; 6] = [
    "data: {\"choices\":[{\"delta\":{\"content\":\"ä€🙂 grüß 日本\"}}]}\n\n\
     data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"👩‍👩‍👧\"},\"finish_reason\":\"stop\"}]}\n\n\
     data: [DONE]\n\n",
    "\u{feff}: hello\r\n\r\nevent: x\r\ndata:{\"choices\":\r\ndata:[],\"usage\":{\"prompt_tokens\":1}}\r\n\r\n\
     data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"é\",\"function\":{\"name\":\"Read\",\
     \"arguments\":\"{\\\"p\\\":\\\"日本🙂\\\"}{\\\"p\\\":2}\"}}]},\"finish_reason\":\"tool_calls\"}]}\r\n\r\ndata: [DONE]",
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\rdata: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d\"}}]}\r\r\
     data: {\"error\":{\"message\":\"日本\",\"code\":\"None\"}}\r\r",
    "  \n{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"ä🙂\",\"tool_calls\":[\
     {\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"Read\",\"arguments\":\"{}\"}},\
     {\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"Grep\",\"arguments\":{\"x\":\"ß\"}}}]},\
     \"finish_reason\":\"tool_calls\"}]}\n",
    "\u{feff}<!doctype html><title>Grüße 🙂</title>",
    "data: {\"choices\":[{\"delta\":{\"content\":\"ä\"}}]}\n\ndata: {\"choices\":[{\"del🙂",
];

#[test]
fn our_own_streams_say_the_same_however_they_are_cut() {
    for stream in OWN {
        check_cuts(stream, stream.as_bytes());
    }
}

proptest! {
    #[test]
    fn a_stream_in_many_reads_says_the_same(number in 0..OWN.len(), cuts in vec(0_usize..600, 0..8)) {
        let stream = OWN[number].as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let reads = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        prop_assert_eq!(heard(reads), heard([stream]));
    }
}

#[test]
fn u18_an_end_after_finish_reason_is_an_end() {
    let finished = b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    assert!(matches!(last(finished), Ok(StreamEvent::End)));
}

#[test]
fn u17_an_end_before_finish_reason_is_a_death() {
    let open = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    assert!(matches!(last(open), Err(Fault::Died(_))));
    assert!(matches!(last(b""), Err(Fault::Died(_))));
    assert!(matches!(last(b": ping\n\n"), Err(Fault::Died(_))));
    assert!(matches!(last(b"data: {\"choices\":[{\"de"), Err(Fault::Died(_))));
}

#[test]
fn u14_garbage_is_a_protocol_error() {
    assert!(matches!(last(b"data: {\"choices\"\n\ndata: [DONE]\n\n"), Err(Fault::Protocol(_))));
    assert!(matches!(last(b"data: nonsense\n\n"), Err(Fault::Protocol(_))));
}

#[test]
fn u16_an_error_frame_is_a_fault() {
    let stream = b"data: {\"error\":{\"message\":\"m\",\"code\":\"500\"}}\n\n";
    assert!(matches!(last(stream), Err(Fault::Frame(error)) if error.message == "m"));
    let whole = b"{\"error\":{\"message\":\"m\"}}";
    assert!(matches!(last(whole), Err(Fault::Frame(error)) if error.message == "m"));
}

#[test]
fn u21_what_follows_done_is_ignored() {
    let heard = heard([&b"data: [DONE]\n\ndata: nonsense\n\n"[..]]);
    assert_eq!(heard, ["Ok(Done)", "[]"]);
}

#[test]
fn after_the_last_event_there_is_only_the_end() {
    let mut decoder = Decoder::new(CAPS);
    decoder.push(Bytes::from_static(b"data: [DONE]\n\n"));
    assert!(matches!(decoder.next(), Some(Ok(StreamEvent::Done))));
    assert!(matches!(decoder.next(), Some(Ok(StreamEvent::End))));
    decoder.push(Bytes::from_static(b"data: more\n\n"));
    assert!(matches!(decoder.next(), Some(Ok(StreamEvent::End))));
}

#[test]
fn empty_payloads_and_comments_are_nothing() {
    let mut decoder = Decoder::new(CAPS);
    decoder.push(Bytes::from_static(b": ping\n\ndata:\n\ndata:  \n\n"));
    assert!(decoder.next().is_none());
}

#[test]
fn u22_what_brings_nothing_is_read_over_and_no_end() {
    let mut decoder = Decoder::new(CAPS);
    let nothing = b"data: {\"type\":\"ping\"}\n\ndata: {\"choices\":null}\n\ndata: {}\n\n";
    decoder.push(Bytes::copy_from_slice(nothing));
    assert!(decoder.next().is_none());
    assert!(matches!(last(nothing), Err(Fault::Died(_))));
    assert!(matches!(last(b"{\"type\":\"ping\"}"), Err(Fault::NotACompletion(_))));
}

#[test]
fn words_that_nothing_of_an_answer_follows_are_a_failure_unless_it_was_whole() {
    let text = r#"data: {"choices":[{"delta":{"content":"a"}}]}"#;
    let words = r#"data: {"message":"Internal Server Error"}"#;
    let end = r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let ended = |events: &[&str]| last((events.join("\n\n") + "\n\n").as_bytes());
    assert!(matches!(ended(&[text, words, "data: [DONE]"]), Err(Fault::Frame(_))));
    assert!(matches!(ended(&[words, text, "data: [DONE]"]), Ok(StreamEvent::Done)));
    assert!(matches!(ended(&[text, end, words, "data: [DONE]"]), Ok(StreamEvent::Done)));
    assert!(matches!(ended(&[text, words]), Err(Fault::Died(_))));
}

#[test]
fn an_object_without_a_field_is_read_where_it_tells_an_error() {
    let text = r#"data: {"choices":[{"delta":{"content":"a"}}]}"#;
    for (line, is_error) in [
        (r#"{"error":{"message":"gone"}}"#, true),
        (r#"{"object":"error","message":"gone"}"#, true),
        ("Error: gone", true),
        ("event: failure\ndata: gone", true),
        ("event: Request_Failed\ndata: {}", true),
        (r#"{"type":"ping"}"#, false),
        ("{", false),
    ] {
        let ended = last(format!("{text}\n\n{line}\n\ndata: [DONE]\n\n").as_bytes());
        assert_eq!(matches!(ended, Err(Fault::Frame(_))), is_error, "{line}: {ended:?}");
    }
}

#[test]
fn a_word_of_failure_is_an_error_frame_streamed_or_whole() {
    let choice = r#"{"choices":[{"message":{"content":"half"},"finish_reason":"Error"}]}"#;
    assert!(matches!(last(choice.as_bytes()), Err(Fault::Frame(_))));
    assert!(matches!(last(format!("data: {choice}\n\n").as_bytes()), Err(Fault::Frame(_))));
}

#[test]
fn u9_html_and_json_of_another_kind_are_no_completion() {
    let excerpt = |stream: &[u8]| match last(stream) {
        Err(Fault::NotACompletion(excerpt)) => excerpt,
        other => panic!("{other:?}"),
    };
    assert_eq!(excerpt(b"<html>hello</html>"), "<html>hello</html>");
    assert_eq!(excerpt(&b"<x>".repeat(1000)).len(), MAX_EXCERPT);
    assert_eq!(excerpt(b"{\"data\":[]}"), "{\"data\":[]}");
}

#[test]
fn u40_json_that_ends_too_early_has_died_and_what_is_no_json_is_garbage() {
    for cut in ["{", "{\"broken", "{\"choices\":[{\"message\":{\"content\":\"a\\"] {
        assert!(matches!(last(cut.as_bytes()), Err(Fault::Died(_))), "{cut}");
    }
    for garbage in ["{broken}", "{\"a\":NaN}", "{}{}", "{\"choices\":7}"] {
        assert!(matches!(last(garbage.as_bytes()), Err(Fault::Protocol(_))), "{garbage}");
    }
}

#[test]
fn u13_too_much_is_a_fault() {
    let caps = SseLimits { line: 20, response: 100 };
    let fault = |stream: &[u8]| {
        let mut decoder = Decoder::new(caps);
        decoder.push(Bytes::copy_from_slice(stream));
        decoder.next().unwrap().unwrap_err()
    };
    assert_eq!(fault(&b"data: 123456789012345"[..]), Fault::TooLarge(TooLarge::Line(20)));
    assert_eq!(fault(&b": ping\n\n".repeat(20)), Fault::TooLarge(TooLarge::Response(100)));
    assert_eq!(
        fault(&[b"{".to_vec(), vec![b' '; 100]].concat()),
        Fault::TooLarge(TooLarge::Response(100))
    );
}
