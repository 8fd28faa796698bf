"""Run every benchmark, one after the other: ``python tests/benchmarks``."""

import subprocess
import sys
from pathlib import Path


def main():
    failed = []
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"\n{path.stem}", flush=True)
        if subprocess.run([sys.executable, str(path)]).returncode:
            failed.append(path.stem)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
