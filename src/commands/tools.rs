//! Runs `toolhand tools`: prints what the model is told of the tools.

use std::process::ExitCode;

use clap::Args;

use super::flags::ConfigFlag;
use super::{Failure, print_result};
use crate::app::services::Services;
use crate::config;
use crate::config::environment::Variables;
use crate::tools::toolset::Toolset;

#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// The definitions as they go upstream
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: ConfigFlag,
}

pub(crate) fn run(flags: &Flags, variables: &Variables) -> Result<ExitCode, Failure> {
    let loaded = config::load(&flags.file.input(Vec::new(), variables))?;
    let services = Services::from_config(&loaded)?;
    let toolset = services.tools.built_in();
    print_result(&if flags.json { definitions(toolset) } else { descriptions(toolset) })?;
    Ok(ExitCode::SUCCESS)
}

fn definitions(toolset: &Toolset) -> String {
    let each: Vec<&str> = toolset.definitions().iter().map(|definition| definition.get()).collect();
    format!("[{}]\n", each.join(","))
}

fn descriptions(toolset: &Toolset) -> String {
    let each = toolset.tools().iter().map(|tool| {
        let text = tool.description().trim().replace('\n', "\n    ");
        format!("{}\n    {text}\n", tool.name())
    });
    each.collect::<Vec<_>>().join("\n")
}
