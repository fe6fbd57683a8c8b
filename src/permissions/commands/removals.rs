//! Finds commands that remove a place that nobody wants removed.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::directories::{Directories, Place, directories, normalized};
use super::globs::may_mean;
use super::operands::starting_points;
use super::part::Part;
use super::values::{LineValues, is_narrowed};
use super::word::{Piece, Word};
use super::{ParsedCommand, UnparsedCommand};

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
        let values = LineValues::new(&self.line, &self.reached, place);
        let mut found = Vec::new();
        for (reached, directories) in self.reached.iter().zip(directories(&self.reached, place)) {
            let finder = RemovalFinder { place, values: &values, directories: &directories };
            for removal in finder.of_part(&reached.part) {
                if !found.contains(&removal) {
                    found.push(removal);
                }
            }
        }
        found
    }
}

impl UnparsedCommand {
    /// The critical removals that the text of the line shows.
    pub(crate) fn critical_removals(&self, place: &Place<'_>) -> Vec<CriticalRemoval> {
        let directories = Directories { known: vec![place.directory.to_owned()], or_unknown: true };
        let values = LineValues::new(&self.line, &[], place);
        let finder = RemovalFinder { place, values: &values, directories: &directories };
        self.fragments.iter().flat_map(|part| finder.of_part(&with_home(part, place))).collect()
    }
}

/// The part of a line that does not parse, with the variables that stand for a directory.
fn with_home(part: &Part, place: &Place<'_>) -> Part {
    let (home, here) = (place.home.to_string_lossy(), place.directory.to_string_lossy());
    let word = |word: &Word| {
        let mut text = word.unquoted.clone();
        for (name, value) in [("HOME", &home), ("PWD", &here)] {
            if let Some((before, rest)) = text.split_once(&format!("${{{name}")) {
                let after = rest.split_once('}').map_or("", |(_, after)| after);
                text = format!("{before}{value}{after}");
            }
            text = text.replace(&format!("${name}"), value);
        }
        let rest = text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let text = rest.map_or(text.clone(), |rest| format!("{home}{rest}"));
        Word::plain(&text)
    };
    Part { words: part.words.iter().map(word).collect(), ..part.clone() }
}

struct RemovalFinder<'a> {
    place: &'a Place<'a>,
    values: &'a LineValues<'a>,
    directories: &'a Directories,
}

impl RemovalFinder<'_> {
    fn of_part(&self, part: &Part) -> Vec<CriticalRemoval> {
        let Some(program) = part.program() else { return Vec::new() };
        let here = Word::plain(".");
        let operands: Vec<&Word> = if REMOVERS.contains(&program) {
            let is_operand = |word: &&Word| !word.unquoted.starts_with('-') || word.is("-");
            part.words[1..].iter().filter(is_operand).collect()
        } else if program == "find" && removes_all_found(part) {
            let starts = starting_points(&part.words[1..]);
            if starts.is_empty() { vec![&here] } else { starts }
        } else {
            return Vec::new();
        };
        let removal = |word: &Word| {
            let path = self.critical_path(word)?;
            Some(CriticalRemoval { program: program.to_owned(), operand: word.raw.clone(), path })
        };
        operands.into_iter().filter_map(removal).collect()
    }

    fn critical_path(&self, word: &Word) -> Option<PathBuf> {
        let mut bases: Vec<PathBuf> = self.directories.known.clone();
        if self.directories.or_unknown {
            // It could be the working directory's parent, or where a variable leads.
            bases.push(self.place.directory.to_owned());
        }
        let entered = self.values.entered(self.directories);
        bases.extend(entered.iter().map(|directory| self.place.directory.join(directory)));
        let bases_of = |text: &str| {
            // An entered directory that is known counts where the walk says so.
            let count = if Path::new(text).is_absolute() { 1 } else { bases.len() };
            &bases[..count.min(bases.len())]
        };
        let mut targets = BTreeSet::new();
        for text in self.values.texts(word, self.directories) {
            // An empty operand is an error of `rm`, which removes nothing.
            if !text.is_empty() {
                targets.extend(bases_of(&text).iter().map(|base| normalized(&base.join(&text))));
            }
        }
        let is_foreign_home =
            matches!(word.pieces.first(), Some(Piece::Unknown(text)) if text.starts_with('~'));
        targets.into_iter().find_map(|target| {
            let foreign =
                || (is_foreign_home && is_home_of_somebody(&target)).then(|| target.clone());
            criticals(&target, self.place).or_else(foreign)
        })
    }
}

/// `/home/NAME`, or all that is in it.
fn is_home_of_somebody(target: &Path) -> bool {
    let names: Vec<_> = target.components().skip(1).collect();
    let is_all = |name: &Component<'_>| name.as_os_str() == "*";
    let is_of_root = target.starts_with("/root") && names.len() == 2;
    if is_of_root && names.last().is_some_and(is_all) {
        return true;
    }
    target.starts_with("/home")
        && (names.len() == 2 || (names.len() == 3 && names.last().is_some_and(is_all)))
}

/// Whether `find` removes whatever it finds.
fn removes_all_found(part: &Part) -> bool {
    let runs = |words: &[Word]| {
        let executes =
            |word: &Word| matches!(word.unquoted.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
        let at = words.iter().position(executes);
        at.is_some_and(|at| {
            let mut names = words[at + 1..].iter().flat_map(|it| it.unquoted.split_whitespace());
            let names_found = words[at + 1..].iter().any(|word| word.unquoted.contains("{}"));
            names_found
                && names.any(|name| REMOVERS.contains(&name.rsplit('/').next().unwrap_or(name)))
        })
    };
    let deletes = part.words.iter().any(|word| word.is("-delete"));
    (deletes || runs(&part.words)) && !is_narrowed(part)
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
        let mut found: Vec<_> =
            found.iter().map(|removal| removal.path.to_str().unwrap()).collect();
        found.dedup();
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
    fn g11_removals_are_critical_however_their_operand_is_spelled() {
        let mut missed = Vec::new();
        for (line, path) in [
            ("rm -rf \"${HOME:?}\"", "/home/me"),
            ("rm -rf ${HOME:-x}", "/home/me"),
            ("rm -rf $HOME/", "/home/me"),
            ("rm -rf ${HOME%/}", "/home"),
            ("rm -rf ${HOME%/*}", "/home"),
            ("rm -rf ${DIR:-/}", "/"),
            ("rm -rf ${DIR:-$HOME}", "/home/me"),
            ("rm -rf ~root", "/root"),
            ("rm -rf ~root/*", "/root/*"),
            ("rm -rf ~other", "/home/other"),
            ("rm -rf ~other/", "/home/other"),
            ("rm -rf ~+", "/ws/sub/deep"),
            ("rm -rf $(pwd)", "/ws/sub/deep"),
            ("rm -rf `pwd`", "/ws/sub/deep"),
            ("rm -rf \"$(pwd)\"/..", "/ws/sub"),
            ("rm -rf $(echo /)", "/"),
            ("rm -rf $(printf '/%s' usr)", "/"),
            ("rm -rf $(dirname /usr/bin)", "/usr"),
            ("rm -rf $(realpath .)", "/ws/sub/deep"),
            ("rm -rf $(git rev-parse --show-toplevel)", "/ws/sub/deep"),
            ("rm -rf $(cd / && pwd)", "/"),
            ("x=/; rm -rf $x", "/"),
            ("x=/; rm -rf \"${x}usr\"", "/usr"),
            ("x=/usr; y=$x; rm -rf $y", "/usr"),
            ("x=/; x+=usr; rm -rf $x", "/"),
            ("x=~; rm -rf $x", "/home/me"),
            ("x=$(pwd); rm -rf $x", "/ws/sub/deep"),
            ("export x=/usr; rm -rf $x", "/usr"),
            ("x=/usr sh -c 'rm -rf $x'", "/usr"),
            ("env x=/usr sh -c 'rm -rf $x'", "/usr"),
            ("x=y y=/usr; rm -rf ${!x}", "/usr"),
            ("a=(/usr /etc); rm -rf \"${a[@]}\"", "/etc"),
            ("for d in /usr b; do rm -rf $d; done", "/usr"),
            ("for d in a /*; do rm -rf $d; done", "/*"),
            ("set -- /usr; rm -rf \"$1\"", "/usr"),
            ("f() { rm -rf \"$1\"; }; f /usr", "/usr"),
            ("echo / | xargs rm -rf", "/"),
            ("printf '/usr\\n' | xargs -n 1 rm -rf", "/usr"),
            ("ls -d /* | xargs rm -rf", "/*"),
            ("find /usr -type f | xargs rm -rf", "/usr"),
            ("xargs rm -rf <<< /usr", "/usr"),
            ("xargs rm -rf <<EOF\n/usr\nEOF", "/usr"),
            ("echo /usr | while read d; do rm -rf $d; done", "/usr"),
            ("read d <<< /usr; rm -rf $d", "/usr"),
            ("pushd / && rm -rf usr", "/usr"),
            ("pushd /; rm -rf usr", "/usr"),
            ("cd -P / && rm -rf usr", "/usr"),
            ("x=/; cd $x && rm -rf usr", "/usr"),
            ("cd $(echo /) && rm -rf usr", "/usr"),
            ("env -C / rm -rf usr", "/usr"),
            ("find / -delete", "/"),
            ("find ~ -type f -delete", "/home/me"),
            ("find -delete", "/ws/sub/deep"),
            ("find /usr -name '*' -delete", "/usr"),
            ("find -L / /x -exec rm -rf {} +", "/"),
            ("find /usr -exec sh -c 'rm -rf \"$1\"' _ {} \\;", "/usr"),
            ("env - rm -rf /", "/"),
        ] {
            let place = Place { directory: Path::new("/ws/sub/deep"), home: Path::new("/home/me") };
            let found = parse(line).unwrap().critical_removals(&place);
            let found: Vec<_> = found.iter().map(|it| it.path.to_str().unwrap()).collect();
            if !found.contains(&path) {
                missed.push(format!("{line}: {found:?}"));
            }
        }
        assert!(missed.is_empty(), "{missed:#?}");
    }

    #[test]
    fn g11_critical_removals_are_seen_in_lines_that_do_not_parse() {
        for line in ["rm -rf / '", "echo \"; rm -rf ~", "rm -rf \"${HOME:?}\" '", "rm -rf $PWD; '"]
        {
            let place = Place { directory: Path::new("/ws/sub/deep"), home: Path::new("/home/me") };
            let unparsed = parse(line).unwrap_err();
            assert!(!unparsed.critical_removals(&place).is_empty(), "{line}");
        }
        let place = Place { directory: Path::new("/ws"), home: Path::new("/home/me") };
        assert!(parse("rm -rf target '").unwrap_err().critical_removals(&place).is_empty());
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
            "x=/; rm -rf target",
            "x=build; rm -rf $x",
            "rm -rf ~other/x",
            "rm -rf $(cat list)",
            "rm -rf \"$(dirname \"$0\")/build\"",
            "rm -rf $(pwd)/target",
            "for d in build dist; do rm -rf $d; done",
            "find . -name '*.pyc' -delete",
            "find . -name '*.pyc' | xargs rm -f",
            "find / -name x -print",
            "find build -delete",
            "cd /tmp && rm -rf $x",
            "ls / | xargs echo",
            "grep -l x / | xargs rm",
            "pushd build && rm -rf out",
            "echo a | xargs rm",
        ] {
            check(line, &[]);
        }
    }
}
