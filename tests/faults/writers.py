"""Everything in the package that writes files, as small jobs: what to run, and what must come out.

A job gets a folder with its input and may find there what an earlier run left. Its outcome is what
every run must end in; its finished work is what no later run may lose or change.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image

from oslo_sklearn import FEAT, OSLO, FewShotOpenSetSplit, OutlierDetector, SimpleShot
from oslo_sklearn.cli import main
from oslo_sklearn.evaluation import _solve, evaluate
from oslo_sklearn.recipes import save_features
from oslo_sklearn.training import _trainer
from oslo_sklearn.triage import server

TINY = ["--model", "test_resnet.r160_in1k", "--weights", "none", "--device", "cpu"]
NAMES = ("ant", "bee", "cat", "dog")


class Writer:
    """A job by its name, as a user would run it."""

    n_jobs = None

    def prepare(self, folder: Path) -> None:
        """Write the input."""

    def run(self, folder: Path) -> None:
        raise NotImplementedError

    def outcome(self, folder: Path) -> dict:
        raise NotImplementedError

    def finished(self, folder: Path) -> set:
        return set()


def make_pool(n_classes=12, n_rows=36, n_features=24):
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.repeat(np.arange(n_classes), n_rows))
    X = 2 * rng.normal(size=(n_classes, n_features))[codes]
    return (X + rng.normal(size=X.shape)).astype(np.float32), codes


def csv_lines(file: Path) -> set[str]:
    """Whole lines of a row cache; they hold the seconds, and so tell when a task is solved anew."""
    return set(file.read_text().splitlines(keepends=True)[1:-1]) if file.exists() else set()


class Evaluate(Writer):
    """Rows in a csv cache."""

    file = "rows.csv"

    def run(self, folder):
        X, y = make_pool()
        methods = {"OSLO": OSLO(), "far": OutlierDetector("PCA"), "mean": SimpleShot()}
        split = FewShotOpenSetSplit(n_way=3, n_query=4, n_open=2, n_tasks=30)
        _solve._MOST_GATHERED, _solve._MOST_BY_INDEX, _solve._BLOCK_SECONDS = 5, 5, 0.01
        file = folder / self.file
        evaluate(methods, X, y, split, progress=False, cache=file, n_jobs=self.n_jobs)

    def outcome(self, folder):
        rows = self.read(folder / self.file).drop(columns=["seconds", "checksum"])
        return {"rows": rows.to_csv()}

    def read(self, file):
        return pd.read_csv(file)

    def finished(self, folder):
        return csv_lines(folder / self.file)


class EvaluateParquet(Evaluate):
    """Rows in a parquet cache and its journal."""

    file = "rows.parquet"

    def read(self, file):
        return pd.read_parquet(file)

    def finished(self, folder):
        file = folder / self.file
        stored = self.read(file)["checksum"] if file.exists() else ()
        journal = csv_lines(folder / f"{self.file}.part")
        return {*stored, *(line.strip().rpartition(",")[2] for line in journal)}


class EvaluateJobs(Evaluate):
    """The same with worker processes."""

    n_jobs = 2


class Extract(Writer):
    def prepare(self, folder):
        rng = np.random.default_rng(0)
        for i in range(24):
            file = folder / "images" / NAMES[i % 2] / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(file)

    def run(self, folder):
        words = ["extract", folder / "images", "--out", folder / "features.npz", *TINY]
        return main([*map(str, words), "--batch-size", "4"])

    def outcome(self, folder):
        with np.load(folder / "features.npz") as file:
            names = [str(Path(path).relative_to(folder)) for path in file["paths"]]
            return {"X": file["X"].tobytes(), "y": file["y"].tobytes(), "paths": names}


class Triage(Writer):
    """Pictures, so that thumbnails and the feature cache are written, too."""

    serve = ()

    def prepare(self, folder):
        for i in range(16):
            file = folder / "pile" / f"{i}.png" if i > 3 else folder / "known" / NAMES[i] / "0.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(i % 4).integers(0, 200, (40, 50, 3)) + i
            Image.fromarray(pixels.astype(np.uint8)).save(file)

    def run(self, folder):
        words = ["triage", folder / "known", folder / "pile", "--out", folder / "out", *TINY]
        return main([*map(str, words), *self.serve])

    def outcome(self, folder):
        out = folder / "out"
        files = {str(path.relative_to(out)): path for path in out.rglob("*") if path.is_file()}
        return {
            re.sub("page-[0-9a-f]{12}", "page", name): re.sub(
                b"page-[0-9a-f]{12}", b"page", path.read_bytes()
            )
            for name, path in files.items()
        }


class Serve(Triage):
    """The live loop: one correction after the other, each acknowledged before the next."""

    serve = ("--serve",)
    labels = {5: "ant", 2: "elk", 7: "unknown", 9: "bee"}

    def run(self, folder):
        server.serve = lambda result, out, port: self.correct(result, out, folder / "acknowledged")
        return super().run(folder)

    def correct(self, result, out, acknowledged):
        loop = server.Loop(result, out)
        try:
            for row, label in self.labels.items():
                if result.corrections_.get(row) != label:
                    loop.correct({row: label})
                    with open(acknowledged, "a") as file:
                        file.write(f"{result.query.names[row]},{label}\n")
                while loop.state()["busy"]:
                    loop._thread.join(0.005)
        finally:
            loop.stop()
        return 0

    def outcome(self, folder):
        found = super().outcome(folder)
        kept = found.pop("corrections.csv").decode().splitlines()
        return {"corrections": sorted(set(kept)), "decisions": found["decisions.csv"]}

    def finished(self, folder):
        """Acknowledged corrections; each must be in the loop's file at once."""
        acknowledged, kept = folder / "acknowledged", folder / "out" / "corrections.csv"
        found = set(acknowledged.read_text().split()) if acknowledged.exists() else set()
        with open(kept, newline="") if found else open("/dev/null") as file:
            assert found <= {",".join(row) for row in csv.reader(file)}, "a correction is lost"
        return found


class Benchmark(Writer):
    def prepare(self, folder):
        X, codes = make_pool(20)
        y = np.array([f"c{code}" for code in codes])
        save_features(folder / "toy.npz", X, y, np.where(codes < 12, "novel", "base"))

    def run(self, folder):
        _solve._MOST_GATHERED, _solve._MOST_BY_INDEX, _solve._BLOCK_SECONDS = 5, 5, 0.01
        words = ["benchmark", "queries", folder / "toy.npz", "--out", folder / "out"]
        words += ["--tasks", 12, "--shots", 1, "--queries", 5, 9, "--methods", "PCA", "OSLO"]
        return main(list(map(str, words)))

    def outcome(self, folder):
        names = ("queries_rows.csv", "queries.csv", "queries.tex", "queries.rst")
        found = {name: (folder / "out" / name).read_bytes() for name in names}
        figures = sorted((folder / "out" / "figures").iterdir())
        return found | {path.name: path.read_bytes() for path in figures}

    def finished(self, folder):
        return set().union(*map(csv_lines, (folder / "out" / "cache").glob("*.csv")))


class FitBase(Writer):
    """A checkpoint after every few steps, and the head."""

    def run(self, folder):
        _trainer.STEPS_PER_CHECK = 5
        X, y = make_pool(24, 10, 16)
        feat = FEAT().fit_base(
            *(X, y),
            n_episodes=120,
            random_state=0,
            patience=1000,
            checkpoint_path=folder / "checkpoint.pt",
            **{"n_way": 3, "n_query": 4, "batch_size": 4, "progress": False},
        )
        feat.save_head(folder / "head.safetensors")

    def outcome(self, folder):
        return {"head": (folder / "head.safetensors").read_bytes()}

    def finished(self, folder):
        """Checks of the run so far."""
        file = folder / "checkpoint.pt"
        if not file.exists():
            return set()
        return {json.dumps(row) for row in torch.load(file, weights_only=True)["curve"]}


WRITERS = {
    "csv": Evaluate,
    "parquet": EvaluateParquet,
    "jobs": EvaluateJobs,
    "extract": Extract,
    "triage": Triage,
    "serve": Serve,
    "benchmark": Benchmark,
    "fit_base": FitBase,
}
