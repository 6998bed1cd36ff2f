//! Killed, interrupted, without room: runs that go on, and end as if nothing had been.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use dyad_command::JobCancellation;
use dyad_encoder::train::{Config, TrainError, train};

use super::fixture::{PAIRS, Place, weights};

const SETTINGS: &str = "[batch]\nsize = 8\nnegatives = 0\n[optimizer]\nkind = \"adamw\"\nlearning-rate = 0.003\n\
                        [loss]\nlearned-temperature = true\n[training]\nsteps = 300\n[checkpoints]\nevery = 20\n";

/// Waits until a run has written a checkpoint.
fn wait_for(path: &Path, child: &mut Child) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_mins(1), "no {}", path.display());
        assert!(child.try_wait().unwrap().is_none(), "ended before {}", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn checkpoints(place: &Place, out: &str) -> Vec<String> {
    let folder = place.path(out).join("checkpoints");
    let names = fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_killed_run_ends_with_the_same_weights() {
    for (name, settings) in [
        ("adamw", SETTINGS.to_owned()),
        (
            "adafactor",
            SETTINGS.replace("adamw", "adafactor") + "[evaluation]\ndata = \"beir\"\nevery = 30\n",
        ),
        (
            "endx",
            SETTINGS.replace(
                "[loss]\nlearned-temperature = true",
                "[loss]\nsimilarity = \"inner-product\"\ntemperature = 1.0\n\
                 endx = { cross = { heads = 3, aggregator = { kind = \"mean\" } } }",
            ),
        ),
    ] {
        let place = Place::new(&settings);
        place.trained("whole");
        let mut child = place.train("killed").spawn().unwrap();
        wait_for(&place.path("killed/checkpoints/step-00000040"), &mut child);
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!place.path("killed/final").exists(), "{name}: killed too late");
        let said = place.trained("killed");
        assert!(said.contains("300 steps"), "{name}: {said}");
        let (whole, resumed) = (
            weights(&place.path("whole/final")),
            weights(&place.path("killed/final")),
        );
        assert!(whole.len() > 2 && whole == resumed, "{name}: other weights");
        assert_ne!(
            whole,
            weights(&place.path("whole/start")),
            "{name}: nothing was learned"
        );
        if name == "adafactor" {
            assert_eq!(weights(&place.path("whole/best")), weights(&place.path("killed/best")));
            let metrics = |out: &str| fs_err::read_to_string(place.path(out).join("metrics.jsonl")).unwrap();
            assert_eq!(metrics("whole").lines().count(), metrics("killed").lines().count());
        }
        assert_eq!(place.trained("killed").split(' ').next(), Some("nothing"), "{name}");
    }
}

/// With a model that is large enough for operators to share their work among threads: by another number the weights are
/// others.
#[test]
fn any_number_of_threads_resumes_to_the_bit() {
    let (place, model) = (Place::new(""), crate::fixture::tiny("classic-mean"));
    let mut all = Vec::new();
    for threads in [0, 1, 2] {
        let settings = format!(
            "seed = 1\nthreads = {threads}\n[model]\npath = {model:?}\nsharing = \"sde\"\ndim = 256\nencoder = \"lstm\"\nlayers = 1\nhidden = 256\n\
             [data]\npaths = [\"pairs.jsonl\"]\n[batch]\nsize = 32\n[optimizer]\nlearning-rate = 0.01\n[clipping]\nmax-norm = 0.01\n\
             [training]\nsteps = 4\n[checkpoints]\nevery = 2\n"
        );
        fs_err::write(place.path("settings.toml"), settings).unwrap();
        let out = format!("out{threads}");
        place.trained(&out);
        let model_dir = place.path(&out).join("final");
        let whole = weights(&model_dir);
        fs_err::remove_dir_all(&model_dir).unwrap();
        fs_err::remove_dir_all(place.path(&out).join("checkpoints/step-00000004")).unwrap();
        place.trained(&out);
        assert!(weights(&model_dir) == whole, "{threads} threads: other weights");
        all.push(whole);
    }
    assert!(
        all[1] != all[2],
        "the number of threads makes no difference here, so nothing was tested"
    );
    // As many as there are cores, where that is one of those.
    match tch::get_num_threads() {
        1 => assert!(all[0] == all[1], "0 is not one per core"),
        2 => assert!(all[0] == all[2], "0 is not one per core"),
        _ => {}
    }
}

#[test]
fn an_interrupt_saves_and_ends_with_130() {
    let place = Place::new(SETTINGS);
    let mut child = place.train("out").spawn().unwrap();
    wait_for(&place.path("out/checkpoints/step-00000020"), &mut child);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{message}");
    let step = message
        .rsplit("interrupted at step ")
        .next()
        .unwrap()
        .split('.')
        .next()
        .unwrap()
        .to_owned();
    let last = checkpoints(&place, "out").pop().unwrap();
    assert_eq!(last, format!("step-{:08}", step.parse::<u64>().unwrap()));
    place.trained("out");
    place.trained("whole");
    assert_eq!(weights(&place.path("out/final")), weights(&place.path("whole/final")));
    // Two and no more are kept; without evaluation there is no best.
    assert_eq!(checkpoints(&place, "out"), ["step-00000280", "step-00000300"]);
    assert!(!place.path("out/best").exists());
}

/// Mining too is ended, leaves no half of a file, and is done when the run goes on.
#[test]
fn an_interrupt_ends_mining() {
    let place = Place::new("");
    let pairs = place.path("pairs.jsonl");
    let stage = format!(
        "[batch]\nsize = 8\nnegatives = 1\n[training]\nsteps = 2\n[[stages]]\nname = \"one\"\ndata = {{ paths = [{pairs:?}] }}\n\
         mine = {{ rank-end = 20 }}\n"
    );
    place.settings(&stage);
    let config = Config::open(&place.path("settings.toml")).unwrap();
    let run = |interrupted: bool| {
        let cancel = JobCancellation::new();
        if interrupted {
            cancel.cancel();
        }
        train(&config, &place.path("out"), &cancel)
    };
    let error = run(true).unwrap_err();
    assert!(matches!(error, TrainError::Interrupted { step: 0 }), "{error}");
    assert!(!place.path("out/mined/one.jsonl").exists() && !place.path("out/checkpoints").exists());
    assert_eq!(run(false).unwrap().steps, 2);
    let mined = fs_err::read_to_string(place.path("out/mined/one.jsonl")).unwrap();
    assert_eq!(mined.lines().count(), PAIRS);
}

#[test]
fn without_room_the_checkpoint_before_stays_whole() {
    let place = Place::new(SETTINGS);
    let mut child = place.train("out").spawn().unwrap();
    wait_for(&place.path("out/checkpoints/step-00000020"), &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = checkpoints(&place, "out");
    let last = before.iter().rfind(|name| !name.contains("partial")).unwrap().clone();
    let content = fs_err::read(place.path("out/checkpoints").join(&last).join("tensors.safetensors")).unwrap();
    assert!(content.len() > 16 * 1024, "{}", content.len());
    // Files of at most 16 KiB: a write beyond fails as on a full disk.
    let program = env!("CARGO_BIN_EXE_dyad-encoder");
    let script = format!("trap '' XFSZ; ulimit -f 32; exec '{program}' train --config settings.toml --out out");
    let limited = Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let message = String::from_utf8(limited.stderr).unwrap();
    assert_eq!(limited.status.code(), Some(1), "{message}");
    assert!(
        message.contains("cannot write checkpoint") && message.contains("are intact"),
        "{message}"
    );
    let after = checkpoints(&place, "out");
    assert!(
        after.contains(&last) && after.iter().all(|name| !name.contains("partial")),
        "{after:?}"
    );
    assert_eq!(
        fs_err::read(place.path("out/checkpoints").join(&last).join("tensors.safetensors")).unwrap(),
        content
    );
    place.trained("out");
    place.trained("whole");
    assert_eq!(weights(&place.path("out/final")), weights(&place.path("whole/final")));
}
