"""Lets `import torch` work from the PyPI wheel without NVIDIA's libraries, for tests on the CPU.

    cuda_stubs.py SITE_PACKAGES

The wheel's Python half is linked with its CUDA half, which needs 3 GB of libraries to load, although nothing
calls them where there is no GPU. This puts an empty library in the place of each: it has the name and the
symbols that torch asks for, and every function in it traps. Needs a C compiler and `nm`.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# What asks; the others are loaded only on a GPU.
ASKING = ("libtorch_cuda.so", "libtorch_nvshmem.so", "libtorch_python.so")
# library: (version of its symbols, its symbols)
STUBS = {
    "libcublas.so.13": ("libcublas.so.13", r"cublas(?!Lt)\w+"),
    "libcublasLt.so.13": ("libcublasLt.so.13", r"cublasLt\w+"),
    "libcudnn.so.9": ("libcudnn.so.9", r"cudnn\w+"),
    "libcufft.so.12": ("libcufft.so.12", r"cufft\w+"),
    "libcufile.so.0": (None, r"cuFile\w+"),
    "libcurand.so.10": (None, r"curand\w+"),
    "libcusparse.so.12": ("libcusparse.so.12", r"cusparse(?!Lt)\w+"),
    "libcusparseLt.so.0": (None, r"cusparseLt\w+"),
    "libnccl.so.2": (None, r"nccl\w+"),
    "libnvshmem_host.so.3": ("NVSHMEM", r"nvshmem\w+"),
}


def undefined_symbols(library):
    """Names of the symbols that a library wants from others."""
    output = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True)
    return {line.split()[-1].split("@")[0] for line in output.stdout.splitlines() if line.split()}


def build(path, version, symbols, scratch):
    """Compiles one stub."""
    source, script = scratch / "stub.c", scratch / "stub.map"
    source.write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in sorted(symbols)))
    command = ["cc", "-shared", "-nostdlib", "-fno-builtin", "-w", "-o", path, f"-Wl,-soname,{path.name}", source]
    if version:
        script.write_text(f"{version} {{ global: *; }};\n")
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)


def main(site_packages):
    """Fills torch/lib, where torch looks last."""
    folder = pathlib.Path(site_packages) / "torch/lib"
    wanted = set().union(*(undefined_symbols(folder / name) for name in ASKING))
    with tempfile.TemporaryDirectory() as scratch:
        for name, (version, pattern) in STUBS.items():
            symbols = {symbol for symbol in wanted if re.fullmatch(pattern, symbol)}
            build(folder / name, version, symbols, pathlib.Path(scratch))


if __name__ == "__main__":
    main(sys.argv[1])
