"""Copy the small files of benchmark reports beside this one, for the documentation.

``python docs/results/collect.py cub=reports/cub grocery=reports/grocery``
"""

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LARGEST = 100_000  # bytes of a file that may be committed


def collect(name, report):
    """Tables, means and figures of a report; rows and pages stay where they are."""
    for path in sorted(report.glob("*.rst")):
        recipe = path.stem
        # Not .rst: a fragment is no page of its own.
        shutil.copy(path, HERE / f"{name}_{recipe}.inc")
        for suffix in (".csv", ".md", ".tex"):
            shutil.copy(path.with_suffix(suffix), HERE / f"{name}_{recipe}{suffix}")
        entries = path.with_suffix(".md").read_text().rpartition("\n\n")[2]
        lines = [line[2:].split(": ", 1) for line in entries.splitlines() if line[:2] == "* "]
        fields = "\n".join(f":{key}: ``{value}``" for key, value in lines)
        (HERE / f"{name}_{recipe}_environment.inc").write_text(f"{fields}\n")
    for path in sorted((report / "figures").glob("*.svg")):
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
