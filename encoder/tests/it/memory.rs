//! Peak memory of `embed` beside the size of the corpus.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dyad_encoder::dual::{Creation, Sharing, create};

use crate::fixture::tiny;

const DIM: usize = 768;
const MIB: u64 = 1 << 20;

/// The most memory that a process has held so far; nothing once it has ended.
fn peak(child: &Child) -> Option<u64> {
    let status = fs_err::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().unwrap() * 1024)
}

/// The peak of embedding so many short texts.
fn embedding(root: &Path, model: &Path, texts: usize) -> u64 {
    let (corpus, out) = (root.join(format!("{texts}.tsv")), root.join(format!("{texts}")));
    let mut file = BufWriter::new(fs_err::File::create(&corpus).unwrap());
    for number in 0..texts {
        writeln!(file, "k{number}\tthe river {} of the king {}", number % 89, "in the city ".repeat(number % 4))
            .unwrap();
    }
    file.into_inner().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
    command.args(["embed", "--vectors", "f16", "--threads", "1", "--model"]).arg(model);
    command.arg("--corpus").arg(&corpus).arg("--out").arg(&out).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut most = 0;
    let status = loop {
        most = most.max(peak(&child).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success());
    assert_eq!(dyad_corpus::embeddings::EmbeddingsReader::open(&out).unwrap().rows(), texts as u64);
    most
}

/// Ten times as many texts: their vectors alone would take 264 MiB more in f32, and a sixth of that is let pass. Some does come
/// on top: 24 bytes per key, by which a key that comes twice is found.
#[test]
fn a_corpus_ten_times_as_large_takes_no_more_memory() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    create(&tiny("plain"), &model, &Creation { sharing: Sharing::SDE, dim: DIM, seed: 1 }).unwrap();
    let [small, large] = [10_000, 100_000].map(|texts| embedding(folder.path(), &model, texts));
    println!("peak: {} MiB for 10,000 texts, {} MiB for 100,000", small / MIB, large / MIB);
    assert!(small > 50 * MIB, "{small}: a peak that was not seen");
    let more = (90_000 * DIM * 4) as u64;
    assert!(large < small + more / 6, "{} MiB, then {} MiB", small / MIB, large / MIB);
}
