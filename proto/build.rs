//! Compiles the `.proto` files with protox, so that no system `protoc` is needed.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files =
        ["common", "filter", "encoder", "searcher", "admin", "index"].map(|name| format!("proto/dyad/v1/{name}.proto"));
    // tonic-prost-build says nothing to cargo about its inputs, and cargo would then run this at every change.
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=build.rs");
    let descriptors = protox::compile(&files, ["proto"])?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs_err::write(out.join("dyad.v1.bin"), descriptors.encode_to_vec())?;
    // The comments of the .proto files become the documentation of the generated types.
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
