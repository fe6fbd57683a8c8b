//! The encoding that a file names in its own first lines, as sources, pages and XML documents do.
//!
//! Such a name ranks a guess. It does not make it certain: it may have been copied, or be older than
//! the file's last conversion.

use super::{Charset, DeclaredEncoding};

/// The bytes at the beginning in which a name is looked for.
const SEARCHED_BYTES: usize = 1024;

/// The words before a name, such as in `coding: gbk`, `encoding="gbk"` and `charset=gbk`.
const WORDS: [&str; 2] = ["coding", "charset"];

/// The encoding that the file names, if it can be in that.
pub(super) fn charset(sample: &[u8], is_whole: bool) -> Option<Charset> {
    let head = String::from_utf8_lossy(&sample[..sample.len().min(SEARCHED_BYTES)]);
    let head = head.to_ascii_lowercase();
    let named = WORDS.iter().flat_map(|word| head.split(word).skip(1)).filter_map(name_behind);
    let mut named = named.filter_map(DeclaredEncoding::parse);
    named.find(|declared| declared.fits(sample, is_whole)).map(DeclaredEncoding::charset)
}

/// The name behind a word, a colon or an equals sign, and perhaps a quotation mark.
fn name_behind(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches([' ', '\t']);
    let rest = rest.strip_prefix([':', '='])?;
    let rest = rest.trim_start_matches([' ', '\t', '"', '\'']);
    let is_of_name =
        |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let end = rest.find(|character| !is_of_name(character)).unwrap_or(rest.len());
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::super::Encoding;

    fn recognised(head: &str, label: &str, text: &str) -> (&'static str, bool) {
        let charset = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
        let (bytes, _, _) = charset.encode(text);
        let file = [head.as_bytes(), &bytes].concat();
        let encoding = Encoding::recognise(&file, true).unwrap();
        (encoding.name(), encoding.is_guess())
    }

    #[test]
    fn files_1_what_a_file_says_of_itself_ranks_a_guess() {
        for head in [
            "#!/usr/bin/env python\n# -*- coding: GBK -*-\n# ",
            "# vim: set fileencoding=gbk :\n",
            "<?xml version=\"1.0\" encoding=\"gbk\"?>\n<!-- ",
            "<meta charset=gbk>\n",
            "<meta http-equiv=\"Content-Type\" content=\"text/html; charset=gb2312\">\n",
            "charset of the file: see below\n@charset 'x'; encoding = 'cp936'\n",
        ] {
            assert_eq!(recognised(head, "gbk", "密码\n"), ("GBK", true), "{head}");
        }
    }

    #[test]
    fn files_1_what_cannot_be_is_not_believed() {
        assert_ne!(recognised("# coding: gbk\n", "latin1", "caf\u{e9}\n").0, "GBK");
        assert_eq!(recognised("# coding: gbk\n", "utf-8", "café\n"), ("UTF-8", false));
        assert_ne!(recognised("# charset=utf-16 ", "latin1", "caf\u{e9}\n").0, "UTF-16LE");
        assert!(recognised("# coding: nonsense\n", "latin1", "é\n").1);
        assert!(recognised("# charset", "latin1", "é\n").1);
    }
}
