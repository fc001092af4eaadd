"""Classes of rows that come in parts."""

import numpy as np

from kaucus.backend import concat_rows, generator_from, to_numpy
from kaucus.estimators._kernel_input import beside, fitting_rows
from kaucus.estimators._kmeans_kernel_classes import (
    OPEN_REPRESENTATIVES,
    Fitted,
    RepresentedClasses,
)
from kaucus.estimators._kmeans_kernel_growth import Growth
from kaucus.estimators._kmeans_kernel_kept import KeptRows, Stream
from kaucus.estimators._kmeans_kernel_part import Unseen
from kaucus.estimators._kmeans_kernel_stream import StreamMixin
from kaucus.estimators._predictions import all_classes
from kaucus.estimators._validation import one_vs_rest_targets
from kaucus.solvers import classification_score


class ClassStream(StreamMixin, RepresentedClasses):
    """``partial_fit`` of the classifier: groups are the classes."""

    def _as_targets(self, labels: np.ndarray) -> np.ndarray:
        return one_vs_rest_targets(labels, len(self.classes_))

    def _groups_of(self, labels: np.ndarray) -> np.ndarray:
        return labels

    @property
    def _n_groups(self) -> int:
        return len(self.classes_)

    def _judged(self, weight, labels):
        return self._with_class_weights(weight, labels)

    def _targets_of(self, chosen, targets) -> np.ndarray:
        return chosen.labels

    def _representative_groups(self) -> np.ndarray:
        labels = to_numpy(self.representative_labels_)
        return np.searchsorted(self.classes_, labels)

    @property
    def _n_wanted(self) -> int:
        wanted, k = self.n_representatives, len(self.classes_)
        return sum(wanted.values()) if isinstance(wanted, dict) else wanted * k

    @property
    def _keeps_equations(self) -> bool:
        return self.fit_on != "representatives"

    def _loss(self, labels, weight, values) -> float:
        values = all_classes(to_numpy(values))
        return -classification_score(values, labels, "neg_log_loss", weight).value

    def _store_running(self, X, chosen, solution, some: KeptRows, weight) -> None:
        self.fit_rows_ = None
        all_of_them = np.arange(len(some.keys))
        unseen = Unseen.of(solution.loo_decision, some.targets, weight, all_of_them)
        hard_rows = to_numpy(self.hard_rows_)
        fitted = self._store_shifted(X, Fitted(chosen, solution, hard_rows, unseen))
        if self.probability == "softmax":
            self._calibrate(*fitted.unseen)

    def _begin_with_model(self, X, rng) -> Stream:
        if self._keeps_equations:
            return super()._begin_with_model(X, rng)
        chosen = self._representatives_like(X)
        n, groups = len(chosen.labels), self._count_groups(chosen.labels)
        keys = rng.random(n)
        kept = KeptRows(to_numpy(chosen.points), chosen.labels, chosen.weights, keys)
        total = chosen.weights.sum()
        return Stream(kept, n, total, groups, rng, False, n, n, n, groups + 1)

    def _is_due(self, X, stream: Stream) -> bool:
        # Representatives that move need no rows but their own class's.
        gone = stream.groups_chosen is not None and not stream.all_kept
        return super()._is_due(X, stream) and (self._keeps_equations or not gone)

    def _go_on(self, X, stream: Stream, part: KeptRows) -> Stream:
        if self._keeps_equations:
            return super()._go_on(X, stream, part)
        self._move_representatives(X, stream, part)
        kept, n_most = stream.kept.and_then(part), self._most_kept(X)
        all_kept = stream.all_kept and len(kept.keys) <= n_most
        return stream._replace(kept=kept.sample(n_most), all_kept=all_kept)

    def _move_representatives(self, X, stream: Stream, part: KeptRows) -> None:
        """Cluster new rows together with the representatives, and solve for these."""
        rng = generator_from(self.random_state)
        rows = fitting_rows(X, self.device, self.memory_budget)
        old = self._representatives_like(X)
        wanted = self._numbers(stream.groups)
        wanted = wanted or [OPEN_REPRESENTATIVES] * len(self.classes_)
        numbers = np.maximum(np.bincount(old.labels, minlength=len(wanted)), wanted)
        chosen = self._represent(
            rows, part.targets, numbers.tolist(), part.weight, rng=rng, old=old
        )
        rows = concat_rows(beside(rows, old.points), rows)
        labels = np.concatenate([old.labels, part.targets])
        weight = np.concatenate([old.weights, part.weight])
        fit = (X, rows, labels, weight, chosen, Growth(numbers.tolist(), []), [], rng)
        self._solve_and_store(*fit, stream=True)
