"""Copy the small files of benchmark reports beside this one, for the documentation.

``python docs/results/collect.py cub=reports/cub grocery=reports/grocery``

If a report has only some of the methods that are here, as after ``--methods AdaptiveOSLO``, only
their rows are replaced, and what is here of the origin of the others stays.
"""

import shutil
import sys
from pathlib import Path

import pandas as pd

HERE = Path(__file__).resolve().parent
FIGURES = ("table_roc_1shot", "table_oscr_1shot", "table_scores", "table_map", "labelling_5shot")
LARGEST = 100_000  # bytes of a file that may be committed


def collect(name, report):
    """Means, origin, and the figures that need features; the rest is made when docs are built."""
    for path in sorted(report.glob("*.csv")):
        if path.stem.endswith(("_rows", "_environment")):
            continue
        ours, new = HERE / f"{name}_{path.name}", read(path)
        old = read(ours) if ours.exists() else new
        if "method" in new and set(old["method"]) - set(new["method"]):
            others = old[~old["method"].isin(new["method"])]
            pd.concat([others, new]).to_csv(ours, index=False)
            continue
        copies = [path, path.with_name(f"{path.stem}_environment.csv")]
        for kind in FIGURES:
            if kind.startswith(path.stem):
                copies += (report / "figures").glob(f"{kind}*.svg")
        for copy in copies:
            shutil.copy(copy, HERE / f"{name}_{copy.name}")


def read(path):
    """A table whose numbers stay as they are written."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


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
