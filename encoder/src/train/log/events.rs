//! TensorBoard's event files: records of `tensorflow.Event` messages with masked CRC-32C checksums, as the
//! `RecordWriter` of TensorFlow frames them: length (u64), its checksum (u32), data, their checksum (u32), all
//! little-endian.

use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fs_err::File;
use prost::Message;

/// `tensorflow/core/util/event.proto`, as far as scalars need it.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    session_log: Option<SessionLog>,
}

/// `tensorflow/core/framework/summary.proto`.
#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Scalar>,
}

#[derive(Clone, PartialEq, Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// `SessionLog.START`: TensorBoard drops what earlier files say of this step and later ones.
const START: i32 = 1;

/// A file of events.
#[derive(Debug)]
pub(super) struct Events(File);

impl Events {
    /// Makes a file of its own in `folder`, for a run that resumes after `step` steps.
    pub(super) fn create(folder: &Path, step: u64) -> io::Result<Self> {
        fs_err::create_dir_all(folder)?;
        let time = now();
        // Read in the order of their names.
        let mut number = 0;
        let file = loop {
            let name = format!("events.out.tfevents.{:010}.{number:03}.dyad", time as u64);
            match File::create_new(folder.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                made => break made?,
            }
        };
        let mut events = Self(file);
        let nothing = Event {
            wall_time: time,
            ..Event::default()
        };
        events.record(&Event {
            file_version: Some("brain.Event:2".into()),
            ..nothing.clone()
        })?;
        if step > 0 {
            let session_log = Some(SessionLog { status: START });
            events.record(&Event {
                step: step as i64 + 1,
                session_log,
                ..nothing
            })?;
        }
        Ok(events)
    }

    /// Values of a step.
    pub(super) fn scalars(&mut self, step: u64, scalars: &[(String, f32)]) -> io::Result<()> {
        let scalar = |(tag, value): &(String, f32)| Scalar {
            tag: tag.clone(),
            simple_value: Some(*value),
        };
        let summary = Some(Summary {
            value: scalars.iter().map(scalar).collect(),
        });
        self.record(&Event {
            wall_time: now(),
            step: step as i64,
            summary,
            ..Event::default()
        })
    }

    fn record(&mut self, event: &Event) -> io::Result<()> {
        let data = event.encode_to_vec();
        let length = (data.len() as u64).to_le_bytes();
        let [of_length, of_data] = [&length[..], &data].map(|bytes| masked(bytes).to_le_bytes());
        // One call, so that a record is whole or missing.
        self.0.write_all(&[&length[..], &of_length, &data, &of_data].concat())
    }
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |time| time.as_secs_f64())
}

/// TensorFlow's `crc32c::Mask`.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file as TensorBoard does.
    fn read(path: &Path) -> Vec<Event> {
        let bytes = fs_err::read(path).unwrap();
        let (mut rest, mut events) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (head, behind) = rest.split_at(12);
            let length = u64::from_le_bytes(head[..8].try_into().unwrap()) as usize;
            assert_eq!(u32::from_le_bytes(head[8..].try_into().unwrap()), masked(&head[..8]));
            let (data, behind) = behind.split_at(length);
            assert_eq!(u32::from_le_bytes(behind[..4].try_into().unwrap()), masked(data));
            events.push(Event::decode(data).unwrap());
            rest = &behind[4..];
        }
        events
    }

    #[test]
    fn checksums_are_those_of_tensorflow() {
        // RFC 3720, B.4: 32 bytes of zeros have the CRC-32C 0x8a9136aa; turned by 15 bits and moved by
        // 0xa282ead8 (`tensorflow/core/lib/hash/crc32c.h`), in Python.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked(&[0; 32]), 0x0fd7_fffa);
    }

    #[test]
    fn scalars_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = Events::create(folder.path(), 0).unwrap();
        events
            .scalars(10, &[("train/loss".into(), 1.25), ("train/rate".into(), 2e-5)])
            .unwrap();
        let mut again = Events::create(folder.path(), 10).unwrap();
        again.scalars(20, &[("train/loss".into(), 0.5)]).unwrap();
        let mut files: Vec<_> = fs_err::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let [first, second] = &files[..] else {
            panic!("{files:?}")
        };
        assert!(first.file_name().unwrap().to_string_lossy().contains("tfevents"));
        let first = read(first);
        assert_eq!(first[0].file_version.as_deref(), Some("brain.Event:2"));
        let values = |event: &Event| -> Vec<(String, f32)> {
            let scalars = event.summary.iter().flat_map(|summary| &summary.value);
            scalars
                .map(|scalar| (scalar.tag.clone(), scalar.simple_value.unwrap()))
                .collect()
        };
        assert_eq!(
            (first[1].step, values(&first[1])[0].clone()),
            (10, ("train/loss".to_owned(), 1.25))
        );
        let second = read(second);
        assert_eq!(
            (second[1].step, second[1].session_log.as_ref().unwrap().status),
            (11, START)
        );
        assert_eq!((second[2].step, values(&second[2])[0].1), (20, 0.5));
    }
}
