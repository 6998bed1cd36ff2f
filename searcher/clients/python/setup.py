"""Makes the protobuf modules of `dyad_client._generated` from the repository's .proto files, or from their copy in an sdist."""

import importlib.resources
import pathlib
import re
import shutil

from grpc_tools import protoc
from setuptools import setup
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
OWN_PROTOS = HERE / "proto"
REPOSITORY_PROTOS = HERE.parents[2] / "proto" / "proto" if len(HERE.parents) > 2 else OWN_PROTOS
GENERATED = HERE / "src" / "dyad_client" / "_generated"
FILES = ["common", "rules", "filter", "searcher", "admin", "index"]


def protos() -> pathlib.Path:
    """The include folder that holds dyad/v1."""
    for folder in (OWN_PROTOS, REPOSITORY_PROTOS):
        if all((folder / "dyad" / "v1" / f"{name}.proto").is_file() for name in FILES):
            return folder
    raise SystemExit(
        f"error: dyad/v1/*.proto: expected in {REPOSITORY_PROTOS} (a checkout) or {OWN_PROTOS} (an sdist), found in neither. "
        "Install from a complete checkout of the repository, or from an sdist"
    )


def generate(include: pathlib.Path) -> None:
    """Compiles the .proto files. Their modules import each other relative to this package, so that no `dyad` is at the top level."""
    shutil.rmtree(GENERATED, ignore_errors=True)
    GENERATED.mkdir(parents=True)
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    paths = [str(include / "dyad" / "v1" / f"{name}.proto") for name in FILES]
    out = GENERATED.parent / "_generated_tree"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    try:
        status = protoc.main(["protoc", f"-I{include}", f"-I{well_known}", f"--python_out={out}", f"--pyi_out={out}", *paths])
        if status != 0:
            raise SystemExit(f"error: protoc failed with exit code {status}")
        for path in sorted((out / "dyad" / "v1").iterdir()):
            text = re.sub(r"^from dyad\.v1 import", "from . import", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            (GENERATED / path.name).write_text(text, encoding="utf-8")
    finally:
        shutil.rmtree(out)
    (GENERATED / "__init__.py").write_text('"""Messages of dyad.v1, made by protoc. Not to be edited."""\n', encoding="utf-8")


def oldest_protobuf() -> str:
    """The oldest protobuf release that loads the modules: the one that they were made for."""
    text = (GENERATED / "common_pb2.py").read_text(encoding="utf-8")
    made_for = re.search(r"^# Protobuf Python Version: ([\d.]+)", text, flags=re.MULTILINE)
    return made_for.group(1) if made_for else "4.25"


class SdistWithProtos(sdist):
    """An sdist carries the .proto files in place of the modules made from them."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, [file for file in files if "_generated" not in pathlib.PurePath(file).parts])
        target = pathlib.Path(base_dir) / "proto" / "dyad" / "v1"
        target.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copyfile(protos() / "dyad" / "v1" / f"{name}.proto", target / f"{name}.proto")


generate(protos())
setup(install_requires=["grpcio>=1.60", f"protobuf>={oldest_protobuf()}"], cmdclass={"sdist": SdistWithProtos})
