"""Copy the small files of benchmark reports beside this one, for the documentation.

``python docs/results/collect.py cub=reports/cub grocery=reports/grocery``
"""

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIGURES = ("table_roc_1shot", "table_oscr_1shot", "table_scores", "table_map", "labelling_5shot")
LARGEST = 100_000  # bytes of a file that may be committed


def collect(name, report):
    """Means, origin, and the figures that need features; the rest is made when docs are built."""
    for path in sorted(report.glob("*.csv")):
        if not path.stem.endswith("_rows"):
            shutil.copy(path, HERE / f"{name}_{path.name}")
    for kind in FIGURES:
        for path in sorted((report / "figures").glob(f"{kind}*.svg")):
            shutil.copy(path, HERE / f"{name}_{path.name}")


def main(arguments):
    """Collect each ``name=folder``."""
    for argument in arguments:
        name, _, folder = argument.partition("=")
        collect(name, Path(folder))
    large = [p.name for p in HERE.iterdir() if p.is_file() and p.stat().st_size > LARGEST]
    if large:
        sys.exit(f"too large to commit: {', '.join(large)}")


if __name__ == "__main__":
    main(sys.argv[1:])
