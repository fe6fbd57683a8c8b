//! Reads a glob twice: as it stands, and with its brackets and braces as plain characters, for
//! names such as `[id]` and `{slug}`.

use globset::Glob;

/// The second reading is tried where the first one matches nothing.
pub(crate) const READ_LITERALLY: &str =
    "(brackets and braces of the glob are read as plain characters: it matches nothing otherwise)";

/// A glob that matches what the given one matches, and each name that holds its brackets and
/// braces as they are written. `None` if it has none of them.
pub(crate) fn with_literal_brackets(glob: &str) -> Option<String> {
    glob.contains(['[', ']', '{', '}']).then(|| {
        let chars: Vec<char> = glob.chars().collect();
        both_readings(&chars)
    })
}

/// Whether a glob has a group such as `!(a|b)`, which other tools know.
pub(crate) fn has_extended_group(glob: &str) -> bool {
    ["!(", "@(", "+(", "?(", "*("].iter().any(|group| glob.contains(group))
}

fn both_readings(glob: &[char]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while let Some(&c) = glob.get(at) {
        let rest = &glob[at..];
        let group = match c {
            '\\' => {
                text.extend(rest.iter().take(2));
                at += 2;
                continue;
            }
            '[' => class(rest),
            '{' => braces_length(rest).map(|length| (length, both_readings(&rest[1..length - 1]))),
            _ => None,
        };
        if let Some((length, special)) = group {
            let plain = literal(&rest[..length]);
            text.extend(["{", special.as_str(), ",", plain.as_str(), "}"]);
            at += length;
            continue;
        }
        if matches!(c, '[' | ']' | '{' | '}') {
            text.push('\\');
        }
        text.push(c);
        at += 1;
    }
    text
}

/// A class of characters, and its length. One with a range that ends before it begins, as in
/// `[...sign-in]`, is none.
fn class(glob: &[char]) -> Option<(usize, String)> {
    let length = class_length(glob)?;
    let class: String = glob[..length].iter().collect();
    Glob::new(&class).is_ok().then_some((length, class))
}

/// The length of a class of characters, as globs read it: the first bracket that closes ends it,
/// unless it comes first.
fn class_length(glob: &[char]) -> Option<usize> {
    let mut first = 1;
    if matches!(glob.get(first), Some('!' | '^')) {
        first += 1;
    }
    let close = glob.iter().skip(first + 1).position(|c| *c == ']')?;
    Some(first + close + 2)
}

fn braces_length(glob: &[char]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(c) = glob.get(at) {
        match c {
            '\\' => at += 1,
            '[' => at += class_length(&glob[at..]).map_or(0, |length| length - 1),
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Every character for itself, but for wildcards outside of classes.
fn literal(glob: &[char]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while let Some(&c) = glob.get(at) {
        if c == '\\' {
            text.extend(glob[at..].iter().take(2));
            at += 2;
            continue;
        }
        if matches!(c, '[' | ']' | '{' | '}' | ',') {
            text.push('\\');
        }
        text.push(c);
        at += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use globset::GlobBuilder;

    use super::*;

    #[track_caller]
    fn check(glob: &str, matching: &[&str], others: &[&str]) {
        let both = with_literal_brackets(glob).unwrap();
        let built = GlobBuilder::new(&both).literal_separator(true).build();
        let matcher = built.unwrap_or_else(|error| panic!("{both}: {error}")).compile_matcher();
        for path in matching {
            assert!(matcher.is_match(path), "{glob} as {both}: {path}");
        }
        for path in others {
            assert!(!matcher.is_match(path), "{glob} as {both}: {path}");
        }
    }

    #[test]
    fn files_19a_a_glob_has_a_second_reading_with_plain_brackets() {
        check(
            "src/app/[locale]/(auth)/**",
            &["src/app/[locale]/(auth)/page.tsx", "src/app/l/(auth)/x"],
            &["src/app/locale/(auth)/x", "src/app/x/(auth)/y"],
        );
        check("[...slug]/page.tsx", &["[...slug]/page.tsx", "s/page.tsx"], &["x/page.tsx"]);
        check("[[...slug]]/*.{ts,tsx}", &["[[...slug]]/a.tsx", "[[...slug]]/b.ts"], &["a.js"]);
        check("[id]/[a-c]*.ts", &["[id]/b1.ts", "i/a.ts", "[id]/[a-c]x.ts"], &["[id]/d.ts"]);
        check("{slug}/x", &["{slug}/x", "slug/x"], &["{slug/x"]);
        check("{a,b}.rs", &["a.rs", "{a,b}.rs"], &["{a.rs", "a,b.rs"]);
        check("{a,[id]}.rs", &["a.rs", "[id].rs", "i.rs"], &["id.rs"]);
        check("[!a]x", &["bx", "[!a]x"], &["ax"]);
        check("src/{a", &["src/{a"], &["src/a"]);
        check("[", &["["], &["x"]);
        check("a]b", &["a]b"], &["ab"]);
        check("[]]", &["]", "[]]"], &["["]);
        check(r"\[a\]{b,c}", &["[a]b", "[a]{b,c}"], &["ab"]);
        check("{a,{b,c}}/*.x", &["c/1.x", "{a,{b,c}}/1.x"], &["{b,c}/1.x/y"]);
        check("[*]", &["*", "[x]"], &["x"]);
        check(
            "**/app/(auth)/[[...sign-in]]/page.js",
            &["a/app/(auth)/[[...sign-in]]/page.js"],
            &["app/(auth)/s/page.js"],
        );
    }

    #[test]
    fn a_glob_without_brackets_has_one_reading() {
        assert_eq!(with_literal_brackets("src/(auth)/**/$id+_layout@slot.ts"), None);
        assert!(has_extended_group("**/!(*.test).ts") && !has_extended_group("(auth)/a"));
    }
}
