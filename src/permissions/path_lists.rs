//! Lists the paths about which every mode but `bypassPermissions` asks: those that hold secrets,
//! and those that decide what programs do later.
//!
//! Names are compared without regard to case, in Unicode's normal form and without invisible
//! characters: some file systems take such names for the same.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Component, Path};
use std::sync::OnceLock;

use caseless::Caseless as _;
use unicode_normalization::UnicodeNormalization as _;

use crate::protected_names;

/// Patterns of one list. Each is a path of names, of which the last may hold a `*`, or two at both
/// ends. A pattern
/// may stand anywhere in a path, and covers what lies below it as well.
#[derive(Debug)]
pub(crate) struct PathList {
    patterns: &'static [&'static str],
    /// Says of a name that no pattern covers it.
    is_except: fn(&str) -> bool,
    index: OnceLock<Index>,
}

/// The patterns by their last name. A search asks about every file.
#[derive(Debug, Default)]
struct Index {
    exact: HashMap<&'static str, Vec<&'static str>>,
    /// Those with a `*`: what stands before and behind it, and the pattern.
    wild: Vec<(&'static str, &'static str, &'static str)>,
    /// Those with a `*` at both ends: what stands between them, and the pattern.
    inner: Vec<(&'static str, &'static str)>,
}

/// Reading and writing these asks: they hold secrets.
pub(crate) static SENSITIVE: PathList = PathList::new(
    &[
        ".env",
        ".env.*",
        "*.pem",
        "*.key",
        "*.p12",
        "*.pfx",
        "*.gpg",
        "credentials",
        "credentials.*",
        "secrets",
        "secrets.*",
        ".ssh",
        ".gnupg",
        "id_rsa*",
        "id_ed25519*",
        "id_ecdsa*",
        ".aws",
        ".azure",
        ".gcloud",
        ".config/gcloud",
        ".kube/config",
        ".npmrc",
        ".pypirc",
        ".netrc",
        ".git-credentials",
        ".config/gh/hosts.yml",
        ".gem/credentials",
        ".docker/config.json",
        "database.yml",
        "database.json",
        "db/seeds",
        "*.env",
        ".env-*",
        ".env_*",
        ".envrc",
        ".dev.vars",
        "secret.*",
        ".secrets*",
        "service-account*.json",
        "client_secret*.json",
        "*.tfvars",
        "*.tfstate*",
        "*.jks",
        "*.keystore",
        "*.p8",
        "*.ppk",
        "id_dsa*",
        ".htpasswd",
        "auth.json",
        "kubeconfig",
        ".local/share/uv/credentials",
        "*.keytab",
        "*.kdbx",
        ".credentials.json",
        ".pgpass",
        ".my.cnf",
        ".vault-token",
        ".*_history",
        "etc/shadow*",
        "etc/gshadow*",
        "etc/sudoers",
        "etc/sudoers.d",
        "etc/security/opasswd",
        "etc/ssh/*_key",
        "etc/ssl/private",
        "etc/pki/tls/private",
        "etc/letsencrypt",
        "etc/wireguard",
        "etc/openvpn",
        "etc/ipsec.secrets",
        "etc/ppp/*-secrets",
        "etc/networkmanager/system-connections",
        "etc/kubernetes",
        "var/backups",
    ],
    is_template,
);

/// Whether the name is that of a template, which holds no secrets: `.env.example`,
/// `staging.sample.env`.
fn is_template(name: &str) -> bool {
    const WORDS: [&str; 4] = ["dist", "example", "sample", "template"];
    if let Some(word) = name.strip_prefix(".env.") {
        return WORDS.contains(&word);
    }
    let words = name.strip_suffix(".env").map(|stem| stem.split(|c: char| !c.is_alphanumeric()));
    words.is_some_and(|mut words| words.any(|word| WORDS.contains(&word)))
}

/// Writing these asks: they decide what git, shells, editors, package managers and CI run.
pub(crate) static PROTECTED: PathList = PathList::new(&protected_names::PATTERNS, |_| false);

impl PathList {
    const fn new(patterns: &'static [&'static str], is_except: fn(&str) -> bool) -> Self {
        Self { patterns, is_except, index: OnceLock::new() }
    }

    #[cfg(test)]
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &'static str> {
        self.patterns.iter().copied()
    }

    /// The pattern that covers the path, which stands below a root.
    pub(crate) fn covering(&self, path: &Path) -> Option<&'static str> {
        self.covering_with(path, |_| true)
    }

    /// The pattern for the machine's own settings that covers this whole path. A root may lie
    /// among them: below `/etc`, `shadow` is what it is elsewhere.
    pub(crate) fn covering_settings(&self, path: &Path) -> Option<&'static str> {
        let is_there = path.starts_with("/etc");
        is_there.then(|| self.covering_with(path, |pattern| pattern.starts_with("etc/")))?
    }

    /// The pattern that covers the path, of those that count.
    fn covering_with(&self, path: &Path, counts: fn(&str) -> bool) -> Option<&'static str> {
        let names: Vec<Cow<'_, str>> = names(path).map(folded).collect();
        (0..names.len()).find_map(|at| self.ending_at(&names[..=at], counts))
    }

    /// The pattern that ends with the last of these names.
    fn ending_at(&self, names: &[Cow<'_, str>], counts: fn(&str) -> bool) -> Option<&'static str> {
        let (name, above) = names.split_last()?;
        let name: &str = name;
        let index = self.index.get_or_init(|| Index::new(self.patterns));
        let exact = index.exact.get(name).into_iter().flatten().copied();
        let wild = index.wild.iter().filter(|(start, end, _)| {
            let length = start.len() + end.len();
            length <= name.len() && name.starts_with(start) && name.ends_with(end)
        });
        let inner = index.inner.iter().filter(|(text, _)| name.contains(text));
        let fitting = exact.chain(wild.map(|(_, _, pattern)| *pattern));
        let fitting = fitting.chain(inner.map(|(_, pattern)| *pattern));
        let found = fitting.filter(|pattern| counts(pattern)).find(|pattern| {
            let mut above = above.iter().rev();
            pattern
                .rsplit('/')
                .skip(1)
                .all(|wanted| above.next().is_some_and(|name| name == wanted))
        });
        found.filter(|_| !(self.is_except)(name))
    }
}

impl Index {
    fn new(patterns: &[&'static str]) -> Self {
        let mut index = Self::default();
        for pattern in patterns.iter().copied() {
            let last = pattern.rsplit_once('/').map_or(pattern, |(_, last)| last);
            let inner = last.strip_prefix('*').and_then(|rest| rest.strip_suffix('*'));
            if let Some(text) = inner.filter(|text| !text.is_empty()) {
                index.inner.push((text, pattern));
                continue;
            }
            match last.split_once('*') {
                Some((start, end)) => index.wild.push((start, end, pattern)),
                None => index.exact.entry(last).or_default().push(pattern),
            }
        }
        index
    }
}

fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

/// The name as it is compared.
fn folded(name: &OsStr) -> Cow<'_, str> {
    let name = name.to_string_lossy();
    if name.is_ascii() {
        let is_folded = !name.bytes().any(|byte| byte.is_ascii_uppercase());
        return if is_folded { name } else { name.to_ascii_lowercase().into() };
    }
    let visible = name.nfd().filter(|c| !is_invisible(*c));
    visible.default_case_fold().nfc().collect::<String>().into()
}

/// Characters that a file system may ignore when it compares names
/// (`Default_Ignorable_Code_Point`).
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &PathList, covered: &[&str], free: &[&str]) {
        for path in covered {
            assert!(list.covering(Path::new(path)).is_some(), "{path}");
        }
        for path in free {
            assert_eq!(list.covering(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn secrets_are_found_by_name_at_any_depth() {
        check(
            &SENSITIVE,
            &[
                ".env",
                "a/b/.env.local",
                "tls/server.pem",
                "x.KEY",
                "credentials.json",
                "app/credentials/google.json",
                "config/secrets/x",
                "secrets.yml",
                ".ssh/known_hosts",
                "home/u/.ssh",
                "id_ed25519",
                "id_rsa.pub",
                ".aws/config",
                ".config/gcloud/x/y",
                ".kube/config",
                "x/.docker/config.json",
                "db/seeds/users.rb",
                ".env/lib/site.py",
                "etc/shadow",
                "image/ETC/shadow-",
                "etc/gshadow",
                "etc/sudoers.d/90-cloud",
                "etc/ssh/ssh_host_ed25519_key",
                "etc/ssl/private/x",
                "etc/NetworkManager/system-connections/x",
                "home/u/.bash_history",
                "x/krb5.keytab",
            ],
            &[
                ".env.example",
                "a/.env.TEMPLATE",
                "env",
                ".environment",
                "key.rs",
                "pem",
                "my-credentials.rs",
                "kube/config",
                ".kube/configs",
                "docker/config.json",
                "seeds/x",
                "database.rs",
                "etc/passwd",
                "etc/ssh/ssh_host_ed25519_key.pub",
                "src/shadow.rs",
                "shadow",
                "_history",
                "",
            ],
        );
    }

    #[test]
    fn secrets_of_tools_are_found_and_templates_are_none() {
        check(
            &SENSITIVE,
            &[
                "prod.env",
                "app/staging.env",
                ".env-prod",
                ".env_local",
                ".envrc",
                ".dev.vars",
                "secret.yaml",
                ".secrets",
                ".secrets.baseline",
                "service-account.json",
                "service-account-prod.json",
                "client_secret_1.apps.json",
                "terraform.tfvars",
                "infra/prod.tfvars",
                "terraform.tfstate",
                "terraform.tfstate.backup",
                "release.jks",
                "debug.keystore",
                "AuthKey_1.p8",
                "putty.ppk",
                "id_dsa",
                ".htpasswd",
                "auth.json",
                "kubeconfig",
                "home/.local/share/uv/credentials/x",
                ".env.example.local",
                ".env-example",
            ],
            &[
                ".env.sample",
                ".env.dist",
                "example.env",
                "staging.sample.env",
                "env.template.env",
                "dist.env",
                "examples/docker.example.env",
                "src/environment.ts",
                "env.rs",
                "secret",
                "secrets_test.rs",
                "service_account.json",
                "service-account.md",
                "client-secret.rs",
                "variables.tf",
                "main.tf",
                "keystore.rs",
                "auth.ts",
                "src/auth.json.ts",
                "kubeconfig.md",
                ".local/share/uv/tools/x",
                "x.p80",
            ],
        );
    }

    #[test]
    fn the_machines_own_secrets_are_known_below_a_root_among_them() {
        let covering = |path: &str| SENSITIVE.covering_settings(Path::new(path));
        assert_eq!(covering("/etc/shadow"), Some("etc/shadow*"));
        assert_eq!(covering("/etc/secrets/etc/shadow"), Some("etc/shadow*"));
        // Where a root itself lies does not matter.
        assert_eq!(covering("/etc/secrets/notes"), None);
        assert_eq!(covering("/srv/etc/shadow"), None);
    }

    #[test]
    fn t20_what_programs_run_by_is_protected_before_it_exists() {
        check(
            &PROTECTED,
            &[
                ".git/hooks/pre-commit",
                "sub/.git/config",
                ".gitmodules",
                ".gitconfig",
                ".bashrc",
                ".profile",
                ".zshenv",
                ".ripgreprc",
                ".mcp.json",
                ".envrc",
                ".vscode/tasks.json",
                ".idea/x",
                ".claude/settings.json",
                ".codex/x",
                ".github/workflows/ci.yml",
                "Jenkinsfile",
                ".yarnrc.yml",
                "lefthook.yml",
            ],
            &["git/hooks/x", ".github/ISSUE_TEMPLATE.md", ".gitignore", "workflows/x", "src/a.rs"],
        );
    }

    #[test]
    fn t19_other_case_normal_form_and_invisible_characters_do_not_hide_a_name() {
        check(
            &PROTECTED,
            &[
                ".GIT/Hooks/x",
                ".cUrSoR/mcp.json",
                ".g\u{200c}it/config",
                "\u{feff}.git/config",
                ".giT\u{ad}/x",
            ],
            &[".g\u{456}t/config"],
        );
        check(&SENSITIVE, &[".\u{212a}ube/CONFIG", "\u{17f}ecrets.yml"], &["\u{455}ecrets.yml"]);
    }
}
