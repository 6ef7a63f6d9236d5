"""A model whose norms and adds the test names by hand, and all that a report must say of it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.oracle import contributions, growth, jacobians, numbers
from tests.oracle.numbers import Numbers
from tests.oracle.taps import Array, Seen, observe
from tests.oracle.tokens import Read, Tokens, gather, gather_padding

PLAIN = {"kind": "none", "value": None, "rms": None, "min": None, "max": None}
ONE_STREAM: dict[str, Any] = {"single_adds": [], "exceptions": [], "streams": 1}
"""What is so of a stack whose adds are alike."""


@dataclass(frozen=True, kw_only=True)
class Norm:
    """One call of a norm module, and the facts that the architecture must state."""

    module: str
    kind: str
    eps: float
    role: str
    stack: str | None
    layer: int | None
    call: int = 0
    calls: int = 1
    mask: str = "attention_mask"

    @property
    def id(self) -> str:
        return f"{self.module}@{self.call}" if self.call else self.module

    def read(self, seen: Seen) -> Array:
        return seen.into(self.module, self.call)


@dataclass(frozen=True, kw_only=True)
class Add:
    """One residual add: where its operands and its sum can be read, and its facts."""

    module: str
    skip: Read
    branch: Read
    out: Read
    stack: str
    layer: int
    depth: int
    placement: str
    k: int = 0
    mask: str = "attention_mask"
    input_norms: list[str] = field(default_factory=list)
    stream_norm: str | None = None
    skip_norm: str | None = None

    @property
    def id(self) -> str:
        return f"{self.module}/add#{self.k}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything the test knows of one model on one probe."""

    model: nn.Module
    batches: list[dict]
    norms: list[Norm]
    adds: list[Add]
    stacks: list[dict[str, Any]]
    head: Read
    """What the head, or the caller of a model without one, receives."""
    head_mask: str = "attention_mask"
    taps: tuple[str, ...] = ()
    """Modules to observe besides the norms."""
    target: Any = None
    """What to hand to normdiag: the model itself where None."""
    checkpoint: dict[str, Any] | None = None
    """The tensors of the checkpoint as stored: the model's state where None."""
    few: list[dict] | None = None
    """Inputs of few tokens for the Jacobians; all `batches` where None."""
    unattached: list[str] = field(default_factory=list)
    """Norms that belong to no stack."""
    stream_findings: list[str] = field(default_factory=list)
    """What is wrong with a stream, by the names of the rules."""

    @property
    def stored(self) -> dict[str, Any]:
        """Every floating tensor of the checkpoint."""
        tensors = self.model.state_dict() if self.checkpoint is None else self.checkpoint
        return {name: t for name, t in tensors.items() if t.is_floating_point()}

    @cached_property
    def observed(self) -> list[Seen]:
        return observe(self.model, self.batches, {*self.taps, *(n.module for n in self.norms)})

    def tokens(self, read: Read, mask: str) -> Tokens:
        return gather(self.observed, read, mask)

    def parameter(self, module: str, name: str) -> Array | None:
        tensor = getattr(self.model.get_submodule(module), name, None)
        return None if tensor is None else tensor.detach().double().numpy()

    # What the report must say.

    def norm_facts(self) -> dict[str, Numbers]:
        return {norm.id: self._norm_facts(norm) for norm in self.norms}

    def _norm_facts(self, norm: Norm) -> Numbers:
        gain, bias = self.parameter(norm.module, "weight"), self.parameter(norm.module, "bias")
        return {
            "id": norm.id,
            "axes": [-1],
            "kind": norm.kind,
            "class": type(self.model.get_submodule(norm.module)).__name__,
            "features": len(gain),
            "eps": norm.eps,
            "calls": norm.calls,
            "role": norm.role,
            "gain": numbers.of_gain(gain),
            "bias_rms": None if bias is None else numbers.rms(bias),
            "stack": norm.stack,
            "layer": norm.layer,
            "shape": list(norm.read(self.observed[0]).shape),
            "dtype": "float32",
            # torch's layer norm is one operation; an RMSNorm is written out in float32
            "eps_dtype": None if norm.kind == "layernorm" else "float32",
            "eps_form": "in-root",
            "variance_scale": 1.0,
            "statistic_gain": 1.0,
            "is_centred": None,
            "scaling": None,
            "is_running": False,
        }

    def add_facts(self) -> dict[str, Numbers]:
        return {add.id: self._add_facts(add) for add in self.adds}

    def _add_facts(self, add: Add) -> Numbers:
        plain = ("stack", "layer", "module", "depth", "placement", "input_norms")
        return {
            **{name: getattr(add, name) for name in (*plain, "stream_norm", "skip_norm")},
            "id": add.id,
            "output_norms": [],
            "inner_norms": [],
            "branches": 1,
            "dtype": "float32",
            "skip_scale": PLAIN,
            "branch_scale": PLAIN,
            "multipliers": [],
            "is_projected": False,
            "is_gated": False,
            "raw_readers": [],
            "read_weights": None,
            "write_weights": None,
        }

    def norm_numbers(self, norm: Norm, channels: int) -> Numbers:
        x = self.tokens(norm.read, norm.mask).values
        padding = gather_padding(self.observed, norm.read, norm.mask)
        output = self.tokens(out_of(norm.module, norm.call), norm.mask).values
        measured = numbers.of_norm(x, padding, norm.kind, norm.eps, channels)
        return {**measured, "output_rms": numbers.rms(output)}

    def jacobian_numbers(self, norm: Norm) -> Numbers:
        x = self.tokens(norm.read, norm.mask).values
        return jacobians.of_jacobian(x, norm.kind, norm.eps, self.parameter(norm.module, "weight"))

    def add_numbers(self, add: Add) -> Numbers:
        seen = numbers.of_add(self.tokens(add.skip, add.mask), self.tokens(add.branch, add.mask))
        _, written = self.contributions(add.stack)
        return {
            **seen,
            "sink_ratio": contributions.sink_ratio(self.tokens(add.out, add.mask)),
            "contribution": written.get(add.id),
        }

    def contributions(self, stack: str) -> tuple[Numbers | None, dict[str, Numbers]]:
        """Of what the stack starts from and of every add; none where a norm stands between them."""
        adds = [add for add in self.adds if add.stack == stack]
        if any(add.skip_norm for add in adds[1:]):
            return None, {}
        writes = [self.tokens(add.branch, add.mask) for add in adds]
        start, *shares = contributions.shares(self.tokens(adds[0].skip, adds[0].mask), writes)
        return start, {add.id: share for add, share in zip(adds, shares, strict=True)}

    def growth(self, stack: str) -> Numbers:
        """Of the mean ||y|| of each add, each sequence's first token left out."""
        adds = [add for add in self.adds if add.stack == stack]
        sums = [self.tokens(add.out, add.mask) for add in adds]
        law = self._law(stack)
        fresh = self.at_initialisation()
        at_init = fresh._law(stack)["total"]
        fresh_norms = fresh.growth_norms(stack)
        ratios = np.array([self.add_numbers(add)["update_ratio"]["median"] for add in adds])
        return {
            **law,
            "update_ratio_sqrt_depth": contributions.pace(ratios),
            "sink_ratio": max(contributions.sink_ratio(y) for y in sums),
            "initial_contribution": self.contributions(stack)[0],
            "init_total": at_init,
            "init_norms": {a.id: y for a, y in zip(adds, fresh_norms, strict=True)},
            "total_over_init": law["total"] / at_init,
            "init_note": None,
        }

    def growth_norms(self, stack: str) -> Array:
        """Mean norm after each add, the first token of each sequence left out."""
        sums = [self.tokens(add.out, add.mask) for add in self.adds if add.stack == stack]
        return np.array([np.linalg.norm(y.values[~y.leads], axis=-1).mean() for y in sums])

    def _law(self, stack: str) -> Numbers:
        adds = [add for add in self.adds if add.stack == stack]
        ends = (
            self.tokens(adds[0].skip, adds[0].mask),
            self.tokens(adds[-1].out, adds[-1].mask),
        )
        squares = [np.square(np.linalg.norm(end.values, axis=-1)).mean() for end in ends]
        ids = [add.id for add in adds]
        return growth.law_of(self.growth_norms(stack), ids, np.array(squares))

    def at_initialisation(self) -> Case:
        """The same with newly drawn weights, on the first sequence."""
        is_large = sum(p.numel() for p in self.model.parameters()) > 1 << 26
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            torch.set_default_dtype(torch.bfloat16 if is_large else torch.float32)
            model = type(self.model)(deepcopy(self.model.config)).eval()
            torch.set_default_dtype(torch.float32)
        first = {name: value[:1] for name, value in self.batches[0].items()}
        return replace(self, model=model, batches=[first])

    def head_input(self) -> Numbers:
        values = self.tokens(self.head, self.head_mask).values
        return {"rms": np.sqrt(np.square(values).mean()), "max_abs": np.abs(values).max()}


def into(module: str, call: int = 0, argument: int = 0) -> Callable[[Seen], Array]:
    """Read what goes into a module."""
    return lambda seen: seen.into(module, call, argument)


def out_of(module: str, call: int = 0) -> Callable[[Seen], Array]:
    """Read what comes out of a module."""
    return lambda seen: seen.out_of(module, call)
