//! What cannot be trained is refused by name.

use std::process::Command;

use super::fixture::{Place, lines};

#[test]
fn data_that_cannot_be_learned_from() {
    let place = Place::new("");
    let refusal = |text: &str| {
        fs_err::write(place.path("pairs.jsonl"), text).unwrap();
        let message = place.refusal("out");
        assert!(!place.path("out/checkpoints").exists());
        message
    };
    let broken = refusal(&format!("{}{{\"question\": \"what\", \"ans\n", lines()));
    assert!(broken.contains("pairs.jsonl:65"), "{broken}");
    let empty = refusal(&format!("{{\"question\": \" \", \"answer\": \"b\"}}\n{}", lines()));
    assert!(empty.contains("pairs.jsonl:1") && empty.contains("question"), "{empty}");
    let nothing = refusal(&format!(
        "{{\"query\": \"b\", \"positive\": [], \"negative\": [\"c\"]}}\n{}",
        lines()
    ));
    assert!(
        nothing.contains("pairs.jsonl:1") && nothing.contains("positive"),
        "{nothing}"
    );
    // Left out and counted where that was asked for; then a batch of 65 is larger than the rest.
    place.settings("skip-bad = true\n[batch]\nsize = 65\n");
    let small = refusal(&format!("{{\"question\": \" \", \"answer\": \"b\"}}\n{}", lines()));
    assert!(
        small.contains("batch of 65") && small.contains("64 examples"),
        "{small}"
    );
}

#[test]
fn settings_that_cannot_be() {
    let place = Place::new("");
    for (settings, expected) in [
        (
            "[optimizer]\nlearning-rate = 0.0",
            "`learning-rate` must be a positive number, got: 0",
        ),
        (
            "[optimizer]\nlearning-rate = -0.001",
            "`learning-rate` must be a positive number, got: -0.001",
        ),
        (
            "[optimizer]\nkind = \"adafactor\"\nlearning-rate = 0.0",
            "`learning-rate` must be a positive number",
        ),
        ("[loss]\ntemperature = 0.0", "`temperature` must be a positive number"),
        ("[clipping]\nmax-norm = -1.0", "`max-norm` must be positive"),
        ("[batch]\nsise = 3", "`batch.sise`: unknown field `sise`"),
        (
            "[evaluation]\ndata = \"nowhere\"",
            "no BEIR folder at `nowhere`: expected corpus.jsonl, queries.jsonl and qrels/dev.tsv",
        ),
        ("[evaluation]\ndata = \"beir\"\nsplit = \"test\"", "dev"),
        (
            "[loss]\nsimilarity = \"inner-product\"\ntemperature = 1.0\n[loss.endx.cross]\nheads = 5",
            "`heads` must be a divisor of the 12",
        ),
        (
            "[batch]\nnegatives = 2",
            "`stages.train.batch.negatives` is 2, and 0 of 64 examples have negatives",
        ),
        ("[training]\ngroups = [{ names = [\"nothing.*\"] }]", "nothing.*"),
    ] {
        place.settings(settings);
        let message = place.refusal("out");
        assert!(message.contains(expected), "{settings}: {message}");
    }
    let message = place.refusal("settings.toml");
    assert!(
        message.contains("`settings.toml` is a file, a directory is needed"),
        "{message}"
    );
    fs_err::write(place.path("settings.toml"), "seed = 1\n").unwrap();
    assert!(place.refusal("empty").contains("`model.path` must be"));
}

/// What is wrong with a later stage is said before the first one is run.
#[test]
fn mistakes_of_later_stages_are_told_at_once() {
    let place = Place::new("");
    fs_err::write(
        place.path("broken.jsonl"),
        format!("{}{{\"question\": \"what\", \"ans\n", lines()),
    )
    .unwrap();
    for (stage, expected) in [
        (
            "optimizer = { kind = \"adamw\", learning-rate = 0.0 }",
            "`learning-rate` must be a positive number, got: 0",
        ),
        (
            "optimizer = { kind = \"adafactor\", decay-rate = -1.0 }",
            "`decay-rate` must be a positive number, got: -1",
        ),
        (
            "loss = { temperature = 0.0 }",
            "`temperature` must be a positive number",
        ),
        ("clipping = { max-norm = -1.0 }", "`max-norm` must be positive"),
        (
            "training = { groups = [{ names = [\"*\"], rate = -1.0 }] }",
            "`rate of a group` must be a number from 0",
        ),
        (
            "batch = { negatives = 1 }\nmine = { rank-start = 5, rank-end = 3 }",
            "`rank-end` must be above `rank-start`",
        ),
        (
            "batch = { negatives = 2 }",
            "`stages.two.batch.negatives` is 2, and 0 of 64 examples have negatives",
        ),
        (
            "batch = { size = 65 }",
            "batch of 65 is larger than the data: 64 examples",
        ),
        ("data = { paths = [\"nowhere.jsonl\"] }", "nowhere.jsonl"),
        ("data = { paths = [\"broken.jsonl\"] }", "broken.jsonl:65"),
    ] {
        place.settings(&format!(
            "[[stages]]\nname = \"one\"\ntraining = {{ steps = 3 }}\n[[stages]]\nname = \"two\"\n{stage}"
        ));
        let message = place.refusal("out");
        assert!(message.contains(expected), "{stage}: {message}");
        assert!(
            !place.path("out/checkpoints").exists() && !place.path("out/metrics.jsonl").exists(),
            "{stage}"
        );
    }
}

#[test]
fn a_run_does_not_go_on_as_another() {
    let settings = "[batch]\nsize = 8\n[training]\nsteps = 6\n[checkpoints]\nevery = 2\n";
    let place = Place::new(settings);
    place.trained("out");
    fs_err::remove_dir_all(place.path("out/final")).unwrap();
    place.settings(&settings.replace("size = 8", "size = 16"));
    let message = place.refusal("out");
    assert!(
        message.contains("`stages[0].batch.size` = 8, now it is 16"),
        "{message}"
    );

    place.settings(settings);
    fs_err::write(place.path("pairs.jsonl"), lines().replacen("what b", "what c", 1)).unwrap();
    assert!(place.refusal("out").contains("other training data"));

    // A checkpoint of another architecture, put where this one's was.
    fs_err::write(place.path("pairs.jsonl"), lines()).unwrap();
    place.settings(&settings.replace("[batch]", "[loss]\nlearned-temperature = true\n[batch]"));
    place.trained("other");
    let name = "checkpoints/step-00000006/tensors.safetensors";
    fs_err::copy(place.path("other").join(name), place.path("out").join(name)).unwrap();
    place.settings(settings);
    let message = place.refusal("out");
    assert!(
        message.contains("`parameter/loss/log_temperature`") && message.contains("another architecture"),
        "{message}"
    );
    let half = fs_err::read(place.path("other").join(name)).unwrap();
    fs_err::write(place.path("out").join(name), &half[..half.len() / 2]).unwrap();
    assert!(place.refusal("out").contains("damaged or cut short"));

    // A model that has changed since.
    fs_err::remove_dir_all(place.path("out/start")).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .args([place.path("other/final"), place.path("out/start")])
        .status();
    assert!(copied.unwrap().success());
    let message = place.refusal("out");
    assert!(
        message.contains("fingerprint") && message.contains("another directory"),
        "{message}"
    );
}

/// Ended before its first checkpoint, a run has left a initial model, and perhaps mined negatives: neither is
/// another's.
#[test]
fn nothing_that_a_run_has_made_is_handed_to_another() {
    let place = Place::new("");
    let change = |from: &str, to: &str| {
        let text = fs_err::read_to_string(place.path("settings.toml")).unwrap();
        fs_err::write(place.path("settings.toml"), text.replacen(from, to, 1)).unwrap();
    };
    let without = |settings: &str| place.settings(&format!("[batch]\nsize = 8\n[training]\nsteps = 1\n{settings}"));
    let with = |settings: &str| {
        without(settings);
        change("[batch]", "[batch]\nnegatives = 1");
    };
    // No tensor has this name: seen after the model was made and negatives were mined.
    let wrong = "groups = [{ names = [\"nothing.*\"] }]\n";
    let ended_early = |out: &str, settings: &str| {
        with(&format!("{wrong}{settings}"));
        assert!(place.refusal(out).contains("nothing.*"));
        assert!(place.path(out).join("start").exists() && !place.path(out).join("checkpoints").exists());
    };
    let refused = |out: &str, setting: &str, then: &str, now: &str| {
        let message = place.refusal(out);
        assert!(
            message.contains(&format!("`{setting}` = {then}, now it is {now}")),
            "{message}"
        );
    };
    let mine = |count: usize| format!("[mine]\nrank-end = 20\ncount = {count}\n");

    ended_early("out", &mine(2));
    let mined = fs_err::read_to_string(place.path("out/mined/train.jsonl")).unwrap();
    with(&mine(3));
    refused("out", "stages[0].mine.count", "2", "3");
    with(&mine(2));
    change("threads", "seed = 4\nthreads");
    refused("out", "seed", "0", "4");
    with(&mine(2));
    change("dim = 16", "dim = 8");
    refused("out", "model.dim", "16", "8");
    // Another model in the place of the one that has mined.
    without("");
    place.trained("other");
    for (from, to) in [("out/start", "kept"), ("other/final", "out/start")] {
        fs_err::rename(place.path(from), place.path(to)).unwrap();
    }
    with(&mine(2));
    let message = place.refusal("out");
    assert!(message.contains("`fingerprint of the model` = "), "{message}");
    fs_err::remove_dir_all(place.path("out/start")).unwrap();
    fs_err::rename(place.path("kept"), place.path("out/start")).unwrap();
    // The mistake mended, the run goes on with what it has.
    place.trained("out");
    assert_eq!(
        fs_err::read_to_string(place.path("out/mined/train.jsonl")).unwrap(),
        mined
    );

    // With a model alone, what it was not made by may change.
    without(wrong);
    assert!(place.refusal("start").contains("nothing.*"));
    without("[loss]\ntemperature = 0.1\n");
    change("dim = 16", "dim = 8");
    refused("start", "model.dim", "16", "8");
    change("dim = 8", "dim = 16");
    place.trained("start");

    // Of a directory from before settings were noted nothing is known.
    fs_err::create_dir_all(place.path("old")).unwrap();
    fs_err::rename(place.path("start/start"), place.path("old/start")).unwrap();
    let message = place.refusal("old");
    assert!(
        message.contains("contains `start` of a run whose settings are not known"),
        "{message}"
    );
}

#[test]
fn the_default_is_printed() {
    let output = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"))
        .args(["train", "--print-config"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text == dyad_encoder::train::config::DEFAULT);
    assert_eq!(
        dyad_encoder::train::Config::parse(&text).unwrap(),
        dyad_encoder::train::Config::parse("").unwrap()
    );
    let alone = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"))
        .args(["train"])
        .output()
        .unwrap();
    assert_eq!(alone.status.code(), Some(2));
}

#[test]
fn two_runs_do_not_write_to_one_directory() {
    let place = Place::new("[training]\nsteps = 1\n");
    fs_err::create_dir_all(place.path("out")).unwrap();
    let held = fs_err::File::create(place.path("out/LOCK")).unwrap().into_file();
    held.lock().unwrap();
    let message = place.refusal("out");
    assert!(
        message.contains("another run writes to the directory") && message.contains("out"),
        "{message}"
    );
    drop(held);
    place.trained("out");
}
