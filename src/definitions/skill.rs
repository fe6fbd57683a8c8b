//! Defines a skill or command of a file, and reads one.

use serde::Deserialize;

use super::DefinitionOrigin;
use super::frontmatter::{ReadFrontmatter, names, readable, split};
use super::parsed::ParsedDefinition;
use crate::text::{self, shown_line};

/// Bytes of a file.
pub(super) const MAX_BYTES: u64 = 256 << 10;

const MAX_NAME: usize = 64;

/// Characters of a description: the prompt has those of all skills.
pub(crate) const MAX_DESCRIPTION: usize = 1536;

/// Bytes of what a file says of its arguments, its tools and its model.
const MAX_NOTE: usize = 1000;

/// A skill or a command, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkillDefinition {
    pub(crate) name: String,
    pub(crate) kind: SkillKind,
    /// One line of at most [`MAX_DESCRIPTION`] characters; may be empty.
    pub(crate) description: String,
    /// What follows the name where a person types it.
    pub(crate) argument_hint: Option<String>,
    /// Whether the model is told of it and may use it.
    pub(crate) is_for_model: bool,
    /// Whether a user message may begin with its name.
    pub(crate) is_for_user: bool,
    pub(crate) origin: DefinitionOrigin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkillKind {
    /// `skills/NAME/SKILL.md`, with further files beside it.
    Skill,
    /// `commands/NAME.md`.
    Command,
}

/// The text of a skill as its file holds it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SkillText {
    pub(super) text: String,
    /// What its author wanted it to use. It grants nothing.
    allowed_tools: Vec<String>,
    model: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Frontmatter {
    name: Option<String>,
    description: Option<String>,
    argument_hint: Option<Hint>,
    disable_model_invocation: bool,
    user_invocable: Option<bool>,
    #[serde(deserialize_with = "names")]
    allowed_tools: Option<Vec<String>>,
    model: Option<String>,
}

/// `[file] [count]` is a list to YAML, and so is meant as it is written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text")]
enum Hint {
    Text(String),
    List(Vec<String>),
}

impl SkillDefinition {
    /// Reads a file. `place` is the name of its place, which a skill may replace by a name of its
    /// own. The error follows the name of the file.
    pub(super) fn parse(
        file: &str,
        place: &str,
        kind: SkillKind,
        origin: DefinitionOrigin,
    ) -> Result<ParsedDefinition<Self>, String> {
        let file = readable(file);
        let parts = split(&file)?;
        let ReadFrontmatter { values: written, remark } = parts.read::<Frontmatter>()?;
        let mut remarks: Vec<String> = remark.into_iter().collect();
        let own_name = written.name.as_deref().filter(|_| kind == SkillKind::Skill);
        let name = match own_name.map(|own| check_name(own).map(|()| own)) {
            Some(Ok(own)) => own,
            Some(Err(why)) => {
                remarks.push(format!("{why}; after its place it is called {place}"));
                place
            }
            None => place,
        };
        check_name(name)?;
        let described = written.description.as_deref().map(shown_line);
        let description = described.filter(|described| !described.is_empty());
        let description = description.unwrap_or_else(|| first_line(parts.text));
        let hint = written.argument_hint.map(|hint| match hint {
            Hint::Text(text) => text,
            Hint::List(words) => format!("[{}]", words.join("] [")),
        });
        let definition = Self {
            name: name.to_owned(),
            kind,
            description: text::first_chars(&description, MAX_DESCRIPTION).to_owned(),
            argument_hint: hint.map(|hint| noted(&hint)).filter(|hint| !hint.is_empty()),
            is_for_model: !written.disable_model_invocation,
            is_for_user: written.user_invocable.unwrap_or(true),
            origin,
        };
        Ok(ParsedDefinition { definition, remarks })
    }
}

impl SkillText {
    /// Reads a file. The error follows its name.
    pub(super) fn parse(file: &str) -> Result<Self, String> {
        let file = readable(file);
        let parts = split(&file)?;
        let Frontmatter { allowed_tools, model, .. } = parts.read()?.values;
        Ok(Self {
            text: parts.text.to_owned(),
            allowed_tools: allowed_tools.unwrap_or_default(),
            model: model.map(|model| noted(&model)).filter(|model| !model.is_empty()),
        })
    }

    /// What the author wanted, in a sentence for the model.
    pub(super) fn intent(&self) -> Option<String> {
        let tools = noted(&self.allowed_tools.join(", "));
        let wishes = [
            (!tools.is_empty()).then(|| format!("the tools {tools}")),
            self.model.as_ref().map(|model| format!("the model {model}")),
        ];
        let wishes: Vec<String> = wishes.into_iter().flatten().collect();
        let wishes = (!wishes.is_empty()).then(|| wishes.join(" and "))?;
        Some(format!(
            "Its author meant it for {wishes}; this permits nothing, and each call is judged as ever."
        ))
    }
}

fn noted(text: &str) -> String {
    text::prefix(&shown_line(text), MAX_NOTE).to_owned()
}

/// The first line that says something, without the signs of a heading.
fn first_line(body: &str) -> String {
    let lines = body.lines().map(|line| text::one_line(line.trim_start_matches('#')));
    lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default()
}

fn check_name(name: &str) -> Result<(), String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-');
    let is_name =
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_part);
    if is_name && name.len() <= MAX_NAME {
        return Ok(());
    }
    let shown = text::prefix(name, 2 * MAX_NAME);
    Err(format!("{shown:?} is no name: letters, digits and _:.-, at most {MAX_NAME} characters"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn parse(file: &str, kind: SkillKind) -> Result<SkillDefinition, String> {
        let path = PathBuf::from("/home/me/.claude/skills/place/SKILL.md");
        let origin = DefinitionOrigin::of_user(path);
        Ok(SkillDefinition::parse(file, "place", kind, origin)?.definition)
    }

    #[test]
    fn a_skill_names_and_describes_itself_or_its_place_does() {
        let skill = parse("---\nname: deploy\ndescription: Ships it.\n---\nText", SkillKind::Skill);
        let skill = skill.unwrap();
        assert_eq!((skill.name.as_str(), skill.description.as_str()), ("deploy", "Ships it."));
        assert!(skill.is_for_model && skill.is_for_user);
        let plain = parse("\n# Ship  it\n\nText", SkillKind::Skill).unwrap();
        assert_eq!((plain.name.as_str(), plain.description.as_str()), ("place", "Ship it"));
        let command = parse("---\nname: other\n---\nText", SkillKind::Command).unwrap();
        assert_eq!(command.name, "place");
        assert_eq!(parse("", SkillKind::Command).unwrap().description, "");
    }

    #[test]
    fn who_may_use_it_is_said_in_the_frontmatter() {
        let text = "---\ndisable-model-invocation: true\nuser-invocable: false\nargument-hint: [a] \n---\n";
        let skill = parse(text, SkillKind::Skill).unwrap();
        assert!(!skill.is_for_model && !skill.is_for_user);
        assert_eq!(skill.argument_hint.as_deref(), Some("[a]"));
        assert!(parse("---\nuser-invocable: perhaps\n---\n", SkillKind::Skill).is_err());
    }

    #[test]
    fn outside_40_names_that_could_mean_something_else_give_way_to_the_place() {
        for name in ["../up", "Title Name", "", "-a", "a/b", &"a".repeat(65)] {
            let file = format!("---\nname: '{name}'\n---\nText");
            assert_eq!(parse(&file, SkillKind::Skill).unwrap().name, "place", "{name}");
        }
        let skill = parse("---\nname: a:b_c.d-1\n---\nText", SkillKind::Skill).unwrap();
        assert_eq!(skill.name, "a:b_c.d-1");
        let origin = DefinitionOrigin::of_user(PathBuf::new());
        let nameless = SkillDefinition::parse("Text", "a b", SkillKind::Command, origin);
        assert!(nameless.unwrap_err().contains("is no name"));
    }

    #[test]
    fn outside_38_51_front_matter_that_is_no_yaml_is_read() {
        let file = "---\nname: review\ndescription: Reviews. Triggers on: review\n\
                    argument-hint: [--strict] [--json]\nallowed-tools: Read, Bash(git:*)\n---\nText";
        let skill = parse(file, SkillKind::Skill).unwrap();
        assert_eq!(
            (skill.name.as_str(), skill.argument_hint.as_deref()),
            ("review", Some("[--strict] [--json]"))
        );
        assert_eq!(skill.description, "Reviews. Triggers on: review");
        let text = SkillText::parse(file).unwrap();
        assert_eq!(text.text, "Text");
        assert!(text.intent().unwrap().contains("the tools Read, Bash(git:*);"));
    }

    #[test]
    fn g4_what_a_skill_asks_for_is_only_told() {
        let file = "---\nallowed-tools: Bash(*), Write\nmodel: opus\nhooks: {Stop: [x]}\n---\nDo \u{200b}it.";
        let text = SkillText::parse(file).unwrap();
        assert_eq!(text.text, "Do it.");
        insta::assert_snapshot!(text.intent().unwrap(), @"Its author meant it for the tools Bash(*), Write and the model opus; this permits nothing, and each call is judged as ever.");
        assert_eq!(SkillText::parse("Do it.").unwrap().intent(), None);
    }
}
