//! Processes that die, and disks that fail, while embeddings or a directory such as a model's are written: what is
//! there is whole, and the next process goes on without repair.
//!
//! As with an index, what is written is written by a child, which is this test binary again with [`child`] alone.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use dyad_corpus::Document;
use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsModel, EmbeddingsReader, EmbeddingsWriter, VectorType};
use dyad_files::AtomicDir;

/// Exit code of a test that fails, as one whose work returns an error.
const FAILED: i32 = 101;
const ROWS: usize = 10;

fn header() -> EmbeddingsHeader {
    let (name, fingerprint, metric) = ("m".into(), "f00d".into(), "cosine".into());
    let model = EmbeddingsModel {
        name,
        fingerprint,
        dim: 3,
        metric,
        max_tokens: 8,
    };
    EmbeddingsHeader {
        model,
        tower: "answer".into(),
        vectors: VectorType::F32,
        part_rows: 4,
        dtype: None,
        two_towers: None,
        logit_scale: None,
        context: dyad_corpus::PassageContext::default(),
    }
}

/// Embeds ten documents, from where an earlier process has stopped.
fn embed(dir: &Path) -> Result<(), dyad_corpus::Error> {
    let mut writer = EmbeddingsWriter::open(dir, header())?;
    let there: u64 = writer.finished_parts().iter().map(|part| part.rows).sum();
    for number in there as usize..ROWS {
        let (key, text) = (format!("k{number}"), format!("text {number}"));
        let document = Document {
            key,
            title: String::new(),
            text,
            metadata: None,
            place: None,
        };
        writer.push(&document, &[number as f32, -0.5, 0.25], false)?;
    }
    writer.finish().map(drop)
}

/// Replaces a directory by one of two files and a folder.
fn replace(to: &Path, content: &str) -> io::Result<()> {
    AtomicDir::recover(to)?;
    let partial = AtomicDir::replace(to)?;
    fs_err::create_dir(partial.path().join("folder"))?;
    for name in ["first", "folder/second"] {
        fs_err::write(partial.path().join(name), content)?;
    }
    partial.commit()
}

/// Not a test of its own: what the children run.
#[test]
fn child() {
    let Some(wanted) = std::env::var_os("DYAD_CRASH") else {
        return;
    };
    let wanted = wanted.into_string().unwrap();
    let parts: Vec<&str> = wanted.split(',').collect();
    let [dir, work, point, action, skip] = parts[..] else {
        return;
    };
    let (skip, reached): (usize, _) = (skip.parse().unwrap(), AtomicUsize::new(0));
    if action == "die" {
        let die = move || {
            if reached.fetch_add(1, Ordering::SeqCst) == skip {
                std::process::abort();
            }
        };
        fail::cfg_callback(point, die).unwrap();
    } else {
        fail::cfg(point, &format!("{skip}*off->1*return->off")).unwrap();
    }
    let dir = Path::new(dir);
    match work {
        "embed" => embed(&dir.join("embeddings")).unwrap(),
        _ => replace(&dir.join("model"), "new").unwrap(),
    }
}

fn run(dir: &Path, work: &str, point: &str, action: &str, skip: usize) -> Output {
    let wanted = format!("{},{work},{point},{action},{skip}", dir.display());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env("DYAD_CRASH", wanted);
    command.output().unwrap()
}

/// Ends the work at every place of every point, in a new directory that `before` has filled; `after` looks at it, and
/// says which place it was.
fn at_every_place(work: &str, points: &[(&str, &str)], before: impl Fn(&Path), after: impl Fn(&Path, &str)) {
    for &(point, action) in points {
        for skip in 0.. {
            let dir = tempfile::tempdir().unwrap();
            before(dir.path());
            let output = run(dir.path(), work, point, action, skip);
            let place = format!("{point} {action} {skip}: {}", String::from_utf8_lossy(&output.stderr));
            let died = if action == "die" {
                output.status.signal().is_some()
            } else {
                output.status.code() == Some(FAILED)
            };
            assert!(died || output.status.success() && skip > 0 && skip < 50, "{place}");
            after(dir.path(), &place);
            if !died {
                break;
            }
        }
    }
}

/// Every file below a directory, with its content.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs_err::read_dir(dir).unwrap() {
        let (name, path) = entry
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
            .unwrap();
        if path.is_dir() {
            all.extend(
                files(&path)
                    .into_iter()
                    .map(|(inner, content)| (format!("{name}/{inner}"), content)),
            );
        } else {
            all.insert(name, fs_err::read(path).unwrap());
        }
    }
    all
}

#[test]
fn embeddings_go_on_after_the_last_whole_part() {
    let whole = tempfile::tempdir().unwrap();
    embed(&whole.path().join("embeddings")).unwrap();
    let points = [
        ("part-write", "die"),
        ("part-write", "fail"),
        ("file-write", "die"),
        ("file-write", "fail"),
        ("file-sync", "die"),
        ("file-sync", "fail"),
        ("file-rename", "die"),
        ("directory-sync", "die"),
        ("directory-sync", "fail"),
    ];
    at_every_place(
        "embed",
        &points,
        |_| {},
        |dir, place| {
            let dir = dir.join("embeddings");
            // Either there is no set yet, or one that says how far it is, or all of it.
            match EmbeddingsReader::open(&dir) {
                Ok(reader) => assert_eq!(reader.rows(), ROWS as u64, "{place}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(
                        error.contains("not complete") || error.contains("embeddings.json"),
                        "{error}: {place}"
                    );
                }
            }
            embed(&dir).unwrap();
            assert_eq!(files(&dir), files(&whole.path().join("embeddings")), "{place}");
        },
    );
}

#[test]
fn a_directory_is_the_old_one_or_the_new_one() {
    let content = |text: &str| -> BTreeMap<String, Vec<u8>> {
        ["first", "folder/second"]
            .into_iter()
            .map(|name| (format!("model/{name}"), text.into()))
            .collect()
    };
    let points = [
        ("directory-sync", "die"),
        ("directory-sync", "fail"),
        ("directory-rename", "die"),
        ("directory-rename", "fail"),
        ("directory-replaced", "die"),
    ];
    let before = |dir: &Path| replace(&dir.join("model"), "old").unwrap();
    at_every_place("replace", &points, before, |dir, place| {
        let model = dir.join("model");
        AtomicDir::recover(&model).unwrap();
        let there = files(dir)
            .into_iter()
            .filter(|(name, _)| name.starts_with("model/"))
            .collect();
        assert!(content("old") == there || content("new") == there, "{there:?}: {place}");
        replace(&model, "next").unwrap();
        assert_eq!(files(dir), content("next"), "{place}");
    });
}
