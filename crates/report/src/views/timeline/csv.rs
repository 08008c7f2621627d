//! Writes comma-separated values, one line for each row and bucket.

use std::io::{self, Write};

use super::Timeline;
use super::lines::What;
use icecore_text::csv::quoted;

impl Timeline {
    /// Writes a heading and the values, quoted as RFC 4180 says.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn csv(&self, out: &mut (dyn Write + Send)) -> io::Result<()> {
        if let Some(heat) = &self.heatmap {
            writeln!(out, "time_s,offset_s,{}", self.value_unit.replace('/', "_per_"))?;
            for second in &heat.seconds {
                for (step, value) in second.values.iter().enumerate() {
                    let value = value.map(|value| value.to_string()).unwrap_or_default();
                    writeln!(out, "{:.9},{:.2},{value}", second.begin_s, step as f64 * heat.offset_s)?;
                }
            }
            return out.flush();
        }
        let rate = if self.rates.is_empty() { "" } else { ",rate_share" };
        writeln!(
            out,
            "time_s,kind,name,image,host,tgid,tid,{}{rate}",
            self.value_unit.replace('/', "_per_")
        )?;
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let rate =
            |bucket: usize| self.rates.get(bucket).map_or(String::new(), |it| format!(",{}", number(*it)));
        let rows = self.rows.iter().map(|row| (cells(&row.what), &row.values));
        for (cells, values) in [(cells(&What::All), &self.values)].into_iter().chain(rows) {
            let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
            let cells = cells.join(",");
            for (bucket, value) in values.iter().enumerate() {
                let (value, rate) = (number(*value), rate(bucket));
                writeln!(out, "{:.9},{cells},{value}{rate}", self.begin_s + bucket as f64 * self.bucket_s)?;
            }
        }
        for owner in &self.counters {
            for series in &owner.counters {
                let name = owner.comm.as_ref().or(owner.cgroup.as_ref()).cloned().unwrap_or_default();
                let kind = format!("{}:{}", owner.owner, series.counter);
                let tgid = owner.tgid.map(|tgid| tgid.to_string()).unwrap_or_default();
                let host = owner.host.clone().unwrap_or_default();
                let cells = [kind, name, String::new(), host, tgid, String::new()];
                let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
                let cells = cells.join(",");
                for (bucket, value) in series.values.iter().enumerate() {
                    let (value, rate) = (number(*value), rate(bucket));
                    writeln!(
                        out,
                        "{:.9},{cells},{value}{rate}",
                        self.begin_s + bucket as f64 * self.bucket_s
                    )?;
                }
            }
        }
        out.flush()
    }
}

/// Returns kind, name, image, host, process and thread.
fn cells(what: &What) -> [String; 6] {
    let none = String::new;
    match what {
        What::All => ["all".into(), none(), none(), none(), none(), none()],
        What::Function { name, image } => {
            ["function".into(), name.clone(), image.clone().unwrap_or_default(), none(), none(), none()]
        }
        What::Processes { comm } => ["process".into(), comm.to_string(), none(), none(), none(), none()],
        What::Threads { comm } => ["thread".into(), comm.to_string(), none(), none(), none(), none()],
        What::Image { name } => ["image".into(), name.clone(), name.clone(), none(), none(), none()],
        What::Field { name } => ["field".into(), name.clone(), none(), none(), none(), none()],
        What::Process(owner) | What::Thread(owner) => {
            let kind = if matches!(what, What::Thread(_)) { "thread" } else { "process" };
            let tid = owner.tid.map(|tid| tid.to_string()).unwrap_or_default();
            let host = owner.host.clone().unwrap_or_default();
            [kind.into(), owner.comm.to_string(), none(), host, owner.tgid.to_string(), tid]
        }
    }
}
