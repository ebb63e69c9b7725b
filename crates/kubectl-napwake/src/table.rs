//! Tables as kubectl prints them.

use std::io::{self, Write};

use tabwriter::TabWriter;

/// Writes `rows` under `heads`, columns three spaces apart.
pub(crate) fn write(out: &mut impl Write, heads: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let mut table = TabWriter::new(out).padding(3).minwidth(1);
    writeln!(table, "{}", heads.join("\t"))?;
    for row in rows {
        writeln!(table, "{}", row.join("\t"))?;
    }
    table.flush()
}
