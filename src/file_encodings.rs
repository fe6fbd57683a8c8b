//! The encodings that somebody names for files: the configuration, or an `.editorconfig`.

mod editor_config;

use std::collections::BTreeMap;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

use crate::encoding::DeclaredEncoding;

/// The settings of `[tools.files]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EncodingSettings {
    /// The encoding of files whose path fits a glob. It counts for those that can be in it and
    /// do not show another one themselves.
    encoding: BTreeMap<String, String>,
}

/// The encodings of files that somebody has named.
#[derive(Debug, Default)]
pub(crate) struct FileEncodings {
    by_glob: Vec<(PathGlob, DeclaredEncoding)>,
}

#[derive(Debug)]
struct PathGlob {
    matcher: GlobMatcher,
    is_of_names: bool,
}

impl EncodingSettings {
    /// The first entry that cannot be followed, and why.
    pub(crate) fn fault(&self) -> Option<String> {
        self.encoding.iter().find_map(|(glob, name)| read(glob, name).err())
    }
}

impl FileEncodings {
    /// Takes the entries that can be followed, which are all where the configuration was checked.
    pub(crate) fn new(settings: &EncodingSettings) -> Self {
        let entries = settings.encoding.iter();
        Self { by_glob: entries.filter_map(|(glob, name)| read(glob, name).ok()).collect() }
    }

    /// The encoding that is named for a file. Of several globs the longest counts, and where none
    /// fits, `.editorconfig`. Reads from disk.
    pub(crate) fn declared(&self, path: &Path) -> Option<DeclaredEncoding> {
        self.configured(path).or_else(|| editor_config::encoding(path))
    }

    fn configured(&self, path: &Path) -> Option<DeclaredEncoding> {
        let fitting = self.by_glob.iter().filter(|(glob, _)| glob.fits(path));
        let longest = fitting.max_by_key(|(glob, _)| glob.matcher.glob().glob().len());
        longest.map(|(_, encoding)| *encoding)
    }
}

impl PathGlob {
    /// One without a slash is for names at any depth, as in Glob. Another one that does not begin
    /// with a slash may begin in any directory.
    fn new(glob: &str) -> Result<Self, String> {
        let is_of_names = !glob.contains('/');
        let is_anywhere = !is_of_names && !glob.starts_with('/') && !glob.starts_with("**/");
        let whole = if is_anywhere { format!("**/{glob}") } else { glob.to_owned() };
        let built = GlobBuilder::new(&whole).literal_separator(true).build();
        let matcher = built.map_err(|error| format!("{glob:?} is no glob: {}", error.kind()))?;
        Ok(Self { matcher: matcher.compile_matcher(), is_of_names })
    }

    fn fits(&self, path: &Path) -> bool {
        if self.is_of_names {
            path.file_name().is_some_and(|name| self.matcher.is_match(name))
        } else {
            self.matcher.is_match(path)
        }
    }
}

fn read(glob: &str, name: &str) -> Result<(PathGlob, DeclaredEncoding), String> {
    let encoding = DeclaredEncoding::parse(name).ok_or_else(|| {
        format!("{name:?} is no encoding that is known; give a name such as \"gbk\" or \"latin1\"")
    })?;
    Ok((PathGlob::new(glob)?, encoding))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(entries: &[(&str, &str)]) -> EncodingSettings {
        let entries = entries.iter().map(|(glob, name)| ((*glob).to_owned(), (*name).to_owned()));
        EncodingSettings { encoding: entries.collect() }
    }

    #[test]
    fn f1_the_longest_glob_that_fits_counts() {
        let entries = [("*.c", "gbk"), ("legacy/**/*.c", "big5"), ("/srv/app/**", "latin1")];
        let encodings = FileEncodings::new(&settings(&entries));
        let named = |path: &str| encodings.declared(Path::new(path)).map(DeclaredEncoding::name);
        assert_eq!(named("/work/a.c"), Some("GBK"));
        assert_eq!(named("/work/legacy/x/a.c"), Some("Big5"));
        assert_eq!(named("/srv/app/a.txt"), Some("windows-1252"));
        assert_eq!(named("/work/a.h"), None);
    }

    #[test]
    fn f1_what_cannot_be_followed_is_told() {
        assert_eq!(settings(&[("*.c", "gbk")]).fault(), None);
        let fault = |glob, name| settings(&[(glob, name)]).fault().unwrap();
        assert!(fault("*.c", "gbx").contains("\"gbx\" is no encoding that is known"));
        assert!(fault("[", "gbk").contains("\"[\" is no glob"));
    }
}
