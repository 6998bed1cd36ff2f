"""VIBE's own plot of recall and questions per second, with limits that hold all curves:

    python export_results.py && python pareto.py --dataset minilm-384-normalized --count 10

in the root of VIBE, where this file is copied. VIBE's `plot.py` ends at 11,000 questions per second, which small data sets exceed, and plots
k = 100 where nothing else is said. The environment needs polars below 2, whose tables seaborn reads.
"""

import argparse
import pathlib


def main():
    import plot
    import polars

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--count", type=int, required=True, help="k")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results"))
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("plots"))
    given = parser.parse_args()
    summary = polars.read_parquet(given.results / "summary.parquet")
    summary = summary.filter(polars.col("dataset") == given.dataset, polars.col("k") == given.count)
    if summary.is_empty():
        raise SystemExit(f"`--dataset`, `--count`: expected some that were run, got {given.dataset}, {given.count}")
    folder = given.output / str(given.count)
    folder.mkdir(parents=True, exist_ok=True)
    plot.pareto_plot(
        folder,
        summary,
        pca_mahalanobis=None,
        datasets=[given.dataset],
        algorithms=sorted(set(summary["algorithm"])),
        k=given.count,
        xlim=(0.7, 1.0),
        ylim=(1e2, 10 ** len(str(int(summary["qps"].max())))),
        separate_legend=False,
    )


if __name__ == "__main__":
    main()
