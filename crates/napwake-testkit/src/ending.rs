//! Processes that end with the test, however the test ends.

use tokio::process::Command;

/// A command whose process gets SIGKILL when the thread is gone that started it:
/// when it's dropped, and when the test itself is killed, too.
pub fn command(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command.kill_on_drop(true);
    command
}
