//! `dyad-bench reproduce`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use dyad_command::cancel_on_signal;

use crate::harness::{threads, write_csv};
use crate::reproduce::{
    ReproduceJob, ReproduceTable, SettingOverride, TablePlaces, compare, rows, run, write_markdown,
};

/// The model that the tables are sized for.
const MODEL: &str = ".models/all-MiniLM-L6-v2";

/// Show a paper's finding on real data: trains the models of a table, evaluates them by exact search, compares them by
/// paired tests. A run that was ended goes on where it stood.
#[derive(Debug, Args)]
pub(super) struct ReproduceCommand {
    /// sharing, endx, endx-tempered, endx-causes, best, rerank, stages, bottleneck, or the path of a table's file; see
    /// benches/reproduce/README.md.
    table: String,
    /// Folder of trials, table.md and rows.csv.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of seeds, from --first-seed.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    seeds: u16,
    /// The first of them.
    #[arg(long, default_value_t = 0, value_name = "N")]
    first_seed: u32,
    /// Steps of every stage, in place of the table's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// A setting of the trainer for all variants, such as device=cuda or batch.size=512. May be given again.
    #[arg(long, value_name = "SETTING=VALUE")]
    set: Vec<SettingOverride>,
    /// Train only these variants, between commas. What is finished of the others is compared all the same.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// What $MODEL stands for: the pretrained model.
    #[arg(long, value_name = "DIR", default_value = MODEL)]
    model: PathBuf,
    /// What $DATA stands for: the folder of all data.
    #[arg(long, env = "DYAD_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Folder of the tables.
    #[arg(long, default_value = "benches/reproduce", value_name = "DIR")]
    tables: PathBuf,
    /// Also write the rows to benches/records/reproduce, or to this folder, under the names of table, day and revision.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "benches/records/reproduce")]
    record: Option<PathBuf>,
}

impl ReproduceCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let cancel = cancel_on_signal()?;
        let path = PathBuf::from(&self.table);
        let path = if path.extension().is_some() {
            path
        } else {
            self.tables.join(format!("{}.toml", self.table))
        };
        let table = ReproduceTable::read(&path)?;
        let absolute = |path: &PathBuf| fs_err::canonicalize(path);
        // Told to libtorch, which else may take one.
        let mut overrides = vec![format!("threads={}", threads(0)).parse().map_err(anyhow::Error::msg)?];
        overrides.extend(self.set.iter().cloned());
        if let Some(steps) = self.steps {
            overrides.push(format!("training.steps={steps}").parse().map_err(anyhow::Error::msg)?);
        }
        fs_err::create_dir_all(&self.out)?;
        let first = u64::from(self.first_seed);
        let job = ReproduceJob {
            table: &table,
            places: TablePlaces {
                data: absolute(&self.data)?,
                model: absolute(&self.model).context("--model: `deploy/model.sh NAME DIR` fetches one")?,
                out: absolute(&self.out)?,
            },
            seeds: (first..first + u64::from(self.seeds)).collect(),
            only: self.only.clone(),
            overrides,
            command: self.command(),
            cancel,
        };
        let reproduced = run(&job, &|text| tracing::info!("{text}"))?;
        let compared = compare(&reproduced)?;
        let (mut markdown, mut csv) = (Vec::new(), Vec::new());
        write_markdown(&mut markdown, &reproduced, &compared)?;
        write_csv(&mut csv, &rows(&reproduced)?)?;
        fs_err::write(self.out.join("table.md"), &markdown)?;
        fs_err::write(self.out.join("rows.csv"), &csv)?;
        if let Some(records) = &self.record {
            fs_err::create_dir_all(records)?;
            let name = reproduced.stamp.record(&table.name);
            fs_err::write(records.join(name.clone() + ".csv"), &csv)?;
            fs_err::write(records.join(name + ".md"), &markdown)?;
        }
        Ok(std::io::stdout().lock().write_all(&markdown)?)
    }

    /// The command for a record: all that decides its rows, and no folder of this machine.
    fn command(&self) -> String {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let set = self.set.iter().map(|setting| (" --set", setting.to_string()));
        let model = (name(&self.model) != name(Path::new(MODEL))).then(|| name(&self.model));
        let options = [
            (" --seeds", (self.seeds != 1).then(|| self.seeds.to_string())),
            (
                " --first-seed",
                (self.first_seed != 0).then(|| self.first_seed.to_string()),
            ),
            (" --only", (!self.only.is_empty()).then(|| self.only.join(","))),
            (" --steps", self.steps.map(|steps| steps.to_string())),
        ];
        let given = options.into_iter().filter_map(|(option, value)| Some((option, value?)));
        let options = given.chain(set).chain(model.map(|model| (" --model", model)));
        let options: Vec<String> = options.map(|(option, value)| format!("{option} {value}")).collect();
        format!(
            "dyad-bench reproduce {} --out OUT{}",
            name(Path::new(&self.table)),
            options.concat()
        )
    }
}
