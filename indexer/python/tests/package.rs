//! The tests of the Python package, with the library of this build as its module.

#[cfg(test)]
mod package {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// The library, next to the folder of this test's program.
    fn library() -> PathBuf {
        let program = std::env::current_exe().unwrap();
        let folders = program.ancestors().skip(1).take(2);
        let candidates: Vec<PathBuf> = folders.map(|folder| folder.join("libdyad_python.so")).collect();
        let found = candidates.iter().find(|path| path.is_file());
        found.unwrap_or_else(|| panic!("no library at {candidates:?}")).clone()
    }

    fn copy_all(from: &Path, to: &Path) {
        fs_err::create_dir_all(to).unwrap();
        for entry in fs_err::read_dir(from).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                fs_err::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }

    #[test]
    fn the_python_package_works() {
        let Some(python) = std::env::var_os("DYAD_PYTHON") else {
            eprintln!("skipped: DYAD_PYTHON is not set");
            return;
        };
        let (here, folder) = (Path::new(env!("CARGO_MANIFEST_DIR")), tempfile::tempdir().unwrap());
        let package = folder.path().join("dyad_search");
        copy_all(&here.join("python/dyad_search"), &package);
        fs_err::copy(library(), package.join("_native.abi3.so")).unwrap();
        let readme = fs_err::read_to_string(here.join("README.md")).unwrap();
        let block = readme
            .split("```python\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let tests = here.join("tests");
        let sources = package.to_str().unwrap();
        for arguments in [
            vec!["-c", block.unwrap()],
            vec![
                "-m",
                "unittest",
                "discover",
                "-v",
                "-p",
                "*_test.py",
                "-s",
                tests.to_str().unwrap(),
            ],
            vec!["-m", "mypy", "--strict", "--cache-dir=/dev/null", sources],
            // The stub is compared with the module.
            vec!["-m", "mypy.stubtest", "dyad_search._native"],
        ] {
            let mut command = Command::new(&python);
            let output = command
                .args(&arguments)
                .env("PYTHONPATH", folder.path())
                .env("MYPYPATH", folder.path())
                .current_dir(folder.path())
                .output()
                .unwrap();
            let said = [&*output.stdout, &*output.stderr].concat();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        }
    }
}
