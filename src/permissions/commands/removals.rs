//! Finds commands that remove a place that nobody wants removed.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::ParsedCommand;
use super::directories::{Directories, Place, directories, normalized, value};
use super::globs::may_mean;
use super::part::Part;
use super::word::{Piece, Word};

/// A removal of `/`, a directory at the top, home, the working directory or one above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CriticalRemoval {
    /// `rm` or `rmdir`.
    pub(crate) program: String,
    /// The operand as written.
    pub(crate) operand: String,
    /// What it would remove.
    pub(crate) path: PathBuf,
}

const REMOVERS: [&str; 2] = ["rm", "rmdir"];

impl ParsedCommand {
    /// The critical removals of the line, through wrappers too.
    pub(crate) fn critical_removals(&self, place: &Place<'_>) -> Vec<CriticalRemoval> {
        let mut found = Vec::new();
        for (reached, directories) in self.reached.iter().zip(directories(&self.reached, place)) {
            for removal in removals_of(&reached.part, place, &directories) {
                if !found.contains(&removal) {
                    found.push(removal);
                }
            }
        }
        found
    }
}

fn removals_of(part: &Part, place: &Place<'_>, directories: &Directories) -> Vec<CriticalRemoval> {
    let Some(program) = part.program().filter(|name| REMOVERS.contains(name)) else {
        return Vec::new();
    };
    let is_operand = |word: &&Word| !word.unquoted.starts_with('-') || word.unquoted == "-";
    let operands = part.words[1..].iter().filter(is_operand);
    let removal = |word: &Word| {
        let path = critical_path(word, place, directories)?;
        let operand = word.raw.clone();
        Some(CriticalRemoval { program: program.to_owned(), operand, path })
    };
    operands.filter_map(removal).collect()
}

fn critical_path(word: &Word, place: &Place<'_>, directories: &Directories) -> Option<PathBuf> {
    let mut targets = BTreeSet::new();
    let bases = directories.known.iter().map(PathBuf::as_path);
    // Where the directory is unknown, it could be the working directory's parent.
    let bases: Vec<_> = bases.chain(directories.or_unknown.then_some(place.directory)).collect();
    for text in possible_texts(word, place, directories) {
        // An empty operand is an error of `rm`, which removes nothing.
        if !text.is_empty() {
            targets.extend(bases.iter().map(|base| normalized(&base.join(&text))));
        }
    }
    targets.into_iter().find_map(|target| criticals(&target, place))
}

/// The operand as a path with `*` and `?`, for each value that its expansions may have: a
/// variable that is not set is empty, which turns `$DIR/*` into `/*`.
fn possible_texts(word: &Word, place: &Place<'_>, directories: &Directories) -> Vec<String> {
    if let Some(value) = value(word, place, directories) {
        return vec![value];
    }
    let mut text = String::new();
    for piece in &word.pieces {
        match piece {
            Piece::Text(more) => text.push_str(more),
            Piece::Glob(glob) => text.push(*glob),
            Piece::Home => text.push_str(&place.home.to_string_lossy()),
            Piece::Variable(name) if name == "HOME" => text.push_str(&place.home.to_string_lossy()),
            Piece::Variable(name) if name == "PWD" => {
                text.push_str(&place.directory.to_string_lossy());
            }
            Piece::Variable(_) | Piece::Unknown(_) => {}
        }
    }
    if word.has_braces { with_braces(&text) } else { vec![text] }
}

/// `/{a,b}` as `/a` and `/b`: one brace, without others in it.
fn with_braces(text: &str) -> Vec<String> {
    let inside = text.split_once('{').and_then(|(before, rest)| {
        let (inside, after) = rest.split_once('}')?;
        Some((before, inside, after))
    });
    let Some((before, inside, after)) = inside else { return vec![text.to_owned()] };
    let expand = |part: &str| format!("{before}{part}{after}");
    inside.split(',').take(64).map(expand).flat_map(|text| with_more(&text)).collect()
}

fn with_more(text: &str) -> Vec<String> {
    // A second brace is expanded once; what is deeper counts as any text.
    let plain = text.replace(['{', '}'], "*");
    vec![plain]
}

/// Whether removing the path is critical.
pub(in crate::permissions) fn is_critical(path: &Path, place: &Place<'_>) -> bool {
    criticals(path, place).is_some()
}

/// The critical path that `target`, a path that may hold `*` and `?`, can mean.
fn criticals(target: &Path, place: &Place<'_>) -> Option<PathBuf> {
    let names = |path: &Path| -> Vec<String> {
        let normal = path.components().filter(|component| *component != Component::RootDir);
        normal.map(|component| component.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let target_names = names(target);
    if target_names.len() <= 1 {
        return Some(target.to_owned());
    }
    let above = place.directory.ancestors().map(Path::to_owned);
    let home = [place.home.to_owned()];
    let is_meant = |path: &PathBuf| {
        let path_names = names(path);
        path_names.len() == target_names.len()
            && target_names.iter().zip(&path_names).all(|(pattern, name)| may_mean(pattern, name))
    };
    let everything_in_home =
        target_names.last().is_some_and(|name| name == "*") && target.parent() == Some(place.home);
    if everything_in_home {
        return Some(place.home.to_owned());
    }
    above.chain(home).find(is_meant)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[track_caller]
    fn check(line: &str, paths: &[&str]) {
        let place = Place { directory: Path::new("/ws/sub/deep"), home: Path::new("/home/me") };
        let found = parse(line).unwrap().critical_removals(&place);
        let found: Vec<_> = found.iter().map(|removal| removal.path.to_str().unwrap()).collect();
        assert_eq!(found, paths, "{line}");
    }

    #[test]
    fn removing_a_root_is_critical() {
        check("rm -rf /", &["/"]);
        check("rm -rf -- /", &["/"]);
        check("rm -rf //", &["/"]);
        check("rmdir /etc", &["/etc"]);
        check("rm -rf /usr/", &["/usr"]);
        check("rm -rf /usr/..", &["/"]);
        check("rm -rf /*", &["/*"]);
        check("rm -rf '/'", &["/"]);
        check("rm -rf \"/\"", &["/"]);
        check("\\rm -rf /", &["/"]);
        check("/bin/rm -rf /", &["/"]);
        check("rm / -rf", &["/"]);
        check("rm a / b", &["/"]);
    }

    #[test]
    fn removing_home_or_the_working_directory_is_critical() {
        check("rm -rf ~", &["/home/me"]);
        check("rm -rf ~/", &["/home/me"]);
        check("rm -rf ~/*", &["/home/me"]);
        check("rm -rf $HOME", &["/home/me"]);
        check("rm -rf \"${HOME}\"", &["/home/me"]);
        check("rm -rf .", &["/ws/sub/deep"]);
        check("rm -rf ./", &["/ws/sub/deep"]);
        check("rm -rf ..", &["/ws/sub"]);
        check("rm -rf ../..", &["/ws"]);
        check("rm -rf ../*", &["/ws/sub/deep"]);
        check("rm -rf ../de?p", &["/ws/sub/deep"]);
        check("rm -rf ../de[e]p", &["/ws/sub/deep"]);
        check("rm -rf /ws/sub", &["/ws/sub"]);
        check("rm -rf $PWD", &["/ws/sub/deep"]);
        check("rm -rf x/..", &["/ws/sub/deep"]);
    }

    #[test]
    fn removing_what_may_be_a_root_is_critical() {
        check("rm -rf $DIR/*", &["/*"]);
        check("rm -rf \"$DIR/\"", &["/"]);
        check("rm -rf /{usr,etc}", &["/etc"]);
        check("rm -rf /$x", &["/"]);
        check("cd .. && rm -rf deep", &["/ws/sub/deep"]);
        check("cd / && rm -rf usr", &["/usr"]);
        check("cd /; rm -rf *", &["/*"]);
        check("cd \"$x\"; rm -rf .", &["/ws/sub/deep"]);
    }

    #[test]
    fn removals_behind_other_programs_are_seen() {
        for line in [
            "sudo rm -rf /",
            "env -i rm -rf /",
            "sh -c 'rm -rf /'",
            "timeout 5 rm -rf /",
            "eval 'rm -rf /'",
            "echo $(rm -rf /)",
            "true && (rm -rf /)",
            "echo / | xargs rm -rf /",
            "find . -exec rm -rf / \\;",
            "bash -lc 'cd x; rm -rf /'",
            "exec rm -rf /",
            "nice -n 5 rm -rf /",
            "busybox rm -rf /",
            "sudo -u me rm -rf /",
            "cat <(rm -rf /)",
            "f() { rm -rf /; }; f",
            "if true; then rm -rf /; fi",
            "! rm -rf /",
        ] {
            check(line, &["/"]);
        }
    }

    #[test]
    fn removing_something_else_is_not_critical() {
        for line in [
            "rm -rf target",
            "rm -rf ./a ../b",
            "rm *",
            "rm -rf ./*",
            "rm -rf /tmp/x",
            "rm -rf $x",
            "rm -rf ~/x",
            "echo rm -rf /",
            "rm -rf ''",
            "rm -rf /home/other",
            "cd sub && rm -rf x",
            "rm -rf /home/me/x/*",
        ] {
            check(line, &[]);
        }
    }
}
