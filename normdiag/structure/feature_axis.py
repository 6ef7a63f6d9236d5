"""The axis of a stream that holds its features."""

from __future__ import annotations

from collections.abc import Sequence

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm, NormForm
from normdiag.structure.aten_operations import CONVOLUTIONS
from normdiag.structure.dataflow import step_back
from normdiag.structure.feature_place import FeaturePlace, axis_place, find_axis, follow_place
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.stream_lanes import features_of_product, is_outer_product


def stream_axis(add: DetectedAdd) -> int:
    """Return the axis of the sum, from the end, that holds the features of the stream.

    The norm that reads the stream on the first branch, or wrote it, says so: weights can lie along
    the tokens. So can a norm: where the last branch's last contraction writes another axis, the
    axis is that of the add before, if there is one on the same stream. Without a norm it is the
    axis that is written.
    """
    read, written = _read_axis(add), feature_axis(add.branches[-1])
    while read not in (None, written) and (before := _earlier_add(add)) is not None:
        add = before
        read, written = _read_axis(add), feature_axis(add.branches[-1])
    return written if read is None else read


def axis_in(shape: Sequence[int], add: DetectedAdd) -> int:
    """Return the axis that holds the stream's features in a value of it, such as its last norm's.

    In a value of another rank, whose tokens were pooled or flattened, that is the last.
    """
    return stream_axis(add) if len(shape) == len(add.node.shape) else -1


def _earlier_add(add: DetectedAdd) -> DetectedAdd | None:
    """The add before on a stream of the same shape."""
    is_same = add.before is not None and add.before.node.shape == add.node.shape
    return add.before if is_same else None


def _read_axis(add: DetectedAdd) -> int | None:
    """The axis that the norm of the stream is taken over; None without one.

    Behind a skip that is projected the features lie where weights write them, not where they lay.
    """
    if add.is_projected:
        return None
    norm, path = _find_input_norm(add.branches[0], add.root)
    axis: int | None = None
    if norm is not None:
        axis = _invert_views(path, add.root, axis_place(norm.source.shape, _normed_axis(norm)))
    elif isinstance(add.root.form, NormForm):
        axis = _normed_axis(add.root.form.norm)
    if axis is not None:
        place = axis_place(add.root.shape, axis)
        axis = _follow_views(add.root, _path_back(add.skip, add.root), place)
    return axis


def feature_axis(branch: Node) -> int:
    """Return the axis, from the end, that the branch's last contraction writes features to.

    A convolution writes to axis 1, everything else to the last axis, and a norm says which it
    reads; the views between it and the add are followed.
    """
    node = branch
    path: list[Node] = []
    while not _is_norm(node):
        step = step_back(node)
        if step is None:
            break
        path.append(node)
        node = step[0]
    if is_outer_product(node):
        place: FeaturePlace | None = features_of_product(node)
    else:
        place = axis_place(node.shape, _written_axis(node))
    axis = _follow_views(node, path, place)
    return -1 if axis is None else axis


def _find_input_norm(branch: Node, root: Node) -> tuple[DetectedNorm | None, list[Node]]:
    """The norm of the stream on the way of first operands, with the views ahead of it."""
    node = branch
    norm: DetectedNorm | None = None
    path: list[Node] = []
    while node is not root and node.index > root.index:
        if isinstance(node.form, NormForm):
            norm, path = node.form.norm, []
            node = norm.source
            continue
        step = step_back(node)
        if step is not None:
            path.append(node)
            node = step[0]
            continue
        following = next((p for p in node.parents if p.origins and p.is_floating), None)
        if following is None:
            break
        norm, path, node = None, [], following
    return (norm, path) if node is root and norm is not None else (None, [])


def _path_back(node: Node, root: Node) -> list[Node]:
    path = []
    while node is not root and (step := step_back(node)) is not None:
        path.append(node)
        node = step[0]
    return path


def _invert_views(path: Sequence[Node], root: Node, place: FeaturePlace | None) -> int | None:
    """The axis of the root that the views on the path (last first) carry to a place."""
    for axis in range(len(root.shape)):
        at, node = axis_place(root.shape, axis), root
        for after in reversed(path):
            at = None if at is None else follow_place(after, node, at)
            node = after
        if at is not None and at == place:
            return axis
    return None


def _follow_views(node: Node, path: Sequence[Node], place: FeaturePlace | None) -> int | None:
    """The axis, from the end, to which the views on the path (last first) carry a place."""
    for after in reversed(path):
        place = None if place is None else follow_place(after, node, place)
        node = after
    axis = None if place is None else find_axis(node.shape, place)
    return None if axis is None else axis - len(node.shape)


def _is_norm(node: Node) -> bool:
    return isinstance(node.form, NormForm) and node.form.norm.node is node


def _written_axis(node: Node) -> int:
    if isinstance(node.form, NormForm) and _is_norm(node):
        return _normed_axis(node.form.norm)
    return 1 if node.op in CONVOLUTIONS else -1


def _normed_axis(norm: DetectedNorm) -> int:
    return 1 if norm.kind in ("batchnorm", "groupnorm") else norm.axes[0]
