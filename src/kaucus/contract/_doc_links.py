"""Where the documentation of an estimator is, for the picture that a notebook shows."""

import sys

SITE = "https://kaucus.github.io/kaucus"


class LinksToDocs:
    """Mixin: scikit-learn's HTML picture of an estimator links to our reference."""

    _doc_link_module = "kaucus"
    _doc_link_template = SITE + "/{version}/reference/{module}.{name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return the public name of the class, which is not where it is written.

        Each minor version of the site has a folder of its own, such as ``0.1``.
        """
        package, folder = type(self).__module__.split(".")[:2]
        module = package if folder == "estimators" else f"{package}.{folder}"
        # The package itself is above all layers, and is imported when this runs.
        version = ".".join(sys.modules[package].__version__.split(".")[:2])
        return {"version": version, "module": module, "name": type(self).__name__}
