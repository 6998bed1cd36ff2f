//! A job's place in an object store: its plan and its records. Calls wait for the store.

use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_store::RemoteStore;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;

use super::record::{
    BulkPlan, CheckedRecord, DONE, FEWER_BYTES_VERSION, LANGUAGE_VERSION, PARTITIONS, PLAN, Partition, PartitionDone,
    SHARDS, ShardDone, VERSION,
};
use crate::error::Error;
use crate::job_error::BulkJobError;

/// Times that a record is put, and the pause between two.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(300);

/// An opened place.
pub(super) struct JobPlace<'a> {
    pub(super) remote: RemoteStore,
    pub(super) cancel: &'a JobCancellation,
    runtime: Runtime,
}

impl<'a> JobPlace<'a> {
    pub(super) fn open(url: &str, cancel: &'a JobCancellation) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let url = url.strip_suffix(PLAN).unwrap_or(url);
        Ok(Self {
            remote: RemoteStore::open(url)?,
            cancel,
            runtime,
        })
    }

    /// Runs what waits for the store.
    pub(super) fn wait<T>(&self, call: impl Future<Output = Result<T, dyad_store::Error>>) -> Result<T, Error> {
        Ok(self.runtime.block_on(call)?)
    }

    /// The plan; an error where there is none.
    pub(super) fn plan(&self) -> Result<BulkPlan, Error> {
        self.plan_if_any()?.ok_or_else(|| {
            BulkJobError::NoPlan {
                url: self.remote.url().to_owned(),
            }
            .into()
        })
    }

    pub(super) fn plan_if_any(&self) -> Result<Option<BulkPlan>, Error> {
        self.record(PLAN)
    }

    pub(super) fn partition_done(&self, partition: &Partition) -> Result<Option<PartitionDone>, Error> {
        self.record(&partition_record(&partition.name))
    }

    pub(super) fn shard_done(&self, shard: usize) -> Result<Option<ShardDone>, Error> {
        self.record(&shard_record(shard))
    }

    /// A record; none where there is none yet.
    pub(super) fn record<T: DeserializeOwned + CheckedRecord>(&self, name: &str) -> Result<Option<T>, Error> {
        let bytes = self.wait(self.remote.read(name))?;
        bytes.map(|bytes| self.record_of(name, &bytes)).transpose()
    }

    fn record_of<T: DeserializeOwned + CheckedRecord>(&self, name: &str, bytes: &[u8]) -> Result<T, Error> {
        let value: serde_json::Value = self.parsed(name, serde_json::from_slice(bytes))?;
        let version = value.get("format_version").and_then(serde_json::Value::as_u64);
        if ![VERSION, LANGUAGE_VERSION, FEWER_BYTES_VERSION]
            .into_iter()
            .any(|known| version == Some(u64::from(known)))
        {
            let got = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(self.broken(name, "format_version", VERSION.to_string(), got));
        }
        let record: T = self.parsed(name, serde_json::from_value(value))?;
        match record.flaw() {
            Some((part, expected, got)) => Err(self.broken(name, part, expected, got)),
            None => Ok(record),
        }
    }

    fn parsed<T>(&self, name: &str, parsed: serde_json::Result<T>) -> Result<T, Error> {
        parsed.map_err(|error| {
            self.broken(
                name,
                "content",
                "a record of this release".to_owned(),
                error.to_string(),
            )
        })
    }

    fn broken(&self, name: &str, part: &'static str, expected: String, got: String) -> Error {
        BulkJobError::Record {
            path: format!("{}/{name}", self.remote.url()),
            part,
            expected,
            got,
        }
        .into()
    }

    /// Puts a record where there is none, and none where another attempt was faster: then that one's is returned.
    /// `replaced` is one whose files are gone: of two attempts that replace it, one does.
    pub(super) fn put_record<T>(&self, name: &str, record: &T, replaced: Option<&T>) -> Result<Option<T>, Error>
    where
        T: Serialize + DeserializeOwned + CheckedRecord + PartialEq,
    {
        let bytes = serde_json::to_vec_pretty(record).map_err(std::io::Error::from)?;
        for _ in 0..TRIES {
            if self.wait(self.remote.put_new(name, bytes.clone()))? {
                return Ok(None);
            }
            let Some(was) = self.wait(self.remote.read(name))? else {
                // A store may refuse one of two puts at once while the other has not ended yet.
                std::thread::sleep(PAUSE);
                continue;
            };
            let there: T = self.record_of(name, &was)?;
            if Some(&there) != replaced {
                return Ok(Some(there));
            }
            if self.wait(self.remote.replace(name, &was, bytes.clone()))? {
                return Ok(None);
            }
        }
        Err(self.broken(
            name,
            "object",
            "one that can be put, or one of another attempt".to_owned(),
            "neither".to_owned(),
        ))
    }
}

pub(super) fn partition_folder(name: &str) -> String {
    format!("{PARTITIONS}/{name}")
}

pub(super) fn partition_record(name: &str) -> String {
    format!("{}/{DONE}", partition_folder(name))
}

pub(super) fn shard_record(shard: usize) -> String {
    format!("{SHARDS}/{shard:04}/{DONE}")
}
