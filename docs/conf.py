"""How the documentation is built: `make docs`, pages in out/docs; a warning is an error."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import sureprox

project = "sureprox"
author = "the sureprox authors"
project_copyright = "the sureprox authors"
version = release = sureprox.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "mathml",
    "plain_docstrings",
    "records",
    "repository_links",
]
exclude_patterns = ["_ext"]
language = "en"
smartquotes = False  # A'x is a product with the transpose
highlight_language = "text"  # blocks that name no language are formulas

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"

# Signatures as they are written: shapes are in the text, defaults as in the source.
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
autosummary_generate = False
add_module_names = False

# What other packages define cannot be looked up: the build works without a network.
nitpick_ignore_regex = [
    (r"py:.*", r"(torch|np|npt|numpy|typing|collections|pathlib|sklearn|enum|dataclasses|abc)(\..*)?"),
    (r"py:.*", r"(Any|Callable|Path|Tensor|Sequence|Generator|Module|Self|StrEnum|NDArray|Protocol|ClassVar)"),
    (r"py:.*", r"sureprox\.(optimizers\.base\.S|optimizers\.kinds\.Own|solve\.solution\.V)"),  # type variables
    (r"py:.*", r"sureprox\.support\.screening\.Screening"),  # what two properties of a solution are computed from
]

html_theme = "furo"
html_title = f"sureprox {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_copyright = False
html_copy_source = False
copybutton_prompt_text = "$ "
