use std::process::ExitCode;

fn main() -> ExitCode {
    // A supervisor forks: nothing may have started a thread before it.
    if let Some(code) = toolhand::supervise_if_asked() {
        return code;
    }
    toolhand::commands::run()
}
