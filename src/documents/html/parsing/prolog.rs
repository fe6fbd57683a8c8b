//! Finds where a document in XML begins, behind the declarations of its own that HTML knows
//! nothing of. Pure.

/// `xml` without its declarations, if they can be read.
pub(super) fn without_prolog(xml: &str) -> &str {
    let mut rest = xml.trim_start_matches('\u{feff}');
    loop {
        rest = rest.trim_start();
        let after = if rest.starts_with("<?") {
            after(rest, "?>")
        } else if let Some(comment) = rest.strip_prefix("<!--") {
            after(comment, "-->")
        } else if rest.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("<!doctype")) {
            after_doctype(&rest[9..])
        } else {
            return rest;
        };
        match after {
            Some(after) => rest = after,
            None => return rest,
        }
    }
}

/// What follows a declaration of the document type, past what it declares in brackets.
fn after_doctype(mut rest: &str) -> Option<&str> {
    let mut is_inside = false;
    loop {
        rest = &rest[rest.find(['"', '\'', '<', '[', ']', '>'])?..];
        rest = match (rest.as_bytes()[0], is_inside) {
            (b'"', _) => after(&rest[1..], "\"")?,
            (b'\'', _) => after(&rest[1..], "'")?,
            (b'<', _) if rest.starts_with("<!--") => after(&rest[4..], "-->")?,
            (b'<', _) if rest.starts_with("<?") => after(rest, "?>")?,
            (b'>', false) => return Some(&rest[1..]),
            (sign, _) => {
                is_inside = if sign == b'[' { true } else { is_inside && sign != b']' };
                &rest[1..]
            }
        };
    }
}

fn after<'t>(text: &'t str, end: &str) -> Option<&'t str> {
    text.split_once(end).map(|(_, after)| after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_end_where_xml_ends_them() {
        for prolog in [
            "",
            "\u{feff}<?xml version=\"1.0\"?>\n",
            "<!DOCTYPE html>",
            "<!-- > --> <?x > ?><!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0//EN\" \"http://a>b\">",
            "<!DOCTYPE html [<!ENTITY x \"boo\">]>",
            "<!DOCTYPE html [<!-- it's ]> --><!ENTITY x ']>'><?x ]> ' ?> ] >",
        ] {
            assert_eq!(without_prolog(&format!("{prolog}<html/>")), "<html/>", "{prolog}");
        }
        for open in ["<!DOCTYPE html [", "<!-- ", "<?x >"] {
            assert_eq!(without_prolog(open), open);
        }
    }
}
