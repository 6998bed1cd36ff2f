"""BM25 of several languages against bm25s and Snowball in Python: languages.py BINARIES, in the root.

For each language 200 texts are made of words in several forms, with at most 40 terms: lengths of more are stored in one byte, as in Lucene. They are indexed with `--language`, by vectors that mean nothing. Then

* the terms of each text, as `/v1/explain` tells them, are the stems of its words by `snowballstemmer`, in lower case and without accents, but for stop
  words; of Chinese and Japanese they are pairs of characters;
* the scores of questions are those of bm25s (method lucene, k1 1.2, b 0.75; times k1 + 1, which it leaves out) over these terms;
* `--language auto` tells the language of natural sentences.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unicodedata
import urllib.request

import bm25s
import numpy
import snowballstemmer

from build_index import COMMAND_S
from readme import Servers

SEED, TEXTS, QUESTIONS, K1, B, DIM = 20261128, 200, 20, 1.2, 0.75, 8

WORDS = {
    "de": "Haus Häuser Hause Stadt Städte städtisch Fluss Flüsse und der für schnell schneller Größe groß größte laufen läuft lief Kind Kinder Bücher Buch",
    "fr": "maison maisons cheval chevaux étude études étudier nation national nationales les des pour rapide rapidement grande grandes manger mangeaient livre livres",
    "es": "casa casas canción canciones cantar cantaba nación nacional nacionales los por rápido rápidamente grande grandes niño niños libro libros correr corriendo",
    "it": "casa case canzone canzoni cantare cantava nazione nazionale nazionali gli per veloce velocemente grande grandi bambino bambini libro libri correre",
    "ru": "дом дома домов город города городской столица столицы столицей и не на быстро быстрый большая большой книга книги книгой читать читает дорога дороги",
    "sv": "hus husen huset stad städer staden bok boken böcker och det att snabb snabbt stora större barn barnen läsa läser väg vägar vägen",
    "fi": "talo talot talossa kaupunki kaupungissa kirja kirjat kirjaa ja on ei nopea nopeasti suuri suuren lapsi lapset lukea lukee tie tiellä",
    "pt": "casa casas canção canções cantar cantava nação nacional nacionais os para rápido rapidamente grande grandes menino meninos livro livros correr",
    "zh": "首都 北京 中国 城市 河流 图书馆 学习 孩子 道路 房子 人民 历史",
    "ja": "東京タワー 図書館 データベース 子供たち 道路 家 日本語 勉強 歴史",
}
SNOWBALL = {
    "de": "german", "fr": "french", "es": "spanish", "it": "italian", "ru": "russian", "sv": "swedish", "fi": "finnish", "pt": "portuguese",
}  # fmt: skip
SENTENCES = {
    "de": "Die alten Häuser am Fluss wurden im vergangenen Jahr an Familien aus der Stadt verkauft, die dort seither mit ihren Kindern wohnen.",
    "fr": "Les vieilles maisons au bord de la rivière ont été vendues l'année dernière à des familles qui y habitent depuis avec leurs enfants.",
    "es": "Las viejas casas junto al río se vendieron el año pasado a familias de la ciudad, que desde entonces viven allí con sus hijos.",
    "ru": "Старые дома у реки были проданы в прошлом году семьям из города, которые с тех пор живут там со своими детьми.",
    "en": "The old houses by the river were sold last year to families from the city, who have lived there with their children since then.",
    "cjk": "河边的老房子去年卖给了城里的家庭，他们从那以后就和孩子们住在那里。",
}


def folded(word):
    """Without accents; letters that are of their own stay."""
    plain = "".join(c for c in unicodedata.normalize("NFD", word) if not "\u0300" <= c <= "\u036f")
    keep = "".join(c for c in unicodedata.normalize("NFD", word) if c != "\u0301") if re.search("[а-я]", word) else plain
    return unicodedata.normalize("NFC", keep).replace("ß", "ss")


def expected_terms(language, text):
    """The terms of a text, stop words among them."""
    if language not in SNOWBALL:
        runs = text.split()
        return [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]
    stemmer = snowballstemmer.stemmer(SNOWBALL[language])
    return [folded(stem) for stem in stemmer.stemWords(text.lower().split())]


def ask(url, path, body):
    """The reply to a request."""
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=COMMAND_S) as reply:
        return json.load(reply)


def ask_index(url):
    """The language of the only index."""
    with urllib.request.urlopen(url + "/v1/indexes", timeout=COMMAND_S) as reply:
        return json.load(reply)["indexes"][0]["language"]


def build(binaries, folder, texts, *options):
    """Indexes texts, whose keys are their numbers, and returns what the build told."""
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": str(at), "text": text}) + "\n" for at, text in enumerate(texts)))
    vectors = numpy.random.default_rng(SEED).normal(size=(len(texts), DIM)).astype("f4")
    numpy.save(folder / "vectors.npy", vectors)
    command = [binaries / "dyad-indexer", "build", "--corpus", folder / "corpus.jsonl", "--vectors", folder / "vectors.npy"]
    command += ["--model-name", "any", "--index", folder / "index", *options]
    done = subprocess.run(command, check=True, timeout=COMMAND_S, capture_output=True, text=True)
    return done.stdout + done.stderr


def bm25(query, **more):
    """A request."""
    return {"query": query, "mode": "MODE_BM25", "k": TEXTS, "keys_only": True, **more}


def check_terms(url, language, texts):
    """The terms of all texts, after they were compared."""
    stop_words, all_terms = set(), []
    for key, text in enumerate(texts):
        terms = ask(url, "/v1/explain", {"key": str(key), "search": bm25(text)})["terms"]
        left = iter(terms)
        following = next(left, None)
        for expected in expected_terms(language, text):
            if expected == following:
                following = next(left, None)
            else:
                stop_words.add(expected)
        if following is not None:
            raise SystemExit(f"{language}: expected the terms of `{text}` to be its stems {expected_terms(language, text)}, got {terms}")
        all_terms.append(terms)
    kept = {term for terms in all_terms for term in terms}
    if stop_words & kept or len(stop_words) > 4:
        raise SystemExit(f"{language}: expected the same words to be left out everywhere, got {stop_words}")
    return all_terms


def check_scores(url, language, texts, all_terms, chance):
    """Compares the scores of questions, and returns the largest difference."""
    vocabulary = {term: number for number, term in enumerate(sorted({term for terms in all_terms for term in terms}))}
    reference = bm25s.BM25(method="lucene", k1=K1, b=B)
    reference.index(([[vocabulary[term] for term in terms] for terms in all_terms], vocabulary), show_progress=False)
    largest = 0.0
    for _ in range(QUESTIONS):
        question = " ".join(chance.sample(WORDS[language].split(), 3))
        terms = ask(url, "/v1/explain", {"key": "0", "search": bm25(question)})["terms"]
        known = [vocabulary[term] for term in terms if term in vocabulary]
        scores = reference.get_scores_from_ids(known) * (K1 + 1) if known else numpy.zeros(len(texts))
        hits = {int(hit["key"]): hit["score"] for hit in ask(url, "/v1/search", bm25(question)).get("hits", [])}
        if set(hits) != set(numpy.flatnonzero(scores)):
            raise SystemExit(f"{language}: expected `{question}` to find {sorted(numpy.flatnonzero(scores))}, got {sorted(hits)}")
        largest = max([largest, *(abs(score - scores[key]) for key, score in hits.items())])
    if largest > 1e-5:
        raise SystemExit(f"{language}: expected scores of bm25s within 1e-5, got {largest}")
    return largest


def main():
    """0 where all languages are as in Python."""
    binaries, chance, servers = pathlib.Path(sys.argv[1]).resolve(), random.Random(SEED), Servers()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            for language, words in WORDS.items():
                folder = pathlib.Path(scratch, language)
                folder.mkdir()
                texts = [" ".join(chance.choices(words.split(), k=chance.randint(1, 30 if language in SNOWBALL else 7))) for _ in range(TEXTS)]
                build(binaries, folder, texts, "--language", language, "--shards", "3")
                serve = [binaries / "dyad-searcher", "serve", "--index", folder / "index", "--question-tower", "none"]
                serve += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
                servers.start("dyad-searcher", [str(word) for word in serve], os.environ | {"RUST_LOG": "warn"}, folder)
                url = servers.urls["dyad-searcher", "http"]
                terms = check_terms(url, language, texts)
                difference = check_scores(url, language, texts, terms, chance)
                listed = ask_index(url)
                if listed not in (language, "cjk"):
                    raise SystemExit(f"expected ListIndexes to tell {language}, got {listed}")
                print(f"{language}: {sum(map(len, terms))} terms, scores differ from bm25s by {difference:.1e} at most", flush=True)
            for language, sentence in SENTENCES.items():
                folder = pathlib.Path(scratch, f"auto-{language}")
                folder.mkdir()
                told = build(binaries, folder, [f"{sentence} {number}" for number in range(40)])
                if f"(`{language}`)" not in told:
                    raise SystemExit(f"expected `--language auto` to tell {language}, got: {told}")
        finally:
            servers.end_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
