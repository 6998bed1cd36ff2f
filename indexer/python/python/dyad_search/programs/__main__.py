"""`python -m dyad_search.programs libtorch`: fetches what the encoder needs on a CPU."""

import sys

from . import MissingProgram, fetch_libtorch


def main(arguments: list[str]) -> int:
    """Runs the verb; returns the exit code."""
    if arguments != ["libtorch"]:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(f"libtorch is in {fetch_libtorch()}")
    except MissingProgram as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
