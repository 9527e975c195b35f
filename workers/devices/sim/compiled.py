"""The engine's rules once more, over tables, for numba to compile: latencies and nothing else.

``engine`` with ``residency``, ``sharing`` and ``groups`` is the reference, says why each rule is
as it is, and records; this gives the same latencies to the last bit. So the arithmetic here is the
reference's, operation by operation and in its order, and so are the names. What differs is what
holds the state, ``tables.Machine`` instead of objects, and that every group moves on with every
step instead of being settled when it is looked at, which is the same arithmetic.

All is in one file because numba keeps on disk what it compiled until the file of the function that
Python calls changes, whatever becomes of others. Importing this takes half a second, and the first
call without anything on disk about a quarter of a minute (``latencies`` is the way here).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from workers.devices.sim.engine import CLOSE
from workers.devices.sim.groups import DONE, ROUNDING, TOGETHER
from workers.devices.sim.residency import ALIKE
from workers.devices.sim.tables import Machine

Row = Any  # of a table

NONE = -1


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compiled(function: _Function) -> _Function:
    """Compiled with what calls it."""
    return cast("_Function", njit(function))


def _kept(function: _Function) -> _Function:
    """Compiled at the first call, and kept on disk where there is a place for it."""
    try:
        return cast("_Function", njit(cache=True)(function))
    except RuntimeError:  # numba: "cannot cache function ...: no locator available"
        return cast("_Function", njit(function))


# Groups of SMs: as in ``groups``


@_compiled
def _room(m: Machine, slot: int, row: int) -> int:
    group, kernel = m.groups[slot], m.kernels[row]
    fitting: int = min(kernel.fit, group.blocks)
    if group.threads < fitting * kernel.threads:
        fitting = group.threads // kernel.threads
    if group.registers < fitting * kernel.registers:
        fitting = group.registers // kernel.registers
    if group.shared_memory < fitting * kernel.shared_memory:
        fitting = group.shared_memory // kernel.shared_memory
    if fitting == 0 or group.cohorts == 0:
        return fitting
    own = 0
    for position in range(group.cohorts):
        cohort = m.cohorts[m.members[slot, position]]
        if cohort.row == row:
            own += cohort.each
    left: int = kernel.fit - own
    return min(fitting, left) if own else fitting


@_compiled
def _take(group: Row, kernel: Row, blocks: int, tag: int) -> None:
    group.threads -= blocks * kernel.threads
    group.registers -= blocks * kernel.registers
    group.shared_memory -= blocks * kernel.shared_memory
    group.blocks -= blocks
    group.key += blocks * tag
    group.rated = 0


@_compiled
def _foresee(m: Machine, slot: int, now: float) -> None:
    soonest = latest = math.inf
    for position in range(m.groups[slot].cohorts):
        cohort = m.cohorts[m.members[slot, position]]
        soonest = min(soonest, now + (cohort.left - ROUNDING) / cohort.rate)
        latest = min(latest, now + (cohort.left + TOGETHER) / cohort.rate)
    m.groups[slot].soonest, m.groups[slot].latest = soonest, latest


# Who is where: as in ``residency``


@_compiled
def _new_group(m: Machine) -> int:
    state, slot = m.state[0], 0
    while m.groups[slot].count:
        slot += 1
    m.groups[state.groups].order = slot
    state.groups += 1
    group = m.groups[slot]
    group.cohorts = group.rated = group.merges = group.space = 0
    group.full_for = NONE
    group.soonest = group.latest = math.inf
    return slot


@_compiled
def _new_cohort(m: Machine, launch: int, slot: int, each: int, left: float, rate: float) -> None:
    """The last of its group's and of all."""
    state, made = m.state[0], m.state[0].free_cohort
    if made == NONE:
        made = state.cohort_slots
        state.cohort_slots += 1
    else:
        state.free_cohort = m.cohorts[made].after
    cohort = m.cohorts[made]
    cohort.launch, cohort.row, cohort.group = launch, m.launches[launch].row, slot
    cohort.each, cohort.left, cohort.rate = each, left, rate
    cohort.before, cohort.after = state.last_cohort, NONE
    if state.last_cohort == NONE:
        state.first_cohort = made
    else:
        m.cohorts[state.last_cohort].after = made
    state.last_cohort = made
    state.cohorts += 1
    m.members[slot, m.groups[slot].cohorts] = made
    m.groups[slot].cohorts += 1
    m.launches[launch].running += 1


@_compiled
def _free_cohort(m: Machine, gone: int) -> None:
    """Take it from all; it is still among its group's."""
    state, cohort = m.state[0], m.cohorts[gone]
    if cohort.before == NONE:
        state.first_cohort = cohort.after
    else:
        m.cohorts[cohort.before].after = cohort.after
    if cohort.after == NONE:
        state.last_cohort = cohort.before
    else:
        m.cohorts[cohort.after].before = cohort.before
    cohort.after = state.free_cohort
    state.free_cohort = gone
    state.cohorts -= 1
    m.launches[cohort.launch].running -= 1


@_compiled
def _split(m: Machine, slot: int, count: int) -> int:
    made = _new_group(m)
    group, part = m.groups[slot], m.groups[made]
    part.count, part.threads, part.registers = count, group.threads, group.registers
    part.shared_memory, part.blocks, part.key = group.shared_memory, group.blocks, group.key
    group.count -= count
    for position in range(group.cohorts):
        cohort = m.cohorts[m.members[slot, position]]
        _new_cohort(m, cohort.launch, made, cohort.each, cohort.left, cohort.rate)
    return made


@_compiled
def _place_on(m: Machine, number: int, slot: int, next_threads: int) -> int:
    state, launch = m.state[0], m.launches[number]
    kernel = m.kernels[launch.row]
    unplaced, space = launch.unplaced, m.groups[slot].space
    if unplaced < m.groups[slot].count:
        slot = _split(m, slot, unplaced)
    group = m.groups[slot]
    each = min(unplaced // group.count, space)
    if next_threads and each > 1:
        level = -(-(group.threads - next_threads) // kernel.threads)
        each = min(each, max(1, level))
    waves = 1
    if each == space and group.cohorts == 0:
        slots = m.state[0].sm_count * each
        waves = max(1, (unplaced - 1) // slots - (1 if state.groups > 1 else 0))
    _take(group, kernel, each, launch.tag)
    if launch.running == 0:
        state.resident_changed = 1
    launch.unplaced -= each * waves * group.count
    _new_cohort(m, number, slot, each, float(waves), 0.0)
    group.merges = state.merges
    state.changed = 1
    return slot


@_compiled
def _without(m: Machine, fits: int, gone: int) -> int:
    """Take a group from the first ``fits`` in ``fitting``; how many are left."""
    kept = 0
    for position in range(fits):
        if m.groups[position].fitting != gone:
            m.groups[kept].fitting = m.groups[position].fitting
            kept += 1
    return kept


@_compiled
def _place(m: Machine, number: int) -> bool:
    launch = m.launches[number]
    row, fits = launch.row, 0
    for position in range(m.state[0].groups):
        slot = m.groups[position].order
        group = m.groups[slot]
        if group.full_for != row:
            group.space = _room(m, slot, row)
            if group.space:
                m.groups[fits].fitting = slot
                fits += 1
            else:
                group.full_for = row
    while launch.unplaced:
        if fits == 0:
            return False
        chosen, most, following = m.groups[0].fitting, m.groups[m.groups[0].fitting].threads, 0
        for position in range(fits):
            threads = m.groups[m.groups[position].fitting].threads
            if threads > most:
                chosen, most, following = m.groups[position].fitting, threads, most
            elif following < threads < most:
                following = threads
        taken = _place_on(m, number, chosen, following)
        if taken != chosen:
            m.groups[fits].fitting = taken
            fits += 1
        m.groups[taken].space = _room(m, taken, row)
        if m.groups[taken].space == 0:
            m.groups[taken].full_for = row
            fits = _without(m, fits, taken)
    return True


@_compiled
def _remove(m: Machine, gone: int) -> None:
    state, cohort = m.state[0], m.cohorts[gone]
    slot, launch = cohort.group, m.launches[cohort.launch]
    group, kept = m.groups[slot], 0
    for position in range(group.cohorts):
        if m.members[slot, position] != gone:
            m.members[slot, kept] = m.members[slot, position]
            kept += 1
    group.cohorts = kept
    _take(group, m.kernels[launch.row], -cohort.each, launch.tag)
    group.full_for = NONE
    group.merges = state.merges
    state.changed = 1
    _free_cohort(m, gone)
    if launch.running == 0:
        state.resident_changed = 1


@_compiled
def _joined(m: Machine, slot: int, gone: int) -> bool:
    group, other = m.groups[slot], m.groups[gone]
    if group.cohorts != other.cohorts:
        return False
    apart = 0.0
    for position in range(group.cohorts):
        cohort = m.cohorts[m.members[slot, position]]
        merged = m.cohorts[m.members[gone, position]]
        if cohort.launch != merged.launch or cohort.each != merged.each:
            return False
        apart = max(apart, abs(cohort.left - merged.left))
    if apart > ALIKE:
        if apart < ALIKE + ROUNDING:
            group.merges = m.state[0].merges
        return False
    for position in range(group.cohorts):
        cohort = m.cohorts[m.members[slot, position]]
        merged = m.cohorts[m.members[gone, position]]
        cohort.left = max(cohort.left, merged.left)
        _free_cohort(m, m.members[gone, position])
    group.count += other.count
    group.rated = 0
    group.merges = m.state[0].merges
    other.count = 0
    return True


@_compiled
def _merge_equal(m: Machine) -> None:
    state, kept = m.state[0], 0
    merges, all_moved = state.merges, state.all_moved
    state.merges, state.all_moved = merges + 1, 0
    for position in range(state.groups):
        slot = m.groups[position].order
        group = m.groups[slot]
        for before in range(kept):
            other = m.groups[m.groups[before].order]
            moved = all_moved or group.merges >= merges or other.merges >= merges
            if other.key == group.key and moved and _joined(m, m.groups[before].order, slot):
                break
        if group.count:
            m.groups[kept].order = slot
            kept += 1
    state.groups = kept


# How fast: as in ``sharing``


@_compiled
def _exact_sum(m: Machine, count: int) -> float:
    """``math.fsum`` of the first ``count`` values: Shewchuk, "Adaptive Precision Floating-Point
    Arithmetic and Fast Robust Geometric Predicates" (1997), GROW-EXPANSION; rounded half even."""
    length = 0
    for position in range(count):
        value, kept = m.launches[position].value, 0
        for other in range(length):
            partial = m.launches[other].partial
            if abs(value) < abs(partial):
                value, partial = partial, value
            high = value + partial
            low = partial - (high - value)
            if low != 0.0:
                m.launches[kept].partial = low
                kept += 1
            value = high
        if value != 0.0:
            m.launches[kept].partial = value
            kept += 1
        length = kept
    if length == 0:
        return 0.0
    length -= 1
    total: float = m.launches[length].partial
    low = 0.0
    while length > 0 and low == 0.0:
        value, partial = total, m.launches[length - 1].partial
        length -= 1
        total = value + partial
        low = partial - (total - value)
    # What is left decides about a sum that lies half-way between two numbers.
    if length > 0 and (low > 0.0) == (m.launches[length - 1].partial > 0.0):
        value = total + low * 2.0
        if value - total == low * 2.0:
            total = value
    return total


@_compiled
def _working_set(m: Machine) -> float:
    state = m.state[0]
    if state.resident_changed:
        count = 0
        for number in range(state.oldest, state.launched):
            if m.launches[number].running:
                m.launches[count].value = m.kernels[m.launches[number].row].working_set
                count += 1
        state.working_set = _exact_sum(m, count)
        state.resident_changed = 0
    found: float = state.working_set
    return found


@_compiled
def _share_compute(m: Machine, slot: int) -> None:
    group = m.groups[slot]
    wanted = dram = reused = l2 = 0.0
    for position in range(group.cohorts):
        cohort = m.cohorts[m.members[slot, position]]
        kernel = m.kernels[cohort.row]
        cohort.rate = kernel.alone_rate
        wanted += kernel.alone_rate * cohort.each * kernel.compute_s
    slower = 1.0 / wanted if wanted > 1.0 else 1.0
    for position in range(group.cohorts):
        cohort = m.cohorts[m.members[slot, position]]
        kernel = m.kernels[cohort.row]
        if kernel.compute_s:
            cohort.rate *= slower
        pace = cohort.rate * cohort.each
        dram += pace * kernel.dram_bytes
        reused += pace * kernel.reused_bytes
        l2 += pace * kernel.l2_bytes
    group.dram, group.reused, group.l2 = dram, reused, l2
    group.rated = 1


@_compiled
def _share_bytes(m: Machine, missed: float, of_l2: bool, bandwidth: float) -> None:
    count, weight, number = 0, 0.0, m.state[0].first_cohort
    while number != NONE:
        cohort = m.cohorts[number]
        kernel = m.kernels[cohort.row]
        blocks = cohort.each * m.groups[cohort.group].count
        need = kernel.l2_bytes if of_l2 else kernel.dram_bytes + missed * kernel.reused_bytes
        cohort.needed, cohort.warps = need * blocks, float(blocks * kernel.warps)
        if cohort.needed:
            cohort.asks = cohort.rate * cohort.needed / cohort.warps
            weight += cohort.warps  # whole numbers: their sum is exact
            position = count
            while position > 0 and m.cohorts[m.cohorts[position - 1].asking].asks > cohort.asks:
                m.cohorts[position].asking = m.cohorts[position - 1].asking
                position -= 1
            m.cohorts[position].asking = number
            count += 1
        number = cohort.after
    left = bandwidth
    for position in range(count):
        cohort = m.cohorts[m.cohorts[position].asking]
        share = left * cohort.warps / weight
        if cohort.rate * cohort.needed > share:
            cohort.rate = share / cohort.needed
            cohort.slowed = 1
        left -= cohort.rate * cohort.needed
        weight -= cohort.warps


@_compiled
def _share_bandwidths(m: Machine, missed: float) -> int:
    """How many cohorts memory slowed."""
    state = m.state[0]
    dram, l2, number = 0.0, 0.0, state.first_cohort
    while number != NONE:
        cohort = m.cohorts[number]
        kernel = m.kernels[cohort.row]
        pace = cohort.rate * (cohort.each * m.groups[cohort.group].count)
        dram += pace * (kernel.dram_bytes + missed * kernel.reused_bytes)
        l2 += pace * kernel.l2_bytes
        cohort.slowed = 0
        number = cohort.after
    if dram > state.dram_bandwidth:
        _share_bytes(m, missed, False, state.dram_bandwidth)
    if l2 > state.l2_bandwidth:
        _share_bytes(m, missed, True, state.l2_bandwidth)
    slowed, number = 0, state.first_cohort
    while number != NONE:
        slowed += m.cohorts[number].slowed
        number = m.cohorts[number].after
    return slowed


@_compiled
def _share_left(m: Machine, slot: int) -> None:
    wanted, left = 0.0, 1.0
    for position in range(m.groups[slot].cohorts):
        cohort = m.cohorts[m.members[slot, position]]
        asked = cohort.rate * cohort.each * m.kernels[cohort.row].compute_s
        if cohort.slowed:
            left -= asked
        else:
            wanted += asked
    if wanted > left:
        for position in range(m.groups[slot].cohorts):
            cohort = m.cohorts[m.members[slot, position]]
            if not cohort.slowed and m.kernels[cohort.row].compute_s:
                cohort.rate *= left / wanted


@_compiled
def _share_memory(m: Machine, missed: float) -> bool:
    state = m.state[0]
    limited = _share_bandwidths(m, missed)
    if limited and limited < state.cohorts:
        number = state.first_cohort
        while number != NONE:
            cohort = m.cohorts[number]
            if not cohort.slowed:
                cohort.rate = m.kernels[cohort.row].alone_rate
            number = cohort.after
        for position in range(state.groups):
            _share_left(m, m.groups[position].order)
        _share_bandwidths(m, missed)
    return limited > 0


@_compiled
def _set_rates(m: Machine, now: float) -> None:
    state = m.state[0]
    dram = reused = l2 = 0.0
    for position in range(state.groups):
        slot = m.groups[position].order
        group = m.groups[slot]
        if state.limited or not group.rated:
            _share_compute(m, slot)
            _foresee(m, slot, now)
        dram += group.count * group.dram
        reused += group.count * group.reused
        l2 += group.count * group.l2
    state.limited = 0
    wanted = _working_set(m)
    missed = 0.0 if wanted <= state.l2_bytes else 1 - state.l2_bytes / wanted
    plenty = 1 - ROUNDING
    if dram + missed * reused > plenty * state.dram_bandwidth or l2 > plenty * state.l2_bandwidth:  # noqa: SIM102
        if _share_memory(m, missed):
            state.limited = state.all_moved = 1
            for position in range(state.groups):
                _foresee(m, m.groups[position].order, now)


# Launching and time: as in ``engine``


@_compiled
def _mixed(number: int) -> Any:
    """A tag for a launch, multiples of which hardly ever add up to the same: the finaliser of
    SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014)."""
    tag = np.int64(number) * np.int64(-7046029254386353131)
    tag = (tag ^ (tag >> np.int64(30))) * np.int64(-4658895280553007687)
    tag = (tag ^ (tag >> np.int64(27))) * np.int64(-7723592293110705685)
    return tag ^ (tag >> np.int64(31))


@_compiled
def _prepare(m: Machine, begin: int, end: int) -> int:
    """Issue times of a Plan's jobs, what each follows and who follows it; how many are ready at
    once, which are the first in ``pending``."""
    state, made, count = m.state[0], 0, 0
    time = state.first
    for stream in range(len(m.jobs)):
        m.jobs[stream].last = NONE
    for number in range(begin, end):
        job = m.jobs[number]
        time += state.wait * job.afters
        for row in range(job.first_row, job.first_row + job.rows):
            time += state.kernel
            m.rows[row].issued = time
        job.issued = time
        if job.records:
            time += state.record
        job.before, m.jobs[job.stream].last = m.jobs[job.stream].last, number
        job.end, job.missing, job.first_link, job.seen = 0.0, 0, NONE, NONE
        for position in range(job.first_after - 1, job.first_after + job.afters):
            other = job.before if position < job.first_after else m.links[position].after + begin
            if other != NONE and m.jobs[other].seen != number:
                m.jobs[other].seen = number
                m.links[made].job, m.links[made].following = number, m.jobs[other].first_link
                m.jobs[other].first_link = made
                made += 1
                job.missing += 1
        if job.missing == 0:
            m.jobs[count].pending = number
            count += 1
    return count


@_compiled
def _arrive(m: Machine, time: float, job: int, position: int) -> None:
    ready = m.arrivals[m.state[0].arrivals]
    ready.time, ready.job, ready.position = time, job, position
    m.state[0].arrivals += 1


@_compiled
def _become_ready(m: Machine, begin: int, count: int) -> None:
    """For the first ``count`` in ``pending``, and for those that follow one without kernels."""
    while count:
        count -= 1
        number = m.jobs[count].pending
        job, state = m.jobs[number], m.state[0]
        follow, signal, start = state.follow, state.signal, job.issued
        if job.rows:
            start = m.rows[job.first_row].issued
        else:
            follow, signal = 0.0, max(0.0, signal - follow)
        if job.before != NONE:
            start = max(start, m.jobs[job.before].end + follow)
        for position in range(job.first_after, job.first_after + job.afters):
            start = max(start, m.jobs[m.links[position].after + begin].end + signal)
        if job.rows:
            _arrive(m, start, number, 0)
        else:
            count = _end_job(m, number, start, count)


@_compiled
def _end_job(m: Machine, number: int, time: float, count: int) -> int:
    """Those for which nothing is missing any more come after the first ``count`` in ``pending``."""
    m.jobs[number].end, link = time, m.jobs[number].first_link
    while link != NONE:
        other = m.links[link].job
        m.jobs[other].missing -= 1
        if m.jobs[other].missing == 0:
            m.jobs[count].pending = other
            count += 1
        link = m.links[link].following
    return count


@_compiled
def _first_arrival(m: Machine) -> int:
    """The earliest, of equal ones that of the first job."""
    first = 0
    for position in range(1, m.state[0].arrivals):
        ready, other = m.arrivals[position], m.arrivals[first]
        if ready.time < other.time or (ready.time == other.time and ready.job < other.job):
            first = position
    return first


@_compiled
def _admit(m: Machine, now: float) -> None:
    state = m.state[0]
    while state.arrivals:
        ready = m.arrivals[_first_arrival(m)]
        if ready.time > now:
            break
        launch = m.launches[state.launched]
        launch.job, launch.position = ready.job, ready.position
        launch.row = m.rows[m.jobs[ready.job].first_row + ready.position].kernel
        launch.unplaced, launch.running = m.kernels[launch.row].grid, 0
        state.launched += 1
        launch.tag = _mixed(state.launched)
        state.arrivals -= 1
        last = m.arrivals[state.arrivals]
        ready.time, ready.job, ready.position = last.time, last.job, last.position


@_compiled
def _near(m: Machine, arriving: float) -> int:
    """How many groups have a cohort that may end next; they are the first in ``near``."""
    latest, soonest, count = math.inf, math.inf, 0
    for position in range(m.state[0].groups):
        latest = min(latest, m.groups[m.groups[position].order].latest)
    if latest == math.inf:
        return 0
    latest *= 1 + CLOSE
    for position in range(m.state[0].groups):
        group = m.groups[m.groups[position].order]
        if group.soonest <= latest:
            m.groups[count].near = m.groups[position].order
            count += 1
            soonest = min(soonest, group.soonest)
    return 0 if arriving * (1 + CLOSE) < soonest else count


@_compiled
def _ending(m: Machine, near: int) -> float:
    """In how many seconds cohorts of the groups that are near end."""
    until, last = math.inf, 0.0
    for chosen in range(near):
        slot = m.groups[chosen].near
        for position in range(m.groups[slot].cohorts):
            cohort = m.cohorts[m.members[slot, position]]
            until = min(until, cohort.left / cohort.rate + TOGETHER / cohort.rate)
    for chosen in range(near):
        slot = m.groups[chosen].near
        for position in range(m.groups[slot].cohorts):
            cohort = m.cohorts[m.members[slot, position]]
            end = cohort.left / cohort.rate
            if last < end <= until:
                last = end
    return last if near else math.inf


@_compiled
def _move_on(m: Machine, step: float, near: int) -> int:
    """Let all cohorts run for ``step`` seconds; how many of the groups that are near ended, which
    are the first in ``ended``."""
    ended, number = 0, m.state[0].first_cohort
    while number != NONE:
        cohort = m.cohorts[number]
        cohort.left -= step * cohort.rate
        number = cohort.after
    for chosen in range(near):
        slot = m.groups[chosen].near
        for position in range(m.groups[slot].cohorts):
            if m.cohorts[m.members[slot, position]].left <= DONE:
                m.cohorts[ended].ended = m.members[slot, position]
                ended += 1
    return ended


@_compiled
def _end_cohort(m: Machine, gone: int, begin: int, now: float) -> None:
    launch = m.launches[m.cohorts[gone].launch]
    _remove(m, gone)
    if launch.running or launch.unplaced:
        return
    job, following = m.jobs[launch.job], launch.position + 1
    if following == job.rows:
        _become_ready(m, begin, _end_job(m, launch.job, now, 0))
    else:
        ready = max(m.rows[job.first_row + following].issued, now + m.state[0].follow)
        _arrive(m, ready, launch.job, following)


@_compiled
def _run(m: Machine, begin: int, end: int) -> float:
    """The latency of one Plan on the idle GPU."""
    state, now, queued = m.state[0], 0.0, 0  # the first launch of which blocks are not placed
    state.arrivals = state.launched = state.oldest = state.merges = 0
    state.cohorts = state.groups = state.cohort_slots = 0
    state.first_cohort = state.last_cohort = state.free_cohort = NONE
    state.limited = state.all_moved = state.changed = 0
    state.resident_changed = 1
    for slot in range(len(m.groups)):
        m.groups[slot].count = 0
    idle = m.groups[_new_group(m)]
    idle.count, idle.threads, idle.registers = state.sm_count, state.threads, state.registers
    idle.shared_memory, idle.blocks, idle.key = state.shared_memory, state.blocks, 0
    _become_ready(m, begin, _prepare(m, begin, end))
    while state.arrivals or queued < state.launched or state.cohorts:
        _admit(m, now)
        while queued < state.launched and _place(m, queued):
            queued += 1
        if state.changed:
            _set_rates(m, now)
            state.changed = 0
        arrival = m.arrivals[_first_arrival(m)].time if state.arrivals else math.inf
        near = _near(m, arrival)
        ending, arriving = _ending(m, near), arrival - now
        now, step = (arrival, arriving) if arriving <= ending else (now + ending, ending)
        ended = _move_on(m, step, near)
        for position in range(ended):
            _end_cohort(m, m.cohorts[position].ended, begin, now)
        if ended:
            _merge_equal(m)
        while state.oldest < queued and m.launches[state.oldest].running == 0:
            state.oldest += 1
    latest = 0.0
    for number in range(begin, end):
        latest = max(latest, m.jobs[number].end)
    return latest


@_kept
def latencies(m: Machine, plans: Any, found: Any) -> None:
    """The latency in seconds of each Plan into ``found``: the ``i``-th has the jobs from
    ``plans[i]`` to ``plans[i + 1]``."""
    for plan in range(len(found)):
        found[plan] = _run(m, plans[plan], plans[plan + 1])
