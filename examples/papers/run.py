"""Write the pages of papers that hypar reproduces: published numbers beside ours.

python examples/papers/run.py NAME|all [-o FOLDER]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import kit


def main() -> None:
    """Print a paper's page, or write it and its figures to a folder."""
    names = kit.papers()
    parser = argparse.ArgumentParser(description="Compute what a paper publishes, beside its own numbers.")
    parser.add_argument("name", choices=[*names, "all"], metavar="NAME", help=f"{', '.join(names)}, or all")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write pages and figures here")
    asked = parser.parse_args()
    for name in names if asked.name == "all" else [asked.name]:
        if asked.output is None:
            print(kit.page(name).markdown(pictures=False))
        else:
            for file in kit.page(name).write(asked.output):
                print(f"wrote {file}")


if __name__ == "__main__":
    main()
