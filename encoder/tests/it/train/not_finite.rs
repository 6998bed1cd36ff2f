//! Gradients that are not finite: a run that ends and says where, and one that leaves their steps out.

use super::fixture::{Place, weights};

/// Scores that no temperature of use could have made.
const ENDLESS: &str = "loss = { temperature = 1e-40 }";

#[test]
fn a_run_stops_at_the_step_that_its_log_would_name() {
    let settings = format!(
        "[batch]\nsize = 32\n[[stages]]\nname = \"first\"\ntraining = {{ steps = 3 }}\n\
         [[stages]]\nname = \"second\"\ntraining = {{ steps = 3 }}\n{ENDLESS}\n"
    );
    let place = Place::new(&settings);
    let message = place.refusal("out");
    assert!(message.contains("the gradients of step 4 are not finite"), "{message}");
    assert!(message.contains("`not-finite = \"skip\"`"), "{message}");
    assert!(!place.path("out/final").exists());
}

#[test]
fn steps_are_left_out_where_that_is_asked_for() {
    let settings = format!(
        "[batch]\nsize = 32\n[clipping]\nnot-finite = \"skip\"\n[log]\nevery = 1\n[[stages]]\nname = \"only\"\n\
         training = {{ steps = 4 }}\n{ENDLESS}\n"
    );
    let place = Place::new(&settings);
    let said = place.trained("out");
    assert!(said.contains("4 steps"), "{said}");
    let lines = fs_err::read_to_string(place.path("out/metrics.jsonl")).unwrap();
    let norms: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["what"] == "train")
        .map(|line| line["norm"].clone())
        .collect();
    assert_eq!(norms, vec![serde_json::Value::Null; 4]);
    // Nothing was learned.
    let tensors = |model_dir: &str| {
        weights(&place.path(model_dir))
            .into_iter()
            .map(|(_, bytes)| bytes)
            .collect::<Vec<_>>()
    };
    assert_eq!(tensors("out/final"), tensors("out/start"));
}
