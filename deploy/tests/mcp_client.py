"""The searcher's tools by the client `mcp` of PyPI: mcp_client.py BINARIES MODEL, in the root.

Real programs serve a part of the corpus of the quick start in two indexes, without keys and with them. The client is one of both kinds of revision:
with sessions, and without. It checks each result by the schema that the list of tools gives. The program of the searcher's README is run as
it is.
"""

import asyncio
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from build_index import COMMAND_S, built
from programs import serving

CALL_S = 60
DOCUMENTS = 20
MODES = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28", "auto": "2026-07-28"}
QUESTION = "Which planet has clouds of sulphuric acid?"


def check(holds, message):
    """Ends with an error where something does not hold."""
    if not holds:
        raise SystemExit(f"mcp: {message}")


async def text_of(client, tool, arguments, *, fails=False):
    """The text of a tool's result, and its structured content."""
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text
    check(result.is_error == fails, f"{tool} {arguments}: expected is_error {fails}, got {text}")
    return text, result.structured_content


async def tools_work(address, mode):
    """Every tool once, and an error of each kind."""
    from mcp import Client, MCPError

    async with Client(f"http://{address}/mcp", mode=mode, read_timeout_seconds=CALL_S) as client:
        check(client.protocol_version == MODES[mode], f"{mode}: agreed on {client.protocol_version}")
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        check(list(tools) == ["search", "get", "explain"], f"{mode}: got {list(tools)}")
        check("`one` (the default), `two`" in tools["search"].input_schema["properties"]["index"]["description"], "the indexes are told")
        if mode == "legacy":
            check(client.server_info.name == "dyad-searcher" and "`search`" in client.instructions, f"{client.instructions}")
            await client.send_ping()

        text, found = await text_of(client, "search", {"query": QUESTION, "k": 3})
        best = found["hits"][0]
        check(len(found["hits"]) == 3 and found["index"] == "one", f"{mode}: {found}")
        check(f"1. [{best['key']}] {best['document']['title']} (score {best['score']})" in text, f"{mode}: {text}")
        check(best["document"]["text"] in text, f"{mode}: {text}")
        _, other = await text_of(client, "search", {"query": QUESTION, "index": "two", "mode": "bm25", "filter": {"key": [best["key"]]}})
        check([hit["key"] for hit in other["hits"]] == [best["key"]] and other["index"] == "two", f"{mode}: {other}")
        await text_of(client, "search", {"query": QUESTION, "mode": "MODE_COMPARE", "snippet_bytes": 80})

        text, got = await text_of(client, "get", {"keys": [best["key"], "none"]})
        check(got["documents"][0]["key"] == best["key"] and got["missing"] == ["none"] and "no document `none`" in text, f"{mode}: {text}")
        text, explained = await text_of(client, "explain", {"key": best["key"], "search": {"query": QUESTION}})
        check(explained["hit"]["rank"] == 1 and text.startswith("The document is hit 1 "), f"{mode}: {text}")

        for tool, arguments, expected in (
            ("search", {"query": QUESTION, "k": 10001}, "`k`: expected 1 to 10000, got 10001"),
            ("search", {"query": QUESTION, "ef": 5}, "got `ef`"),
            ("search", {"query": QUESTION, "index": "none"}, "`none`"),
            ("get", {"keys": []}, "`keys`"),
            ("explain", {"key": "none", "search": {"query": QUESTION}}, "none"),
        ):
            text, _ = await text_of(client, tool, arguments, fails=True)
            check(expected in text, f"{mode}: {tool} {arguments}: {text}")
        try:
            await client.call_tool("delete", {})
        except MCPError as error:
            check(error.code == -32602 and "`search`" in error.message, f"{mode}: {error}")
        else:
            check(False, f"{mode}: a tool that there is not was called")


async def keys_are_asked_for(address, keys, mode):
    """A tenant's key, and none."""
    from httpx2 import AsyncClient
    from mcp import Client, MCPError
    from mcp.client.streamable_http import streamable_http_client

    url = f"http://{address}/mcp"
    async with (
        AsyncClient(headers={"Authorization": f"Bearer {keys['tenant']}"}, timeout=CALL_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        _, found = await text_of(client, "search", {"query": QUESTION, "k": 100})
        check({hit["key"] for hit in found["hits"]} == {"p001", "p002"}, f"{mode}: {found['hits']}")
        _, got = await text_of(client, "get", {"keys": ["p001", "p003"]})
        check(got["missing"] == ["p003"], f"{mode}: {got['missing']}")
        await text_of(client, "explain", {"key": "p003", "search": {"query": QUESTION}}, fails=True)
        text, _ = await text_of(client, "search", {"query": QUESTION, "index": "two"}, fails=True)
        check("`two`" in text, f"{mode}: {text}")
    for headers in ({}, {"Authorization": "Bearer dyad_wrong"}):
        try:
            async with (
                AsyncClient(headers=headers, timeout=CALL_S) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                await client.list_tools()
        except* MCPError as group:
            (error,) = leaves(group)
            check(error.code == 401, f"{mode}: {error}")
        else:
            check(False, f"{mode}: answered without a key")


def leaves(group):
    """The exceptions in a group and in those inside."""
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from leaves(one)
        else:
            yield one


def run_program_of_the_readme(address):
    """The block of the README that uses the client, which prints hits."""
    text = pathlib.Path("searcher/README.md").read_text()
    (program,) = (block for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "from mcp import" in block)
    command = [sys.executable, "-c", program.replace("127.0.0.1:7780", address)]
    printed = subprocess.run(command, check=True, timeout=COMMAND_S, stdout=subprocess.PIPE, text=True).stdout
    check(printed.startswith("3 hits in index `one`."), f"searcher/README.md: {printed}")


def made_key(binaries, folder, name, *options):
    """A key as its holder has it."""
    command = [binaries / "dyad-searcher", "keys", "create", "--keys", "keys.json", "--name", name, "--out", f"{name}.key", *options]
    subprocess.run(command, cwd=folder, check=True, timeout=COMMAND_S, capture_output=True)
    return (folder / f"{name}.key").read_text().strip()


def main():
    """Ends with an error where something does not work."""
    if importlib.util.find_spec("mcp") is None:
        print("skipped: `mcp` is not installed (deploy/venv.sh)")
        return
    binaries, model = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        lines = pathlib.Path("deploy/quickstart/corpus.jsonl").read_text().splitlines()
        built(binaries, model, folder / "one", [json.loads(line) for line in lines[:DOCUMENTS]])
        shutil.copytree(folder / "one", folder / "two")
        options = ("--index", "one", "--index", "two", "--question-tower", model, "--http", "127.0.0.1:0")
        with serving(binaries, folder, "dyad-searcher", *options) as searcher:
            for mode in MODES:
                asyncio.run(tools_work(searcher["HTTP"], mode))
            run_program_of_the_readme(searcher["HTTP"])
        keys = {"tenant": made_key(binaries, folder, "tenant", "--index", "one", "--filter", "key in p001|p002")}
        with serving(binaries, folder, "dyad-searcher", *options, "--keys", "keys.json") as searcher:
            for mode in ("legacy", "2026-07-28"):
                asyncio.run(keys_are_asked_for(searcher["HTTP"], keys, mode))
    print("mcp: every tool by sessions and without, errors, a tenant's key, and none")


if __name__ == "__main__":
    main()
