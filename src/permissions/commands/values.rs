//! Guesses what words may become when a line runs, for the warning about removals: a variable
//! has the values that the line gives it, a substitution what its command is seen to print.
//!
//! It guesses too much rather than too little, and proves nothing.

use super::directories::{Directories, Place};
use super::operands::starting_points;
use super::parse_parts;
use super::part::Part;
use super::reach::Reached;
use super::word::{Piece, Word, is_name};
use super::wrappers::FROM_INPUT;

/// Values of one word, and values within values: more were made to take long.
const MAX_VALUES: usize = 64;
const MAX_DEPTH: usize = 4;

/// Builtins that give variables their values by words `NAME=value`, and `env`.
const DECLARING: [&str; 6] = ["declare", "env", "export", "local", "readonly", "typeset"];

/// Options of `find` that leave out files by what they are called or how old they are.
const NARROWING: [&str; 24] = [
    "-amin",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-ctime",
    "-empty",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-lname",
    "-mmin",
    "-mtime",
    "-name",
    "-newer",
    "-path",
    "-regex",
    "-samefile",
    "-size",
    "-user",
    "-wholename",
];

/// The values that a line gives to its variables and its pipes.
pub(super) struct LineValues<'a> {
    parts: Vec<&'a Part>,
    line: &'a str,
    place: &'a Place<'a>,
}

impl<'a> LineValues<'a> {
    pub(super) fn new(line: &'a str, reached: &'a [Reached], place: &'a Place<'a>) -> Self {
        Self { parts: reached.iter().map(|reached| &reached.part).collect(), line, place }
    }

    /// The texts that a word may stand for, with `*` and `?` in them. A variable that is not
    /// set is empty, which turns `$DIR/*` into `/*`.
    pub(super) fn texts(&self, word: &Word, directories: &Directories) -> Vec<String> {
        Guess { values: self, directories }.word(word, 0)
    }

    /// The directories into which the line may lead, beside those that are known.
    pub(super) fn entered(&self, directories: &Directories) -> Vec<String> {
        let enters = |part: &&&Part| {
            let changes = matches!(part.program(), Some("cd" | "pushd"));
            directories.or_unknown || !changes
        };
        let words = self.parts.iter().filter(enters).flat_map(|part| entered_words(part));
        words.flat_map(|word| self.texts(word, directories)).collect()
    }

    fn assigned(&self, name: &str) -> Vec<&Word> {
        let assignments = self.parts.iter().flat_map(|part| &part.assignments);
        assignments.filter(|one| one.name == name).flat_map(|one| &one.values).collect()
    }

    fn declared(&self, name: &str) -> Vec<Word> {
        let declares = |part: &&&Part| part.program().is_some_and(|it| DECLARING.contains(&it));
        let words = self.parts.iter().filter(declares).flat_map(|part| part.words.iter().skip(1));
        let value = |word: &Word| {
            let is_it = word.as_assignment()?.0 == name;
            is_it.then(|| word.without_prefix(name.len() + 1))?
        };
        words.filter_map(value).collect()
    }

    /// Whether the variable takes its value from what a part reads.
    fn is_read(&self, name: &str) -> bool {
        self.parts.iter().any(|part| {
            let reads = matches!(part.program(), Some("read" | "mapfile" | "readarray"));
            reads && part.words.iter().any(|word| word.unquoted == name)
        })
    }

    /// What stands behind the names of functions of the line, and behind `set`.
    fn arguments(&self) -> impl Iterator<Item = &Word> {
        let passes = |part: &&&Part| {
            part.program().is_some_and(|name| {
                let is_function = self.line.contains(&format!("{name}()"))
                    || self.line.contains(&format!("{name} ()"))
                    || self.line.contains(&format!("function {name}"));
                name == "set" || is_function
            })
        };
        self.parts.iter().filter(passes).flat_map(|part| part.words.iter().skip(1))
    }
}

/// One guess at the values of words.
struct Guess<'a> {
    values: &'a LineValues<'a>,
    directories: &'a Directories,
}

impl Guess<'_> {
    fn word(&self, word: &Word, depth: usize) -> Vec<String> {
        let mut texts = vec![String::new()];
        for piece in &word.pieces {
            let values = self.piece(piece, depth);
            let with = |text: &String| -> Vec<String> {
                values.iter().map(|value| format!("{text}{value}")).collect()
            };
            texts = texts.iter().flat_map(with).take(MAX_VALUES).collect();
        }
        if word.has_braces {
            texts = texts.iter().flat_map(|text| with_braces(text)).take(MAX_VALUES).collect();
        }
        texts
    }

    fn piece(&self, piece: &Piece, depth: usize) -> Vec<String> {
        match piece {
            Piece::Text(text) => vec![text.clone()],
            Piece::Glob(glob) => vec![glob.to_string()],
            Piece::Home => vec![self.home()],
            Piece::Variable(name) => self.variable(name, depth),
            Piece::Unknown(written) => self.expansion(written, depth),
        }
    }

    fn home(&self) -> String {
        self.values.place.home.to_string_lossy().into_owned()
    }

    /// The working directories. Where they are not known, it could be the first one.
    fn here(&self) -> Vec<String> {
        let mut here: Vec<String> = self
            .directories
            .known
            .iter()
            .map(|directory| directory.to_string_lossy().into_owned())
            .collect();
        if self.directories.or_unknown {
            here.push(self.values.place.directory.to_string_lossy().into_owned());
        }
        here
    }

    fn variable(&self, name: &str, depth: usize) -> Vec<String> {
        if depth > MAX_DEPTH {
            return vec![String::new()];
        }
        let mut values = match name {
            "HOME" => vec![self.home()],
            "PWD" | "OLDPWD" => self.here(),
            _ => vec![String::new()],
        };
        let inner = |word: &Word| self.word(word, depth + 1);
        if name.starts_with(|c: char| c.is_ascii_digit()) || matches!(name, "@" | "*") {
            values.extend(self.values.arguments().flat_map(inner));
        }
        values.extend(self.values.assigned(name).into_iter().flat_map(inner));
        values.extend(self.values.declared(name).iter().flat_map(inner));
        if self.values.is_read(name) {
            values.extend(self.input(depth + 1));
        }
        for more in self.values.assigned(&format!("{name}+")) {
            let appended = self.word(more, depth + 1);
            let with = |text: &String| -> Vec<String> {
                appended.iter().map(|more| format!("{text}{more}")).collect()
            };
            let longer: Vec<String> = values.iter().flat_map(with).collect();
            values.extend(longer);
        }
        values.truncate(MAX_VALUES);
        values
    }

    fn expansion(&self, written: &str, depth: usize) -> Vec<String> {
        if depth > MAX_DEPTH {
            return vec![String::new()];
        }
        if written == FROM_INPUT {
            return self.input(depth + 1);
        }
        if let Some(name) = written.strip_prefix('~') {
            return match name {
                "+" | "-" => self.here(),
                "root" => vec!["/root".to_owned()],
                name => vec![format!("/home/{name}")],
            };
        }
        if let Some(inside) = written.strip_prefix("${").and_then(|it| it.strip_suffix('}')) {
            return self.parameter(inside, depth);
        }
        // The elements of an array.
        if let Some(inside) = written.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
            return inside.split_whitespace().flat_map(|text| self.text(text, depth)).collect();
        }
        let script = written.strip_prefix("$(").and_then(|it| it.strip_suffix(')'));
        let script =
            script.or_else(|| written.strip_prefix('`').and_then(|it| it.strip_suffix('`')));
        let printed = script.map(|script| self.printed(script, depth + 1)).unwrap_or_default();
        if printed.is_empty() { vec![String::new()] } else { printed }
    }

    /// The values of `${…}`.
    fn parameter(&self, inside: &str, depth: usize) -> Vec<String> {
        let (inside, is_indirect) = match inside.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (inside, false),
        };
        let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = inside.find(|c| !is_inner(c)).unwrap_or(inside.len());
        let end = if end == 0 { inside.chars().next().map_or(0, char::len_utf8) } else { end };
        let (name, operation) = inside.split_at(end);
        let mut values = self.variable(name, depth + 1);
        if is_indirect {
            let named: Vec<String> = values.into_iter().filter(|value| is_name(value)).collect();
            values = named.iter().flat_map(|name| self.variable(name, depth + 1)).collect();
        }
        let operation = operation.strip_prefix(':').unwrap_or(operation);
        match operation.chars().next() {
            None | Some('?' | '[') => values,
            Some('-' | '=' | '+') => {
                values.extend(self.text(&operation[1..], depth));
                values
            }
            // What is cut off leaves a directory above.
            Some(_) => {
                let above = |value: &String| -> Vec<String> {
                    let path = std::path::Path::new(value);
                    let above = path.ancestors().filter(|it| it.parent().is_some());
                    above.map(|it| it.to_string_lossy().into_owned()).collect()
                };
                values.iter().flat_map(above).collect()
            }
        }
    }

    /// The values of a text that the parser has not split into pieces.
    fn text(&self, text: &str, depth: usize) -> Vec<String> {
        let text = text.trim_matches(['\'', '"']);
        if depth > MAX_DEPTH {
            return vec![text.to_owned()];
        }
        match text.strip_prefix('$').filter(|name| is_name(name)) {
            Some(name) => self.variable(name, depth + 1),
            None if text.starts_with("${") || text.starts_with("$(") => {
                self.expansion(text, depth + 1)
            }
            None if text == "~" => vec![self.home()],
            None => vec![text.to_owned()],
        }
    }

    /// What a script is seen to print.
    fn printed(&self, script: &str, depth: usize) -> Vec<String> {
        let parts = parse_parts(script).unwrap_or_default();
        parts.iter().flat_map(|part| self.printed_by(part, depth)).take(MAX_VALUES).collect()
    }

    /// What parts of the line put into a pipe, and what stands in its here-documents.
    fn input(&self, depth: usize) -> Vec<String> {
        let parts = self.values.parts.iter();
        let mut values: Vec<String> =
            parts.clone().flat_map(|part| self.printed_by(part, depth)).collect();
        if parts.clone().any(|part| part.has_text_input()) {
            let line = self.values.line;
            let after = line.split_once("<<").map_or("", |(_, after)| after);
            let words = after.split(|c: char| c.is_whitespace() || "<;&|()".contains(c));
            values.extend(words.flat_map(|word| self.text(word, depth)));
        }
        values.truncate(MAX_VALUES);
        values
    }

    fn printed_by(&self, part: &Part, depth: usize) -> Vec<String> {
        if depth > MAX_DEPTH {
            return Vec::new();
        }
        let arguments = part.words.iter().skip(1).filter(|word| !word.unquoted.starts_with('-'));
        let texts = |words: Vec<&Word>| -> Vec<String> {
            let texts = words.into_iter().flat_map(|word| self.word(word, depth));
            // `printf '/\0'`, `echo "a b"`
            texts.flat_map(|text| pieces_of(&text)).collect()
        };
        match part.program() {
            Some("pwd") => self.here(),
            Some("echo" | "printf" | "realpath" | "readlink" | "cd") => texts(arguments.collect()),
            Some("dirname") => {
                let above = |word: String| {
                    let above = std::path::Path::new(&word).parent();
                    let above = above.map(|it| it.to_string_lossy().into_owned());
                    above.filter(|it| !it.is_empty()).unwrap_or_else(|| {
                        if word.starts_with('/') { word } else { ".".to_owned() }
                    })
                };
                let words = arguments.flat_map(|word| self.word(word, depth));
                words.map(above).collect()
            }
            Some("git") if part.words.iter().any(|word| word.is("--show-toplevel")) => {
                vec![self.values.place.directory.to_string_lossy().into_owned()]
            }
            Some("ls") if has_letter(part, 'd') => texts(arguments.collect()),
            Some("find") if !is_narrowed(part) => {
                let starts = texts(starting_points(&part.words[1..]));
                starts.into_iter().filter(|start| !start.starts_with('.')).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn pieces_of(text: &str) -> Vec<String> {
    let plain = text.replace("\\n", " ").replace("\\0", " ").replace("%s", " ");
    let words = plain.split_whitespace().filter(|word| !word.contains('%'));
    words.map(str::to_owned).collect()
}

fn has_letter(part: &Part, letter: char) -> bool {
    part.words.iter().skip(1).any(|word| {
        let text = word.unquoted.as_str();
        text.starts_with('-') && !text.starts_with("--") && text.contains(letter)
    })
}

/// The words that lead to another directory.
fn entered_words(part: &Part) -> Vec<&Word> {
    let arguments = part.words.get(1..).unwrap_or_default();
    match part.program() {
        Some("cd" | "pushd") => {
            arguments.iter().filter(|word| !word.unquoted.starts_with('-')).collect()
        }
        Some("env" | "sudo") => {
            let leads = |word: &&Word| {
                matches!(word.unquoted.as_str(), "-C" | "-D" | "--chdir" | "--chroot" | "-R")
            };
            let pairs = arguments.iter().zip(arguments.iter().skip(1));
            pairs.filter(|(option, _)| leads(option)).map(|(_, value)| value).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether `find` finds only some of the files.
pub(super) fn is_narrowed(part: &Part) -> bool {
    let words = || part.words.iter().map(|word| word.unquoted.as_str());
    words().zip(words().skip(1)).any(|(option, value)| NARROWING.contains(&option) && value != "*")
        || words().any(|word| word == "-empty")
}

/// `/{a,b}` as `/a` and `/b`: one brace, without others in it.
fn with_braces(text: &str) -> Vec<String> {
    let inside = text.split_once('{').and_then(|(before, rest)| {
        let (inside, after) = rest.split_once('}')?;
        Some((before, inside, after))
    });
    let Some((before, inside, after)) = inside else { return vec![text.to_owned()] };
    // A second brace is any text.
    let expand = |part: &str| format!("{before}{part}{after}").replace(['{', '}'], "*");
    inside.split(',').take(MAX_VALUES).map(expand).collect()
}
