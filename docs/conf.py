"""Settings of the documentation site (`make docs`)."""

from metricforest import __version__

project = "metricforest"
author = "The metricforest developers"
copyright = "2026, the metricforest developers"
version = release = __version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_theme_options = {"show_prev_next": False, "navigation_depth": 2}
html_title = "metricforest"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # pages also link to files of the repository
autosummary_generate = True
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False
autodoc_typehints = "none"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"faiss_index|gallery\.py|shop",
    "abort_on_example_error": True,
    "show_memory": False,
}
