//! The text of a file that is changed, and the way back to its bytes.

use std::borrow::Cow;

use crate::encoding::{DeclaredEncoding, Encoding, GuessError, Reading, Unmappable};

/// Who says in which encoding a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declaration {
    /// The call that changes it. If the file cannot be in it, nothing is changed.
    Call(DeclaredEncoding),
    /// An earlier call, or a setting. It counts where the file can be in it.
    Other(DeclaredEncoding),
}

impl Declaration {
    pub(crate) fn encoding(self) -> DeclaredEncoding {
        match self {
            Self::Call(encoding) | Self::Other(encoding) => encoding,
        }
    }
}

/// The contents of a file as UTF-8, and how they become bytes again.
#[derive(Debug)]
pub(crate) struct CodedText<'a> {
    bytes: &'a [u8],
    text: Cow<'a, [u8]>,
    encoding: Encoding,
    declaration: Option<Declaration>,
}

impl<'a> CodedText<'a> {
    /// The error is for the model, and follows the path of the file.
    pub(crate) fn decode(
        bytes: &'a [u8],
        declaration: Option<Declaration>,
    ) -> Result<Self, String> {
        let declared = declaration.map(Declaration::encoding);
        let encoding = Encoding::to_keep(bytes, declared)
            .map_err(|binary| format!("the file is {}", binary.0))?;
        if let Some(Declaration::Call(declared)) = declaration {
            is_in(encoding, declared)?;
        }
        if encoding.is_utf_8() {
            let text = &bytes[encoding.mark().len()..];
            return Ok(Self { bytes, text: Cow::Borrowed(text), encoding, declaration });
        }
        let (text, is_damaged) = encoding.decode(bytes);
        let text = Cow::Owned(text.into_owned().into_bytes());
        let mut coded = Self { bytes, text, encoding, declaration };
        // If the text does not convert back to the same bytes, writing it would damage parts
        // of the file that the change does not touch.
        let mut is_kept = encoding.is_guess() || coded.is_kept();
        if !is_kept && let Some(wider) = encoding.wider() {
            coded.encoding = wider;
            is_kept = coded.is_kept();
        }
        match encoding.is_guess() {
            true if is_damaged => Err(format!(
                "the encoding of the file is not known: {} was guessed, but some of its bytes are \
                 no text in that. Change it with a program, by Bash",
                coded.name()
            )),
            false if !is_kept => match declaration {
                // Of a guess the bytes are kept, and ASCII can be put in.
                Some(Declaration::Other(_)) => Self::decode(bytes, None),
                Some(Declaration::Call(_)) => Err(format!(
                    "the file can be read in {}, but some of its characters would be written with \
                     other bytes. Leave `encoding` out to put in nothing but ASCII, or change it \
                     with a program, by Bash",
                    encoding.name()
                )),
                None => Err(format!("the file is in {}, but not all of it", encoding.name())),
            },
            _ => Ok(coded),
        }
    }

    /// Whether the text becomes the same bytes again.
    fn is_kept(&self) -> bool {
        self.encode(Cow::Borrowed(&self.text)).is_ok_and(|again| again == self.bytes)
    }

    /// The bytes of a new file with this text.
    pub(crate) fn of_new_file(
        text: Cow<'_, [u8]>,
        declaration: Option<Declaration>,
    ) -> Result<Vec<u8>, String> {
        let declared = declaration.map(|it| it.encoding().for_new_file());
        let encoding = declared.unwrap_or(Encoding::UTF_8);
        Self { bytes: b"", text: Cow::Borrowed(b""), encoding, declaration }.encode(text)
    }

    /// Whether the encoding is not certain, so that the text may not be what the file holds.
    pub(crate) fn is_guess(&self) -> bool {
        self.encoding.is_guess()
    }

    /// The text in UTF-8. Of a file in UTF-8 these are its bytes, valid or not.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The bytes of the file when its text is `new`. Takes the text itself where it can: a large
    /// file should not be copied once more. The error is for the model, and follows the path of
    /// the file.
    pub(crate) fn encode(&self, new: Cow<'_, [u8]>) -> Result<Vec<u8>, String> {
        let encoding = self.encoding;
        if encoding.is_guess() {
            let rewritten = encoding.rewritten(self.bytes, &self.text, &new);
            return rewritten.map_err(|error| self.refusal(error));
        }
        if encoding.is_utf_8() {
            return Ok(match encoding.mark() {
                b"" => new.into_owned(),
                mark => [mark, &new].concat(),
            });
        }
        let new = String::from_utf8_lossy(&new);
        if let Some(declared) = self.declaration.map(Declaration::encoding)
            && declared.name() == encoding.name()
            && let Some(odd) = declared.one_of_windows(&new, &String::from_utf8_lossy(&self.text))
        {
            return Err(format!(
                "{odd:?} is in {}, and not in the ISO encoding that is named for the file. If the \
                 file may have it, give `\"encoding\": {:?}`",
                encoding.name(),
                self.name()
            ));
        }
        let encoded = encoding.encode(&new);
        encoded.map_err(|Unmappable(odd)| self.without_character(odd))
    }

    /// Says that the file's encoding does not have a character, and whose word it is that the
    /// file is in that.
    fn without_character(&self, odd: char) -> String {
        let name = self.encoding.name();
        match self.declaration {
            Some(Declaration::Other(_)) if self.bytes.is_ascii() => format!(
                "text that is not ASCII would be written in {name} there, as `.editorconfig`, the \
                 setting tools.files.encoding or an earlier call names it, and {name} has no \
                 {odd:?}. To have the file in another encoding, name that, such as `\"encoding\": \
                 \"utf-8\"`"
            ),
            Some(Declaration::Call(_)) => format!("{name}, which `encoding` names, has no {odd:?}"),
            _ => format!("the file is in {name}, which has no {odd:?}"),
        }
    }

    /// Says that the encoding is a guess, and how to make it certain.
    fn refusal(&self, error: GuessError) -> String {
        let what = match error {
            GuessError::Character(odd) => format!("{odd:?} is not ASCII"),
            GuessError::AmidCharacter => {
                "the change may begin or end within a character".to_owned()
            }
        };
        let mut readings = self.encoding.readings(self.bytes).into_iter().map(|reading| {
            let Reading { encoding, sample } = reading;
            format!("{} ({sample})", encoding.to_lowercase())
        });
        let guess = readings.next().unwrap_or_else(|| self.name());
        let others: Vec<String> = readings.collect();
        let also = match others.split_last() {
            None => String::new(),
            Some((last, [])) => format!("; it may be {last}"),
            Some((last, others)) => format!("; it may be {} or {last}", others.join(", ")),
        };
        format!(
            "{what}, and the encoding of the file is not certain. {guess} was guessed{also}: in \
             parentheses is how its first words read in each. Only ASCII is written on a guess. If \
             you know the encoding, call again with its name as `encoding`; `charset` in an \
             `.editorconfig` or the setting tools.files.encoding names it for all files of a kind"
        )
    }

    fn name(&self) -> String {
        self.encoding.name().to_lowercase()
    }
}

/// Whether a file that is in `encoding` is in the one that its call has named.
fn is_in(encoding: Encoding, declared: DeclaredEncoding) -> Result<(), String> {
    let named = declared.name();
    match encoding.is_guess() {
        true => Err(format!(
            "the file is not in {named}: some of its bytes are no text in that. Leave `encoding` \
             out, or name another one"
        )),
        false if encoding.name() != named => Err(format!(
            "the file is in {}, so leave `encoding` out; {named} is not it",
            encoding.name()
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;

    /// Names of encodings, and words that are written in them.
    const WORDS: [(&str, &[&str]); 12] = [
        ("gbk", &["变量", "密码", "函数", "参数", "结束", "打开串口", "关闭窗口", "数据库连接"]),
        ("gb18030", &["用户名", "返回错误码", "初始化", "循环", "这里"]),
        ("big5", &["變數", "密碼", "函數", "參數", "結束", "功能", "許可", "資料庫連線"]),
        ("euc-jp", &["変数", "関数", "引数", "終了", "表示", "ｱｲｳ", "データ"]),
        ("shift_jis", &["変数", "関数", "表示", "構造体", "能力", "ソート", "ｶﾅ"]),
        ("euc-kr", &["변수", "함수", "비밀번호", "끝", "데이터베이스"]),
        ("windows-1252", &["größe", "été", "año", "straße", "naïve"]),
        ("iso-8859-2", &["źródło", "błąd", "číslo", "koniec"]),
        ("windows-1251", &["пароль", "функция", "ошибка", "конец"]),
        ("koi8-r", &["пароль", "функция", "ошибка", "конец"]),
        ("windows-1253", &["κωδικός", "συνάρτηση", "τέλος"]),
        ("windows-1254", &["şifre", "değişken", "ığdır", "bitiş"]),
    ];

    #[derive(Clone, Debug)]
    struct Source {
        label: &'static str,
        text: String,
    }

    /// Source code with some foreign words in comments and strings.
    fn sources() -> impl Strategy<Value = Source> {
        let line = |words: &'static [&'static str]| {
            let word = select(words);
            let shapes = [
                "int x = 1; /* @ */\n",
                "// @\n",
                "s = \"@\\n\"; a|b; {c}\n",
                "@\n",
                "if (a[0] == '\\\\') { return ~b; } // @\r\n",
            ];
            (word, select(shapes.to_vec())).prop_map(|(word, shape)| shape.replace('@', word))
        };
        let plain = select(vec!["int main() {\n", "}\n", "\n", "return a | b;\n"]);
        select(WORDS.to_vec()).prop_flat_map(move |(label, words)| {
            let lines = prop_oneof![line(words), plain.clone().prop_map(str::to_owned)];
            let first = line(words);
            (first, prop::collection::vec(lines, 0..40))
                .prop_map(move |(first, rest)| Source { label, text: first + &rest.concat() })
        })
    }

    /// A change of the text as a model sees it: a piece of it becomes another text.
    fn changed(shown: &str, ends: (Index, Index), new: &str) -> String {
        let borders: Vec<usize> =
            shown.char_indices().map(|(at, _)| at).chain([shown.len()]).collect();
        let (first, second) = (ends.0.get(&borders), ends.1.get(&borders));
        let (from, to) = (first.min(second), first.max(second));
        format!("{}{new}{}", &shown[..*from], &shown[*to..])
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: ProptestConfig::default().cases.max(500),
            ..ProptestConfig::default()
        })]

        #[test]
        fn f1_what_is_written_is_text_in_the_true_encoding(
            source in sources(),
            ends in any::<(Index, Index)>(),
            new in select(vec!["", "x", "\\", "|}", "int y = 2;\n", "修改注意", "é", "ж", "表"]),
        ) {
            let charset = encoding_rs::Encoding::for_label(source.label.as_bytes()).unwrap();
            let (bytes, _, is_lossy) = charset.encode(&source.text);
            prop_assert!(!is_lossy, "{source:?}");
            let Ok(coded) = CodedText::decode(&bytes, None) else { return Ok(()) };
            let is_certain = !coded.encoding.is_guess();
            prop_assert!(!is_certain || str::from_utf8(&bytes).is_ok());
            let shown = String::from_utf8_lossy(coded.text()).into_owned();
            // What an Edit makes of it, and what a Write by somebody who knows the true text.
            for wanted in [changed(&shown, ends, new), format!("{}{new}", source.text)] {
                match coded.encode(Cow::Borrowed(wanted.as_bytes())) {
                    Ok(written) if !is_certain => {
                        let (text, is_damaged) = charset.decode_without_bom_handling(&written);
                        prop_assert!(!is_damaged, "{text}");
                        let is_known = |c: char| c.is_ascii() || source.text.contains(c);
                        prop_assert!(text.chars().all(is_known), "{text}");
                    }
                    Ok(_) => {}
                    Err(why) => prop_assert!(why.contains("was guessed"), "{why}"),
                }
            }
            let given = DeclaredEncoding::parse(source.label).unwrap();
            let certain = CodedText::decode(&bytes, Some(Declaration::Call(given)));
            if !is_certain {
                let text = String::from_utf8(certain.unwrap().text().to_vec()).unwrap();
                prop_assert_eq!(text, source.text);
            }
        }
    }

    #[test]
    fn f1_a_refusal_tells_the_guess_as_one_and_how_to_make_it_certain() {
        let (bytes, _, _) = encoding_rs::GBK.encode("int x; /* 变量 */\n");
        let coded = CodedText::decode(&bytes, None).unwrap();
        let wanted = String::from_utf8_lossy(coded.text()).replace("int x;", "int x; // 修改");
        let refusal = coded.encode(Cow::Borrowed(wanted.as_bytes())).unwrap_err();
        let gbk = "gbk (变量)";
        for part in ["'修' is not ASCII", "not certain", "was guessed", "as `encoding`", gbk] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
        let named = Declaration::Call(DeclaredEncoding::parse("gbk").unwrap());
        let coded = CodedText::decode(&bytes, Some(named)).unwrap();
        let wanted = String::from_utf8_lossy(coded.text()).replace("int x;", "int x; // 修改");
        let written = coded.encode(Cow::Borrowed(wanted.as_bytes())).unwrap();
        let (text, is_damaged) = encoding_rs::GBK.decode_without_bom_handling(&written);
        assert_eq!((text.as_ref(), is_damaged), ("int x; // 修改 /* 变量 */\n", false));
    }

    #[test]
    fn files_1_latin_1_has_no_characters_of_windows() {
        let named = |name: &str| Some(Declaration::Other(DeclaredEncoding::parse(name).unwrap()));
        let written = |bytes: &[u8], name, new: &'static str| {
            CodedText::decode(bytes, named(name)).unwrap().encode(Cow::Borrowed(new.as_bytes()))
        };
        assert_eq!(written(b"\xe9", "latin1", "éü"), Ok(b"\xe9\xfc".to_vec()));
        let refusal = written(b"\xe9", "latin1", "é€").unwrap_err();
        assert!(refusal.contains("'€' is in windows-1252"), "{refusal}");
        assert!(written(b"\xe9", "iso-8859-9", "é€").is_err());
        assert_eq!(written(b"\xe9", "windows-1252", "é€"), Ok(b"\xe9\x80".to_vec()));
        // Who has written such characters already means the encoding of Windows.
        assert_eq!(written(b"\x80", "latin1", "€ €"), Ok(b"\x80 \x80".to_vec()));
        // A byte order mark counts for more than a name.
        let wide = b"\xff\xfe\xac\x20\xac\x20".to_vec();
        assert_eq!(written(b"\xff\xfe\xac\x20", "latin1", "€€"), Ok(wide));
        let ascii = Some(Declaration::Call(DeclaredEncoding::parse("ascii").unwrap()));
        assert!(CodedText::decode(b"\xe9", ascii).is_err());
    }

    #[test]
    fn files_1_gb18030_under_the_name_of_gbk_keeps_its_bytes() {
        let (bytes, _, is_lossy) = encoding_rs::GB18030.encode("变 \u{3400}");
        assert!(!is_lossy);
        let gbk = Some(Declaration::Other(DeclaredEncoding::parse("gbk").unwrap()));
        let coded = CodedText::decode(&bytes, gbk).unwrap();
        let written = coded.encode(Cow::Borrowed("变 \u{3400}量".as_bytes())).unwrap();
        assert_eq!(written, [&bytes[..], &encoding_rs::GBK.encode("量").0[..]].concat());
    }

    #[test]
    fn files_1_what_would_not_be_written_back_as_it_is_takes_ascii() {
        // A character that the decoder of Big5 knows, and its encoder does not.
        let bytes = b"x \xc5\xdc\xbc\xc6 \x9d\xee";
        let named = |by: fn(DeclaredEncoding) -> Declaration| {
            CodedText::decode(bytes, Some(by(DeclaredEncoding::parse("big5").unwrap())))
        };
        let refusal = named(Declaration::Call).unwrap_err();
        assert!(refusal.contains("would be written with other bytes"), "{refusal}");
        let coded = named(Declaration::Other).unwrap();
        let wanted = String::from_utf8_lossy(coded.text()).replace('x', "y");
        let written = coded.encode(Cow::Borrowed(wanted.as_bytes())).unwrap();
        assert_eq!(written, [&b"y"[..], &bytes[1..]].concat());
    }

    #[test]
    fn f1_a_named_encoding_that_is_not_the_files_is_refused() {
        let named = |name: &str| Some(Declaration::Call(DeclaredEncoding::parse(name).unwrap()));
        let refusal = |bytes: &[u8], name| CodedText::decode(bytes, named(name)).unwrap_err();
        assert!(refusal("für".as_bytes(), "gbk").contains("in UTF-8, so leave `encoding` out"));
        assert!(refusal(b"caf\xe9", "gbk").contains("not in GBK"));
        let earlier = Some(Declaration::Other(DeclaredEncoding::parse("gbk").unwrap()));
        assert!(CodedText::decode(b"caf\xe9", earlier).is_ok());
    }
}
