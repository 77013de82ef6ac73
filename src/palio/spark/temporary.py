"""Sets of filters that live as long as Spark can need them: made for one call, closed when its results are gone.

A result is a plan, which Spark may run at any time, and from which other plans are derived. So a set must stay as
long as any plan, job or query of the Java process has the function that matches against it. When there is none any
more, Java collects the function as garbage, and weak references to it are empty.

A result that was read with ``toLocalIterator`` keeps its set until the process ends. Spark runs the jobs of an iterator
after it has noted the end of their query, and then never removes them from ``DAGScheduler.activeQueryToJobs``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame

from palio.spark.filters import FilterSet, prepare

_MOST = 4
"""So many temporary sets may wait until Java collects garbage by itself; then it is asked to."""
_lock = Lock()
_waiting: list[_Use] = []
_limit = _MOST


class _Use:
    """A temporary set, and Java's weak references to the functions that match against it."""

    def __init__(self, filters: FilterSet, functions: list[Any]) -> None:
        self.filters = filters
        self._functions = functions

    def is_over(self) -> bool:
        """Whether no plan can match against it any more."""
        if all(function.refersTo(None) for function in self._functions):  # get() would make a reference, for a while
            self.filters.close()
            return True
        return False


@contextmanager
def opened(filters: FilterSet | DataFrame) -> Iterator[tuple[FilterSet, list[DataFrame]]]:
    """A set of filters, and a list for the results whose plans match against it; one made of a table is temporary."""
    if isinstance(filters, FilterSet):
        yield filters, []
        return
    close_unused()
    made = prepare(filters)
    with closing_when_unused(made) as results:
        yield made, results


@contextmanager
def closing_when_unused(made: FilterSet) -> Iterator[list[DataFrame]]:
    """Close a set when the plans of these results, and all that are derived from them, are gone; or if this fails."""
    made.forget_rejects()
    results: list[DataFrame] = []
    try:
        yield results
        functions = [reference for result in results for reference in _functions(result)]
    except BaseException:
        made.close()
        raise
    with _lock:
        _waiting.append(_Use(made, functions))


def close_unused() -> None:
    """Close the temporary sets that nothing can match against any more."""
    global _limit  # noqa: PLW0603 (of this process, like the sets)
    with _lock:
        _waiting[:] = [use for use in _waiting if not use.is_over()]
        if len(_waiting) < _limit:
            return
        _collect_garbage(_waiting[0].filters)
        _waiting[:] = [use for use in _waiting if not use.is_over()]
        _limit = max(_MOST, 2 * len(_waiting))  # those that are in use are not looked for again and again


def _collect_garbage(filters: FilterSet) -> None:
    jvm: Any = filters.session.sparkContext._jvm
    jvm.java.lang.System.gc()


def _functions(result: DataFrame) -> Iterator[Any]:
    """Weak references to the Python functions in the plan of a result."""
    jvm: Any = result.sparkSession.sparkContext._jvm
    plans = [result._jdf.queryExecution().logical()]
    while plans:
        plan = plans.pop()
        for expression in _elements(plan.expressions()):
            if expression.getClass().getSimpleName() == "PythonUDF":
                yield jvm.java.lang.ref.WeakReference(expression.func())
        plans += _elements(plan.children())


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]
