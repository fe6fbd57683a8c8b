//! Tests how layers merge, and what is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::secret::Secret;

/// Loads `file` with `flags` and `variables`, and returns what `show` reads from the
/// result.
#[track_caller]
fn check(
    file: &str,
    variables: &[(&str, &str)],
    flags: &[(&str, &'static str, &str)],
    show: impl Fn(&Config) -> String,
    expected: &str,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("toolhand.toml");
    fs::write(&path, file).unwrap();
    let flag = |(path, flag, value): &(&str, &'static str, &str)| Setting {
        path: (*path).to_owned(),
        value: toml::Value::String((*value).to_owned()),
        source: Source::Flag(flag),
    };
    let given = ConfigInput {
        file: Some(path.clone()),
        flags: flags.iter().map(flag).collect(),
        variables: variables.iter().copied().chain([("HOME", "/nobody")]).collect(),
    };
    let shown = match load(&given) {
        Ok(loaded) => show(&loaded.config),
        Err(error) => error.to_string().replace(&path.display().to_string(), "FILE"),
    };
    assert_eq!(shown, expected);
}

#[track_caller]
fn check_refused(file: &str, expected: &str) {
    check(file, &[], &[], |_| "accepted".into(), expected);
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let listen = |config: &Config| config.server.listen.to_string();
    let file = "[server]\nlisten = \"127.0.0.1:1\"\n";
    let variable = [("TOOLHAND_LISTEN", "127.0.0.1:2")];
    let flag = [("server.listen", "--listen", "localhost:3")];
    check("", &[], &[], listen, "127.0.0.1:8787");
    check(file, &[], &[], listen, "127.0.0.1:1");
    check(file, &variable, &[], listen, "127.0.0.1:2");
    check(file, &variable, &flag, listen, "127.0.0.1:3");
}

#[test]
fn litellms_workers_are_a_number_that_a_machine_can_run() {
    let workers = |config: &Config| config.up.litellm_workers.to_string();
    check("", &[], &[], workers, "1");
    check("[up]\nlitellm_workers = 64", &[], &[], workers, "64");
    check("[up]\nlitellm_workers = 2", &[("TOOLHAND_UP_LITELLM_WORKERS", "3")], &[], workers, "3");
    for wrong in ["0", "-1", "65", "70000", "9223372036854775807"] {
        let reason = format!(
            "up.litellm_workers: {wrong} is not between 1 and 64: write 1, or at most the number of cores"
        );
        check_refused(&format!("[up]\nlitellm_workers = {wrong}"), &format!("FILE:2: {reason}"));
        let variable = "TOOLHAND_UP_LITELLM_WORKERS";
        check("", &[(variable, wrong)], &[], workers, &format!("{variable}: {reason}"));
    }
    check_refused(
        "[up]\nlitellm_workers = \"two\"",
        "FILE:2: up.litellm_workers: invalid type: string \"two\", expected i64",
    );
}

#[test]
fn tables_are_merged_key_by_key() {
    let file = "[turns]\nmax_rounds = 7\nkeep_alive = \"1s\"";
    let show = |config: &Config| {
        let turns = &config.turns;
        format!("{} {:?} {:?}", turns.max_rounds, turns.keep_alive, turns.head_hold)
    };
    check(file, &[("TOOLHAND_TURNS_MAX_ROUNDS", "8")], &[], show, "8 1s 10s");
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_one() {
    check_refused(
        "[turns]\n\nmax_round = 7",
        "FILE:3: unknown key turns.max_round; did you mean turns.max_rounds?",
    );
    check_refused("[servre]\nx = 1", "FILE:1: unknown key servre");
    check_refused(
        "\nmax_tool_calls = 1",
        "FILE:2: unknown key max_tool_calls; did you mean turns.max_tool_calls?",
    );
    check_refused(
        "[[models]]\nmatch = \"*\"\nstrat = \"safe\"",
        "FILE:3: unknown key models[0].strat; did you mean models[].start?",
    );
}

#[test]
fn a_time_of_nothing_is_refused() {
    let why = "0 would refuse everything: a limit is at least 1";
    for (table, keys) in [
        (
            "upstream",
            &["connect_timeout", "first_byte_timeout", "idle_timeout", "comment_timeout"][..],
        ),
        ("turns", &["max_duration"]),
        ("tools.bash", &["timeout"]),
    ] {
        for key in keys {
            let file = format!("[{table}]\n{key} = \"0s\"");
            check_refused(&file, &format!("FILE:2: {table}.{key}: {why}"));
        }
    }
}

#[test]
fn an_answer_without_room_for_a_line_is_refused() {
    for key in ["max_result_chars", "max_round_chars"] {
        for chars in ["0", "199"] {
            let why = "must be at least 200: an answer has to hold part of a line";
            check_refused(
                &format!("[tools]\n{key} = {chars}"),
                &format!("FILE:2: tools.{key}: {why}"),
            );
        }
        check(&format!("[tools]\n{key} = 200"), &[], &[], |_| String::new(), "");
    }
}

#[test]
fn a_wrong_type_is_named_with_its_line() {
    check_refused(
        "[turns]\nmax_rounds = \"many\"",
        "FILE:2: turns.max_rounds: invalid type: string \"many\", expected u32",
    );
    check_refused(
        "[turns]\nkeep_alive = \"soon\"",
        "FILE:2: turns.keep_alive: \"soon\" does not start with a number",
    );
    check_refused(
        "turns = 3",
        "FILE:1: turns: invalid type: integer `3`, expected struct TurnSettings",
    );
    check_refused("[[models]]\nstart = \"safe\"", "FILE:1: models[0]: missing field `match`");
    check_refused(
        "[server]\nlisten = ",
        "FILE:2: string values must be quoted, expected literal string",
    );
    check_refused(
        "[log]\nlevel = \"inof\"",
        "FILE:2: log.level: \"inof\" is no level: write off, error, warn, info, debug, trace, or MODULE=LEVEL",
    );
}

#[test]
fn a_workspace_must_be_a_directory() {
    check_refused(
        "[server]\nworkspace = \"/nowhere\"",
        "FILE:2: server.workspace: /nowhere is not a directory",
    );
    check_refused(
        "[server.workspaces]\ndocs = \"~/docs\"",
        "FILE:2: server.workspaces.docs: /nobody/docs is not a directory",
    );
}

#[test]
fn without_keys_only_on_loopback() {
    check_refused("[auth]\nrequired = false", "accepted");
    check_refused(
        "[auth]\nrequired = false\n[server]\nlisten = \"0.0.0.0:8787\"",
        "FILE:2: auth.required: without keys only on loopback, not on 0.0.0.0:8787",
    );
}

const EXAMPLE: &str = include_str!("../../toolhand.example.toml");

/// The example file, with the settings that have no default switched on.
fn whole_example() -> String {
    let shown = |line: &str| {
        let setting = line.strip_prefix('#').filter(|rest| rest.starts_with(|c| c != ' '));
        setting.unwrap_or(line).to_owned()
    };
    EXAMPLE.lines().map(shown).collect::<Vec<_>>().join("\n")
}

fn read_example(text: &str) -> (Layers, Config) {
    let mut layers = Layers::default();
    layers.add_file(&Keys::for_type::<Config>(), Path::new("example"), text).unwrap();
    let config = layers.read().unwrap();
    (layers, config)
}

#[test]
fn the_example_says_what_holds_without_it() {
    let (_, config) = read_example(EXAMPLE);
    assert_eq!(format!("{config:#?}"), format!("{:#?}", Config::default()));
}

#[test]
fn the_example_names_every_key() {
    let keys = Keys::for_type::<Config>();
    let (layers, _) = read_example(&whole_example());
    let missing: Vec<&str> = keys
        .iter()
        .map(|key| key.path.as_str())
        .filter(|path| !layers.sets(&path.replace("[]", "[0]")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_two_keys_have_the_same_variable() {
    let keys = Keys::for_type::<Config>();
    let mut names: Vec<String> = keys.iter().map(|key| key.path.replace('.', "_")).collect();
    names.sort();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn the_upstream_key_comes_from_the_environment_or_else_from_its_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("upstream-key");
    fs::write(&path, "sk-of-the-file\n").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let given = |more: Option<(&str, &str)>| ConfigInput {
        variables: [("HOME", home.path().to_str().unwrap())]
            .into_iter()
            .chain([("TOOLHAND_UPSTREAM_API_KEY_FILE", "~/upstream-key")])
            .chain(more)
            .collect(),
        ..ConfigInput::default()
    };
    let key = |more| load(&given(more)).unwrap().secrets.upstream_key;

    assert_eq!(key(None), Some(Secret::new("sk-of-the-file")));
    assert_eq!(key(Some(("TOOLHAND_UPSTREAM_API_KEY", "sk-1"))), Some(Secret::new("sk-1")));
    assert!(!format!("{:?}", load(&given(None)).unwrap()).contains("sk-of-the-file"));
}

#[test]
fn what_is_wrong_with_the_sandbox_names_its_key() {
    let home = tempfile::tempdir().unwrap();
    let check = |settings: &str, expected: &[&str]| {
        let file = home.path().join("toolhand.toml");
        fs::write(&file, format!("[sandbox]\n{settings}\n")).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let variables = [("HOME", home.path().to_str().unwrap())].into_iter().collect();
        let given = ConfigInput { file: Some(file), variables, ..ConfigInput::default() };
        let error = load(&given).unwrap_err().to_string();
        assert!(expected.iter().all(|word| error.contains(word)), "{settings}: {error}");
    };
    check("use = [\"docker\"]", &["sandbox.use", "docker"]);
    check("use = [\"bwrap\", \"bwrap\"]", &["sandbox.use", "twice"]);
    check("use = []", &["sandbox.use", "no level"]);
    check("network = \"some\"", &["sandbox.network", "some"]);
    check("auto_allow = \"yes\"", &["sandbox.auto_allow"]);
    check("escape = \"no\"", &["sandbox.escape"]);
    check("writable = [\"/no/such\"]", &["sandbox.writable", "/no/such"]);
    check("readable = [\"/\"]", &["sandbox.readable", "protect"]);
    check("mode = \"on\"", &["sandbox.mode", "on"]);
    check("writeable = []", &["sandbox.writeable", "sandbox.writable"]);
}
