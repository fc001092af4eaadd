"""Configuration of the site; ``make docs`` builds it into docs/_build/html.

Nothing is fetched while it is built or read: fonts, icons and search are files of the
site, formulas are MathML. ``KAUCUS_DOCS_VERSION`` names the folder that a published
copy goes to ("dev", "0.1"); only published copies show the list of versions, which is a
file beside them (docs/publish.py).
"""

import os
import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent / "src")]

from sphinx_gallery.sorting import ExplicitOrder  # noqa: E402

import kaucus  # noqa: E402
from kaucus._base import SITE  # noqa: E402

project = "kaucus"
author = "The kaucus developers"
copyright = author
version = ".".join(kaucus.__version__.split(".")[:2])
release = kaucus.__version__
github_url = "https://github.com/kaucus/kaucus"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "formulas",
    "mathml",
    "name_links",
    "repository_links",
]
nitpicky = True  # a reference to a name that does not exist is a warning
nitpick_ignore_regex = [
    ("py:.*", r"(sklearn|numpy|scipy|dask|torch|pandas|matplotlib|onnx|skops)\..*"),
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5"]
language = "en"
smartquotes = False  # quotes are code: {"fast", "best"}
toc_object_entries_show_parents = "hide"

# -- pages in Markdown
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
html_math_renderer = "mathml"
copybutton_exclude = ".linenos, .gp, .go"  # prompts and results are not copied

# -- the reference, from docstrings
autosummary_generate = True
autodoc_typehints = "none"  # the docstring tells the types
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False  # the template lists them
numpydoc_class_members_toctree = False


def skip_member(app, what, name, value, skip, options):
    """Leave out scikit-learn's methods for metadata routing and for output frames."""
    if name in ("get_metadata_routing", "set_output") or name.endswith("_request"):
        return True
    return None


# -- the gallery
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py|conftest\.py",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("kaucus",),  # its pages in the reference name their examples
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # its page asks other servers for scripts
    "within_subsection_order": ExplicitOrder(
        [
            "plot_two_moons.py",
            "plot_digits_by_size.py",
            "plot_time_over_rows.py",
            "plot_learned_metric.py",
            "plot_intervals.py",
            "plot_prediction_sets.py",
            "plot_kernel_kmeans_shapes.py",
            "plot_cluster_shaped_kernels.py",
            "plot_patches.py",
            "*",
        ]
    ),
    "matplotlib_animations": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# -- the look
html_theme = "pydata_sphinx_theme"
html_title = "kaucus"
html_static_path = ["_static"]
html_css_files = ["kaucus.css"]
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = None
published = os.environ.get("KAUCUS_DOCS_VERSION", "")
html_baseurl = f"{SITE}/{published or 'dev'}/"
html_extra_path = ["llms.txt"]
html_favicon = "_static/favicon.svg"
html_context = {
    "default_mode": "auto",
    "social_card": f"{html_baseurl}_static/social-card.png",
}
html_theme_options = {
    "logo": {
        "text": "kaucus",
        "alt_text": "kaucus: to the front page",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo-dark.svg",
    },
    "github_url": github_url,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"]
    if published
    else ["theme-switcher", "navbar-icon-links"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
if published:
    html_theme_options |= {
        "switcher": {"json_url": f"{SITE}/versions.json", "version_match": published},
        "check_switcher": False,  # the list is beside the copies, not in them
        "show_version_warning_banner": True,  # where there is a newer release
    }


def setup(app):
    """Connect what is defined above."""
    app.connect("autodoc-skip-member", skip_member)
