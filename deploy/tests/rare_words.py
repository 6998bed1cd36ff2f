"""Hybrid search for words that hardly any document has: rare_words.py BINARIES MODEL, in the root.

60 passages of the quick start get an identifier, a code or a name that no other has, and a sentence around it that all of the kind share. They are
asked for by that word alone and in a sentence. A vector knows nothing of such words, and BM25 finds them: hybrid may lose .01 of MRR to the better
of its two rankings, for each kind and form, before and after it has learned from the questions of the quick start, which have few such words, and with the other methods
and the highest dense weight that can be learned.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from build_index import COMMAND_S, built
from readme import Servers

QUICKSTART = pathlib.Path(__file__).resolve().parents[1] / "quickstart"
SEED, OF_EACH_KIND, MOST_LOST = 20261127, 20, 0.01
CONSONANTS, DIGITS = "bcdfghjklmnpqrstvwxz", "0123456789"


def identifier(chance):
    """Like bcd1234."""
    return "".join(chance.choices(CONSONANTS, k=3) + chance.choices(DIGITS, k=4))


def code(chance):
    """Like E0417: two of them differ in one digit, as error codes do."""
    return "E" + "".join(chance.choices(DIGITS, k=4))


def name(chance):
    """Like Vormelik."""
    return "".join(chance.choice(CONSONANTS) + chance.choice("aeiou") for _ in range(4)).capitalize()


# How it is made, how a passage says it, and how it is asked for.
KINDS = {
    "identifier": (identifier, "Reference {}.", ("{}", "reference {}", "what is {}")),
    "code": (code, "Filed under error {}.", ("{}", "error {}", "what is error {}")),
    "name": (name, "Written by {}.", ("{}", "who is {}", "what was written by {}")),
}


def rare_words(documents):
    """Documents with rare words, and by kind and form the questions, each with the key of its document."""
    chance, questions = random.Random(SEED), {}
    chosen = iter(chance.sample(range(len(documents)), OF_EACH_KIND * len(KINDS)))
    for kind, (make, sentence, forms) in KINDS.items():
        words = set()
        while len(words) < OF_EACH_KIND:
            words.add(make(chance))
        for word, at in zip(sorted(words), chosen, strict=False):
            documents[at]["text"] += " " + sentence.format(word)
            for form in forms:
                questions.setdefault((kind, form), []).append((form.format(word), documents[at]["_id"]))
    return questions


def write_questions(folder, questions):
    """A BEIR folder of judged questions."""
    (folder / "qrels").mkdir(parents=True)
    numbered = [(f"q{number}", *question) for number, question in enumerate(questions)]
    lines = (json.dumps({"_id": number, "text": text}) + "\n" for number, text, _ in numbered)
    (folder / "queries.jsonl").write_text("".join(lines))
    judgements = (f"{number}\t{key}\t1\n" for number, _, key in numbered)
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judgements))


def means(printed):
    """MRR by system, of a table of `dyad-bench quality`."""
    return {system: float(mrr) for system, mrr in re.findall(r"^(dense|bm25|hybrid) +(\d\.\d+)", printed, re.MULTILINE)}


def main():
    """0 where hybrid finds the words."""
    binaries, model = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    documents = [json.loads(line) for line in (QUICKSTART / "corpus.jsonl").read_text().splitlines()]
    questions, servers, lost = rare_words(documents), Servers(), []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        built(binaries, model, folder / "index", documents)
        for number, judged in enumerate(questions.values()):
            write_questions(folder / str(number), judged)
        environment = os.environ | {"RUST_LOG": "warn"}
        tower = ["--index", folder / "index", "--question-tower", model]
        try:
            methods = {"weighted-sum": ("weighted_sum", 0.7), "min-max": ("min_max", 0.7), "log-odds": ("log_odds", 0.8)}
            for fusion in ("default", "learned", *methods):
                if fusion == "learned":
                    learn = [binaries / "dyad-searcher", "learn", *tower, "--data", QUICKSTART, "--split", "test"]
                    subprocess.run(learn, check=True, timeout=COMMAND_S, env=environment)
                if fusion in methods:
                    learned, (method, weight) = folder / "index/fusion.json", methods[fusion]
                    record = json.loads(learned.read_text()) | {"method": method, "dense_weight": weight}
                    record["format_version"] = 2 if method == "log_odds" else 1
                    learned.write_text(json.dumps(record))
                serve = [binaries / "dyad-searcher", "serve", *tower, "--listen", "127.0.0.1:0"]
                servers.start("dyad-searcher", [str(word) for word in serve], environment, folder)
                for number, (kind, form) in enumerate(questions):
                    command = [binaries / "dyad-bench", "quality", "--server", servers.urls["dyad-searcher"]]
                    command += ["--data", folder / str(number), "--run-dir", folder / "runs", "--modes", "dense,bm25,hybrid"]
                    done = subprocess.run(command, check=True, timeout=COMMAND_S, capture_output=True, text=True)
                    mrr = means(done.stdout)
                    print(f"{fusion}, {kind}, `{form}`: MRR {mrr}", flush=True)
                    if mrr["hybrid"] < max(mrr["dense"], mrr["bm25"]) - MOST_LOST:
                        lost.append((fusion, kind, form))
        finally:
            servers.end_all()
    if lost:
        raise SystemExit(f"expected hybrid to lose at most {MOST_LOST} of MRR to its better half, which it does not for {lost}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
