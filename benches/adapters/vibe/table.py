"""Questions per second by recall, from what VIBE has exported, and VIBE's own plot with limits that hold all curves:

    python export_results.py && python table.py --dataset minilm-384-normalized --count 10

in the root of VIBE, where this file is copied. VIBE's `plot.py` ends at 11,000 questions per second, which small data sets exceed.
Recall is VIBE's: hits that are at most .001 farther than the k-th neighbour count. VIBE's questions per second are of the mean time of a query,
which grows where other programs want the same core; the median of the last run hardly does, so both are told.
"""

import argparse
import pathlib

LEVELS = (0.9, 0.95, 0.97, 0.99)


def best(rows, rate, levels=LEVELS):
    """For each algorithm its build time and size, and the highest rate at each recall or above; None where there is none."""
    found = {}
    for row in sorted(rows, key=lambda row: row["algorithm"]):
        line = found.setdefault(row["algorithm"], {"build_s": row["build_time"], "size_mb": row["index_size"] / 1024})
        for level in levels:
            if row["recall"] >= level and row[rate] > (line.get(level) or 0):
                line[level] = row[rate]
    return {name: line | {level: line.get(level) for level in levels} for name, line in found.items()}


def print_table(title, rows, rate):
    """One row for each algorithm."""
    print(f"\n| {title} | " + " | ".join(str(level) for level in LEVELS) + " | build, s | size, MB |")
    print("|---|" + "---|" * (len(LEVELS) + 2))
    for name, line in best(rows, rate).items():
        rates = " | ".join("-" if line[level] is None else f"{line[level]:,.0f}" for level in LEVELS)
        print(f"| {name} | {rates} | {line['build_s']:.1f} | {line['size_mb']:.0f} |")


def main():
    import plot
    import polars

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--count", type=int, required=True, help="k")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results"))
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("plots"))
    given = parser.parse_args()
    chosen = (polars.col("dataset") == given.dataset, polars.col("k") == given.count)
    summary = polars.read_parquet(given.results / "summary.parquet").filter(*chosen)
    if summary.is_empty():
        raise SystemExit(f"`--dataset`, `--count`: expected some that were run, got {given.dataset}, {given.count}")
    times = polars.read_parquet(given.results / f"{given.dataset}__detail.parquet").filter(*chosen)
    median = times.group_by("algorithm", "params").agg((1 / polars.col("time").median()).alias("of_median"))
    rows = summary.join(median, on=["algorithm", "params"]).to_dicts()
    print_table("QPS of the best run at recall", rows, "qps")
    print_table("1 / median of the last run's queries", rows, "of_median")
    given.output.mkdir(exist_ok=True)
    top = 10 ** len(str(int(summary["qps"].max())))
    names = sorted(set(summary["algorithm"]))
    plot.pareto_plot(
        given.output,
        summary,
        pca_mahalanobis=None,
        datasets=[given.dataset],
        algorithms=names,
        k=given.count,
        xlim=(0.7, 1.0),
        ylim=(1e2, top),
        separate_legend=False,
    )


if __name__ == "__main__":
    main()
