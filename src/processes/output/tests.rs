//! Feeds output in pieces, and reads back what is shown and what the file has.

use std::io;

use proptest::prelude::*;
use tempfile::tempfile;

use super::*;
use crate::text;

const LIMIT: u64 = 1 << 20;

fn captured(most: usize, pieces: &[&[u8]]) -> CommandOutput {
    let output = CommandOutput::new(most, KeepOutput::Nothing, LIMIT);
    for piece in pieces {
        output.push(piece);
    }
    output.finish();
    output
}

/// With a file that is written after each piece.
fn filed(
    most: usize,
    limit: u64,
    pieces: &[&[u8]],
    keep: fn(MakeFile) -> KeepOutput,
) -> CommandOutput {
    let output = CommandOutput::new(most, keep(MakeFile::new(tempfile)), limit);
    for piece in pieces {
        output.push(piece);
        flush(&output);
    }
    output.finish();
    flush(&output);
    output
}

fn flush(output: &CommandOutput) {
    while let Some(piece) = output.next_piece() {
        output.piece_written(write(&piece));
    }
}

fn is_longer(output: &CommandOutput, characters: usize) -> bool {
    !output.so_far().0.fits(characters)
}

/// All from `offset` on; what is missing as a number in brackets.
fn read(output: &CommandOutput, offset: u64) -> String {
    use std::os::unix::fs::FileExt as _;

    let Unread { in_file, file, missing, rest, unfinished, .. } = output.since(offset);
    let mut text = String::new();
    if let Some(file) = file {
        let mut bytes = vec![0; usize::try_from(in_file.end - in_file.start).unwrap()];
        file.read_exact_at(&mut bytes, in_file.start).unwrap();
        text = String::from_utf8(bytes).unwrap();
    }
    let missing = if missing > 0 { format!("[{missing}]") } else { String::new() };
    format!("{text}{missing}{rest}{unfinished}")
}

#[test]
fn what_fits_is_shown_whole() {
    let output = captured(1000, &[b"\x1b[31mred\x1b[0m\n", b"line\n"]);

    assert_eq!(output.render(1000, ""), "red\nline\n");
    assert!(!output.is_malformed());
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_marked() {
    let output = captured(100, &[b"a\xffb\xe2\x82"]);

    assert_eq!(output.render(100, ""), "a\u{fffd}b\u{fffd}");
    assert!(output.is_malformed());
}

#[test]
fn p19_the_state_of_an_unfinished_line_is_shown_meanwhile() {
    let output = CommandOutput::new(100, KeepOutput::Nothing, LIMIT);
    output.push(b"begun\n10%\r20");
    assert_eq!(output.render(100, ""), "begun\n20");
    output.push(b"%\x1b[K\r\n\x1b[3");
    assert_eq!(output.render(100, ""), "begun\n20%\n");
    output.push(b"2mdone\r");
    output.finish();
    assert_eq!(output.render(100, ""), "begun\n20%\ndone");
}

#[test]
fn the_file_begins_when_the_output_is_longer_than_what_is_shown() {
    let output = CommandOutput::new(8, KeepOutput::WhenLong(MakeFile::new(tempfile)), LIMIT);
    output.push(b"one\ntwo\n");
    assert!(output.next_piece().is_none() && !is_longer(&output, 8));
    output.push(b"3\n");
    flush(&output);
    assert!(is_longer(&output, 8));
    assert_eq!(read(&output, 0), "one\ntwo\n3\n");
    assert_eq!(output.since(0).in_file, 0..10);
}

#[test]
fn the_file_of_a_task_is_there_from_the_start_or_from_the_change_on() {
    let output = filed(100, LIMIT, &[b"one\n", b"tw"], KeepOutput::Always);
    assert_eq!(output.since(0).in_file, 0..6);

    let output = CommandOutput::new(100, KeepOutput::WhenLong(MakeFile::new(tempfile)), LIMIT);
    output.push(b"one\ntw");
    output.keep_all();
    flush(&output);
    output.push(b"o\n");
    assert_eq!(output.since(0).in_file, 0..4);
    assert_eq!(read(&output, 0), "one\ntwo\n");
    assert_eq!(read(&output, 4), "two\n");
    flush(&output);
    assert_eq!(read(&output, 6), "o\n");
}

#[test]
fn p4_the_file_ends_at_its_limit() {
    let output = filed(4, 10, &["ééééé\n".repeat(3).as_bytes()], KeepOutput::WhenLong);

    assert!(output.exceeds(LIMIT));
    assert_eq!(output.since(0).in_file, 0..10);
    assert!(!filed(4, 10, &[b"012345678\n"], KeepOutput::WhenLong).exceeds(LIMIT));
}

#[test]
fn p18_a_disk_that_is_full_costs_the_file_and_not_the_output() {
    let full = || File::options().read(true).write(true).open("/dev/full");
    let output = CommandOutput::new(8, KeepOutput::Always(MakeFile::new(full)), LIMIT);
    output.push(b"one\n");
    flush(&output);
    output.push(b"two\n");
    flush(&output);

    assert_eq!(output.file_fault().unwrap(), "No space left on device (os error 28)");
    assert_eq!(read(&output, 0), "one\ntwo\n");
    output.push("x".repeat(100).as_bytes());
    output.finish();
    let tail = read(&output, 4);
    assert!(tail.starts_with('[') && tail.ends_with("]xxxxxxxxxxxxxxxx"), "{tail}");

    let none = || Err(io::Error::other("no directory"));
    let output = CommandOutput::new(8, KeepOutput::Always(MakeFile::new(none)), LIMIT);
    output.push(b"one\n");
    flush(&output);
    assert_eq!(output.file_fault().unwrap(), "no directory");
    assert_eq!(read(&output, 0), "one\n");
}

#[test]
fn what_has_ended_is_in_its_file_alone() {
    let output = filed(100, LIMIT, &[b"one\n", b"two"], KeepOutput::Always);
    output.release();
    let unread = output.since(4);
    assert_eq!((unread.in_file, unread.missing, unread.end), (4..7, 0, 7));
    assert!(unread.file.is_none() && unread.rest.is_empty());
    assert!(output.render(100, "").is_empty());

    let unkept = captured(100, &[b"one\n"]);
    unkept.release();
    assert_eq!(unkept.since(0).rest, "one\n");
}

proptest! {
    #[test]
    fn it_does_not_matter_where_the_pieces_end(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n')], 0..600),
        at in 0usize..600,
        most in 200usize..400,
    ) {
        let (first, second) = bytes.split_at(at.min(bytes.len()));
        let whole = captured(most, &[&bytes]);
        let cut = captured(most, &[first, second]);
        prop_assert_eq!(cut.render(most, "x"), whole.render(most, "x"));
        prop_assert!(whole.render(most, "x").chars().count() <= most);
    }

    #[test]
    fn the_file_has_the_text_that_is_shown(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10),
        offset in 0u64..200,
    ) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let whole = captured(10_000, &pieces).render(10_000, "");
        let end = usize::try_from(offset).unwrap().min(whole.len());
        let left = text::suffix(&whole, whole.len() - end);
        let offset = (whole.len() - left.len()) as u64;
        let always = filed(20, LIMIT, &pieces, KeepOutput::Always);
        prop_assert_eq!(read(&always, offset), left);
        if is_longer(&always, 20) {
            let when_long = filed(20, LIMIT, &pieces, KeepOutput::WhenLong);
            prop_assert_eq!(read(&when_long, 0), whole);
        }
    }
}
