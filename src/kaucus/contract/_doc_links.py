"""Where the documentation of an estimator is, for the picture that a notebook shows."""

SITE = "https://kaucus.github.io/kaucus"


class LinksToDocs:
    """Mixin: scikit-learn's HTML picture of an estimator links to our reference."""

    _doc_link_module = "kaucus"
    _doc_link_template = SITE + "/reference/{module}.{name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return the public name of the class, which is not where it is written."""
        folder = type(self).__module__.split(".")[1]
        module = "kaucus" if folder == "estimators" else f"kaucus.{folder}"
        return {"module": module, "name": type(self).__name__}
