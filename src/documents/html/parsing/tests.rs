use super::*;

/// The deepest element of a tree.
fn depth(document: &Document) -> usize {
    let root = document.root();
    let mut deepest = 0;
    let mut open = vec![(root, 0)];
    while let Some((node, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(node.children().into_iter().map(|child| (child, depth + 1)));
    }
    deepest
}

fn parsed(html: &str) -> Document {
    parse(html, Syntax::Html)
}

#[test]
fn ordinary_pages_are_read_as_the_parser_reads_them() {
    for html in [
        "<!doctype html><html><head><title>a <b></title></head><body>x</body></html>",
        "<p>a<p>b <b>c</b><br>d</p>",
        "<ul><li>a<li>b</ul><img alt='x > y' src=\"z\">",
        "1 < 2 <3",
        "<textarea><div></textarea>",
        "<table><tr><td>a<td>b</table><b><p>x</b>y",
        "<script>if (a<b) '</div>'</script><style>p > a {}</style>",
    ] {
        assert_eq!(parsed(html).html(), Document::from(html).html());
    }
    let list = format!("<ul>{}</ul>", "<li>a".repeat(2_000));
    assert_eq!(parsed(&list).html(), Document::from(list).html());
}

#[test]
fn w29_no_page_makes_a_deep_tree() {
    let many = |tags: &str| tags.repeat(100_000);
    for html in [
        format!("{}deep inside{}", many("<div>"), many("</div>")),
        format!("{}deep inside", many("<b><font>")),
        format!("{}deep inside", many("<optgroup>")),
        format!("<svg><title>{}deep inside", many("<div>")),
        format!("<svg><xmp>{}</svg>deep inside", many("<g>")),
        format!("<select><title></select>{}deep inside", many("<div>")),
        format!("{}deep inside", many("<div><marquee></div>")),
        format!("{}deep inside", many("<table><div></table-x></span>")),
        format!("{}deep inside", many("<form><div></form>")),
        many("<template>"),
        many("<svg><col>"),
    ] {
        let document = parsed(&html);
        let start: String = html.chars().take(40).collect();
        assert!(depth(&document) <= 3 * MAX_DEPTH, "{start}: {}", depth(&document));
        assert!(document.text().contains("deep inside") == html.contains("deep inside"), "{start}");
    }
}

#[test]
fn w29_a_short_page_does_not_become_many_elements() {
    let bold: Vec<_> = (0..490).map(|number| format!("<b class=x{number}>")).collect();
    let document = parsed(&format!("{}{}end", bold.concat(), "<p>x".repeat(10_000)));
    assert!(document.root().descendants_it().count() < 2 * MAX_ELEMENTS + 2 * 10_000);
    assert!(document.text().ends_with("end"));
}

#[test]
fn w34_what_is_hidden_is_hidden_at_any_depth() {
    let deep = |html: &str| {
        let document = parsed(&format!("{}{html}", "<section>".repeat(MAX_DEPTH + 1)));
        document.body().unwrap().text().to_string()
    };
    for hidden in [
        "<div hidden>HID</div>seen",
        "<div style='display:none'><div>HID</div>HID</div>seen",
        "<template>HID</template>seen",
        "<div hidden><noscript><b>HID</noscript></div>seen",
        "<iframe></div>HID</iframe>seen",
        "<svg><text>HID</text></svg>seen",
        "<script>'<!--<script></script>HID--></script>seen",
        "<svg><![CDATA[ > HID <p> HID ]]></svg>seen",
        "<svg><foreignobject><script>'</svg>HID'</script></foreignobject></svg>seen",
        "<style></div>HID</style>seen",
        "<div hidden><table></div>HID</table></div>seen",
        "<div hidden><a><div></a></div>HID</div>seen",
        "<div hidden><ul><li></div></li>HID</ul>HID</div>seen",
        "<div hidden></span></b></form>HID</div>seen",
    ] {
        assert_eq!(deep(hidden), "seen", "{hidden}");
    }
    // The end of what was left out does not end what hides it.
    let above = format!(
        "<div hidden>{}{}HID</div>seen",
        "<div>".repeat(2 * MAX_DEPTH),
        "</div>".repeat(2 * MAX_DEPTH)
    );
    let document = parsed(&above);
    document.select("[hidden]").remove();
    assert_eq!(&*document.text(), "seen");
}

#[test]
fn w29_the_time_to_read_a_page_grows_with_its_length() {
    // Any step of these that looked at all the rest would not end today.
    let text = "lorem ipsum dolor ".repeat(20_000);
    for html in [
        format!("<p>hi{}{text}", "<!-- x -->".repeat(100_000)),
        "<".repeat(400_000),
        "a &amp; b".repeat(100_000),
        "<a href=x>y</a> ".repeat(50_000),
        format!("<script>{}", "</scrip ".repeat(100_000)),
        format!("{}{}", "<section>".repeat(MAX_DEPTH + 9), "<x></y>".repeat(100_000)),
        (0..100_000).fold("<p>".repeat(MAX_DEPTH), |html, n| html + &format!("<x{n}>")),
    ] {
        parsed(&html);
    }
}
