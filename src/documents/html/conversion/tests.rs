use insta::assert_snapshot;

use super::super::article::LeftOut;
use super::*;

fn text(html: &str) -> String {
    markdown(html, Some("https://example.com/a/page"), Syntax::Html).text
}

#[test]
fn the_gaps_of_the_writer_are_closed() {
    let html = "<title>T &amp; U</title><h1>Head</h1><table><tr><td>a<td>b<tr><td>1<td>2</table>\
                <dl><dt>term<dd>what it is<dt>other<dd>thing</dl>\
                <details><summary>More</summary>inside</details>\
                <p><a href='x?a=1&amp;b=2'>link</a> <a href='javascript:x()'>none</a></p>\
                <pre><code class='language-rust'>fn main() {}\n</code></pre>";
    assert_snapshot!(text(html), @r"
    # Head


    | a | b |
    | - | - |
    | 1 | 2 |

    **term**

    what it is

    **other**

    thing

    **More**

    inside

    [link](https://example.com/a/x?a=1&b=2) none

    ```rust
    fn main() {}
    ```
    ");
    assert_eq!(markdown(html, None, Syntax::Html).title, "T & U");
}

#[test]
fn a_table_with_cells_over_several_columns_and_rows_is_one() {
    let html = "<table><tr><th>Name<th>Price</tr><tr><td>Apple<td>10</tr>\
                <tr><td colspan=2>Fruit</tr><tr><td rowspan=2>Pear<td>20</tr><tr><td>30</tr>\
                <tr><td>short</tr></table>";
    assert_snapshot!(text(html), @r"
    | Name | Price |
    | ---- | ----- |
    | Apple | 10 |
    | Fruit |  |
    | Pear | 20 |
    |  | 30 |
    | short |  |
    ");
    // A cell has one line.
    let code = text("<table><tr><td><pre>1\n2</pre><td><pre>a\nb</pre></table>");
    assert!(
        code.contains("\n1\n2\n") && code.contains("\na\nb\n") && !code.contains('|'),
        "{code}"
    );
    let wide =
        format!("<table>{}</table>", "<tr><td colspan=1000 rowspan=1000>x</tr>".repeat(2_000));
    assert!(text(&wide).len() < 1_000_000);
}

#[test]
fn elements_break_the_lines_of_code() {
    for code in [
        "one<br>two<br/>three",
        "<div>one</div><div>two</div><div>three</div>",
        "<code><span>one<br></span><span>two<br></span><span>three<br></span></code>",
        "<code>one\n<div>two\n</div>three</code>",
    ] {
        let text = text(&format!("<p>p</p><pre>{code}</pre>"));
        assert!(text.contains("\none\ntwo\nthree\n"), "{code}: {text}");
    }
}

#[test]
fn w34_what_nobody_sees_is_left_out() {
    let html = "<p>seen<!-- comment --><span hidden>A</span><span style='color:red; DISPLAY : none'>B\
                </span><script>C</script><style>D</style><template>E</template>\u{200b}\u{e0041}</p>\
                <div style=\"visibility:hidden\">F</div>";
    assert_eq!(text(html), "seen");
}

#[test]
fn w34_no_way_of_hiding_shows_text() {
    for hidden in [
        "<span style='display:/**/none'>HID</span>",
        "<span style='d\\69splay:none'>HID</span>",
        "<span style='font-size:0em'>HID</span>",
        "<dialog>HID</dialog>",
        "<datalist><option>HID</datalist>",
        "<noembed>HID</noembed>",
        "<noframes>HID</noframes>",
        "<script><!--<script></script>HID--></script>",
        "<svg><![CDATA[ > HID <p>HID ]]></svg>",
        "<svg><title>HID</title></svg>",
    ] {
        assert_eq!(text(&format!("<p>seen</p>{hidden}")), "seen", "{hidden}");
    }
    assert_eq!(text("<dialog open>seen</dialog>"), "seen");
}

#[test]
fn a_page_is_its_article() {
    let article =
        "<p>A sentence of the article, with some commas, and more of them.</p>".repeat(20);
    let html = format!(
        "<html><body><nav><a href=/>Home</a><a href=/x>About</a></nav><article><h2>Title</h2>\
         {article}</article><footer>Imprint</footer></body></html>"
    );
    let text = text(&html);
    assert!(text.contains("A sentence of the article"), "{text}");
    assert!(!text.contains("Imprint") && !text.contains("Home"), "{text}");
}

#[test]
fn w29_a_page_of_200_000_nested_elements_is_its_text() {
    let html = format!("{}deep inside{}", "<div>".repeat(200_000), "</div>".repeat(200_000));
    assert_eq!(text(&html), "deep inside");
    let unclosed = format!("{}deep inside", "<b><font>".repeat(100_000));
    assert!(text(&unclosed).contains("deep inside"));
}

#[test]
fn xhtml_is_read_as_xml_ends_elements() {
    let read = |html: &str| {
        let page = markdown(html, None, Syntax::Xhtml);
        format!("{}|{}", page.title, page.text)
    };
    let html = "<html xmlns=\"http://www.w3.org/1999/xhtml\"><head><title>a</title><script src=\"x\"/>\
                <style/></head><body><div hidden=\"\"/><p>hello<wbr/></p><svg><g/></svg>\
                <![CDATA[<b>]]></body></html>";
    assert_eq!(read(html), "a|hello\n\n\\<b>");
    assert_eq!(
        read("<html><head><title/></head><body><p>x</p><iframe/>y</body></html>"),
        "|x\n\ny"
    );
    let declared =
        "<?xml version=\"1.0\"?><!DOCTYPE html [<!ENTITY x \"boo\">]><html><body>a</body></html>";
    assert_eq!(read(declared), "|a");
    assert_eq!(markdown("<title/><p>body is gone", None, Syntax::Html).text, "");
}

#[test]
fn w29_the_time_to_convert_a_page_grows_with_its_length() {
    for (part, times) in
        [("a &amp; b ", 100_000), ("<a href=x>y</a> ", 25_000), ("<!-- x -->a ", 50_000)]
    {
        assert!(text(&part.repeat(times)).len() > times);
    }
}

#[test]
fn targets_are_relative_to_the_base_that_the_page_names() {
    let link = |base: &str| text(&format!("<base href='{base}'><a href='x'>l</a>"));
    assert_eq!(link("http://other.example/dir/"), "[l](http://other.example/dir/x)");
    assert_eq!(link("/dir/"), "[l](https://example.com/dir/x)");
    for not_of_the_web in ["javascript:x", "data:text/html,x", "file:///etc/"] {
        assert_eq!(link(not_of_the_web), "[l](https://example.com/a/x)");
    }
    let article =
        "<p>A sentence of the article, with some commas, and more of them.</p>".repeat(20);
    let long = text(&format!("<base href='//b.example/'>{article}<p><a href='x'>l</a></p>"));
    assert!(long.contains("[l](https://b.example/x)"), "{long}");
}

#[test]
fn an_ampersand_is_one_only_where_the_page_has_one() {
    let html = "<p>\u{f8ff}\u{f0000} <a href='/?a=1&amp;b=2'>x &amp; y</a>";
    assert_eq!(text(html), "\u{f8ff}\u{f0000} [x & y](https://example.com/?a=1&b=2)");
}

#[test]
fn outside_22_what_is_for_readers_without_scripts_is_text() {
    for html in [
        "<div id=root></div><noscript>You need to <b>enable</b> scripts.</noscript>",
        "<html><head><noscript><p>You need to <b>enable</b> scripts.</p></noscript></head></html>",
    ] {
        assert_eq!(text(html), "You need to **enable** scripts.", "{html}");
    }
    assert_eq!(text("seen<noscript><img src=/pixel></noscript>"), "seen");
}

#[test]
fn outside_48_captions_and_accordions_are_paragraphs() {
    let html = "<table><caption>Prices</caption><tr><td>a<td>b<tr><td>1<td>2</table>\
                <figure><img src=/x alt=y><figcaption>A <b>pear</b></figcaption></figure>\
                <h3><button aria-expanded=false aria-controls=one>Why?</button></h3>\
                <div id=one hidden>Because.</div>\
                <button aria-expanded=false aria-controls=two>How?</button>\
                <div id=two style='display:none'>So.</div>\
                <div hidden=until-found>Found.</div><div id=three hidden>HID</div>";
    assert_snapshot!(text(html), @r"
    Prices


    | a | b |
    | - | - |
    | 1 | 2 |

    ![y](https://example.com/x)

    A **pear**

    ### Why?

    Because.

    **How?**

    So.

    Found.
    ");
}

#[test]
fn outside_25_a_page_says_how_much_of_it_is_left_out() {
    let article =
        "<p>A sentence of the article, with some commas, and more of them.</p>".repeat(20);
    let html = format!("<nav>Home</nav><article>{article}</article><footer>Imprint</footer>");
    let page = markdown(&html, None, Syntax::Html);
    assert_eq!(page.left_out, Some(LeftOut { chars: 11, of: 11 + 20 * 51 }));
    let page = markdown(&article, None, Syntax::Html);
    assert_eq!(page.left_out, None);
}
