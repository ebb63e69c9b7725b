//! Tables as people read them. Pure.

use std::io::Write as _;

use tabwriter::{Alignment, TabWriter};

use crate::clock::Millis;

/// Nothing was measured.
const NOTHING: &str = "-";

/// A table: figures to the right, what they are of to the left.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, heads: &[&str]) -> Self {
        Self {
            title: title.into(),
            rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()],
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn render(&self) -> String {
        let mut writer = TabWriter::new(Vec::new())
            .padding(2)
            .minwidth(1)
            .alignment(Alignment::Right);
        let first = self.rows.iter().filter_map(|row| row.first());
        let width = first.map(|cell| cell.chars().count()).max().unwrap_or(0);
        for row in &self.rows {
            let mut cells = row.iter();
            let first = cells.next().map_or("", String::as_str);
            let rest: Vec<_> = cells.map(String::as_str).collect();
            // Writing to memory doesn't fail.
            drop(writeln!(writer, "  {first:<width$}\t{}\t", rest.join("\t")));
        }
        let table = writer.into_inner().unwrap_or_default();
        let table = String::from_utf8_lossy(&table);
        let lines: Vec<_> = table.lines().map(str::trim_end).collect();
        format!("{}\n{}\n", self.title, lines.join("\n"))
    }
}

/// A time, to a tenth of a millisecond.
pub(crate) fn time(millis: Option<Millis>) -> String {
    millis.map_or_else(|| NOTHING.to_owned(), |millis| format!("{millis:.1}"))
}

/// How much more one time is than another, beside what it may be.
pub(crate) fn more(time: Option<Millis>, floor: Option<Millis>, bar: Millis) -> String {
    let Some((time, floor)) = time.zip(floor) else {
        return NOTHING.to_owned();
    };
    let more = time - floor;
    format!("{more:+.1} ({})", verdict(more <= bar))
}

/// A time beside what it may be.
pub(crate) fn within(time: Option<Millis>, bar: Millis) -> String {
    let Some(time) = time else {
        return NOTHING.to_owned();
    };
    format!("{time:.1} ({})", verdict(time <= bar))
}

/// Whether a bar is held, as people read it.
pub(crate) const fn verdict(held: bool) -> &'static str {
    if held { "held" } else { "MISSED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_below_each_other() {
        let mut table = Table::new("Times, ms", &["at once", "p50", "p95"]);
        table.row(["1".to_owned(), time(Some(0.25)), time(None)]);
        table.row(["25".to_owned(), time(Some(112.0)), time(Some(-3.12))]);
        let expected = "Times, ms\n  \
             at once    p50   p95\n  \
             1          0.2     -\n  \
             25       112.0  -3.1\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn a_difference_says_whether_it_holds_its_bar() {
        assert_eq!(more(Some(3.0), Some(1.0), 2.0), "+2.0 (held)");
        assert_eq!(more(Some(0.5), Some(1.0), 2.0), "-0.5 (held)");
        assert_eq!(more(Some(6.25), Some(1.0), 5.0), "+5.2 (MISSED)");
        assert_eq!(more(None, Some(1.0), 5.0), "-");
        assert_eq!(within(Some(10.0), 10.0), "10.0 (held)");
    }
}
