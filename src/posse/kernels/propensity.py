r"""How likely each arm is to win when scores are independent Gaussians.

.. math:: P(k) = \int \frac{1}{\sigma_k} \varphi\Bigl(\frac{s - m_k}{\sigma_k}\Bigr)
    \prod_{j \ne k} \Phi\Bigl(\frac{s - m_j}{\sigma_j}\Bigr)\, ds

All arms are integrated over the same nodes, so every density and distribution function is evaluated once, from a
table, for the eight nodes of a panel at the same time. Panels are as wide as the narrowest arm that still changes there
allows, so arms of very different spread are as exact as equal ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from posse.kernels.compiler import inlined_kernel, inner_kernel, kernel
from posse.kernels.llvm.vector import LANES, add_products, load_vector, scale_row, store_vector
from posse.types import Array

REACH = 6.0  # standard deviations beyond which a score is taken as impossible: 2e-9 of an arm's mass
NODES, WEIGHTS = (np.ascontiguousarray(column) for column in np.polynomial.legendre.leggauss(LANES))
FINENESS = 64  # entries of the table per standard deviation: cubic interpolation is off by 2e-10 at most
GRID = np.arange(-REACH * FINENESS, REACH * FINENESS + 2) / FINENESS
# Density and distribution function in turn: two neighbours of both stand together.
TABLE = np.column_stack(
    [np.exp(-0.5 * GRID * GRID) / math.sqrt(2.0 * math.pi), [0.5 * math.erfc(-z * math.sqrt(0.5)) for z in GRID]]
).reshape(-1)
SMALLEST = 1e-150  # spread whose inverse may not be squared: certain as well
NARROWEST = 1e-12  # spread over the largest |mean| or spread below which a score counts as certain


@kernel
def score_room(n_arms: int) -> int:
    """Return how many columns the scratch of so many arms needs."""
    return LANES * max(n_arms, 2)


@inlined_kernel
def panel_width(n_arms: int) -> float:
    """Return how wide panels are, in standard deviations of the narrowest arm: the highest of many changes faster."""
    return 2.5 if n_arms <= 8 else 2.0 if n_arms <= 64 else 1.5


def _normal(
    typing_context: Any, at: Any, mean: Any, inverse: Any, table: Any, density: Any, chance: Any, o: Any
) -> Any:
    """Write density and distribution function of a Gaussian at eight nodes."""
    signature = types.void(at, types.float64, types.float64, table, density, chance, types.intp)
    vector, quad, word = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.DoubleType(), 4), ir.IntType(64)

    def all_lanes(value: float) -> Any:
        return ir.Constant(vector, [value] * LANES)

    def order(*places: int) -> Any:
        return ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at, mean, inverse, table, density, chance, o = arguments

        def data(position: int, array: Any) -> Any:
            return context.make_array(signature.args[position])(context, builder, array).data

        def spread(value: Any) -> Any:
            first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(first, first, order(*[0] * LANES))

        scale = spread(inverse)
        z = builder.fmul(builder.fsub(load_vector(builder, data(0, at), ir.Constant(word, 0)), spread(mean)), scale)
        # Beyond the table nothing changes any more; NaN goes to its end, too.
        above = builder.not_(builder.fcmp_ordered("<", z, all_lanes(REACH)))
        inside = builder.select(above, all_lanes(REACH), z)
        inside = builder.select(builder.fcmp_ordered("<", inside, all_lanes(-REACH)), all_lanes(-REACH), inside)
        place = builder.fmul(builder.fadd(inside, all_lanes(REACH)), all_lanes(FINENESS))
        whole = builder.fptosi(place, ir.VectorType(word, LANES))
        floor = builder.sitofp(whole, vector)
        t = builder.fsub(place, floor)
        entries = data(3, table)
        quads = []
        for lane in range(LANES):
            index = builder.mul(builder.extract_element(whole, ir.Constant(ir.IntType(32), lane)), ir.Constant(word, 2))
            here = builder.bitcast(builder.gep(entries, [index]), quad.as_pointer())
            value = builder.load(here)
            value.align = 8
            quads.append(value)
        # From four numbers of each of eight lanes to eight lanes of each of four numbers.
        pairs = [builder.shuffle_vector(quads[i], quads[i + 1], order(0, 4, 1, 5, 2, 6, 3, 7)) for i in (0, 2, 4, 6)]
        left = [builder.shuffle_vector(pairs[i], pairs[i + 1], order(0, 1, 8, 9, 2, 3, 10, 11)) for i in (0, 2)]
        right = [builder.shuffle_vector(pairs[i], pairs[i + 1], order(4, 5, 12, 13, 6, 7, 14, 15)) for i in (0, 2)]
        low, high = order(0, 1, 2, 3, 8, 9, 10, 11), order(4, 5, 6, 7, 12, 13, 14, 15)
        left_density, left_below = (builder.shuffle_vector(*left, which) for which in (low, high))
        right_density, right_below = (builder.shuffle_vector(*right, which) for which in (low, high))
        # Cubic Hermite: values and slopes at both ends; the slope of the density at z is -z times itself.
        step = 1.0 / FINENESS
        rest = builder.fsub(all_lanes(1.0), t)
        t_twice, rest_twice = builder.fmul(t, t), builder.fmul(rest, rest)
        at_left = builder.fmul(rest_twice, builder.fadd(all_lanes(1.0), builder.fmul(all_lanes(2.0), t)))
        at_right = builder.fmul(t_twice, builder.fsub(all_lanes(3.0), builder.fmul(all_lanes(2.0), t)))
        slope_left = builder.fmul(all_lanes(step), builder.fmul(t, rest_twice))
        slope_right = builder.fmul(all_lanes(-step), builder.fmul(t_twice, rest))
        below = builder.fadd(
            builder.fadd(builder.fmul(at_left, left_below), builder.fmul(at_right, right_below)),
            builder.fadd(builder.fmul(slope_left, left_density), builder.fmul(slope_right, right_density)),
        )
        start = builder.fsub(builder.fmul(floor, all_lanes(step)), all_lanes(REACH))
        after = builder.fadd(start, all_lanes(step))
        value = builder.fadd(
            builder.fmul(left_density, builder.fsub(at_left, builder.fmul(slope_left, start))),
            builder.fmul(right_density, builder.fsub(at_right, builder.fmul(slope_right, after))),
        )
        value = builder.select(above, all_lanes(0.0), builder.fmul(value, scale))
        store_vector(builder, value, data(4, density), o)
        store_vector(builder, builder.select(above, all_lanes(1.0), below), data(5, chance), o)
        return context.get_dummy_value()

    return signature, generate


normal: Any = intrinsic(_normal)
"""``normal(at, mean, inverse_sd, table, density, chance, o)``: density and distribution function at eight nodes."""


@inner_kernel
def win_probabilities(mean: Array, sd: Array, scratch: Array, out: Array) -> None:
    """Write the probability that each arm has the highest score; ``scratch`` has four rows of :func:`score_room`.

    An arm with ``sd`` 0 has a certain score; certain scores that are equal share their chance.
    """
    n_arms = mean.shape[0]
    scale = 0.0
    for arm in range(n_arms):
        out[arm] = 0.0
        scale = max(scale, max(abs(mean[arm]), sd[arm]))
    narrow = max(NARROWEST * scale, SMALLEST)  # up to here a score counts as certain
    certain = -math.inf  # the highest certain score
    low = -math.inf
    high = -math.inf
    for arm in range(n_arms):
        if sd[arm] <= narrow:
            certain = max(certain, mean[arm])
        low = max(low, mean[arm] - REACH * sd[arm])
        high = max(high, mean[arm] + REACH * sd[arm])

    ties = 0
    if certain > -math.inf:
        beaten = 1.0  # the chance that no uncertain arm is above the highest certain score
        for arm in range(n_arms):
            if sd[arm] <= narrow:
                ties += mean[arm] == certain
            else:
                beaten *= 0.5 * math.erfc((mean[arm] - certain) / sd[arm] * math.sqrt(0.5))
        for arm in range(n_arms):
            if sd[arm] <= narrow and mean[arm] == certain:
                out[arm] = beaten / ties
        low = max(low, certain)

    density, chance, mass, line = scratch[0], scratch[1], scratch[2], scratch[3]
    # `line` holds the nodes of a panel, its weights, and a product that grows from arm to arm.
    width = panel_width(n_arms)
    for i in range(n_arms * LANES):
        mass[i] = 0.0
    start = low
    while start < high:
        # As far as the narrowest arm that changes here allows, and not past the place where another begins to change.
        end = high
        for arm in range(n_arms):
            if sd[arm] <= narrow:
                continue
            first, last = mean[arm] - REACH * sd[arm], mean[arm] + REACH * sd[arm]
            if first > start:
                end = min(end, first)
            elif last > start:
                end = min(end, start + width * sd[arm])
        if not end > start:
            break  # narrower than numbers of this size can tell apart
        half = 0.5 * (end - start)
        for node in range(LANES):
            line[node] = start + half * (1.0 + NODES[node])
            line[LANES + node] = half * WEIGHTS[node]
        # Densities times the chances of all arms before, then times those of all after.
        for arm in range(n_arms):
            here = arm * LANES
            if sd[arm] <= narrow:
                for node in range(LANES):
                    density[here + node] = 0.0
                    chance[here + node] = 1.0
                continue
            normal(line, mean[arm], 1.0 / sd[arm], TABLE, density, chance, here)
            scale_row(density, here, line, LANES, 1)
            scale_row(line, LANES, chance, here, 1)
        for node in range(LANES):
            line[LANES + node] = 1.0
        for arm in range(n_arms - 1, -1, -1):
            here = arm * LANES
            add_products(mass, here, 1, density, here, 0, line, LANES, 0, 1)
            scale_row(line, LANES, chance, here, 1)
        start = end
    # What the tails and the rule leave out is shared in proportion.
    total = 0.0
    for arm in range(n_arms):
        for node in range(LANES):
            out[arm] += mass[arm * LANES + node]
        total += out[arm]
    for arm in range(n_arms):
        out[arm] /= total
