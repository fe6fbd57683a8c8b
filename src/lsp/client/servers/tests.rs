use super::*;
use crate::processes::Environment;
use crate::processes::sandbox::SandboxSettings;

/// A workspace, and the language servers of a machine whose programs lie in `bin`. There is no
/// sandbox.
struct Ground {
    directory: tempfile::TempDir,
    workspace: Arc<Workspace>,
    servers: Arc<LanguageServers>,
}

impl Ground {
    fn new(settings: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["bin", "workspace", "state"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let runner = Runner::new("/proc/self/exe", Environment::allowed([]), None);
        let services = LanguageServices {
            sandbox: Sandbox::new(runner.clone(), SandboxSettings::default()),
            runner,
            is_sandbox_required: false,
            settings_files: Arc::new(SettingsFiles::new(None, &at("state"))),
            search_path: at("bin").into_os_string(),
        };
        let workspace = Arc::new(Workspace::open(vec![at("workspace")]).unwrap());
        let servers = LanguageServers::new(&toml::from_str(settings).unwrap(), services);
        Self { directory, workspace, servers }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(relative)
    }

    fn opening(&self) -> usize {
        sync::lock(&self.servers.openings).len()
    }
}

#[tokio::test]
async fn a_file_of_no_language_costs_nothing() {
    let ground = Ground::new("[servers.own]\ncommand = \"x\"\nextensions = { \".own\" = \"own\" }");
    let open = |name: &str| {
        ground.servers.opened(&ground.workspace, &ground.path("workspace").join(name));
        ground.opening()
    };
    for name in ["notes.md", "Cargo.lock", ".py", "py", "data.pyc"] {
        assert_eq!(open(name), 0, "{name}");
    }
    assert_eq!(open("a.py"), 1);
    assert_eq!(open("a.own"), 2);

    let off = Ground::new("enabled = \"off\"");
    off.servers.opened(&off.workspace, &off.path("workspace/a.py"));
    assert_eq!(off.opening(), 0);
}
