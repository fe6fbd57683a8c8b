//! Lists the skills and agents for the prompt, within limits.

use crate::definitions::SkillDefinition;
use crate::text::{first_chars, shown_line};
use crate::tools::agent_types::AgentType;

/// Characters of one skill.
const MAX_SKILL: usize = 1536;

/// Characters of all skills. What has no room there is listed by its name only.
const MAX_SKILLS: usize = 16_000;

/// Characters of an agent's description.
const MAX_AGENT: usize = 1024;

/// Between two names.
const SEPARATOR: &str = ", ";

/// A line for each skill that the model may use.
pub(super) fn skills(skills: &[SkillDefinition]) -> Vec<String> {
    let listed = || skills.iter().filter(|skill| skill.is_for_model);
    let names: usize = listed().map(|skill| skill.name.len() + SEPARATOR.len()).sum();
    let mut left = MAX_SKILLS.saturating_sub(names);
    let (mut lines, mut further) = (Vec::new(), Vec::new());
    for skill in listed() {
        let line = line(skill);
        let more = line.chars().count() - skill.name.len();
        if skill.description.is_empty() || more > left {
            further.push(skill.name.as_str());
        } else {
            left -= more;
            lines.push(line);
        }
    }
    if !further.is_empty() {
        lines.push(format!("- listed by name only: {}", further.join(SEPARATOR)));
    }
    lines
}

fn line(skill: &SkillDefinition) -> String {
    let hint = skill.argument_hint.as_ref().map(|hint| format!(" {hint}")).unwrap_or_default();
    let line = format!("- {}{hint}: {}", skill.name, skill.description);
    first_chars(&shown_line(&line), MAX_SKILL).to_owned()
}

/// A line for each agent.
pub(super) fn agents(agents: &[AgentType]) -> Vec<String> {
    let line = |agent: &AgentType| {
        let description = shown_line(&agent.description);
        format!("- {}: {}", agent.name, first_chars(&description, MAX_AGENT))
    };
    agents.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::agent_types;

    fn skill(name: &str, description: &str) -> SkillDefinition {
        let is_for_model = name != "hidden";
        let hint = (name == "hinted").then(|| "[file]".to_owned());
        SkillDefinition {
            is_for_model,
            argument_hint: hint,
            ..SkillDefinition::for_test(name, description)
        }
    }

    #[test]
    fn a_skill_is_a_line_and_those_for_people_are_not_listed() {
        let all =
            [skill("a", "Does a."), skill("hidden", "x"), skill("hinted", "H."), skill("z", "")];
        insta::assert_snapshot!(skills(&all).join("\n"), @r"
        - a: Does a.
        - hinted [file]: H.
        - listed by name only: z
        ");
    }

    #[test]
    fn there_is_room_for_so_much_and_then_for_names() {
        let long = "x".repeat(5000);
        let line = skills(&[skill("a", &long)]).remove(0);
        assert_eq!(line.chars().count(), MAX_SKILL);
        let all: Vec<_> = (0..200).map(|at| skill(&format!("{at:064}"), &long)).collect();
        let listed = skills(&all);
        let [first, .., last] = &listed[..] else { panic!("{listed:?}") };
        assert!(first.chars().count() == MAX_SKILL && last.starts_with("- listed by name only: "));
        let all_names =
            all.iter().all(|skill| listed.iter().any(|line| line.contains(&skill.name)));
        let chars: usize = listed.iter().map(|line| line.chars().count()).sum();
        assert!(all_names && chars < MAX_SKILLS + 100, "{chars}");
    }

    #[test]
    fn an_agents_description_is_one_short_line() {
        let agent = |description: &str| {
            let [general, ..] = &agent_types::built_in()[..] else { panic!("a type") };
            let (name, description) = ("a".to_owned(), description.to_owned());
            agents(&[AgentType { name, description, ..general.clone() }]).remove(0)
        };
        assert_eq!(agent("Does\n- b: this"), "- a: Does - b: this");
        assert_eq!(agent(&"x".repeat(5000)).chars().count(), MAX_AGENT + 5);
    }
}
