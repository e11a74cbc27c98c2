"""The site: `make docs` builds it into build/docs, and every warning is an error.

The Markdown pages of this folder are read on the web page of the repository as well, so they hold no directives where plain
Markdown will do; what only the site needs is added here.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import version as installed_version
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

os.environ.setdefault("TQDM_DISABLE", "1")

project = "maxmargin"
copyright = "the maxmargin contributors"
version = release = installed_version("maxmargin")

extensions = [
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/**/*.py", "gallery/**/*.ipynb", "gallery/**/*.json"]
templates_path = ["_templates"]
nitpicky = False
default_role = "literal"  # single backticks in docstrings are code
highlight_language = "text"  # blocks without a language are formulas, commands and output

myst_heading_anchors = 4

autodoc_typehints = "none"  # the types are in the texts
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
autosummary_generate = True
numpydoc_show_class_members = False  # the template of a class lists them

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "min_reported_time": 1_000_000,
    "download_all_examples": False,
    "notebook_extensions": set(),
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
}
plot_formats = [("png", 110)]
plot_html_show_formats = False
plot_html_show_source_link = False

html_theme = "pydata_sphinx_theme"
html_title = "maxmargin"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"index": [], "benchmarks": []}
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "logo": {"text": "maxmargin"},
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}

LONGEST_UNBROKEN_CODE, LONGEST_UNBROKEN_CELL = 16, 9  # characters

#: Code, examples and literal blocks, which stay as they are; then what docutils would take for markup: | and a final underscore.
MARKUP_BESIDE_CODE = re.compile(
    r"(?P<code>``[\s\S]+?``|`[^`]+`_{0,2}|^ *>>>[\s\S]+?(?=\n *$|\Z)"
    r"|^(?P<margin> *)[^\n]*::(?: [^\n]*)?\n(?:(?:(?P=margin) +[^\n]*)?\n)*)"
    r"|\||(?<=\w)_(?!\w)",
    re.MULTILINE,
)


def complete_page(app: Sphinx, name: str, text: list[str]) -> None:
    """Lead links to files beside this folder to the pages that include them, and give the overview of a folder (its README) the
    pages of the folder as contents: their names begin with a number."""
    text[0] = re.sub(r"\]\((?:\.\./)+(CONTRIBUTING|CHANGELOG)\.md", lambda link: f"](/{link[1].lower()}.md", text[0])
    if name.endswith("/README"):
        text[0] += "\n\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"


def show_formulas(app: Sphinx, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Show docstrings as they read in an editor, where |w| and probA_ are a formula and a name, not markup.

    In the docstring of a module, what is indented is a table or a formula, and is shown as it stands.
    """
    if what == "module":
        for number in reversed(range(2, len(lines))):
            if lines[number].startswith("    ") and not lines[number - 1] and not lines[number - 2].startswith("    "):
                lines[number:number] = ["::", ""]
    text = MARKUP_BESIDE_CODE.sub(lambda found: found[0] if found["code"] else "\\" + found[0], "\n".join(lines))
    lines[:] = text.split("\n")


def skip_inherited(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what a class inherits from other libraries: scikit-learn documents its own methods."""
    module = getattr(getattr(member, "fget", member), "__module__", None) or "maxmargin"
    return None if module.startswith("maxmargin") else True


def keep_together(app: Sphinx, page: nodes.document) -> None:
    """Mark short code and short cells of tables: a line break in `-s 1` or in 0.3 ms would make them hard to read."""
    for kind, longest in ((nodes.literal, LONGEST_UNBROKEN_CODE), (nodes.entry, LONGEST_UNBROKEN_CELL)):
        for node in page.findall(kind):
            if len(node.astext()) <= longest:
                node["classes"].append("unbroken")


def visit_math(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers draw without a script."""
    block = isinstance(node, nodes.math_block)
    source = re.sub(r"frac(\d)(\d)", r"frac{\1}{\2}", node.astext())  # docutils takes 12 for one argument,
    source = re.sub(r"\\[Bb]ig\b", "", source)  # and does not know these; MathML stretches parentheses by itself
    formula = latex2mathml.tex2mathml(source, as_block=block)
    translator.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.connect("source-read", complete_page)
    app.connect("doctree-read", keep_together)
    app.connect("autodoc-process-docstring", show_formulas, priority=900)  # after numpydoc
    app.connect("autodoc-skip-member", skip_inherited)
    app.add_html_math_renderer("mathml", inline_renderers=(visit_math, None), block_renderers=(visit_math, None))
