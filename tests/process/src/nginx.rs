//! A real nginx in front, in the place of the proxies that others run there.

use std::path::Path;

use napwake_testkit::{Context, Result, bail, wait};
use tokio::process::{Child, Command};

use crate::SOON;

/// A running nginx. Dropping it kills it.
#[derive(Debug)]
pub struct Nginx {
    _process: Child,
}

impl Nginx {
    /// Starts one whose `http` block holds these lines, and waits until it
    /// listens. Its own files are in `folder`, one nginx to a folder.
    pub async fn start(folder: &Path, http: &str) -> Result<Self> {
        let dir = folder.display();
        let config = format!(
            "daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/nginx.log;\n\
             events {{}}\n\
             http {{\n\
             access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/temp;\n\
             fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;\n\
             {http}\n\
             }}\n"
        );
        let (path, log) = (folder.join("nginx.conf"), folder.join("nginx.log"));
        tokio::fs::write(&path, config).await?;
        let mut child = Command::new("nginx")
            .arg("-e")
            .arg(&log)
            .arg("-c")
            .arg(&path)
            .kill_on_drop(true)
            .spawn()
            .context("start nginx")?;
        // It writes this file once all its sockets listen.
        let pid = folder.join("nginx.pid");
        let probe = || {
            let (listens, ended) = (pid.exists(), child.try_wait());
            async move { Ok((listens, ended?)) }
        };
        let is_over = |(listens, ended): &(bool, Option<_>)| *listens || ended.is_some();
        let (_, ended) = wait::until("nginx to listen", SOON, probe, is_over).await?;
        if let Some(status) = ended {
            let words = tokio::fs::read_to_string(&log).await.unwrap_or_default();
            bail!("nginx ended: {status}\n{words}");
        }
        Ok(Self { _process: child })
    }
}
