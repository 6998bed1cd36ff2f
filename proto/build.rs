//! Compiles the `.proto` files with protox, so that no system `protoc` is needed, and writes their rules, their
//! defaults and the words of their enums as Rust.

#[path = "build/enums.rs"]
mod enums;
#[path = "build/rules.rs"]
mod rules;

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "common", "rules", "filter", "encoder", "searcher", "admin", "index", "leaf",
    ]
    .map(|name| format!("proto/dyad/v1/{name}.proto"));
    // tonic-prost-build says nothing to cargo about its inputs, and cargo would then run this at every change.
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(&files)?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    // As the compiler encodes them: `FileDescriptorSet` of prost-types would lose the rules, which are extensions.
    fs_err::write(out.join("dyad.v1.bin"), compiler.encode_file_descriptor_set())?;
    // The comments of the .proto files become the documentation of the generated types.
    let mut messages = tonic_prost_build::Config::new();
    messages.enable_type_names();
    tonic_prost_build::configure().compile_fds_with_config(compiler.file_descriptor_set(), messages)?;
    let pool = compiler.descriptor_pool();
    let constants = rules::constants(&pool)? + &rules::alternatives(&pool)?;
    fs_err::write(out.join("dyad.v1.rules.rs"), constants)?;
    fs_err::write(out.join("dyad.v1.enums.rs"), enums::words(&pool)?)?;
    fs_err::write(out.join("dyad.v1.checks.rs"), rules::checks(&pool)?)?;
    fs_err::write(out.join("dyad.v1.defaults.rs"), rules::defaults(&pool)?)?;
    Ok(())
}
