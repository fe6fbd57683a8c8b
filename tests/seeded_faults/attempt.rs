//! Generates what upstream does to one request of a conversation: the bytes, and what they
//! amount to.

use std::time::Duration;

use super::answer::{Answer, End, Means, Said};
use super::refusals::Refusal;
use crate::support::faults::{Step, answer, framed, head};
use crate::support::seeded::SeededRandom;

/// From this request on, upstream behaves.
const PATIENCE: u64 = 7;

/// Upstream's answer to one request.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) steps: Vec<Step>,
    pub(super) fate: Fate,
    /// Whether exclusive calls may start before the stream ends.
    pub(super) starts_sealed: bool,
}

/// What an answer amounts to.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    Refused { code: &'static str, again: bool },
    Said(Said),
}

/// The name of the model that a seed's conversation asks for.
pub(super) fn model(seed: u64) -> String {
    if starts_sealed(seed) { format!("claude-{seed}") } else { format!("seed-{seed}") }
}

pub(super) fn seed_of(model: &str) -> u64 {
    let (_, seed) = model.rsplit_once('-').expect("a model of ours");
    seed.parse().expect("a seed")
}

/// Whether the seed's model has the name of a family that finishes one call before it begins
/// the next.
fn starts_sealed(seed: u64) -> bool {
    seed.is_multiple_of(4)
}

impl Attempt {
    /// The answer to request `number` of the conversation, counted from 0.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let mut dice = SeededRandom::new(seed, number);
        let dice = &mut dice;
        let starts_sealed = starts_sealed(seed);
        let refused = |refusal: Refusal| Self {
            fate: Fate::Refused { code: refusal.code, again: refusal.again },
            steps: refusal.steps,
            starts_sealed,
        };
        let luck = dice.below(100);
        let behaves = number >= PATIENCE;
        if !behaves && luck < 12 {
            return refused(Refusal::new(dice));
        }
        if !behaves && luck < 22 {
            return refused(Refusal::before_the_head(dice));
        }
        let mut said = Answer::new(dice, &format!("s{seed}a{number}"), !behaves, starts_sealed);
        let (steps, fate) = match luck {
            _ if behaves => {
                said.finish("stop");
                said.done();
                Stream::new(dice, &said).whole(dice, &said)
            }
            22..30 => {
                said.lose_the_tail(dice);
                said.end(dice);
                Stream::new(dice, &said).whole(dice, &said)
            }
            30..42 => {
                said.end(dice);
                said.break_it(dice);
                Stream::new(dice, &said).whole(dice, &said)
            }
            42..65 => {
                said.end(dice);
                Stream::new(dice, &said).cut(dice, &said)
            }
            65..70 => unstreamed(dice, &said),
            70..73 => (empty(dice), nothing_said()),
            _ => {
                said.end(dice);
                Stream::new(dice, &said).whole(dice, &said)
            }
        };
        Self { steps, fate: Fate::Said(fate), starts_sealed }
    }
}

/// An unstreamed completion where a stream was asked for.
fn unstreamed(dice: &mut SeededRandom, said: &Answer) -> (Vec<Step>, Said) {
    let mut all = said.clone();
    all.finish("stop");
    let body = said.completion().to_string().into_bytes();
    let mut fate = all.said(all.pieces.len(), End::Whole);
    // The message of such a completion has no reasoning.
    fate.reasoning = false;
    let whole = answer("200 OK", &["content-type: application/json"], &body);
    if dice.happens(70) {
        return (in_writes(dice, &whole), fate);
    }
    let cut = whole.len() - 1 - dice.below(body.len() - 1);
    let mut steps = in_writes(dice, &whole[..cut]);
    steps.push(if dice.happens(50) { Step::Fin } else { Step::Reset });
    (steps, Said { end: End::Broken("stream_died", true), ..nothing_said() })
}

/// A good response head, and `[DONE]` or nothing after it.
fn empty(dice: &mut SeededRandom) -> Vec<Step> {
    let bodies: [&[u8]; 4] = [
        b"data: [DONE]\n\n",
        b": nothing\n\ndata: [DONE]",
        b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
        b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"},\"finish_reason\":\"stop\"}]}\n\n",
    ];
    let body = *dice.pick(&bodies);
    in_writes(dice, &answer("200 OK", &["content-type: text/event-stream"], body))
}

fn nothing_said() -> Said {
    Said { text: String::new(), reasoning: false, calls: Vec::new(), end: End::Whole }
}

/// How the length of a body is declared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Framing {
    Chunked,
    Length,
    ToTheEnd,
}

/// The bytes of an answer's stream.
struct Stream {
    bytes: Vec<u8>,
    /// For each event, the end of the event and the end of its last line.
    ends: Vec<(usize, usize)>,
    framing: Framing,
}

impl Stream {
    fn new(dice: &mut SeededRandom, said: &Answer) -> Self {
        let line_end = *dice.pick(&["\n", "\n", "\n", "\r\n", "\r"]);
        let framing = *dice.pick(&[Framing::Chunked, Framing::Length, Framing::ToTheEnd]);
        let space = dice.happens(80);
        let mut bytes = Vec::new();
        if dice.happens(5) {
            bytes.extend_from_slice(b"\xEF\xBB\xBF");
        }
        let mut ends = Vec::new();
        for piece in &said.pieces {
            let line = if space { piece.line.clone() } else { piece.line.replacen(": ", ":", 1) };
            bytes.extend_from_slice(line.as_bytes());
            let line_ended = bytes.len();
            bytes.extend_from_slice(line_end.repeat(2).as_bytes());
            // The CR of a CRLF ends the line already.
            let ended = bytes.len() - usize::from(line_end == "\r\n");
            ends.push((ended, line_ended));
        }
        Self { bytes, ends, framing }
    }

    /// The whole stream, with or without its proper end.
    fn whole(&self, dice: &mut SeededRandom, said: &Answer) -> (Vec<Step>, Said) {
        let all = said.pieces.len();
        let is_ended =
            said.pieces.iter().any(|piece| matches!(piece.means, Means::Done | Means::Finish(_)));
        if is_ended && dice.happens(10) {
            // Stays open after the end, which the server does not wait for.
            let mut steps = self.first(dice, self.bytes.len());
            steps.push(Step::Hang);
            return (steps, said.said(all, End::Broken("upstream_timeout", false)));
        }
        (self.ended(dice, self.bytes.len()), said.said(all, died()))
    }

    /// The stream up to some byte.
    fn cut(&self, dice: &mut SeededRandom, said: &Answer) -> (Vec<Step>, Said) {
        let cut = dice.below(self.bytes.len() + 1);
        let heard = self.ends.iter().take_while(|(ended, _)| *ended <= cut).count();
        match dice.below(5) {
            0 => {
                // The body ends in order, so its last line counts even without the empty line.
                let heard = self.ends.iter().take_while(|(_, line_ended)| *line_ended <= cut);
                (self.ended(dice, cut), said.said(heard.count(), died()))
            }
            1 if dice.happens(40) => {
                let mut steps = self.first(dice, cut);
                let ping = framed_if(self.framing == Framing::Chunked, b"\n: ping\n\n");
                let ping = Step::Forever(ping, Duration::from_millis(100));
                let pings = self.framing != Framing::Length && heard < said.pieces.len();
                // Within a line, further bytes would be part of it.
                let is_between = self.ends.iter().any(|(ended, _)| *ended == cut) || cut == 0;
                steps.push(if pings && is_between { ping } else { Step::Hang });
                (steps, said.said(heard, End::Broken("upstream_timeout", false)))
            }
            _ => {
                let mut steps = self.first(dice, cut);
                let is_plain_end = self.framing != Framing::ToTheEnd && dice.happens(50);
                steps.push(if is_plain_end { Step::Fin } else { Step::Reset });
                (steps, said.said(heard, died()))
            }
        }
    }

    /// The head and the first `count` bytes of a body that does not end.
    fn first(&self, dice: &mut SeededRandom, count: usize) -> Vec<Step> {
        self.send(dice, count, self.bytes.len() + 1)
    }

    /// The same bytes as a body that ends in order.
    fn ended(&self, dice: &mut SeededRandom, count: usize) -> Vec<Step> {
        let mut steps = self.send(dice, count, count);
        match self.framing {
            Framing::Chunked => steps.push(Step::Bytes(b"0\r\n\r\n".to_vec())),
            Framing::Length => {}
            Framing::ToTheEnd => steps.push(Step::Fin),
        }
        steps
    }

    fn send(&self, dice: &mut SeededRandom, count: usize, length: usize) -> Vec<Step> {
        let length = format!("content-length: {length}");
        let framing = match self.framing {
            Framing::Chunked => "transfer-encoding: chunked",
            Framing::Length => &length,
            Framing::ToTheEnd => "connection: close",
        };
        let kind = *dice.pick(&[
            "content-type: text/event-stream",
            "content-type: text/event-stream; charset=utf-8",
            "content-type: application/octet-stream",
            "x-nothing: 1",
        ]);
        let bytes = &self.bytes[..count];
        let body = match self.framing {
            Framing::Chunked => in_pieces(dice, bytes).into_iter().flat_map(framed).collect(),
            _ => bytes.to_vec(),
        };
        in_writes(dice, &[head("200 OK", &[kind, framing]), body].concat())
    }
}

fn died() -> End {
    End::Broken("stream_died", true)
}

fn framed_if(is_framed: bool, bytes: &[u8]) -> Vec<u8> {
    if is_framed { framed(bytes) } else { bytes.to_vec() }
}

/// Sends the bytes in a few writes, with a short pause between some of them.
fn in_writes(dice: &mut SeededRandom, bytes: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    for piece in in_pieces(dice, bytes) {
        steps.push(Step::Bytes(piece.to_vec()));
        if dice.happens(10) {
            steps.push(Step::Sleep(Duration::from_millis(2)));
        }
    }
    steps
}

/// Cuts the bytes at up to five random places.
fn in_pieces<'a>(dice: &mut SeededRandom, bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = (0..dice.below(6)).map(|_| dice.below(bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}
