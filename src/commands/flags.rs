//! Defines the flags that several commands share. Each is also a key of `toolhand.toml` and
//! a variable.

use std::path::PathBuf;

use clap::Args;
use toml::Value;

use crate::config::ConfigInput;
use crate::config::environment::Variables;
use crate::config::layers::{Setting, Source};

/// The flag of every command that reads the configuration.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigFlag {
    /// Configuration file, in place of the one in your configuration directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The flags of the commands that start a server, or check how one would start.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServerFlags {
    #[command(flatten)]
    file: ConfigFlag,
    /// Address to listen on; port 0 takes any free one [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Directory the tools work in [default: the working directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<String>,
    /// default, acceptEdits, plan, dontAsk or bypassPermissions
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<String>,
    /// Directory of the server's own files [default: ~/.local/share/toolhand]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<String>,
    /// Ask for no client key; only on loopback
    #[arg(long)]
    no_auth: bool,
    /// auto, required or off [default: auto]
    #[arg(long, value_name = "MODE")]
    sandbox: Option<String>,
}

/// The flag of the commands that use an upstream which runs already.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct UpstreamFlag {
    #[arg(
        long,
        value_name = "URL",
        help = "Where the model is [default: http://127.0.0.1:4000/v1]"
    )]
    upstream: Option<String>,
}

/// The flag of the commands that log.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LogFlag {
    /// Format of the log on stderr: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log: Option<String>,
}

/// The flags of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeFlags {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    upstream: UpstreamFlag,
    #[command(flatten)]
    log: LogFlag,
}

/// The flags of `up` alone.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LitellmFlags {
    /// Configuration of LiteLLM, in place of the one that comes with toolhand
    #[arg(long, value_name = "FILE")]
    pub(crate) litellm_config: Option<PathBuf>,
    /// Processes of LiteLLM that answer requests [default: 1]
    #[arg(long, value_name = "N")]
    litellm_workers: Option<i64>,
    /// Port of LiteLLM [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) litellm_port: u16,
    /// Port of the demo model [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) demo_port: u16,
}

/// The flags of the commands that look at what a server has: those of `serve` and `up`, since it
/// was started by one of them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RunningServerFlags {
    #[command(flatten)]
    serve: ServeFlags,
    #[command(flatten)]
    litellm: LitellmFlags,
}

/// The flags of `check`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CheckFlags {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    upstream: UpstreamFlag,
    /// Say what would become of this command line, and why; run nothing
    #[arg(long, value_name = "LINE")]
    pub(crate) command: Option<String>,
}

impl ConfigFlag {
    /// All settings from outside of the file: `flags` and the variables.
    pub(crate) fn input(&self, flags: Vec<Setting>, variables: &Variables) -> ConfigInput {
        ConfigInput { file: self.config.clone(), flags, variables: variables.clone() }
    }
}

impl ServerFlags {
    /// All settings from outside of the file, with those of other flags.
    pub(crate) fn input(
        &self,
        others: impl IntoIterator<Item = Setting>,
        variables: &Variables,
    ) -> ConfigInput {
        let own = [
            text("--listen", "server.listen", self.listen.as_ref()),
            text("--workspace", "server.workspace", self.workspace.as_ref()),
            text("--permission-mode", "permissions.mode", self.permission_mode.as_ref()),
            text("--state-dir", "server.state_dir", self.state_dir.as_ref()),
            self.no_auth.then(|| setting("--no-auth", "auth.required", false.into())),
            text("--sandbox", "sandbox.mode", self.sandbox.as_ref()),
        ];
        let flags = own.into_iter().flatten().chain(others).collect();
        self.file.input(flags, variables)
    }
}

impl UpstreamFlag {
    fn setting(&self) -> Option<Setting> {
        text("--upstream", "upstream.url", self.upstream.as_ref())
    }
}

impl LogFlag {
    pub(crate) fn setting(&self) -> Option<Setting> {
        text("--log", "log.format", self.log.as_ref())
    }
}

impl ServeFlags {
    pub(crate) fn input(&self, variables: &Variables) -> ConfigInput {
        let others = [self.upstream.setting(), self.log.setting()];
        self.server.input(others.into_iter().flatten(), variables)
    }
}

impl LitellmFlags {
    pub(crate) fn setting(&self) -> Option<Setting> {
        let workers = self.litellm_workers?;
        Some(setting("--litellm-workers", "up.litellm_workers", workers.into()))
    }
}

impl RunningServerFlags {
    pub(crate) fn input(&self, variables: &Variables) -> ConfigInput {
        let mut input = self.serve.input(variables);
        input.flags.extend(self.litellm.setting());
        input
    }
}

impl CheckFlags {
    pub(crate) fn input(&self, variables: &Variables) -> ConfigInput {
        self.server.input(self.upstream.setting(), variables)
    }
}

fn text(flag: &'static str, path: &str, value: Option<&String>) -> Option<Setting> {
    Some(setting(flag, path, Value::String(value?.clone())))
}

fn setting(flag: &'static str, path: &str, value: Value) -> Setting {
    Setting { path: path.to_owned(), value, source: Source::Flag(flag) }
}
