#!/usr/bin/env python3
"""Ranking metrics by trec_eval itself, through pytrec_eval (pip install pytrec_eval-terrier).

    trec_metrics.py --qrels FILE --run FILE [--run FILE ...] [--answered] [--per-query]

Prints JSON: for each run its number of queries and the mean of each metric, by default over all judged queries (a query
without results counts 0, trec_eval's -c), with --answered over those that have results (trec_eval's own default).
Judgements are BEIR's (query-id, corpus-id, score between tabs, with a header) or TREC's (qid iter docno rel).
"""

import argparse
import json
import sys

import pytrec_eval

MEASURES = {"recip_rank", "map", "P.1,5,10", "recall.1,5,10,100", "ndcg_cut.1,5,10,100", "success.1,5,10"}


def read_qrels(path):
    """query -> document -> grade."""
    qrels = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            columns = line.rstrip("\r\n").split("\t")
            if number == 0 and len(columns) == 3 and columns[2] == "score":
                continue
            query, key, grade = columns if len(columns) == 3 else (line.split()[i] for i in (0, 2, 3))
            qrels.setdefault(query, {})[key] = int(grade)
    return qrels


def read_run(path):
    """query -> document -> score."""
    run = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            query, _, key, _, score, _ = line.split()
            run.setdefault(query, {})[key] = float(score)
    return run


def evaluate(qrels, run, answered):
    """query -> metric -> value."""
    queries = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
    if not answered:
        # With every judged query in the run, an empty one at least, trec_eval's mean is that of -c.
        names = pytrec_eval.RelevanceEvaluator({"q": {"d": 1}}, MEASURES).evaluate({"q": {"d": 1.0}})["q"]
        for query in qrels.keys() - queries.keys():
            queries[query] = dict.fromkeys(names, 0.0)
    return {query: queries[query] for query in sorted(queries)}


def summary(queries, per_query):
    """The mean of each metric, and where asked the values behind it."""
    names = sorted({name for values in queries.values() for name in values})
    means = {name: sum(values[name] for values in queries.values()) / len(queries) for name in names}
    result = {"queries": len(queries), "metrics": means}
    if per_query:
        result["per_query"] = queries
    return result


def main():
    """Reads, computes, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qrels", required=True)
    parser.add_argument("--run", required=True, action="append")
    parser.add_argument("--answered", action="store_true", help="mean over the queries that have results only")
    parser.add_argument("--per-query", action="store_true", help="also print the values of each query")
    arguments = parser.parse_args()
    qrels = read_qrels(arguments.qrels)
    result = {}
    for path in arguments.run:
        result[path] = summary(evaluate(qrels, read_run(path), arguments.answered), arguments.per_query)
    json.dump(result, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
