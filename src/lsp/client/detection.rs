//! Finds the language servers that there are: the operator's, and on PATH those of the
//! catalogue. A program that the workspace brings is none of them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::catalogue::{KNOWN, KnownProgram, KnownServer, Needs, RUST_ANALYZER};
use crate::lsp::settings::{LspSettings, ServerSettings};

/// A language server that is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DetectedServer {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// The languages by the extensions of their files.
    pub(super) extensions: Vec<(String, String)>,
    /// Names of files that make a directory a project.
    pub(super) roots: Vec<String>,
    pub(super) settings: Value,
    pub(super) initialization: Value,
    /// Whether the operator named it.
    pub(super) is_configured: bool,
}

/// What was found, and what was passed over.
#[derive(Clone, Debug, Default)]
pub(super) struct Detection {
    /// The first for a file is the one for it.
    pub(super) servers: Vec<DetectedServer>,
    /// A line each on what is there and cannot be used.
    pub(super) faults: Vec<String>,
}

/// Where programs are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    /// The value of PATH.
    pub(super) search_path: &'a OsStr,
    /// The roots of the workspace, with every link resolved. Nothing in them is a server.
    pub(super) roots: &'a [PathBuf],
}

impl Detection {
    /// Reads the disk.
    pub(super) fn new(settings: &LspSettings, surroundings: Surroundings<'_>) -> Self {
        let mut found = Self::default();
        for (name, server) in &settings.servers {
            match surroundings.configured(name, server) {
                Ok(server) => found.servers.push(server),
                Err(fault) => found.faults.push(fault),
            }
        }
        for known in &KNOWN {
            match surroundings.known(known) {
                Ok(Some(server)) => found.servers.push(server),
                Ok(None) => {}
                Err(fault) => found.faults.push(fault),
            }
        }
        found
    }

    /// The server for a file, and the file's language.
    pub(super) fn server_for(&self, path: &Path) -> Option<(&DetectedServer, &str)> {
        self.servers.iter().find_map(|server| Some((server, server.language_of(path)?)))
    }
}

/// Whether a file is of a language that a server could be for, wherever one is. Reads nothing.
pub(super) fn is_of_a_language(settings: &LspSettings, path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return false };
    let configured = settings.servers.values().flat_map(|server| server.extensions.keys());
    let known = KNOWN.iter().flat_map(|known| known.extensions).map(|(extension, _)| *extension);
    configured.map(String::as_str).chain(known).any(|extension| has_extension(name, extension))
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.len() > extension.len() && name.ends_with(extension)
}

impl DetectedServer {
    pub(super) fn language_of(&self, path: &Path) -> Option<&str> {
        let name = path.file_name()?.to_str()?;
        let is_its = |(extension, _): &&(String, String)| has_extension(name, extension);
        let longest = self.extensions.iter().filter(is_its).max_by_key(|(it, _)| it.len())?;
        Some(&longest.1)
    }

    /// Whether a file of this name is one of its languages, or of its projects.
    pub(super) fn is_for(&self, name: &Path) -> bool {
        self.language_of(name).is_some() || self.is_project_file(name)
    }

    /// Whether a file of this name makes its directory one of its projects.
    pub(super) fn is_project_file(&self, name: &Path) -> bool {
        self.roots.iter().any(|root| name == Path::new(root))
    }

    /// The directory of the project: the nearest with a project file, inside the workspace's root
    /// that holds the file; else that root. Reads the disk.
    pub(super) fn root_of(&self, path: &Path, workspace_root: &Path) -> PathBuf {
        let inside = path.ancestors().skip(1).take_while(|it| it.starts_with(workspace_root));
        let has_project = |directory: &&Path| self.has_project_in(directory);
        inside.into_iter().find(has_project).unwrap_or(workspace_root).to_owned()
    }

    fn has_project_in(&self, directory: &Path) -> bool {
        self.roots.iter().any(|name| directory.join(name).symlink_metadata().is_ok())
    }

    pub(super) fn is_rust_analyzer(&self) -> bool {
        self.program.file_name().is_some_and(|name| name == RUST_ANALYZER)
    }
}

impl Surroundings<'_> {
    fn configured(self, name: &str, server: &ServerSettings) -> Result<DetectedServer, String> {
        let command = Path::new(&server.command);
        let program = if command.is_absolute() {
            is_executable(command).then(|| command.to_owned())
        } else {
            self.find(&server.command)
        };
        let program =
            program.ok_or_else(|| format!("{name}: no program {} is there", command.display()))?;
        let extensions = server.extensions.iter();
        Ok(DetectedServer {
            name: name.to_owned(),
            program,
            arguments: server.args.clone(),
            extensions: extensions
                .map(|(name, language)| (name.clone(), language.clone()))
                .collect(),
            roots: server.roots.clone(),
            settings: server.settings.clone(),
            initialization: server.settings.clone(),
            is_configured: true,
        })
    }

    /// The first program of it that can be used. An error where one is there, and none can.
    fn known(self, known: &KnownServer) -> Result<Option<DetectedServer>, String> {
        let mut fault = None;
        for candidate in known.programs {
            let Some(program) = self.find(candidate.program) else { continue };
            match self.fitted(candidate, &program) {
                Ok(initialization) => {
                    return Ok(Some(detected(known, candidate, program, initialization)));
                }
                Err(reason) => _ = fault.get_or_insert(format!("{}: {reason}", candidate.name)),
            }
        }
        fault.map_or(Ok(None), Err)
    }

    /// What the program is initialized with, if it has what it needs.
    fn fitted(self, candidate: &KnownProgram, program: &Path) -> Result<Value, String> {
        match candidate.needs {
            Needs::Nothing => Ok(json!({})),
            Needs::Tsserver => {
                let found = self.tsserver(program).ok_or("no TypeScript with tsserver is there")?;
                Ok(json!({ "tsserver": { "path": found } }))
            }
            Needs::NativeTypeScript => match tsserver_beside(program) {
                Some(_) => Err("it is older than TypeScript 7 and no language server".to_owned()),
                None => Ok(json!({})),
            },
        }
    }

    /// The `tsserver.js` that is installed with the program, or is on PATH. That of the workspace
    /// would be the workspace's program.
    fn tsserver(self, program: &Path) -> Option<PathBuf> {
        let real = fs::canonicalize(program).ok()?;
        let installed = real.ancestors().filter_map(|directory| {
            let found = directory.join("node_modules/typescript/lib/tsserver.js");
            fs::canonicalize(found).ok()
        });
        let on_path = ["tsserver", "tsc"].into_iter().filter_map(|name| self.find(name));
        let beside = on_path.filter_map(|program| tsserver_beside(&program));
        installed.chain(beside).find(|found| !self.is_workspaces(found))
    }

    /// The program on PATH. Passed over are relative directories, those of a `node_modules`, and
    /// all that lies in the workspace: whoever wrote the workspace could have put it there.
    fn find(self, program: &str) -> Option<PathBuf> {
        std::env::split_paths(self.search_path).filter(|it| self.counts(it)).find_map(|directory| {
            let path = directory.join(program);
            let real = fs::canonicalize(&path).ok()?;
            (is_executable(&path) && !self.is_workspaces(&real)).then_some(path)
        })
    }

    fn counts(self, directory: &Path) -> bool {
        let is_of_packages = directory.ends_with("node_modules/.bin");
        let real = || fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        directory.is_absolute() && !is_of_packages && !self.is_workspaces(&real())
    }

    fn is_workspaces(self, real: &Path) -> bool {
        self.roots.iter().any(|root| real.starts_with(root))
    }
}

fn detected(
    known: &KnownServer,
    candidate: &KnownProgram,
    program: PathBuf,
    initialization: Value,
) -> DetectedServer {
    let owned = |text: &&str| (*text).to_owned();
    let extensions = known.extensions.iter();
    DetectedServer {
        name: candidate.name.to_owned(),
        program,
        arguments: candidate.arguments.iter().map(owned).collect(),
        extensions: extensions.map(|(name, language)| (owned(name), owned(language))).collect(),
        roots: known.roots.iter().map(owned).collect(),
        settings: json!({}),
        initialization,
        is_configured: false,
    }
}

/// The `tsserver.js` of the TypeScript that this program of it belongs to.
fn tsserver_beside(program: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(program).ok()?;
    fs::canonicalize(real.parent()?.parent()?.join("lib/tsserver.js")).ok()
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A workspace `ws` beside directories with programs.
    struct Ground(tempfile::TempDir);

    impl Ground {
        fn new(programs: &[&str]) -> Self {
            let ground = Self(tempfile::tempdir().unwrap());
            fs::create_dir(ground.path("ws")).unwrap();
            for program in programs {
                ground.program(program);
            }
            ground
        }

        fn path(&self, relative: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(relative)
        }

        fn program(&self, relative: &str) {
            self.file(relative);
            fs::set_permissions(self.path(relative), fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn file(&self, relative: &str) {
            fs::create_dir_all(self.path(relative).parent().unwrap()).unwrap();
            fs::write(self.path(relative), "").unwrap();
        }

        /// The servers and faults with these directories on PATH.
        fn found(&self, path: &[&str], settings: &str) -> String {
            let settings: LspSettings = toml::from_str(settings).unwrap();
            let directories = path.iter().map(|directory| match directory.strip_prefix('=') {
                Some(as_it_is) => PathBuf::from(as_it_is),
                None => self.path(directory),
            });
            let search_path = std::env::join_paths(directories).unwrap();
            let roots = [self.path("ws")];
            let found = Detection::new(
                &settings,
                Surroundings { search_path: &search_path, roots: &roots },
            );
            let servers = found.servers.iter().map(|it| {
                let program = it.program.display().to_string();
                format!("{} = {}", it.name, program.replace(self.path("").to_str().unwrap(), ""))
            });
            servers.chain(found.faults.clone()).collect::<Vec<_>>().join("; ")
        }
    }

    #[test]
    fn servers_are_found_by_name_and_the_better_one_is_taken() {
        let ground = Ground::new(&["a/pyright-langserver", "b/basedpyright-langserver", "b/gopls"]);
        assert_eq!(ground.found(&["a"], ""), "pyright = a/pyright-langserver");
        assert_eq!(
            ground.found(&["a", "b"], ""),
            "basedpyright = b/basedpyright-langserver; gopls = b/gopls"
        );
        assert_eq!(ground.found(&[], ""), "");
        ground.file("c/clangd");
        assert_eq!(ground.found(&["c"], ""), "", "it cannot be run");
    }

    #[test]
    fn what_the_workspace_brings_is_no_server() {
        let ground = Ground::new(&[
            "ws/bin/rust-analyzer",
            "ws/node_modules/.bin/gopls",
            "elsewhere/node_modules/.bin/gopls",
        ]);
        symlink(ground.path("ws/bin"), ground.path("link")).unwrap();
        fs::create_dir(ground.path("links")).unwrap();
        let (target, link) = (ground.path("ws/bin/rust-analyzer"), "links/rust-analyzer");
        symlink(target, ground.path(link)).unwrap();
        let path = [
            "ws/bin",
            "link",
            "links",
            "ws/node_modules/.bin",
            "elsewhere/node_modules/.bin",
            "=.",
            "=bin",
            "=",
        ];
        assert_eq!(ground.found(&path, ""), "");
        ground.program("own/rust-analyzer");
        let path = [&path[..], &["own"]].concat();
        assert_eq!(ground.found(&path, ""), "rust-analyzer = own/rust-analyzer");
    }

    #[test]
    fn typescript_needs_a_server_of_its_own() {
        let ground = Ground::new(&["bin/typescript-language-server", "old/bin/tsc", "new/bin/tsc"]);
        ground.file("old/lib/tsserver.js");
        let missing = "typescript-language-server: no TypeScript with tsserver is there";
        assert_eq!(ground.found(&["bin"], ""), missing);
        let works = "typescript-language-server = bin/typescript-language-server";
        assert_eq!(ground.found(&["bin", "old/bin"], ""), works);
        assert_eq!(ground.found(&["bin", "new/bin"], ""), "tsc = new/bin/tsc");
        let old = ground.found(&["old/bin"], "");
        assert!(old.starts_with("tsc: it is older than TypeScript 7"), "{old}");
        // That of the workspace does not count, one beside the program does.
        ground.file("ws/node_modules/typescript/lib/tsserver.js");
        assert_eq!(ground.found(&["bin"], ""), missing);
        ground.file("node_modules/typescript/lib/tsserver.js");
        assert_eq!(ground.found(&["bin"], ""), works);
    }

    #[test]
    fn the_operators_servers_come_first() {
        let ground = Ground::new(&["a/rust-analyzer", "a/mine"]);
        let own = "[servers.own]\ncommand = \"mine\"\nextensions = { \".rs\" = \"rust\" }";
        assert_eq!(ground.found(&["a"], own), "own = a/mine; rust-analyzer = a/rust-analyzer");
        let gone = own.replace("mine", "gone");
        assert_eq!(
            ground.found(&["a"], &gone),
            "rust-analyzer = a/rust-analyzer; own: no program gone is there"
        );
    }

    #[test]
    fn the_root_is_the_nearest_project_inside_the_workspace() {
        let ground = Ground::new(&["a/rust-analyzer"]);
        let own = "[servers.own]\ncommand = \"rust-analyzer\"\nroots = [\"p.toml\"]\n\
            extensions = { \".d.ts\" = \"declarations\", \".ts\" = \"typescript\" }";
        let settings: LspSettings = toml::from_str(own).unwrap();
        let (search_path, roots) = (ground.path("a").into_os_string(), [ground.path("ws")]);
        let found =
            Detection::new(&settings, Surroundings { search_path: &search_path, roots: &roots });
        let server = &found.servers[0];
        let root = |path: &str| server.root_of(&ground.path(path), &ground.path("ws"));
        ground.file("p.toml");
        assert_eq!(root("ws/one/two/x.ts"), ground.path("ws"));
        ground.file("ws/one/p.toml");
        assert_eq!(root("ws/one/two/x.ts"), ground.path("ws/one"));
        assert_eq!(root("ws/x.ts"), ground.path("ws"));
        let language = |name: &str| found.server_for(Path::new(name)).map(|it| it.1.to_owned());
        assert_eq!(language("/x.d.ts").as_deref(), Some("declarations"));
        assert_eq!(language("/x.ts").as_deref(), Some("typescript"));
        assert_eq!(language("/x.rs").as_deref(), Some("rust"));
        assert_eq!((language("/.ts"), language("/x.TXT")), (None, None));
    }
}
