"""The script that puts the client into an installed VectorDBBench, and the folder that it copies."""

import pathlib
import tempfile
import unittest

import stand_in

install = stand_in.script("vectordbbench/install.py")

CLIENTS = """class DB(Enum):
    Milvus = "Milvus"
    Redis = "Redis"

    @property
    def init_cls(self):
        if self == DB.Milvus:
            from .milvus.milvus import Milvus

            return Milvus

    @property
    def config_cls(self):
        if self == DB.Milvus:
            from .milvus.config import MilvusConfig

            return MilvusConfig

    def case_config_cls(self, index_type=None):
        if self == DB.Milvus:
            from .milvus.config import _milvus_case_config

            return _milvus_case_config.get(index_type)
"""
COMMANDS = """from ..backend.clients.elastic_cloud.cli import (
    ElasticCloudHNSW,
)
from .cli import cli

cli.add_command(MemoryDB)
"""


class Install(unittest.TestCase):
    """What becomes of the framework's files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.package = pathlib.Path(folder.name)
        for name, text in (("backend/clients/__init__.py", CLIENTS), ("cli/vectordbbench.py", COMMANDS)):
            (self.package / name).parent.mkdir(parents=True)
            (self.package / name).write_text(text)

    def texts(self):
        return [(self.package / name).read_text() for name in install.CHANGES]

    def test_a_member_three_branches_and_a_command_are_added_once(self):
        install.install(self.package)
        clients, commands = once = self.texts()
        compile(clients, "clients", "exec")
        self.assertEqual(clients.count('    Dyad = "Dyad"\n'), 1)
        for module, name in (("dyad", "Dyad"), ("config", "DyadConfig"), ("config", "DyadCaseConfig")):
            self.assertEqual(clients.count(f"from .dyad.{module} import {name}\n\n            return {name}\n"), 1)
        # Each in the property that it is for.
        order = [
            clients.index(text)
            for text in (
                "def init_cls",
                "import Dyad\n",
                "def config_cls",
                "import DyadConfig",
                "def case_config_cls",
                "import DyadCaseConfig",
            )
        ]
        self.assertEqual(order, sorted(order))
        self.assertEqual(commands.count("from ..backend.clients.dyad.cli import Dyad\n"), 1)
        self.assertEqual(commands.count("cli.add_command(Dyad)\n"), 1)
        self.assertTrue((self.package / "backend/clients/dyad/dyad.py").is_file())
        install.install(self.package)
        self.assertEqual(self.texts(), once)

    def test_another_release_is_left_as_it_is(self):
        clients = self.package / "backend/clients/__init__.py"
        clients.write_text(CLIENTS.replace("MilvusConfig", "OtherConfig"))
        before = self.texts()
        with self.assertRaisesRegex(
            SystemExit, r"backend/clients/__init__.py: expected one place.*got 0. Install vectordb-bench 2.0.0"
        ):
            install.install(self.package)
        self.assertEqual(self.texts(), before)
        self.assertFalse((self.package / "backend/clients/dyad").exists())


if __name__ == "__main__":
    unittest.main()
