"""Sphinx configuration: ``sphinx-build -W -b html docs docs/_build/html`` builds it offline."""

import importlib.util
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

import claims  # noqa: E402
import generate  # noqa: E402
import results  # noqa: E402

import oslo_sklearn  # noqa: E402

project = "oslo_sklearn"
author = "The oslo_sklearn developers"
copyright = f"2026, {author}"
version = release = oslo_sklearn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
# MathJax would be fetched when a page is read.
if importlib.util.find_spec("latex2mathml"):
    extensions.append("mathml")
    html_math_renderer = "mathml"
else:
    extensions.append("sphinx.ext.mathjax")
exclude_patterns = ["_build", "_ext", "_templates", "**.ipynb", "auto_examples/*.py"]
results.write_results(HERE / "generated" / "results")
claims.check_all()
for page in generate.incomplete_results(HERE):
    print(f"left out, its tables or figures are not at hand: {page}")
    exclude_patterns.append(page)
# The list of a page says fit(), not the class again before each method.
toc_object_entries_show_parents = "hide"
templates_path = ["_templates"]
# A reference to nothing is a warning, and so an error; other packages' pages are not at hand.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(sklearn|numpy|torch|pandas|polars|dask|matplotlib|pyod)\..*")]
# `sphinx -b linkcheck` follows links to other hosts. Anchors that scripts make cannot be found.
linkcheck_anchors_ignore_for_url = [r"https://github\.com/.*"]
linkcheck_timeout = 10
linkcheck_retries = 2

# Backquotes in docstrings are code, not links.
default_role = "code"
autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "inherited-members": True}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"oslo_sklearn {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_js_files = ["fit_width.js"]
# Pages without siblings leave their room to the text.
html_sidebars = {
    page: []
    for page in (
        *("install", "quickstart", "methods", "pipelines", "performance", "compare", "dask"),
        *("reliability", "contributing", "changelog", "reproducing", "results/*"),
    )
}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
}

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "doc_module": ("oslo_sklearn",),
    "backreferences_dir": None,
    "abort_on_example_error": True,
    "within_subsection_order": "generate.ReadingOrder",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "plot_gallery": "True",
    "reset_modules": ("matplotlib", "generate.reset_sklearn"),
}

warnings.filterwarnings("ignore", category=UserWarning, message=".*non-interactive.*")

# Pages that are made out of the package itself.
generate.write_pages(HERE / "generated")


def setup(app):
    app.connect("autodoc-skip-member", generate.skip_member)
    app.connect("autodoc-process-docstring", generate.escape_shapes, priority=400)
