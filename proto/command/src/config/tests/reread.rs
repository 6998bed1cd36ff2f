//! A configuration that is read again: what has changed, and what needs a restart.

use super::super::follow::Follower;
use super::{Serve, configuration};

/// Follows a server that was started with `max-count = 8`.
fn follower() -> Follower {
    let configuration = configuration(["serve", "--config", "t.toml", "--names=a"], &[("DYAD_LISTEN", "b")]);
    let text = Some(Ok("max-count = 8".to_owned()));
    let values = configuration.merge(text.as_ref()).unwrap().values;
    Follower::new(configuration, text, values)
}

#[test]
fn changes_are_told_and_a_mistake_changes_nothing() {
    let mut follower = follower();
    let mut read = |text: &str| {
        let read = follower.read_again::<Serve>(Some(Ok(text.to_owned())), &["ratio"]);
        read.map(|again| (again.arguments.ratio, again.changed, again.restart))
    };
    let keys = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(read("max-count = 8 # same"), Ok((0.5, vec![], vec![])));
    assert_eq!(
        read("max-count = 8\nratio = 0.75"),
        Ok((0.75, keys(&["ratio"]), vec![]))
    );
    assert_eq!(
        read("max-count = 9\nratio = 0.75"),
        Ok((0.75, keys(&["max-count"]), keys(&["max-count"])))
    );
    let error = read("max-count = \"x\"\nratio = 0.25").unwrap_err();
    assert!(
        error.starts_with("t.toml:1: `max-count`: expected an integer"),
        "{error}"
    );
    // The variable wins over the file.
    let expected = Ok((0.25, keys(&["ratio"]), keys(&["max-count"])));
    assert_eq!(read("max-count = 9\nratio = 0.25\nlisten = \"c\""), expected);
    // Back to what the server runs with.
    assert_eq!(
        read("max-count = 8\nratio = 0.25"),
        Ok((0.25, keys(&["max-count"]), vec![]))
    );
    assert_eq!(
        read("ratio = 0.25\nwatch = true").unwrap().1,
        keys(&["max-count", "watch"])
    );
}
