from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from docutils import nodes
from docutils.core import publish_doctree
from matplotlib.figure import Figure

from oslo_sklearn import report, summarize
from oslo_sklearn.recipes import family_of
from oslo_sklearn.report._figures import best_of_families, figures_of
from oslo_sklearn.report._write import _cpu

METRICS = ["accuracy", "auroc", "aupr", "prec_at_90"]


def make_rows(settings=({"shots": 1}, {"shots": 5}), methods=("k-NN", "SimpleShot", "OSLO")):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {**s, "method": m, "task": t, **{k: rng.uniform() for k in METRICS}, "seconds": 0.1}
        for s in settings
        for m in methods
        for t in range(9)
    )


def test_tables_hold_what_summarize_says():
    rows = make_rows()
    one, five = report.metric_tables(rows, by=["shots"], group_of=family_of)
    assert (one.title, five.title) == ("1-shot", "5-shot")
    expected = summarize(rows[rows["shots"] == 5])
    for c, metric in enumerate(METRICS):
        np.testing.assert_allclose(five.mean[:, c], 100 * expected[metric, "mean"])
        np.testing.assert_allclose(five.half_width[:, c], 100 * expected[metric, "half_width"])
    assert five.groups == ["Outlier detectors", "Inductive", "Transductive open-set"]
    frame = report.summary_frame(rows, ["shots"])
    assert len(frame) == 2 * 3 * 4
    assert set(frame["n_tasks"]) == {9}
    assert "seconds" not in set(frame["metric"])


def test_bold_are_all_that_overlap_the_best():
    mean = np.array([[70.01, 3.0], [69.04, np.nan], [60.0, 5.0]])
    table = report.ResultTable("", list("abc"), ["AUROC", "x_y"], mean, np.full((3, 2), 0.5))
    markdown = report.to_markdown([table]).splitlines()
    assert markdown[2] == "| a | **70.0 ± 0.5** | 3.0 ± 0.5 |"
    assert markdown[3] == "| b | **69.0 ± 0.5** | – |"
    assert markdown[4] == "| c | 60.0 ± 0.5 | **5.0 ± 0.5** |"
    narrow = table._replace(half_width=np.full((3, 2), 0.4))
    assert "| b | 69.0 ± 0.4 | – |" in report.to_markdown([narrow])
    wide = report.to_markdown([table._replace(half_width=np.full((3, 2), 0.96))])
    assert "| b | **69 ± 1** | – |" in wide  # no decimal that the interval drowns
    latex = report.to_latex([table])
    assert r"AUROC & x\_y \\" in latex
    assert r"b & \textbf{69.0} {\scriptsize $\pm$ 0.5} & -- \\" in latex
    assert latex.count(r"\begin") == latex.count(r"\end")
    rst = report.to_rst([table])
    assert "   * - b\n     - **69.0\u00a0±\u00a00.5**\n     - –\n" in rst
    assert "- Prec\\@0.9\n" in report.to_rst([table._replace(columns=["AUROC", "Prec@0.9"])])
    lower = table._replace(half_width=None, lower_is_better=True)
    assert "| c | **60.000** | 5.000 |" in report.to_markdown([lower])
    assert "| a | 70.010 | **3.000** |" in report.to_markdown([lower])


def test_families_head_their_methods():
    table = report.ResultTable(
        "t", ["a", "b", "c"], ["x"], np.ones((3, 1)), np.ones((3, 1)), ["F", "F", "G & H"]
    )
    latex = report.to_latex([table])
    assert latex.count(r"\multicolumn{2}{l}{\emph{") == 2
    assert r"G \& H" in latex
    assert report.to_html([table]).count('class="family"') == 2
    assert "G &amp; H" in report.to_html([table])
    assert "   * - *F*\n     -\n   * - a\n" in report.to_rst([table])
    assert "| F | a |" in report.to_markdown([table])
    assert "|  | b |" in report.to_markdown([table])


def test_sweeps_have_a_column_for_each_value():
    rows = make_rows([{"shots": 1, "n_query": n} for n in (30, 1, 5)])
    accuracy, auroc = report.sweep_tables(rows, x="n_query", by=["shots"])
    assert accuracy.columns == ["n query 30", "n query 1", "n query 5"]
    assert auroc.title == "AUROC, 1-shot"
    part = rows[(rows["n_query"] == 1) & (rows["method"] == "OSLO")]
    assert auroc.mean[2, 1] == pytest.approx(100 * part["auroc"].mean())


def test_the_name_of_the_processor(monkeypatch):
    info = "processor\t: 0\nmodel name\t: Chip: 3 GHz\nmodel name\t: other\n"
    monkeypatch.setattr(Path, "read_text", lambda path: info)
    assert _cpu() == "Chip: 3 GHz"

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(Path, "read_text", refuse)
    assert _cpu()


def test_a_page_is_self_contained(tmp_path):
    rows = make_rows()
    figure = Figure()
    figure.add_subplot().plot([0, 1], [0, 1])
    environment = report.environment(command="python -m oslo_sklearn <x>", seed=0)
    assert {"Python", "numpy", "torch", "CPU", "date"} <= set(environment)
    paths = report.write_report(
        tmp_path / "new",
        "table",
        rows,
        report.metric_tables(rows, by=["shots"]),
        title="A & B",
        by=["shots"],
        figures={"curve": ("a curve", figure)},
        environment=environment,
    )
    names = {"table_rows.csv", "table_environment.csv", "figures/table_curve.svg"}
    names |= {f"table.{suffix}" for suffix in ("csv", "tex", "md", "rst", "html")}
    assert {str(path.relative_to(tmp_path / "new")) for path in paths} == names
    assert sum(path.is_file() for path in (tmp_path / "new").rglob("*")) == len(names)
    page = (tmp_path / "new" / "table.html").read_text()
    assert "data:image/svg+xml;base64," in page
    assert "A &amp; B" in page
    assert "oslo_sklearn &lt;x&gt;" in page
    assert not any(link in page for link in ("<script", "<link", 'src="http', "url("))
    stored = pd.read_csv(tmp_path / "new" / "table_rows.csv")
    pd.testing.assert_frame_equal(stored, rows.drop(columns="seconds"))


def test_svg_is_the_same_for_the_same_figure():
    def draw():
        figure = Figure()
        figure.add_subplot().bar([0, 1], [1, 2], hatch="//")
        return report.to_svg(figure)

    assert draw() == draw()


SETTINGS = {
    "table": [{"shots": 1}, {"shots": 5}],
    "queries": [{"shots": 1, "n_query": n} for n in (1, 5)],
    "imbalance": [
        {"shots": 1, "varied": name, "value": value}
        for name in ("outlier_share", "dirichlet")
        for value in (0.5, 0.9)
    ],
    "backbones": [{"features": name, "shots": 1} for name in ("a", "b")],
    "ablation": [{"shots": 1}, {"shots": 5}],
}


@pytest.mark.parametrize(
    ("recipe", "names"),
    [
        ("table", {"radar"}),
        ("queries", {"accuracy_1shot", "auroc_1shot"}),
        (
            "imbalance",
            {
                f"{v}_{m}_1shot"
                for v in ("outlier_share", "dirichlet")
                for m in ("accuracy", "auroc")
            },
        ),
        ("backbones", {"1shot"}),
        ("ablation", {"1shot", "5shot"}),
        ("quality", set()),
    ],
)
def test_figures_of_recipes(recipe, names):
    rows = make_rows(SETTINGS.get(recipe, [{}])).assign(similarity=0.5)
    figures = figures_of(recipe, rows)
    assert set(figures) == names
    assert all(isinstance(figure, Figure) for _, figure in figures.values())


def test_without_the_baseline_there_is_no_radar():
    rows = make_rows(methods=["OSLO", "SimpleShot"])
    assert figures_of("table", rows) == {}
    assert figures_of("table", make_rows(methods=["k-NN"])) == {}
    assert best_of_families(rows) == ["OSLO", "SimpleShot"]


def test_the_best_of_a_family_stands_for_it():
    rows = pd.DataFrame({"method": ["COPOD", "k-NN", "OSLO"], "auroc": [0.6, 0.8, 0.9]})
    assert best_of_families(rows) == ["k-NN", "OSLO"]


def test_names_are_no_markup():
    name = r"a\b{c}~^_&%#$<script>|*x*`y`[z](u)" + "\n| injected |"
    table = report.ResultTable(name, [name], [name], np.array([[1.0]]), groups=[name])
    latex = report.to_latex([table])
    escaped = (
        r"a\textbackslash{}b\{c\}\textasciitilde{}\textasciicircum{}\_\&\%\#\$"
        r"\textless{}script\textgreater{}"
    )
    assert latex.count(escaped) == 3  # the title is a comment
    assert [line for line in latex.splitlines() if "injected" in line and line[0] == "|"] == []
    markdown = report.to_markdown([table])
    lines = markdown.splitlines()
    assert "<script" not in markdown
    assert len(re.split(r"(?<!\\)\|", lines[4])) == 2 + 3  # group, name and number
    assert r"\*x\*\`y\`\[z\](u) \| injected \|" in lines[0]
    assert "<script" not in report.to_html([table])
    assert lines[0].startswith("### a")


@pytest.mark.parametrize("name", ["[3pt] a", "*a", " [a"])
def test_a_name_is_no_argument_of_the_line_before(name):
    table = report.ResultTable("", [name, name], ["x"], np.ones((2, 1)))
    lines = report.to_latex([table]).splitlines()
    assert [line for line in lines if line.lstrip().startswith(("[", "*"))] == []
    assert len([line for line in lines if line.startswith(f"{{}}{name} &")]) == 2


@pytest.mark.parametrize(
    "name",
    [
        "x\n\n.. raw:: html\n\n   <script>alert()</script>",
        "x\r\n     - y\n   * - z",
        *(".. raw:: html", ".. [1] x", ":class: x", "- x", "* x", "1. x", "A. Smith", "iv) x"),
        *("(a) x", "#. x", ">>> x", "====", "+---+", "-o x", "x::", "| x", "__ https://a.b"),
        *("*x*", "**x**", "``x``", ":sub:`x`", "`x <https://a.b>`_", "x_", "a_.", "_`x`", "|x|"),
        *("[1]_", "https://a.b", "a@b.de", r"\*x*", "a\\", r"\\", "a\x00*b*", "n_query", "b-a.c"),
    ],
)
def test_names_are_no_markup_of_docutils(name):
    table = report.ResultTable(name, [name], [name], np.array([[1.0]]), groups=[name])
    document = publish_doctree(report.to_rst([table]), settings_overrides={"report_level": 1})
    expected = " ".join(name.split()).replace("\0", r"\x00")
    (found,) = document.findall(nodes.title)
    cells = [cell.astext() for cell in document.findall(nodes.entry)]
    assert found.astext() == expected
    assert cells == ["method", expected, expected, "", expected, "1.000"]
    for kind in (nodes.raw, nodes.reference, nodes.literal, nodes.system_message):
        assert not list(document.findall(kind))
    for kind, text in ((nodes.emphasis, expected), (nodes.strong, "1.000")):
        assert [node.astext() for node in document.findall(kind)] == [text]
