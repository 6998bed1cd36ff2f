//! A process in which `DYAD_KERNELS` names the set; prefetching.

use std::process::Command;

use crate::kernels::choose::ENVIRONMENT;
use crate::kernels::{available, choose, kernels, prefetch, requested_set};

/// Runs [`report`] in a process of its own, with the variable set; its line.
fn child(value: Option<&str>) -> String {
    let path = module_path!().split_once("::").unwrap().1;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("{path}::report"), "--ignored", "--nocapture"])
        .env_remove(ENVIRONMENT);
    if let Some(value) = value {
        command.env(ENVIRONMENT, value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .find_map(|line| line.split_once("kernels: "))
        .unwrap()
        .1
        .to_owned()
}

#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn report() {
    let chosen =
        choose(requested_set().as_deref()).map_or_else(|error| error.to_string(), |found| found.name.to_owned());
    println!("kernels: {} {chosen}", kernels().name);
}

#[test]
fn the_environment_forces_each_set() {
    for found in available() {
        assert_eq!(child(Some(found.name)), format!("{0} {0}", found.name));
    }
}

#[test]
fn nothing_or_an_unknown_name_in_the_environment_gives_the_best() {
    let best = available()[0].name;
    assert_eq!(child(None), format!("{best} {best}"));
    assert_eq!(child(Some("")), format!("{best} {best}"));
    let unknown = child(Some("sse9"));
    assert!(unknown.starts_with(best) && unknown.contains("`sse9`"), "{unknown}");
}

#[test]
fn prefetching_takes_any_slice() {
    let table = vec![1u8; 10_000];
    for start in 0..70 {
        for end in [start, start + 1, start + 63, start + 64, start + 65, table.len()] {
            prefetch(&table[start..end]);
        }
    }
    prefetch(&[]);
}
