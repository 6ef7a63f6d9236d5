"""Frozen objects are not collected, new ones are."""

import gc
import weakref

from normdiag.capture.frozen_gc import frozen_gc


class Knot:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self):
        self.self = self


def test_only_new_objects_are_collected():
    before = weakref.ref(Knot())
    with frozen_gc():
        meanwhile = weakref.ref(Knot())
        gc.collect()
        assert meanwhile() is None
        assert before() is not None
    gc.collect()
    assert before() is None
    assert gc.get_freeze_count() == 0


def test_what_the_caller_froze_stays_frozen():
    before = weakref.ref(Knot())
    gc.freeze()
    try:
        with frozen_gc():
            pass
        gc.collect()
        assert before() is not None
    finally:
        gc.unfreeze()
    gc.collect()
    assert before() is None
