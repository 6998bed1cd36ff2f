//! Peak memory: of `embed` for corpora of several sizes, of `train` for batches of several sizes.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dyad_encoder::config::Sharing;
use dyad_encoder::model::create;
use dyad_encoder::transform::Creation;

use crate::fixture::{copy, edit, tiny};

const DIM: usize = 768;
const MIB: u64 = 1 << 20;

/// The most memory that a process has held so far; nothing once it has ended.
fn peak(child: &Child) -> Option<u64> {
    let status = fs_err::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().unwrap() * 1024)
}

/// The peak of a process that must succeed.
fn peak_of(command: &mut Command) -> u64 {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut most = 0;
    let status = loop {
        most = most.max(peak(&child).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success());
    most
}

/// The peak of embedding this many short texts.
fn embedding(root: &Path, model: &Path, texts: usize) -> u64 {
    let (corpus, out) = (root.join(format!("{texts}.tsv")), root.join(format!("{texts}")));
    let mut file = BufWriter::new(fs_err::File::create(&corpus).unwrap());
    for number in 0..texts {
        writeln!(
            file,
            "k{number}\tthe river {} of the king {}",
            number % 89,
            "in the city ".repeat(number % 4)
        )
        .unwrap();
    }
    file.into_inner().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
    command
        .args(["embed", "--vector-type", "f16", "--threads", "1", "--model"])
        .arg(model);
    command.arg("--corpus").arg(&corpus).arg("--out").arg(&out);
    let most = peak_of(&mut command);
    assert_eq!(
        dyad_corpus::embeddings::EmbeddingsReader::open(&out).unwrap().rows(),
        texts as u64
    );
    most
}

/// Ten times as many texts: their vectors alone would take 264 MiB more in f32, and a sixth of that is let pass. Some
/// does come on top: 24 bytes per key, by which a key that comes twice is found.
#[test]
fn a_corpus_ten_times_as_large_takes_no_more_memory() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    create(
        &tiny("plain"),
        &model,
        &Creation {
            sharing: Sharing::SDE,
            dim: DIM,
            seed: 1,
        },
    )
    .unwrap();
    let [small, large] = [10_000, 100_000].map(|texts| embedding(folder.path(), &model, texts));
    println!(
        "peak: {} MiB for 10,000 texts, {} MiB for 100,000",
        small / MIB,
        large / MIB
    );
    assert!(small > 50 * MIB, "{small}: a peak that was not seen");
    let more = (90_000 * DIM * 4) as u64;
    assert!(
        large < small + more / 6,
        "{} MiB, then {} MiB",
        small / MIB,
        large / MIB
    );
}

/// The peak of two steps with batches of this many pairs, `chunk` of them at a time.
fn training(root: &Path, batch: usize, chunk: usize) -> u64 {
    let settings = format!(
        "threads = 1\n[model]\npath = \"model\"\nsharing = \"sde\"\ninit = \"random\"\ndim = 16\n\
         [data]\npaths = [\"pairs.jsonl\"]\n[batch]\nsize = {batch}\nchunk = {chunk}\n[training]\nsteps = 2\n"
    );
    let name = format!("{batch}-{chunk}");
    fs_err::write(root.join(&name).with_extension("toml"), settings).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
    command
        .current_dir(root)
        .args(["train", "--config", &format!("{name}.toml"), "--out", &name]);
    peak_of(&mut command)
}

/// Gradient cache: of texts of one length, a batch eight times as large takes the memory of its chunk, and a whole one
/// of its size.
#[test]
fn a_batch_takes_the_memory_of_its_chunk() {
    const PAIRS: usize = 512;
    let folder = tempfile::tempdir().unwrap();
    // Large enough that what the way back needs stands out: 26 tokens of each text, 3 layers.
    let model = copy("plain");
    edit(&model.path().join("config.json"), |config| {
        for (key, value) in [
            ("hidden_size", 96),
            ("num_hidden_layers", 3),
            ("intermediate_size", 384),
        ] {
            config[key] = value.into();
        }
    });
    fs_err::rename(model.keep(), folder.path().join("model")).unwrap();
    let letter = |number: usize| char::from(b'b' + (number % 8) as u8);
    let text = |number: usize| {
        [letter(number), letter(number / 8), letter(number / 64)].map(|one| format!("{one} ").repeat(8))
    };
    let line = |number: usize| {
        let text = text(number).concat();
        format!(
            "{}\n",
            serde_json::json!({"question": format!("a {text}"), "answer": format!("the {text}")})
        )
    };
    fs_err::write(
        folder.path().join("pairs.jsonl"),
        (0..PAIRS).map(line).collect::<String>(),
    )
    .unwrap();
    let [small, large] = [64, PAIRS].map(|batch| training(folder.path(), batch, 16));
    let whole = training(folder.path(), PAIRS, 0);
    let mib = [small, large, whole].map(|bytes| bytes / MIB);
    println!(
        "peak: {} MiB for 64 pairs, {} MiB for {PAIRS}, both 16 at a time; {} MiB at once",
        mib[0], mib[1], mib[2]
    );
    assert!(small > 50 * MIB, "{small}: a peak that was not seen");
    // Ids, vectors and their gradients of 448 more pairs are not half a mebibyte; what is kept of freed memory was 26
    // MiB more on an EPYC of 2017.
    assert!(large < small + 64 * MIB, "{mib:?}");
    assert!(whole > large + 200 * MIB, "{mib:?}");
}
