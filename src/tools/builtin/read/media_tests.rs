//! Reads pictures, notebooks and PDF files as the model does: JSON in, text and pictures out.

#[cfg(feature = "pdf")]
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::processes::test_support;
use crate::tools::tool::test_support::Workspace;
use crate::tools::tool::{PictureFormat, erase};

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!("../../../../tests/documents/", $name)).as_slice()
    };
}

fn workspace(files: &[(&str, &[u8])]) -> Workspace {
    let workspace = Workspace::new(&[]);
    for (name, bytes) in files {
        workspace.write(name, bytes);
    }
    workspace
}

/// A reader whose worker is the program that cargo built beside the tests.
fn reader() -> Read {
    Read::new(Workers::new(&test_support::program()))
}

async fn output(workspace: &Workspace, arguments: Value) -> ToolOutput {
    workspace.run(&erase(reader()), arguments).await.unwrap()
}

async fn told(workspace: &Workspace, arguments: &[Value]) -> String {
    let mut answers = Vec::new();
    for arguments in arguments {
        answers.push(workspace.call(reader(), arguments.clone()).await);
    }
    answers.join("\n")
}

#[tokio::test]
async fn a_picture_is_attached_and_described() {
    let workspace =
        workspace(&[("turned.jpg", file!("turned.jpg")), ("a.png", file!("still.gif"))]);
    let turned = output(&workspace, json!({ "file_path": "turned.jpg" })).await;
    assert_eq!(turned.structured["width"], 60);
    let [picture] = turned.pictures.as_slice() else { panic!("{:?}", turned.pictures) };
    assert_eq!((picture.width, picture.height), (40, 60));
    assert_eq!(picture.name, workspace.path("turned.jpg").display().to_string());
    let shown = turned.text.to_string().replace(workspace.root().to_str().unwrap(), "$WORKSPACE");
    let format = picture.format.name();
    assert_eq!(
        shown,
        format!(
            "(image attached) $WORKSPACE/turned.jpg: JPEG, 60 x 40 pixels, shown as {format} of \
             40 x 60"
        )
    );
    let other = json!({ "file_path": "a.png", "offset": 3, "limit": 1, "pages": "2" });
    assert_snapshot!(told(&workspace, &[other]).await, @r"
    (image attached) $WORKSPACE/a.png: GIF, 20 x 10 pixels
    (the contents decide what it is, not the name)
    (offset, limit and pages have no effect on a picture)
    ");
    let plain = output(&workspace, json!({ "file_path": "a.png" })).await;
    assert_eq!(plain.pictures[0].bytes, file!("still.gif"));
}

#[tokio::test]
async fn t33_a_picture_that_cannot_be_shown_is_an_error() {
    let workspace = workspace(&[
        ("cut.png", file!("cut.png")),
        ("cut.jpg", file!("cut.jpg")),
        ("bomb.png", file!("bomb.png")),
        ("text.png", b"no picture\n"),
        ("drawing.svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n"),
    ]);
    let names = ["cut.png", "cut.jpg", "bomb.png", "text.png", "drawing.svg"];
    let arguments = names.map(|name| json!({ "file_path": name }));
    assert_snapshot!(told(&workspace, &arguments).await, @r#"
    Error: $WORKSPACE/cut.png is a PNG picture, but it is cut short or damaged (unexpected end of file)
    Error: $WORKSPACE/cut.jpg is a JPEG picture, but it is cut short or damaged (the end of the JPEG data is missing)
    Error: $WORKSPACE/bomb.png is a PNG picture, but it has 50000 x 50000 pixels, and at most 100 megapixels are decoded
         1	no picture
         1	<svg xmlns="http://www.w3.org/2000/svg"/>
    "#);
}

#[tokio::test]
async fn a_notebook_is_shown_by_its_cells() {
    let workspace = workspace(&[("a.ipynb", file!("analysis.ipynb"))]);
    let all = output(&workspace, json!({ "file_path": "a.ipynb", "pages": "1" })).await;
    assert_snapshot!(all.text.to_string(), @r"
    === cell 1 of 5: id intro, markdown ===
    # Sales
    The month of café.
    === cell 2 of 5: id load, code, run 1 ===
    import csv
    total = 3
    total
    --- output: stdout ---
    read 2 rows
    --- output: text/plain ---
    3
    === cell 3 of 5: id plot, code, run 2 ===
    plot()
    --- output: text/plain ---
    (image attached) PNG, 4 x 3 pixels
    <Figure>
    === cell 4 of 5: id fail, code, run 3 ===
    1/0
    --- output: error ---
    ----
    ZeroDivisionError: division by zero
    === cell 5 of 5: id raw, raw ===
    raw text
    (pages has no effect on a notebook)
    ");
    let [picture] = all.pictures.as_slice() else { panic!("{:?}", all.pictures) };
    assert_eq!((picture.format, picture.width), (PictureFormat::Png, 4));
    assert!(picture.name.ends_with("/a.ipynb, cell 3"), "{}", picture.name);
    assert_eq!(all.structured["total_cells"], 5);
    let part = output(&workspace, json!({ "file_path": "a.ipynb", "offset": 4, "limit": 1 })).await;
    assert!(part.pictures.is_empty());
    let beyond = workspace.call(reader(), json!({ "file_path": "a.ipynb", "offset": 6 })).await;
    assert_snapshot!(format!("{}\n{beyond}", part.text), @r"
    === cell 4 of 5: id fail, code, run 3 ===
    1/0
    --- output: error ---
    ----
    ZeroDivisionError: division by zero
    (PARTIAL: cell 4 of 5; go on with offset 5)
    Error: offset 6 is past the end of $WORKSPACE/a.ipynb, which has 5 cells
    ");
}

fn notebook(cells: &str) -> String {
    format!(r#"{{"cells": [{cells}], "nbformat": 4, "nbformat_minor": 4}}"#)
}

fn code(outputs: &str) -> String {
    format!(r#"{{"cell_type": "code", "source": ["x\n", "y"], "outputs": [{outputs}]}}"#)
}

async fn shown(cells: &str) -> String {
    let workspace = workspace(&[("a.ipynb", notebook(cells).as_bytes())]);
    workspace.call(reader(), json!({ "file_path": "a.ipynb" })).await
}

#[tokio::test]
async fn outputs_in_odd_forms_are_named() {
    let bad =
        r#"{"output_type": "display_data", "data": {"image/png": "!!", "text/plain": ["a", "b"]}}"#;
    let none = r#"{"output_type": "display_data", "data": {"application/x": 1}}"#;
    let json = r#"{"output_type": "execute_result", "data": {"application/json": {"a": [1]}}}"#;
    let error = r#"{"output_type": "error", "ename": "E", "evalue": "\u0000\ud800"}"#;
    let cell = code(&[bad, none, json, error, "1", r#"{"output_type": "stream"}"#].join(","));
    assert_snapshot!(shown(&cell).await, @r#"
    === cell 1 of 1: id cell-0, code ===
    x
    y
    --- output: text/plain ---
    (image not attached: its data is not base64)
    ab
    --- output: application/x ---
    (not shown)
    --- output: application/json ---
    {"a": [1]}
    --- output: error ---
    E: 
    --- output that cannot be read ---
    --- output: stream ---
    "#);
    assert_eq!(shown("").await, "$WORKSPACE/a.ipynb has no cells.");
}

#[tokio::test]
async fn t33_outputs_without_end_are_cut() {
    let long = format!(
        r#"{{"output_type": "stream", "name": "stdout", "text": "{}"}}"#,
        "x".repeat(10_001)
    );
    let answer = shown(&code(&long)).await;
    assert!(answer.contains("; outputs over 10000 characters are cut …]"), "{answer}");
    assert!(answer.chars().count() < 10_200);
    let answer = shown(&code(&vec![long.as_str(); 1000].join(","))).await;
    assert!(answer.chars().count() <= render::MAX_CHARS, "{}", answer.len());
    assert!(answer.ends_with("(cell 1 is too long for one answer, and is cut here)"));
    let picture = r#"{"output_type": "display_data", "data": {"image/gif": "R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="}}"#;
    let workspace = workspace(&[("a.ipynb", notebook(&code(&[picture; 25].join(","))).as_bytes())]);
    let output = output(&workspace, json!({ "file_path": "a.ipynb" })).await;
    assert_eq!(output.pictures.len(), 20);
    let text = output.text.to_string();
    assert_eq!(
        text.matches("(image not attached: one answer has at most 20)").count(),
        5,
        "{text}"
    );
}

#[tokio::test]
async fn t33_pictures_that_cannot_be_shown_count_as_well() {
    let broken = r#"{"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo="}}"#;
    let text = shown(&code(&vec![broken; 25].join(","))).await;
    let refused = text.matches("(image not attached: one answer has at most 20)").count();
    assert_eq!(refused, 5, "{text}");
}

#[tokio::test]
async fn t33_a_notebook_of_any_depth_or_size_is_bounded() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let cell = format!(r#"{{"cell_type": "code", "source": {deep}, "outputs": {deep}}}"#);
    assert!(shown(&cell).await.starts_with("=== cell 1 of 1: id cell-0, code ==="));
    let cells = vec!["{}"; 50_000].join(",");
    let answer = shown(&cells).await;
    assert!(answer.chars().count() <= render::MAX_CHARS);
    assert!(answer.lines().last().unwrap().starts_with("(PARTIAL: cells 1-"), "{answer}");
    let mut workspace =
        workspace(&[("a.ipynb", file!("analysis.ipynb")), ("b.ipynb", b"{\"\xff\":")]);
    workspace.limit(150);
    let answer = workspace.call(reader(), json!({ "file_path": "a.ipynb" })).await;
    assert!(answer.ends_with("; go on with offset 2)"), "{answer}");
    let answer = workspace.call(reader(), json!({ "file_path": "b.ipynb" })).await;
    assert!(answer.contains("it is not UTF-8 from byte 2 on; so it is shown as text"), "{answer}");
}

#[tokio::test]
async fn what_could_not_be_read_is_not_known() {
    let files: &[(&str, &[u8])] = &[
        ("a.ipynb", b"{\"\0\0\xff\0\0\0\":"),
        ("cut.png", &file!("picture.png")[..40]),
        ("broken.pdf", file!("broken.pdf")),
    ];
    let workspace = workspace(files);
    for (name, _) in files {
        let answer = workspace.call(reader(), json!({ "file_path": name })).await;
        assert!(answer.starts_with("Error: "), "{answer}");
        assert!(!workspace.context().agent.read_state.has_seen(&workspace.path(name)), "{name}");
    }
}

#[tokio::test]
async fn what_is_too_long_for_memory_is_refused() {
    let workspace =
        workspace(&[("a.ipynb", b"{"), ("a.png", file!("picture.png")), ("a.pdf", b"%PDF-1.4")]);
    for name in ["a.ipynb", "a.png", "a.pdf"] {
        let file = std::fs::File::options().write(true).open(workspace.path(name)).unwrap();
        file.set_len(1 << 40).unwrap();
        let answer = workspace.call(reader(), json!({ "file_path": name })).await;
        assert!(answer.ends_with("has more than 100 MB, the most that is read"), "{answer}");
    }
}

#[cfg(feature = "pdf")]
mod pdf {
    use super::*;

    #[tokio::test]
    async fn the_text_of_a_document_comes_page_by_page() {
        let workspace = workspace(&[("a.pdf", file!("three.pdf")), ("rc4.pdf", file!("rc4.pdf"))]);
        let arguments = [
            json!({ "file_path": "a.pdf" }),
            json!({ "file_path": "a.pdf", "pages": "2", "offset": 9 }),
            json!({ "file_path": "rc4.pdf", "pages": "3-20" }),
        ];
        assert_snapshot!(told(&workspace, &arguments).await, @r"
        Page 1 of 3
        Line 1 on page 1: the café sells 0 cakes. Line 2 on page 1: the café sells 1 cakes. Line 3 on page 1: the café sells 2 cakes.
        Page 2 of 3
        Line 1 on page 2: the café sells 10 cakes. Line 2 on page 2: the café sells 11 cakes. Line 3 on page 2: the café sells 12 cakes.
        Page 3 of 3
        Line 1 on page 3: the café sells 20 cakes. Line 2 on page 3: the café sells 21 cakes. Line 3 on page 3: the café sells 22 cakes.
        Page 2 of 3
        Line 1 on page 2: the café sells 10 cakes. Line 2 on page 2: the café sells 11 cakes. Line 3 on page 2: the café sells 12 cakes.
        (PARTIAL: page 2 of 3; go on with pages 3)
        (offset has no effect on a PDF file)
        Page 3 of 3
        Line 1 on page 3: the café sells 20 cakes. Line 2 on page 3: the café sells 21 cakes. Line 3 on page 3: the café sells 22 cakes.
        (PARTIAL: page 3 of 3; the end)
        ");
        let output = output(&workspace, arguments[1].clone()).await;
        assert_eq!(output.structured["num_pages"], 1);
    }

    #[tokio::test]
    async fn of_a_long_document_the_pages_must_be_named() {
        let workspace = workspace(&[("a.pdf", file!("twelve.pdf")), ("b.pdf", file!("long.pdf"))]);
        let pages = |pages: &str| json!({ "file_path": "a.pdf", "pages": pages });
        let mut arguments = vec![json!({ "file_path": "a.pdf" }), json!({ "file_path": "b.pdf" })];
        let wrong = ["13", "0", "3-2", "x", "1-21", "1-18446744073709551615", "-3", "1-2-3"];
        arguments.extend(wrong.map(pages));
        arguments.extend(["11 - 12", ""].map(pages));
        assert_snapshot!(told(&workspace, &arguments).await, @r#"
        Error: $WORKSPACE/a.pdf has 12 pages; say which ones with pages, such as "1-12", at most 20 in one call
        Error: $WORKSPACE/b.pdf has 21 pages; say which ones with pages, such as "1-20", at most 20 in one call
        Error: $WORKSPACE/a.pdf has 12 pages; there is no page 13
        Error: invalid input: pages is "0"; give one page, such as "3", or a range, such as "1-5"
        Error: invalid input: pages is "3-2"; give one page, such as "3", or a range, such as "1-5"
        Error: invalid input: pages is "x"; give one page, such as "3", or a range, such as "1-5"
        Error: invalid input: pages 1-21 are 21; one call reads at most 20
        Error: invalid input: pages 1-18446744073709551615 are 18446744073709551615; one call reads at most 20
        Error: invalid input: pages is "-3"; give one page, such as "3", or a range, such as "1-5"
        Error: invalid input: pages is "1-2-3"; give one page, such as "3", or a range, such as "1-5"
        Page 11 of 12
        Line 1 on page 11: the café sells 100 cakes.
        Page 12 of 12
        Line 1 on page 12: the café sells 110 cakes.
        (PARTIAL: pages 11-12 of 12; the end)
        Error: $WORKSPACE/a.pdf has 12 pages; say which ones with pages, such as "1-12", at most 20 in one call
        "#);
    }

    /// A document with its cross-references counted from so many bytes before its beginning.
    fn shifted(document: &[u8], by: usize) -> Vec<u8> {
        let text = String::from_utf8_lossy(document);
        let table = text.rfind("xref\n0").map(|at| document.len() - (text.len() - at)).unwrap();
        let moved: Vec<String> = String::from_utf8_lossy(&document[table..])
            .split_inclusive('\n')
            .map(|line| match line.split_once(' ') {
                Some((offset, rest)) if rest.ends_with(" n \n") || rest.ends_with(" n\r\n") => {
                    format!("{:010} {rest}", offset.parse::<usize>().unwrap() + by)
                }
                _ => line.replace(&table.to_string(), &(table + by).to_string()),
            })
            .collect();
        [&document[..table], moved.concat().as_bytes()].concat()
    }

    #[tokio::test]
    async fn files_17c_a_document_behind_other_bytes_is_read() {
        let plain = file!("three.pdf");
        let fronts: [&[u8]; 4] = [
            b"\n",
            b"\xef\xbb\xbf",
            b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n",
            &[0; 500],
        ];
        let whole = told(&workspace(&[("a.pdf", plain)]), &[json!({ "file_path": "a.pdf" })]).await;
        for front in fronts {
            let behind = [front, plain].concat();
            let counted = [front, &shifted(plain, front.len())].concat();
            let ground = workspace(&[("a.pdf", &behind), ("b.txt", &counted)]);
            for name in ["a.pdf", "b.txt"] {
                let read = told(&ground, &[json!({ "file_path": name })]).await;
                assert_eq!(read, whole, "{front:?} {name}");
            }
        }
    }

    #[tokio::test]
    async fn files_17d_aes_256_of_revision_5_is_named() {
        let workspace = workspace(&[
            ("a.pdf", file!("revision5.pdf")),
            ("b.pdf", file!("revision5_locked.pdf")),
        ]);
        let names = ["a.pdf", "b.pdf"].map(|name| json!({ "file_path": name }));
        assert_snapshot!(told(&workspace, &names).await, @r"
        Error: $WORKSPACE/a.pdf is encrypted, by AES-256 in its revision 5, which its reader does not know (revision 6 has replaced it); its text cannot be read
        Error: $WORKSPACE/b.pdf is encrypted, by AES-256 in its revision 5, which its reader does not know (revision 6 has replaced it); its text cannot be read
        ");
    }

    #[tokio::test]
    async fn t33_documents_that_cannot_be_read_are_errors() {
        let workspace = workspace(&[
            ("locked.pdf", file!("locked.pdf")),
            ("broken.pdf", file!("broken.pdf")),
            ("scan.pdf", file!("scan.pdf")),
            ("looping.pdf", file!("looping.pdf")),
        ]);
        let names = ["locked.pdf", "broken.pdf", "scan.pdf", "looping.pdf"];
        assert_snapshot!(told(&workspace, &names.map(|name| json!({ "file_path": name }))).await, @r"
        Error: $WORKSPACE/locked.pdf is encrypted, and opens only with a password; its text cannot be read
        Error: $WORKSPACE/broken.pdf is damaged and cannot be read: Invalid cross-reference table
        Page 1 of 2
        (this page has no text; it may be a scan)
        Page 2 of 2
        (this page has no text; it may be a scan)
        Page 1 of 3
        hello
        Page 2 of 3
        (the text of this page could not be read: Invalid PDF: Page index 1 not found by scanning)
        Page 3 of 3
        (the text of this page could not be read: Invalid PDF: Page index 2 not found by scanning)
        ");
    }

    #[tokio::test]
    async fn t33_a_document_without_its_end_is_no_scan() {
        let scan = file!("scan.pdf");
        let end = scan.windows(5).rposition(|bytes| bytes == b"%%EOF").unwrap();
        let text = file!("looping.pdf");
        let end_of_text = text.windows(5).rposition(|bytes| bytes == b"%%EOF");
        let workspace = workspace(&[
            ("scan.pdf", &scan[..end]),
            ("text.pdf", &text[..end_of_text.unwrap_or(text.len())]),
        ]);
        let read = async |name: &str| workspace.call(reader(), json!({ "file_path": name })).await;
        let cut = "Error: $WORKSPACE/scan.pdf is cut short or damaged: its end is missing";
        assert_eq!(read("scan.pdf").await, cut);
        let text = read("text.pdf").await;
        assert!(text.starts_with("Page 1 of 3\nhello"), "{text}");
        assert!(text.contains("(the end of the file is missing, and so may be pages"), "{text}");
    }

    #[tokio::test]
    async fn t33_a_document_that_takes_too_long_ends_with_its_reader() {
        let workspace = workspace(&[("a.pdf", file!("inflating.pdf"))]);
        let workers = Workers::new(&test_support::program()).within(Duration::from_millis(1));
        let answer = workspace.call(Read::new(workers), json!({ "file_path": "a.pdf" })).await;
        assert_eq!(answer, "Error: $WORKSPACE/a.pdf could not be read: it took too long");
        let workers = Workers::new(std::path::Path::new("/bin/false"));
        let answer = workspace.call(Read::new(workers), json!({ "file_path": "a.pdf" })).await;
        let fault = "its reader crashed or ran out of memory";
        assert_eq!(answer, format!("Error: $WORKSPACE/a.pdf could not be read: {fault}"));
        workspace.context().cancelled.cancel();
        let answer = workspace.call(reader(), json!({ "file_path": "a.pdf" })).await;
        assert_eq!(answer, "Error: interrupted");
    }

    #[tokio::test]
    async fn a_part_fits_the_limit_and_says_how_to_go_on() {
        let mut workspace = workspace(&[("a.pdf", file!("twelve.pdf"))]);
        workspace.limit(300);
        let answer =
            workspace.call(reader(), json!({ "file_path": "a.pdf", "pages": "1-12" })).await;
        assert_snapshot!(answer, @r"
        Page 1 of 12
        Line 1 on page 1: the café sells 0 cakes.
        Page 2 of 12
        Line 1 on page 2: the café sells 10 cakes.
        (PARTIAL: pages 1-2 of 12; go on with pages 3-12)
        ");
    }

    #[tokio::test]
    async fn t33_a_damaged_document_never_takes_the_server_down() {
        let workspace = Workspace::new(&[]);
        let file = file!("three.pdf");
        for (number, at) in (8..file.len()).step_by(file.len() / 24).enumerate() {
            let mut damaged = file.to_vec();
            damaged[at..].rotate_left(number + 1);
            workspace.write("a.pdf", &damaged);
            let answer = workspace.call(reader(), json!({ "file_path": "a.pdf" })).await;
            let is_told = answer.contains("$WORKSPACE/a.pdf") || answer.starts_with("Page 1 of ");
            assert!(is_told, "{at}: {answer}");
        }
    }
}

#[cfg(not(feature = "pdf"))]
#[tokio::test]
async fn a_server_without_the_feature_says_so() {
    let workspace = workspace(&[("a.pdf", file!("three.pdf"))]);
    let answer = workspace.call(reader(), json!({ "file_path": "a.pdf" })).await;
    assert!(answer.contains("this server was built without a reader of those"), "{answer}");
}
