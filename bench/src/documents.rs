//! Measures Read of a picture of 12 megapixels, which is decoded and scaled down, and of a PDF
//! file of 20 pages, whose reader is a process of its own. The time of a turn without tools is
//! subtracted.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use image::{ImageFormat, Rgb, RgbImage};
use serde_json::json;

use super::client::{Client, ask};
use super::process;
use super::report::{Bound, Report, median};
use super::upstream::{CALLS, CHUNKS, Upstream};

const PICTURE: &str = "picture.jpg";
const DOCUMENT: &str = "document.pdf";

const RUNS: usize = 7;
const PAGES: usize = 20;
const LINES: usize = 50;

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    let files = tempfile::tempdir().expect("a directory");
    write_picture(&files.path().join(PICTURE));
    fs::write(files.path().join(DOCUMENT), document()).expect("a file");
    let program = process::this_path();
    let server = process::server_in(&program, &upstream.url(), "", files.path()).await;
    let mut plain = Client::connect(server.address, &ask(CHUNKS, true, "none")).await;
    let picture = json!({ "file_path": PICTURE });
    let document = json!({ "file_path": DOCUMENT, "pages": "1-20" });
    for (what, input) in
        [("Read of a picture, 12 megapixels", picture), ("Read of a PDF file, 20 pages", document)]
    {
        upstream.calls(&[("Read", input)]);
        let mut client = Client::connect(server.address, &ask(CALLS, true, "none")).await;
        let (mut reads, mut turns) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            turns.push(plain.time().await);
            reads.push(client.time().await);
        }
        let (read, turn) = (median(reads), median(turns));
        let detail = format!("{read:.1} ms with its turn, a turn {turn:.1} ms");
        report.milliseconds(what, read - turn, Bound::Free, detail);
    }
}

/// Writes colours that flow into each other under some noise, as a camera sees them.
#[expect(clippy::cast_possible_truncation, reason = "the lowest bits make the noise")]
fn write_picture(path: &Path) {
    let picture = RgbImage::from_fn(4000, 3000, |x, y| {
        let noise = (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(40_503)) >> 13;
        Rgb([(x / 16) as u8, (y / 12) as u8, (noise & 63) as u8])
    });
    picture.save_with_format(path, ImageFormat::Jpeg).expect("a file");
}

/// A PDF file of some pages full of text.
fn document() -> Vec<u8> {
    let pages: Vec<_> = (0..PAGES).map(|page| format!("{} 0 R", 4 + 2 * page)).collect();
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        format!("<</Type/Pages/Kids[{}]/Count {PAGES}>>", pages.join(" ")),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
    ];
    for page in 0..PAGES {
        let contents = 5 + 2 * page;
        objects.push(format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {contents} 0 R\
             /Resources<</Font<</F 3 0 R>>>>>>"
        ));
        let mut text = "BT /F 11 Tf 14 TL 40 760 Td\n".to_owned();
        for line in 0..LINES {
            let words = "the quick brown fox jumps over the lazy dog and runs away";
            let _ = writeln!(text, "(Line {line} of page {page}: {words}.) Tj T*");
        }
        text.push_str("ET");
        objects.push(format!("<</Length {}>>\nstream\n{text}\nendstream", text.len()));
    }
    assemble(&objects)
}

/// Numbers the objects, and adds the table of where they are.
fn assemble(objects: &[String]) -> Vec<u8> {
    let mut file = "%PDF-1.4\n".to_owned();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (number, object) in objects.iter().enumerate() {
        let _ = writeln!(table, "{:010} 00000 n ", file.len());
        let _ = write!(file, "{} 0 obj\n{object}\nendobj\n", number + 1);
    }
    let (size, start) = (objects.len() + 1, file.len());
    format!("{file}{table}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n").into()
}
