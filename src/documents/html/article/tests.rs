use super::super::cleaning;
use super::*;

/// What stays of a page, and how many characters do not.
fn kept(html: &str) -> (String, Option<LeftOut>) {
    let document = parsing::parse(html, Syntax::Html);
    cleaning::remove_unseen(&document);
    let left_out = keep_article(&document, None);
    let text = document.body().unwrap().text().split_whitespace().collect::<Vec<_>>().join(" ");
    (text, left_out)
}

fn paragraphs(count: usize) -> String {
    "<p>A sentence of the article, with some commas, and more of them.</p>".repeat(count)
}

#[track_caller]
fn check_inside(part: &str, is_kept: bool) {
    let article = paragraphs(10);
    let html = format!(
        "<body><nav><a href=/>Home</a></nav><main><article><h1>T</h1>{article}{part}{article}\
         </article></main><footer>Imprint</footer>"
    );
    let (text, left_out) = kept(&html);
    assert_eq!(text.contains("THIS"), is_kept, "{part}: {text}");
    assert!(!text.contains("Home") && !text.contains("Imprint"), "{text}");
    let all = "HomeImprint".len() + if is_kept { 0 } else { 4 };
    assert_eq!(left_out.map(|it| it.chars), Some(all), "{part}");
}

#[test]
fn outside_48_what_belongs_to_an_article_stays_in_it() {
    for part in [
        "<aside aria-label=Caution class='starlight-aside starlight-aside--caution'><p>THIS</p></aside>",
        "<div class='admonition warning'><p>THIS</p></div>",
        "<div class='alert alert-info' role=note>THIS</div>",
        "<aside><p>THIS</p></aside>",
        "<h2 class=accordion-header><button class=accordion-button data-bs-toggle=collapse>THIS\
         </button></h2><div class='accordion-collapse collapse'></div>",
        "<button aria-expanded=false aria-controls=p>THIS</button><div id=p></div>",
        "<figure><img src=/p><figcaption>THIS</figcaption></figure>",
        "<table><caption>THIS</caption><tr><td>1<td>2</table>",
        "<div class=comments>THIS</div>",
        "<ul class='comments-list js-comments-list'><li>THIS</ul>",
        "<details><summary>THIS</summary></details>",
        "<blockquote><p></p><footer>THIS</footer></blockquote>",
        "<pre>THIS</pre>",
        "<div class=code-toolbar><pre><code>THIS</code></pre></div>",
        "<div class='highlight highlight-source-shell position-relative overflow-auto'><pre>THIS</pre></div>",
        "<noscript>THIS</noscript>",
    ] {
        check_inside(part, true);
    }
}

#[test]
fn a_paragraph_that_is_linked_whole_stays() {
    let sentence = "On Friday two of them, one after the other, have said that they did not do it.";
    let linked = format!("<div class=markup><p><a href=/b><b>{sentence}</b></a></p></div>");
    let html = format!("<body><article>{0}{linked}{0}</article>", paragraphs(10));
    let (text, left_out) = kept(&html);
    assert!(text.contains(sentence), "{text}");
    assert_eq!(left_out, None);
}

#[test]
fn what_no_reader_came_for_goes() {
    for part in [
        "<button>THIS</button>",
        "<div class='social share'>THIS</div>",
        "<form>THIS</form>",
        "<aside class=newsletter-signup>THIS</aside>",
        "<nav>THIS</nav>",
        "<select><option>THIS</select>",
    ] {
        check_inside(part, false);
    }
}

#[test]
fn outside_48_answers_below_an_article_stay() {
    for discussion in [
        "<div class=comments><p>THIS is an answer.</p></div>",
        "<section id=answers><p>THIS is an answer.</p></section>",
        "<div class='boardComment'><p>THIS is an answer.</p></div>",
        "<footer><div id=comments><p>THIS is an answer.</p></div></footer>",
    ] {
        let html = format!(
            "<body><nav>Home</nav><article>{}</article><div class=x><p>Short.</p></div>{discussion}",
            paragraphs(20)
        );
        let (text, left_out) = kept(&html);
        assert!(text.ends_with("THIS is an answer."), "{discussion}: {text}");
        assert!(left_out.is_some_and(|it| 4 <= it.chars), "{left_out:?}");
    }
    let recent = "<aside class=sidebar><ul class=recent-comments><li>THIS</ul></aside>";
    let (text, _) = kept(&format!("<body><article>{}</article>{recent}", paragraphs(20)));
    assert!(!text.contains("THIS"), "{text}");
}

#[test]
fn outside_28_an_extract_that_is_a_small_part_gives_way_to_the_page() {
    let teaser = paragraphs(6);
    let part = |at: usize| format!("<div><div><b>Part {at}</b> of it</div></div>");
    let parts = (0..60).map(part).collect::<Vec<_>>().concat();
    let html = format!("<body><div class=first>{teaser}</div><div class=rest>{parts}{parts}</div>");
    let (text, left_out) = kept(&html);
    assert!(text.contains("Part 59 of it"), "{text}");
    assert_eq!(left_out, None);
}

#[test]
fn a_page_cannot_forge_what_was_found() {
    let forge = |at: usize| format!("<i data-toolhand-number={at}></i>");
    let forged = (0..300).map(forge).collect::<Vec<_>>().concat();
    let html = format!("<body><nav>{forged}Home</nav><article>{}</article>", paragraphs(20));
    let (text, left_out) = kept(&html);
    assert!(!text.contains("Home"), "{text}");
    assert_eq!(left_out.map(|it| it.chars), Some(4));
}

#[test]
fn a_page_without_an_article_stays_whole() {
    let (text, left_out) = kept("<body><nav>Home</nav> <p>Short.</p>");
    assert_eq!((text.as_str(), left_out), ("Home Short.", None));
}
