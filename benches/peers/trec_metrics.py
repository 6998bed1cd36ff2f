"""Metrics of a TREC run by trec_eval itself, through pytrec_eval: trec_metrics.py QRELS RUN prints JSON.

QRELS is BEIR's: query-id, corpus-id, score between tabs, with a header line. RUN is qid, Q0, docno, rank, sim, tag.
`queries` holds the values of each query, `means` their means, over all judged queries; one without results counts 0
(trec_eval -c). Needs pytrec_eval-terrier 0.5.11 (pip install pytrec_eval-terrier==0.5.11).
"""

import argparse
import csv
import json
import sys

import pytrec_eval

MEASURES = {"recip_rank", "P.1", "recall.1,5,10,100", "ndcg_cut.10", "map", "success.5"}
NAMES = (
    *("recip_rank", "P_1", "recall_1", "recall_5", "recall_10", "recall_100"),
    *("ndcg_cut_10", "map", "success_5"),
)


def read_qrels(path):
    """Query to document to grade."""
    qrels = {}
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        header = next(rows)
        if len(header) != 3 or header[2] != "score":
            sys.exit(f"error: {path}: expected the header query-id, corpus-id, score, got {header}")
        for query, document, grade in rows:
            qrels.setdefault(query, {})[document] = int(grade)
    return qrels


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("qrels")
    parser.add_argument("run")
    arguments = parser.parse_args()

    qrels = read_qrels(arguments.qrels)
    with open(arguments.run, encoding="utf-8") as file:
        run = pytrec_eval.parse_run(file)
    answered = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
    queries = {}
    for query in sorted(qrels):
        values = answered.get(query, {})
        queries[query] = {name: values.get(name, 0.0) for name in NAMES}
    means = {name: sum(values[name] for values in queries.values()) / len(queries) for name in NAMES}
    json.dump({"queries": queries, "means": means}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
