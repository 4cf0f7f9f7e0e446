"""Build an ONNX graph by writing its arithmetic in Python.

A `Tensor` is a result that the graph will compute. Operators and methods add nodes, with the rules of numpy for shapes.
Missing values are never NaN in a graph: kernels disagree about the largest of NaN and 1, so every view computes with
filled values and a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

if TYPE_CHECKING:
    import onnx

OPSET, IR = 17, 8  # versions of ONNX of 2022


class Graph:
    """Collects nodes and constants. The body of a loop, or a branch, is a graph of its own that may use the tensors of
    `outer`."""

    def __init__(self, name: str, outer: Graph | None = None) -> None:
        self.name, self.outer = name, outer
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[tuple[Tensor, Sequence[int] | None]] = []
        self.constants: dict[str, NDArray[Any]] = {} if outer is None else outer.constants
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {} if outer is None else outer._known
        self._count: list[int] = [0] if outer is None else outer._count

    def _name(self, kind: str) -> str:
        self._count[0] += 1
        return f"{kind}_{self._count[0]}"

    def input(self, name: str, dtype: DTypeLike, shape: Sequence[int] | None) -> Tensor:
        """Return a tensor that the caller gives; None: of any shape."""
        tensor = Tensor(self, name, np.dtype(dtype))
        self.inputs.append((tensor, shape))
        return tensor

    def constant(self, value: ArrayLike, dtype: DTypeLike | None = None) -> Tensor:
        """Return a tensor with a fixed value; equal values are stored once."""
        array = np.array(value, dtype=dtype, order="C")
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = self._name("constant")
            self.constants[self._known[key]] = array
        return Tensor(self, self._known[key], array.dtype)

    def node(self, kind: str, *inputs: Tensor, dtype: DTypeLike, **attributes: Any) -> Tensor:
        """Return the only, or the first, output of a node."""
        return self.nodes_of(kind, inputs, [dtype], **attributes)[0]

    def nodes_of(
        self, kind: str, inputs: Sequence[Tensor], dtypes: Sequence[DTypeLike], **attributes: Any
    ) -> list[Tensor]:
        """Return all outputs of a node."""
        from onnx import helper

        outputs = [self._name(kind.lower()) for _ in dtypes]
        self.nodes.append(helper.make_node(kind, [tensor.name for tensor in inputs], outputs, **attributes))
        return [Tensor(self, name, np.dtype(dtype)) for name, dtype in zip(outputs, dtypes, strict=True)]

    def loop(
        self,
        trips: Tensor,
        go_on: Tensor,
        state: Sequence[Tensor],
        body: Callable[[Tensor, list[Tensor]], tuple[Tensor, list[Tensor]]],
    ) -> list[Tensor]:
        """Return the state after at most `trips` rounds. `body` maps the number of the round and the state, in a graph
        of its own, to whether to go on and the next state; it may use tensors of this graph through `Tensor.inside`."""
        inner = Graph(self._name("body"), outer=self)
        round_ = inner.input(self._name("round"), np.int64, ())
        inner.input(self._name("go_on"), np.bool_, ())
        before = [inner.input(self._name("state"), own.dtype, None) for own in state]
        again, after = body(round_, before)
        outputs = [inner.node("Identity", own, dtype=own.dtype) for own in (again, *after)]
        proto = inner._proto(outputs)
        return self.nodes_of("Loop", [trips, go_on, *state], [own.dtype for own in state], body=proto)

    def either(
        self,
        condition: Tensor,
        given: Sequence[Tensor],
        yes: Callable[[list[Tensor]], Tensor],
        no: Callable[[list[Tensor]], Tensor],
    ) -> Tensor:
        """Return `yes(given)` if the condition, a single value, is true, and `no(given)` otherwise. Only one of them is
        computed, in a graph of its own; `given` are the tensors of this graph that both may use."""
        branches, dtype = [], given[0].dtype
        for build in (yes, no):
            inner = Graph(self._name("branch"), outer=self)
            result = build([Tensor(inner, own.name, own.dtype) for own in given])
            branches.append(inner._proto([inner.node("Identity", result, dtype=result.dtype)]))
            dtype = result.dtype
        return self.node("If", condition, dtype=dtype, then_branch=branches[0], else_branch=branches[1])

    def _proto(self, outputs: Sequence[Tensor]) -> onnx.GraphProto:
        from onnx import helper, numpy_helper

        def info(tensor: Tensor, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(tensor.name, helper.np_dtype_to_tensor_dtype(tensor.dtype), shape)

        inputs = [info(tensor, shape) for tensor, shape in self.inputs]
        # Constants of an inner graph belong to the outermost graph, where they are made once.
        stored = self.constants if self.outer is None else {}
        initial = [numpy_helper.from_array(array, name) for name, array in stored.items()]
        return helper.make_graph(self.nodes, self.name, inputs, [info(tensor, None) for tensor in outputs], initial)

    def model(self, outputs: dict[str, Tensor], producer: str, version: str) -> onnx.ModelProto:
        """Return the model that computes the outputs."""
        from onnx import helper

        for name, tensor in outputs.items():
            self.nodes.append(helper.make_node("Identity", [tensor.name], [name]))
        named = [Tensor(self, name, tensor.dtype) for name, tensor in outputs.items()]
        return helper.make_model(
            self._proto(named),
            producer_name=producer,
            producer_version=version,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR,
        )


class Tensor:
    """A result that a graph will compute."""

    __array_ufunc__ = None  # numpy arrays leave the operators to this class

    def __init__(self, graph: Graph, name: str, dtype: np.dtype[Any]) -> None:
        self.graph, self.name, self.dtype = graph, name, dtype

    def inside(self, inner: Tensor) -> Tensor:
        """Return this tensor for use in the graph of `inner`, the body of a loop."""
        return Tensor(inner.graph, self.name, self.dtype)

    def _other(self, value: Tensor | ArrayLike) -> Tensor:
        return value if isinstance(value, Tensor) else self.graph.constant(value, self.dtype)

    def _binary(self, kind: str, other: Tensor | ArrayLike, dtype: DTypeLike | None = None) -> Tensor:
        return self.graph.node(kind, self, self._other(other), dtype=dtype or self.dtype)

    def __add__(self, other: Tensor | ArrayLike) -> Tensor:
        return self._binary("Add", other)

    def __sub__(self, other: Tensor | ArrayLike) -> Tensor:
        return self._binary("Sub", other)

    def __mul__(self, other: Tensor | ArrayLike) -> Tensor:
        return self._binary("Mul", other)

    def __truediv__(self, other: Tensor | ArrayLike) -> Tensor:
        return self._binary("Div", other)

    def __matmul__(self, other: Tensor | ArrayLike) -> Tensor:
        return self._binary("MatMul", other)

    def __radd__(self, other: ArrayLike) -> Tensor:
        return self._other(other) + self

    def __rsub__(self, other: ArrayLike) -> Tensor:
        return self._other(other) - self

    def __rmul__(self, other: ArrayLike) -> Tensor:
        return self._other(other) * self

    def __rmatmul__(self, other: ArrayLike) -> Tensor:
        return self._other(other) @ self

    def __gt__(self, other: Tensor | ArrayLike) -> Tensor:
        return self._binary("Greater", other, np.bool_)

    def __lt__(self, other: Tensor | ArrayLike) -> Tensor:
        return self._binary("Less", other, np.bool_)

    def __ge__(self, other: Tensor | ArrayLike) -> Tensor:
        return self._binary("GreaterOrEqual", other, np.bool_)

    def __le__(self, other: Tensor | ArrayLike) -> Tensor:
        return self._binary("LessOrEqual", other, np.bool_)

    def __and__(self, other: Tensor) -> Tensor:
        return self._binary("And", other)

    def __invert__(self) -> Tensor:
        return self.graph.node("Not", self, dtype=np.bool_)

    def equals(self, other: Tensor | ArrayLike) -> Tensor:
        """Return where both are equal."""
        return self._binary("Equal", other, np.bool_)

    def at_least(self, other: Tensor | ArrayLike) -> Tensor:
        """Return the larger one of both."""
        return self._binary("Max", other)

    def at_most(self, other: Tensor | ArrayLike) -> Tensor:
        """Return the smaller one of both."""
        return self._binary("Min", other)

    def clip(self, size: float) -> Tensor:
        """Return the values within -size and size."""
        return self.at_least(-size).at_most(size)

    def _unary(self, kind: str) -> Tensor:
        return self.graph.node(kind, self, dtype=self.dtype)

    def abs(self) -> Tensor:
        return self._unary("Abs")

    def sqrt(self) -> Tensor:
        return self._unary("Sqrt")

    def log(self) -> Tensor:
        return self._unary("Log")

    def exp(self) -> Tensor:
        return self._unary("Exp")

    def sin(self) -> Tensor:
        return self._unary("Sin")

    def cos(self) -> Tensor:
        return self._unary("Cos")

    def round(self) -> Tensor:
        return self._unary("Round")

    def square(self) -> Tensor:
        return self * self

    def arcsin(self) -> Tensor:
        """Return the arc sine of float64 values between 0 and 0.8: that of float32, improved by one step of Newton."""
        rough = self.cast(np.float32)._unary("Asin").cast(np.float64)
        return rough - (rough.sin() - self) / rough.cos()

    def is_nan(self) -> Tensor:
        return self.graph.node("IsNaN", self, dtype=np.bool_)

    def cast(self, dtype: DTypeLike) -> Tensor:
        """Return the values as another type."""
        from onnx import helper

        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        return self.graph.node("Cast", self, dtype=wanted, to=helper.np_dtype_to_tensor_dtype(wanted))

    def sum(self, axis: int, keepdims: bool = False) -> Tensor:
        axes = self.graph.constant([axis], np.int64)
        return self.graph.node("ReduceSum", self, axes, dtype=self.dtype, keepdims=int(keepdims))

    def max(self, axis: int, keepdims: bool = False) -> Tensor:
        return self.graph.node("ReduceMax", self, dtype=self.dtype, axes=[axis], keepdims=int(keepdims))

    def min(self, axis: int, keepdims: bool = False) -> Tensor:
        return self.graph.node("ReduceMin", self, dtype=self.dtype, axes=[axis], keepdims=int(keepdims))

    def count(self, axis: int, keepdims: bool = False) -> Tensor:
        """Return how many are true, as float64."""
        return self.cast(np.float64).sum(axis, keepdims)

    def any(self, axis: int, keepdims: bool = False) -> Tensor:
        """Return whether some are true."""
        return self.cast(np.float32).max(axis, keepdims) > 0

    def where(self, yes: Tensor, no: Tensor | ArrayLike) -> Tensor:
        """Return `yes` where this is true and `no` elsewhere."""
        return self.graph.node("Where", self, yes, yes._other(no), dtype=yes.dtype)

    def reshape(self, *shape: int) -> Tensor:
        return self.graph.node("Reshape", self, self.graph.constant(shape, np.int64), dtype=self.dtype)

    def transpose(self, *order: int) -> Tensor:
        return self.graph.node("Transpose", self, dtype=self.dtype, perm=list(order or (1, 0)))

    def take(self, indices: Tensor | ArrayLike, axis: int = 0) -> Tensor:
        """Return the values at indices along an axis."""
        chosen = indices if isinstance(indices, Tensor) else self.graph.constant(indices, np.int64)
        return self.graph.node("Gather", self, chosen, dtype=self.dtype, axis=axis)

    def take_along(self, indices: Tensor, axis: int) -> Tensor:
        """Return the values at indices of their own for each place along the other axes."""
        return self.graph.node("GatherElements", self, indices, dtype=self.dtype, axis=axis)

    def part(self, first: Tensor | int, stop: Tensor | int, axis: int) -> Tensor:
        """Return the values from `first` up to `stop` along an axis; (1,) if they are tensors."""
        ends = [end if isinstance(end, Tensor) else self.graph.constant([end], np.int64) for end in (first, stop, axis)]
        return self.graph.node("Slice", self, *ends, dtype=self.dtype)

    def pad(self, before: int, after: int, value: float) -> Tensor:
        """Return the rows (row, column) with `value` before and after them."""
        sizes = self.graph.constant([0, before, 0, after], np.int64)
        return self.graph.node("Pad", self, sizes, self._other(value), dtype=self.dtype)

    def top(self, count: Tensor | int, axis: int, largest: bool = True) -> tuple[Tensor, Tensor]:
        """Return the largest or smallest values along an axis, most extreme first, and their indices."""
        number = count if isinstance(count, Tensor) else self.graph.constant([count], np.int64)
        values, places = self.graph.nodes_of(
            "TopK", [self, number], [self.dtype, np.int64], axis=axis, largest=int(largest), sorted=1
        )
        return values, places


def joined(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Return tensors one after the other along an axis."""
    return tensors[0].graph.node("Concat", *tensors, dtype=tensors[0].dtype, axis=axis)
