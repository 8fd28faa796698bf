"""``demo``: known and unknown digits, from one labelled example a class."""

from __future__ import annotations

import html
from base64 import b64encode
from pathlib import Path
from struct import pack
from zlib import compress, crc32

import numpy as np
from tqdm import tqdm

from ..metrics import auroc, closed_set_accuracy

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>OSLO on handwritten digits</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 1.2rem auto; max-width: 76rem;
  padding: 0 1.2rem; color: #1c2330; background: #fbfbfd; }}
h1 {{ font-size: 1.5rem; margin: 0 0 .4rem; }}
h2 {{ font-size: 1.1rem; margin: 0 0 .2rem; }}
p {{ margin: 0 0 .6rem; }}
.top, .decision {{ display: flex; flex-wrap: wrap; gap: 1rem 2rem; margin-bottom: 1rem; }}
.top > *, .decision > * {{ flex: 1 1 24rem; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .2rem 1.4rem .2rem 0; text-align: right; }}
th:first-child, td:first-child {{ text-align: left; }}
thead th {{ border-bottom: 1px solid #aab; font-weight: 600; }}
.row {{ display: flex; flex-wrap: wrap; gap: .35rem; align-content: flex-start; }}
figure {{ margin: 0; width: 3.3rem; text-align: center; background: #fff; border-radius: 6px;
  border: 2px solid #0072b2; padding: .25rem 0 .15rem; font-size: .8rem; line-height: 1.2; }}
figure.rejected {{ border: 2px dashed #d55e00; }}
figure.wrong {{ background: #ecd3e3; }}
img {{ width: 2.4rem; height: 2.4rem; image-rendering: pixelated; mix-blend-mode: multiply; }}
.key {{ color: #445; }}
.key b {{ color: #1c2330; }}
</style></head><body>
<h1>One labelled example each, and digits of kinds never shown</h1>
<div class="top">
<div><p>The digits {known} are known from these examples. The query holds 15 more of each, and 15
each of {unknown}, of which there is no example at all.</p>
<div class="row">{support}</div></div>
<div><h2>Averages over {n_draws} draws, in percent</h2>
{table}
<p class="key">Accuracy: of the labels of known digits. AUROC: how well the score tells unknown
from known.</p></div>
</div>
<p class="key">Below is the query of the first draw: under each digit what OSLO says it is, and its
outlierness. <b>Shaded</b>: a mistake.</p>
<div class="decision">
<div><h2>Rejected: none of the known digits</h2>
<p class="key">Outlierness above {threshold:.1f}: {n_caught} of {n_unknown} unknown digits, and
{n_lost} of {n_known} known ones. Most outlying first.</p>
<div class="row">{rejected}</div></div>
<div><h2>Accepted</h2>
<p class="key">The other {n_accepted}, with the label that OSLO gives them. Least outlying
first.</p>
<div class="row">{accepted}</div></div>
</div>
</body></html>
"""


def add_parser(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "demo",
        help="tell known from unknown handwritten digits, and show how",
        description="Average OSLO and a nearest-prototype baseline over draws of 5 known and 5 "
        "unknown digits, and write a page that shows one draw.",
    )
    parser.add_argument("--out", type=Path, default=Path("oslo_demo.html"), help="page to write")
    parser.add_argument("--draws", type=int, default=60, help="number of draws (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws (default 0)")
    parser.set_defaults(func=run)


def run(args) -> int:
    """Solve the draws, print the averages, write the page."""
    if args.draws < 1:
        raise ValueError(f"--draws must be at least 1, got {args.draws}")
    if not args.out.parent.is_dir():
        raise ValueError(f"--out: there is no folder {args.out.parent}")
    # Loading the data set is what takes time here, and --help should not.
    from sklearn.datasets import load_digits

    from .. import OSLO, FewShotOpenSetSplit, StrongBaseline

    X, y = load_digits(return_X_y=True)
    split = FewShotOpenSetSplit(
        n_way=5, n_shot=1, n_query=15, n_open=5, n_tasks=args.draws, random_state=args.seed
    )
    tasks = list(split.split(X, y))
    methods = {"nearest prototype": StrongBaseline(), "OSLO": OSLO()}
    results = {name: [] for name in methods}
    for support, query in tqdm(tasks, desc="draws", disable=None):
        is_unknown = ~np.isin(y[query], y[support])
        for name, method in methods.items():
            method.fit(X[support], y[support], X[query])
            accuracy = closed_set_accuracy(y[query], method.labels_, method.classes_)
            results[name].append((accuracy, auroc(is_unknown, method.outlierness_)))
    means = {name: 100 * np.mean(rows, axis=0) for name, rows in results.items()}

    print("5 known digits, one labelled example each; 5 unknown digits; 15 queries of every digit.")
    print(f"Averages over {args.draws} draws:\n")
    print(f"{'':20}{'accuracy':>10}{'AUROC':>10}")
    for name, (accuracy, area) in means.items():
        print(f"{name:20}{accuracy:10.1f}{area:10.1f}")
    support, query = tasks[0]
    oslo = OSLO().fit(X[support], y[support], X[query])
    args.out.write_text(_page(X, y, support, query, oslo, means, args.draws), encoding="utf-8")
    print(f"\nThe digits, from most to least outlying: {args.out}")
    return 0


def _page(X, y, support, query, oslo, means, n_draws) -> str:
    known = oslo.classes_
    is_unknown = ~np.isin(y[query], known)
    is_rejected = oslo.transduce(X[query]).is_outlier
    is_wrong = np.where(is_unknown, ~is_rejected, is_rejected | (oslo.labels_ != y[query]))
    rejected, accepted = [], []
    for i in np.argsort(-oslo.outlierness_):
        label = "none" if is_rejected[i] else oslo.labels_[i]
        figure = _figure(
            X[query[i]],
            f"<b>{label}</b><br>{oslo.outlierness_[i]:+.1f}",
            f"a {y[query[i]]}, {'unknown' if is_unknown[i] else 'known'}; "
            f"closest to {oslo.labels_[i]}",
            "rejected " * int(is_rejected[i]) + "wrong" * int(is_wrong[i]),
        )
        (rejected if is_rejected[i] else accepted).append(figure)
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{accuracy:.1f}</td><td>{area:.1f}</td></tr>"
        for name, (accuracy, area) in means.items()
    )
    head = "<thead><tr><th>method</th><th>accuracy</th><th>AUROC</th></tr></thead>"
    return _PAGE.format(
        known=", ".join(map(str, known)),
        unknown=", ".join(map(str, np.unique(y[query[is_unknown]]))),
        support="".join(_figure(X[i], f"<b>{y[i]}</b>", "labelled example", "") for i in support),
        n_draws=n_draws,
        table=f"<table>{head}{rows}</table>",
        threshold=oslo.threshold_,
        n_unknown=is_unknown.sum(),
        n_caught=(is_unknown & is_rejected).sum(),
        n_known=(~is_unknown).sum(),
        n_lost=(~is_unknown & is_rejected).sum(),
        n_accepted=len(accepted),
        rejected="".join(rejected),
        accepted="".join(reversed(accepted)),
    )


def _figure(pixels, caption: str, title: str, classes: str) -> str:
    ink = 255 - np.round(pixels.reshape(8, 8) * (255 / 16)).astype(np.uint8)
    source = b64encode(_png(ink)).decode()
    return (
        f'<figure class="{classes}" title="{title}">'
        f'<img src="data:image/png;base64,{source}" alt="{title}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _png(grey: np.ndarray) -> bytes:
    """A greyscale image as PNG, for which no imaging package need be there."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", crc32(kind + data))

    height, width = grey.shape
    lines = b"".join(b"\0" + line.tobytes() for line in grey)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", compress(lines))
        + chunk(b"IEND", b"")
    )
