"""The command `vectordbbench dyad`."""

from typing import Annotated, Unpack

import click

from vectordb_bench.backend.clients import DB
from vectordb_bench.cli.cli import CommonTypedDict, cli, click_parameter_decorators_from_typed_dict, run


class DyadTypedDict(CommonTypedDict):
    searcher: Annotated[
        str, click.option("--searcher", default="127.0.0.1:7700", help="HOST:PORT of dyad-searcher serve")
    ]
    indexer: Annotated[str, click.option("--indexer", default="127.0.0.1:7702", help="HOST:PORT of dyad-indexer serve")]
    index: Annotated[str, click.option("--index", default="", help="Index, where the searcher serves several")]
    ef: Annotated[int | None, click.option("--ef", type=int, default=None, help="Width of the beam")]
    target_recall: Annotated[
        float | None,
        click.option("--target-recall", type=float, default=None, help="Recall to aim at, in place of --ef"),
    ]


@cli.command()
@click_parameter_decorators_from_typed_dict(DyadTypedDict)
def Dyad(**parameters: Unpack[DyadTypedDict]):
    from .config import DyadCaseConfig, DyadConfig

    run(
        db=DB.Dyad,
        db_config=DyadConfig(
            db_label=parameters["db_label"],
            searcher=parameters["searcher"],
            indexer=parameters["indexer"],
            index=parameters["index"],
        ),
        db_case_config=DyadCaseConfig(ef=parameters["ef"], target_recall=parameters["target_recall"]),
        **parameters,
    )
