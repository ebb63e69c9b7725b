//! nginx, with the doorman's answers as files: the floor of any server's.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::time::{Instant, sleep};

use super::load::split;
use super::server::{self, Cores, Server};
use super::{TARGET, fetch};

/// Its first port. Doormen listen below, and connections come from above.
const FIRST_PORT: u16 = 30_001;

/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// Headers that nginx makes by itself.
const ITS_OWN: [&str; 3] = ["content-type", "content-length", "connection"];

/// What nginx sends that the doorman doesn't.
const MORE: &str = "Server: nginx\r\nDate: Mon, 30 Nov 2026 20:41:19 GMT\r\n";

/// It sends this with a file, whatever the doorman's status is: its way of another
/// status is longer.
pub(super) const STATUS: u16 = 200;

/// Its first line.
const OK: &str = "HTTP/1.1 200 OK";

/// A running nginx. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Nginx {
    /// Begins to serve these answers of the doorman's beside it, on its core; one
    /// server for each. `folder` is for its files.
    pub(super) async fn start(
        answers: &[Vec<u8>],
        doorman: Server,
        cores: Cores,
        folder: &Path,
    ) -> Result<(Self, Vec<Server>)> {
        let config = write(answers, doorman.address.ip(), folder)?;
        let mut command = server::beside(doorman.process, cores.server, program());
        let child = command
            .arg("-c")
            .arg(&config)
            .arg("-e")
            .arg(folder.join("nginx.log"))
            .stdin(Stdio::null())
            .spawn()
            .context("start nginx")?;
        let mut nginx = Self(child);
        let process = nginx.0.id();
        server::share_alike(process, doorman.process)?;
        let servers = (0..answers.len()).map(|number| {
            let address = SocketAddr::new(doorman.address.ip(), port(number)?);
            anyhow::Ok(Server { process, address })
        });
        let servers = servers.collect::<Result<Vec<_>>>()?;
        for server in &servers {
            nginx.wait_for(server.address).await?;
        }
        Ok((nginx, servers))
    }

    async fn wait_for(&mut self, address: SocketAddr) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let ended = self.0.try_wait()?;
            ensure!(ended.is_none(), "nginx ended: {ended:?}");
            let request = format!("GET {TARGET} HTTP/1.1\r\nHost: nginx\r\n\r\n");
            match fetch(address, request.as_bytes()).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() >= until => {
                    return Err(error.context("nginx doesn't answer"));
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

/// Where distributions put it, if PATH lacks it.
fn program() -> PathBuf {
    let usual = Path::new("/usr/sbin/nginx");
    if usual.is_file() {
        usual.to_owned()
    } else {
        PathBuf::from("nginx")
    }
}

fn port(number: usize) -> Result<u16> {
    Ok(FIRST_PORT + u16::try_from(number)?)
}

/// Writes its files, and says which it reads first.
fn write(answers: &[Vec<u8>], ip: IpAddr, folder: &Path) -> Result<PathBuf> {
    let mut servers = String::new();
    for (number, answer) in answers.iter().enumerate() {
        let (head, body) = split(answer).context("not an answer")?;
        let file = folder.join(format!("{number}.body"));
        std::fs::write(&file, &body[..length(head, body)?])?;
        let listen = SocketAddr::new(ip, port(number)?);
        servers.push_str(&server(head, listen, &file)?);
    }
    let config = folder.join("nginx.conf");
    std::fs::write(&config, whole(&servers, folder))?;
    Ok(config)
}

/// How much of the body is sent, so that the whole is as long as the doorman's.
fn length(head: &str, body: &[u8]) -> Result<usize> {
    let first = head.lines().next().unwrap_or_default();
    let digits = |length: usize| length.to_string().len();
    let mut length = (body.len() + first.len()).checked_sub(OK.len() + MORE.len());
    // A number of fewer digits leaves room for more of the body.
    length = length.map(|length| length + digits(body.len()) - digits(length));
    length.context("the answer is shorter than what nginx adds")
}

fn server(head: &str, listen: SocketAddr, file: &Path) -> Result<String> {
    let mut text = format!(
        "server {{\n listen {listen} backlog=4096;\n location = {TARGET} {{\n  alias {};\n  \
         add_header Last-Modified \"\";\n",
        file.display()
    );
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").context("not a header")?;
        let name = name.to_ascii_lowercase();
        if value.contains(['"', '\\', '$']) {
            bail!("nginx would read the value of {name} in its own way");
        }
        if name == "content-type" {
            writeln!(text, "  default_type \"{value}\";")?;
        } else if !ITS_OWN.contains(&name.as_str()) {
            writeln!(text, "  add_header {name} \"{value}\";")?;
        }
    }
    text.push_str(" }\n}\n");
    Ok(text)
}

/// One process that closes after each answer, logs nothing, keeps its files open, and
/// adds no header that can be left out.
fn whole(servers: &str, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "daemon off;\nmaster_process off;\nuser root;\npid {folder}/nginx.pid;\n\
         error_log {folder}/nginx.log crit;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\naccess_log off;\nserver_tokens off;\nkeepalive_timeout 0;\netag off;\n\
         max_ranges 0;\ntypes {{ }}\n\
         open_file_cache max=64 inactive=24h;\nopen_file_cache_valid 24h;\n\
         {servers}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\n\
                        Content-Length: 1020\r\nCache-Control: no-store\r\n\
                        Content-Security-Policy: style-src 'sha256-a='; img-src data:\r\n\
                        Connection: close";

    #[test]
    fn the_whole_is_as_long_as_the_doormans() {
        let body = [b'.'; 1020];
        let length = length(HEAD, &body).unwrap();
        let others = HEAD.lines().skip(1).map(|line| line.len() + 2);
        let rest = others.sum::<usize>() - "1020".len() + length.to_string().len();
        let ours = HEAD.len() + 4 + body.len();
        assert_eq!(ours, OK.len() + 2 + rest + MORE.len() + 2 + length);
        assert!(super::length(HEAD, b"short").is_err());
    }

    #[test]
    fn headers_are_added_but_for_its_own() {
        let listen = "10.0.0.1:30001".parse().unwrap();
        let text = server(HEAD, listen, Path::new("/a/0.body")).unwrap();
        assert!(text.contains("add_header cache-control \"no-store\";"));
        assert!(text.contains("default_type \"text/html\";"));
        assert!(text.contains("\"style-src 'sha256-a='; img-src data:\";"));
        assert!(!text.contains("content-length") && !text.contains("connection"));
        let odd = "HTTP/1.1 200 OK\r\nX: $a";
        assert!(server(odd, listen, Path::new("/a")).is_err());
    }
}
