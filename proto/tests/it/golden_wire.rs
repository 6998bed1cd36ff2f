//! What each release has on the wire, in `tests/golden/release-VERSION.txt`: clients of it must be understood by later
//! servers, and the other way round. Methods, fields and values of enums may be added, and none may go, get another
//! number, or another type. `deploy/UPGRADE.md` says when to add one:
//!
//! ```text
//! cargo test -p dyad-proto --test it -- --ignored write_the_golden_wire
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, MessageDescriptor, ServiceDescriptor};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A line for each thing that is on the wire, in binary or as JSON.
fn wire() -> BTreeSet<String> {
    let pool = DescriptorPool::decode(dyad_proto::v1::FILE_DESCRIPTOR_SET).unwrap();
    let of_messages = pool.all_messages().flat_map(|message| fields(&message));
    let of_enums = pool.all_enums().flat_map(|values| values_of(&values));
    let of_services = pool.services().flat_map(|service| methods(&service));
    let lines = of_messages.chain(of_enums).chain(of_services);
    // The options of our own files are on no wire.
    lines.filter(|line| line.contains("dyad.v1.")).collect()
}

fn fields(message: &MessageDescriptor) -> Vec<String> {
    let line = |field: FieldDescriptor| {
        format!(
            "{} = {} {:?} {:?} {}",
            field.full_name(),
            field.number(),
            field.cardinality(),
            field.kind(),
            field.json_name()
        )
    };
    message.fields().map(line).collect()
}

fn values_of(values: &EnumDescriptor) -> Vec<String> {
    let line = |value: prost_reflect::EnumValueDescriptor| format!("{} = {}", value.full_name(), value.number());
    values.values().map(line).collect()
}

fn methods(service: &ServiceDescriptor) -> Vec<String> {
    let stream = |is_stream: bool| if is_stream { "stream " } else { "" };
    let line = |method: prost_reflect::MethodDescriptor| {
        format!(
            "{} ({}{}) returns ({}{})",
            method.full_name(),
            stream(method.is_client_streaming()),
            method.input().full_name(),
            stream(method.is_server_streaming()),
            method.output().full_name()
        )
    };
    service.methods().map(line).collect()
}

#[test]
#[ignore = "writes into the sources"]
fn write_the_golden_wire() {
    let release = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    let lines: String = wire().iter().map(|line| line.clone() + "\n").collect();
    fs_err::create_dir_all(folder()).unwrap();
    fs_err::write(folder().join(format!("release-{release}.txt")), lines).unwrap();
}

#[test]
fn what_a_release_has_on_the_wire_stays() {
    let now = wire();
    let releases: Vec<PathBuf> = fs_err::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(!releases.is_empty());
    for release in releases {
        let text = fs_err::read_to_string(&release).unwrap();
        let gone: Vec<&str> = text.lines().filter(|line| !now.contains(*line)).collect();
        assert_eq!(gone, [""; 0], "{}", release.display());
        assert!(
            text.contains("dyad.v1.Searcher.Search (dyad.v1.SearchRequest)"),
            "{text}"
        );
    }
}
