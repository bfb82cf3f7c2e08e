"""Makes labelled synthetic traces of accelerator memory, to judge the diagnosis on fresh cases.

    python benches/diagnosis/make_traces.py DIRECTORY [--seed 1] [--clean 200] [--per-scenario 30] [--wide]

--wide draws from wider ranges (10 ms to a minute between samples, up to 20,000 of them, 1 to 64
ranks, other shapes of steps, more ordinary behaviour at once) and makes combinations of two or
three anomalies.

Writes traces/, traces.json and labels.json for score_diagnosis.py. Needs numpy. One seed gives
the same traces every time. Ordinary behaviour that looks like trouble (evaluations, checkpoints,
collected garbage, emptied caches, restarts) is mixed in freely.
"""

import argparse
import gzip
import json
import os

import numpy as np

GIB, MIB = 2**30, 2**20


def lognormal(rng, low, high):
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


class Plan:
    """What is true of the whole run: time, steps, evaluations and what went wrong."""

    def __init__(self, rng, scenario, decoys, wide=False):
        self.rng, self.scenario, self.decoys = rng, scenario, decoys
        self.wide, self.form = wide, "ramp"
        multi = bool({"first_cause", "imbal"} & set(scenario.split("+"))) or rng.random() < 0.4
        self.world = int(rng.choice([2, 3, 4, 5, 8, 12, 16, 24, 48])) if multi else 1
        if scenario == "imbal" and self.world < 3:
            self.world = 4
        self.n = int(lognormal(rng, 75, 300) if self.world > 4 else lognormal(rng, 80, 2500))
        if scenario == "first_cause":
            self.n = int(lognormal(rng, 115, 500))
        self.dt = float(rng.choice([0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10]))
        if wide:
            self._widen_time()
        self.length = self.n * self.dt
        self.cpu = (
            self.world == 1
            and not {"frag", "drift"} & set(scenario.split("+"))
            and rng.random() < 0.08
        )
        self.total = float(rng.choice([12, 16, 24, 32, 48, 64, 80, 96, 141, 192])) * GIB
        self.total *= rng.uniform(0.985, 1.0)
        self.period = self.dt * (
            lognormal(rng, 0.15, 0.9) if rng.random() < 0.35 else lognormal(rng, 1.3, 30)
        )
        self.period = min(self.period, self.length / 25)
        self.load = rng.uniform(0.03, 0.16) * self.length
        peak = rng.uniform(0.82, 0.87) if "high_util" in decoys else rng.uniform(0.35, 0.75)
        if "eval_above" in decoys or "few_phase_evals" in decoys or "legit_peak" in decoys:
            peak = min(peak, 0.65)
        if (scenario != "clean" and scenario != "imbal") or scenario in (
            "leak",
            "drift",
            "oom",
            "step",
            "frag",
            "first_cause",
            "spike",
        ):
            peak = rng.uniform(0.3, 0.6)
        self.floor = peak * self.total * rng.uniform(0.15, 0.85)
        self.amp = peak * self.total - self.floor
        self.rest = rng.uniform(0.12, 0.25)  # part of a step spent on its floor
        self.shelf = rng.uniform(0.1, 0.45)  # optimizer's part of the amplitude
        self.batch = rng.uniform(0.2, 0.3) if "wide_batches" in decoys else rng.uniform(0.01, 0.1)
        steps = int(1.3 * self.length / self.period) + 3
        self.batches = np.clip(np.exp(rng.normal(0, self.batch, steps)), 0.5, 1.6)
        self.batches = np.minimum(self.batches / np.quantile(self.batches, 0.995), 1.0)
        lengths = self.period * np.exp(rng.normal(0, rng.choice([0.005, 0.03, 0.1]), steps + 2))
        self.boundaries = np.concatenate([[0.0], np.cumsum(lengths)])
        self.noise = rng.uniform(0.0003, 0.0016) * self.total
        if wide:
            self._widen_steps()
        self.dips = rng.choice([0, 0, 0.01])
        self.hid0 = rng.uniform(0.3, 1.1) * GIB
        self.hid_noise = rng.uniform(0.5, 8) * MIB
        self.headroom = rng.uniform(1.02, 1.06)
        self.phases = "phases" in decoys
        self.bumps = []  # (start, end, kind)
        self._bumps("evals", "evaluation", rng.uniform(0.08, 0.3), rng.uniform(0.01, 0.03))
        self._bumps("eval_above", "evaluation", rng.uniform(0.09, 0.27), rng.uniform(0.012, 0.05))
        self._bumps("ckpts", "checkpoint", rng.uniform(0.1, 0.3), rng.uniform(0.004, 0.015))
        if "few_phase_evals" in decoys:
            for at in sorted(rng.uniform(0.3, 0.9, int(rng.integers(1, 3)))):
                self.bumps.append((at * self.length, (at + 0.02) * self.length, "marked"))
        self.gc = (
            (
                rng.uniform(0.005, 0.025) * self.total,
                rng.uniform(0.1, 0.3) * self.length,
                rng.uniform(0, 1),
            )
            if "gc" in decoys
            else None
        )
        self.sat_a = (
            (rng.uniform(0.005, 0.03) * self.total, rng.uniform(0.02, 0.05) * self.length)
            if "sat_alloc" in decoys
            else None
        )
        self.sat_h = (
            (rng.uniform(0.003, 0.03) * self.total, rng.uniform(0.02, 0.05) * self.length)
            if "sat_gap" in decoys
            else None
        )
        self.down = (
            (rng.uniform(0.3, 0.9) * self.length, rng.uniform(0.1, 0.3) * self.floor)
            if "down_step" in decoys
            else None
        )
        self.legit = rng.uniform(0.15, 0.22) * self.length if "legit_peak" in decoys else None
        self.eval_level = rng.uniform(0.25, 0.8)

    def _widen_time(self):
        rng = self.rng
        if self.world > 1:
            self.world = int(rng.choice([2, 3, 4, 6, 7, 10, 16, 20, 32, 40, 64]))
            if "imbal" in self.scenario or "first_cause" in self.scenario:
                self.world = max(self.world, 4)
        most = 700 if self.world > 4 else 2500 if self.world > 1 else 5000
        self.n = int(lognormal(rng, 120 if "first_cause" in self.scenario else 90, most))
        if self.world == 1 and rng.random() < 0.04:
            self.n = int(rng.integers(8_000, 20_000))
        self.dt = round(lognormal(rng, 0.01, 60), 3)

    def _widen_steps(self):
        rng = self.rng
        self.form = str(rng.choice(["ramp", "ramp", "plateau", "decay", "twice"]))
        self.rest = rng.uniform(0.1, 0.4)
        self.shelf = rng.uniform(0.02, 0.6)
        self.noise = rng.uniform(0.0001, 0.002) * self.total

    def _bumps(self, decoy, kind, every, lasts):
        if decoy not in self.decoys:
            return
        level = "above" if decoy == "eval_above" else kind
        lasts = max(lasts * self.length, 3 * self.dt)
        every = max(every * self.length, 2.5 * lasts)
        at = self.load + every * self.rng.uniform(0.5, 1)
        while at < self.length:
            self.bumps.append((at, at + lasts, level))
            at += every * self.rng.uniform(0.97, 1.03)


def ramp(kind, t, onset, end, rng_seed):
    """0 before the onset, 1 at the end."""
    u = np.clip((t - onset) / (end - onset), 0, 1)
    rng = np.random.default_rng(rng_seed)
    if kind == "stairs":
        k = int(rng.integers(9, 30))
        return np.floor(u * k + 1e-9) / k
    if kind == "pauses":
        edges = np.sort(rng.uniform(0.1, 0.85, 2))
        hold = rng.uniform(0.06, 0.14)
        v = u.copy()
        for e in edges:
            v = np.where(u > e, np.maximum(v - hold, np.minimum(v, e)), v)
        return v / max(v.max(), 1e-9)
    if kind == "accelerating":
        return u ** rng.uniform(1.5, 2.6)
    return u


class Anomaly:
    def __init__(self, kind, channel, onset, size, shape=None, seed=0, length=0.0):
        self.kind, self.channel, self.onset, self.size = kind, channel, onset, size
        self.shape, self.seed, self.length = shape, seed, length

    def at(self, t, end):
        if self.kind == "grow":
            return self.size * ramp(self.shape, t, self.onset, end, self.seed)
        if self.kind == "jump":
            return np.where(t >= self.onset, self.size, 0.0)
        return np.zeros_like(t)


def waveform(p, phase):
    if p.form != "ramp":
        return np.where(phase >= 1 - p.rest, 0.0, other_waveform(p, phase / (1 - p.rest)))
    up = 0.4 * (1 - p.rest)
    down = 0.35 * (1 - p.rest)
    y = np.where(
        phase < up,
        phase / up,
        np.where(phase < up + down, 1 - (1 - p.shelf) * (phase - up) / down, p.shelf),
    )
    return np.where(phase >= 1 - p.rest, 0.0, y)


def other_waveform(p, part):
    """The memory of a step with another shape; `part` is the share of the step's active time."""
    if p.form == "plateau":
        return np.interp(part, [0, 0.2, 0.6, 0.8, 1], [0, 1, 1, p.shelf, p.shelf])
    if p.form == "decay":
        return np.where(part < 0.3, part / 0.3, np.exp(-3 * np.maximum(part - 0.3, 0)))
    return np.interp(part, [0, 0.25, 0.45, 0.7, 1], [0.05, 0.85, p.shelf, 1, p.shelf])


def rank_series(p, t, anomalies, factor, seed):
    """The true values of one rank at the times t: allocated memory, the peak between samples that
    the cache must hold, and hidden memory."""
    rng = np.random.default_rng(seed)
    n = len(t)
    since = np.maximum(t - p.load, 0)
    step = np.maximum(np.searchsorted(p.boundaries, since, side="right") - 1, 0)
    step = np.minimum(step, len(p.boundaries) - 2)
    phase = np.clip((since - p.boundaries[step]) / np.diff(p.boundaries)[step], 0, 0.9999)
    batch = p.batches[np.minimum(step, len(p.batches) - 1)]
    batch = np.minimum(batch * np.exp(rng.normal(0, 0.01, n)), 1.02)
    floor = np.full(n, p.floor)
    for a in anomalies:
        if a.channel == "alloc":
            floor = floor + a.at(t, p.length)
    if p.gc:
        amp, every, at = p.gc
        floor = floor + amp * ((since / every + at) % 1.0)
    if p.sat_a:
        floor = floor + p.sat_a[0] * (1 - np.exp(-since / p.sat_a[1]))
    if p.down:
        floor = floor - np.where(t >= p.down[0], p.down[1], 0)
    y = waveform(p, phase) * p.amp * batch
    peak_between = p.amp * batch
    for start, end, kind in p.bumps:
        inside = (t >= start) & (t < end)
        level = {
            "evaluation": p.eval_level * p.amp,
            "checkpoint": min(0.03 * p.total, 0.3 * p.amp),
            "above": 1.0 * p.amp + 0.06 * p.total,
            "marked": p.amp + 0.05 * p.total,
        }[kind]
        y = np.where(inside, level * (1 + rng.normal(0, 0.01, n)), y)
        peak_between = np.where(inside, np.maximum(level, 0), peak_between)
    alloc = (floor + y) * factor + np.abs(rng.normal(0, p.noise, n))
    alloc -= (rng.random(n) < p.dips) * rng.uniform(0.002, 0.006, n) * p.total
    need = (floor + np.maximum(peak_between, y)) * factor
    if p.legit is not None:
        hit = (t >= p.legit) & (t < p.legit + max(2.2 * p.dt, p.period))
        boost = p.floor + p.amp * 1.15 + 0.03 * p.total
        alloc = np.where(hit, np.maximum(alloc, boost), alloc)
        need = np.where(hit, np.maximum(need, boost), need)
    loading = t < p.load
    ramp_up = np.clip(t / p.load, 0, 1) ** p_load_power(p) * p.floor * 0.75 * factor
    alloc = np.where(loading, ramp_up, alloc)
    need = np.where(loading, ramp_up, need)
    hidden = p.hid0 + np.where(t > 0.7 * p.load, 60 * MIB, 0)
    hidden = hidden + np.where(t > p.late_lib * p.length, 30 * MIB, 0)
    if p.sat_h:
        hidden = hidden + p.sat_h[0] * (1 - np.exp(-since / p.sat_h[1]))
    for a in anomalies:
        if a.channel == "hidden":
            hidden = hidden + a.at(t, p.length)
        if a.kind == "spike":
            hit = (t >= a.onset) & (t < a.onset + a.length)
            if a.channel == "hidden":
                hidden = hidden + np.where(hit, a.size * (1 + rng.normal(0, 0.01, n)), 0)
            else:
                trend = floor - p.floor
                level = (p.floor + p.amp + trend) * factor + a.size
                alloc = np.where(hit, level + rng.normal(0, 0.1 * p.noise, n), alloc)
                need = np.where(hit, np.maximum(need, level), need)
    hidden = (
        np.round(
            (hidden + np.abs(rng.normal(0, p.hid_noise, n)) * (rng.random(n) < 0.4)) / (2 * MIB)
        )
        * 2
        * MIB
    )
    return alloc, need, hidden


def p_load_power(p):
    return 1.0 + (int(p.length * 7) % 3) * 0.5


def climbs_of(frag, rng):
    """When the cache climbs, and by which share each time."""
    onset, end, _, climbs = frag
    at = np.sort(np.append(rng.uniform(onset, end, climbs - 1), onset))
    return at, rng.dirichlet(np.full(climbs, 3.0))


def tenth_of_climbs(frag, seed):
    at, share = climbs_of(frag, np.random.default_rng(seed + 1))
    return float(at[np.argmax(np.cumsum(share) >= 0.1)])


def reserved_of(p, alloc, need, t, frag, seed):
    rng = np.random.default_rng(seed)
    block = rng.choice([2, 20, 64, 256]) * MIB
    held = np.maximum.accumulate(np.maximum(need * p.headroom, alloc))
    if "warm_peak" in p.decoys:
        held = np.where(t > 0.12 * p.length, np.maximum(held, held.max() * 1.25), held)
    if "empty_cache" in p.decoys:
        for at in rng.uniform(0.15, 0.9, 2):
            k = np.searchsorted(t, at * p.length)
            held[k:] = np.maximum.accumulate(np.maximum(need[k:] * p.headroom, alloc[k:]))
    if frag is not None:
        at, share = climbs_of(frag, np.random.default_rng(seed + 1) if p.wide else rng)
        held = held + sum(np.where(t >= a, s * frag[2], 0) for a, s in zip(at, share))
    held = np.ceil(held / block) * block
    return np.minimum(held, 0.985 * p.total - 0.0) if frag is not None else held


def make(trace_id, scenario, seed, out, wide=False):
    rng = np.random.default_rng(seed)
    pool = [
        "evals",
        "ckpts",
        "phases",
        "sat_alloc",
        "sat_gap",
        "legit_peak",
        "eval_above",
        "gc",
        "wide_batches",
        "empty_cache",
        "warm_peak",
        "high_util",
        "down_step",
        "few_phase_evals",
        "restart",
    ]
    k = int(rng.integers(0, 7 if wide else 5))
    decoys = set(rng.choice(pool, k, replace=False)) if k else set()
    if scenario != "clean":
        decoys -= {"high_util", "restart", "warm_peak", "empty_cache"}
        kinds = set(scenario.split("+")) if wide else {scenario}
        if {"leak", "step", "oom", "first_cause"} & kinds:
            decoys -= {"down_step"}
        if rng.random() < 0.7:
            decoys -= {"gc"}
    if "first_cause" in scenario:
        decoys -= {"gc"}
    if "frag" in scenario:
        decoys -= {"eval_above", "few_phase_evals"}
    if "restart" in decoys:
        decoys -= {"eval_above", "few_phase_evals", "legit_peak", "warm_peak", "phases"}
    if "few_phase_evals" in decoys:
        decoys |= {"phases"}
    p = Plan(rng, scenario, decoys, wide)
    p.late_lib = rng.choice([0.05, 0.2, 0.35])
    if p.world > 1 or p.length < 60 * p.dt * 2.5:
        decoys.discard("restart")
    L, T = p.length, p.total
    ranks = list(range(p.world))
    anomalies = {r: [] for r in ranks}
    frag, factor = {}, {r: 1 + float(np.clip(rng.normal(0, 0.012), -0.025, 0.025)) for r in ranks}
    findings, optional = [], []
    horizon = round(lognormal(rng, 0.3, 3) * L / 3600, 5)
    shape = str(rng.choice(["even", "stairs", "pauses", "accelerating"]))

    def label(kind, rank, onset, magnitude, last=None):
        findings.append(
            {"kind": kind, "rank": rank, "onset": onset, "magnitude": magnitude, "last": last}
        )

    def tenth(a):
        grid = np.linspace(a.onset, L, 2001)
        v = ramp(a.shape, grid, a.onset, L, a.seed)
        return float(grid[np.argmax(v >= 0.1)])

    big_gc = p.gc[0] if p.gc else 0.0
    victim = int(rng.integers(p.world))
    everywhere = p.world > 1 and rng.random() < 0.25 and scenario in ("leak", "drift", "step")
    targets = ranks if everywhere else [victim]
    name = None if (everywhere or p.world == 1) else victim
    parts = scenario.split("+")
    used_channels = set()
    all_rates = all_grown = 0.0
    for part in parts:
        if part in ("leak", "drift", "oom"):
            chan = {
                "leak": "alloc",
                "drift": "hidden",
                "oom": str(rng.choice(["alloc", "alloc", "hidden"])),
            }[part]
            if p.cpu:
                chan = "alloc"
            used_channels.add(chan)
            onset = rng.uniform(p.load / L + 0.01, 0.58) * L
            size = lognormal(rng, 0.0055, 0.15) * T
            if chan == "alloc":
                size = max(size, 2.5 * big_gc)
            size = min(size, 0.9 * T - p.headroom * (p.floor + p.amp) - p.hid0)
            s = int(rng.integers(1 << 30))
            for r in targets:
                anomalies[r].append(Anomaly("grow", chan, onset, size, shape, s))
            a = anomalies[targets[0]][-1]
            label(
                "allocator_leak" if chan == "alloc" else "hidden_drift", name, onset, size, tenth(a)
            )
            grid = np.linspace(L * 0.9, L, 400)
            late = ramp(shape, grid, onset, L, s)
            if shape == "accelerating":
                rate = (late[-1] - late[-40]) / (grid[-1] - grid[-40]) * size
            else:
                rate = size / (L - onset)
            need = p.floor + p.amp + p.hid0 + 90 * MIB + size
            need += (p.sat_a[0] if p.sat_a else 0) + (p.sat_h[0] if p.sat_h else 0)
            all_rates += rate
            all_grown += size
            left = (T - need - (all_grown - size)) / all_rates / 3600
            if part == "oom":
                horizon = round(left * rng.uniform(2.1, 12), 6)
                label("oom_risk", name, None, left)
            else:
                horizon = round(left / rng.uniform(2.1, 12), 6)
        elif part == "step":
            chan = "alloc" if p.cpu or rng.random() < 0.55 else "hidden"
            if chan in used_channels:
                chan = "hidden" if chan == "alloc" else "alloc"
            onset = rng.uniform(0.3, 0.82 if wide else 0.72) * L
            size = lognormal(rng, 0.016, 0.15) * T
            size = max(size, 1.6 * big_gc) if chan == "alloc" else size
            for r in targets:
                anomalies[r].append(Anomaly("jump", chan, onset, size))
            label("step_change", name, onset, size)
        elif part == "spike":
            count = int(rng.choice([1, 1, 2, 3]))
            chan = "alloc" if p.cpu or rng.random() < 0.5 else "hidden"
            at, last = [], 0.3
            for _ in range(count):
                if last > 0.88:
                    break
                at.append(rng.uniform(last, min(0.92, last + 0.35)))
                last = at[-1] + 0.08
            for a in at:
                samples = rng.uniform(
                    2.4, max(2.6, min(9, 0.03 * p.n) if p.n < 300 else 0.025 * p.n)
                )
                size = lognormal(rng, 0.024, 0.15) * T
                if chan == "alloc":
                    over = max(
                        [0]
                        + [0.06 * T for b in p.bumps if b[2] == "above"]
                        + [0.05 * T for b in p.bumps if b[2] == "marked"]
                    )
                    size += over
                anomalies[victim].append(Anomaly("spike", chan, a * L, size, length=samples * p.dt))
                label("transient_spike", None if p.world == 1 else victim, a * L, size)
        elif part == "frag":
            onset, end = rng.uniform(0.28, 0.5) * L, rng.uniform(0.65, 0.95) * L
            size = rng.uniform(0.2, 0.7) * (p.floor + p.amp)
            if wide:  # other anomalies raise the highest allocation too
                others = {"leak": 0.15, "oom": 0.15, "step": 0.15, "spike": 0.21}
                highest = p.floor + p.amp + T * sum(others.get(part, 0) for part in parts)
                room = 0.93 * T - p.headroom * highest - p.hid0
                size = max(0.19 * highest, min(size * highest / (p.floor + p.amp), room))
            frag[victim] = (onset, end, size, int(rng.integers(5, 16)))
            label(
                "fragmentation",
                None if p.world == 1 else victim,
                onset,
                size,
                tenth_of_climbs(frag[victim], seed * 1000 + victim + 500) if wide else None,
            )
        elif part == "imbal":
            share = lognormal(rng, 0.135, 0.6)
            factor[victim] *= 1 + share
            label("rank_imbalance", victim, None, share)
        elif part == "first_cause":
            what = str(rng.choice(["leak", "leak", "drift", "step"]))
            chan = (
                "hidden" if what == "drift" or (what == "step" and rng.random() < 0.5) else "alloc"
            )
            lead = max(0.03, 5.5 / p.n) * rng.uniform(1, 2.5)
            onset = rng.uniform(0.27, 0.45)
            size = lognormal(rng, 0.03, 0.2) * T
            s = int(rng.integers(1 << 30))
            first_tenth = None
            lasts = []
            second = 1.0
            for r in ranks:
                start = onset if r == victim else onset + lead + rng.uniform(0, 0.05)
                if r != victim:
                    second = min(second, start)
                scale = (1 - start) / (1 - onset) if what != "step" else 1.0
                a = Anomaly(
                    "jump" if what == "step" else "grow", chan, start * L, size * scale, shape, s
                )
                anomalies[r].append(a)
                lasts.append(a.onset if what == "step" else tenth(a))
                if r == victim:
                    first_tenth = lasts[-1]
            kind = {"leak": "allocator_leak", "drift": "hidden_drift", "step": "step_change"}[what]
            label(kind, None, onset * L, size, max(lasts))
            label(
                "rank_first_cause",
                victim,
                onset * L,
                (second - onset) * L,
                first_tenth if what != "step" else None,
            )
            if what != "step":
                rate = size / (L - onset * L) * (2.6 if shape == "accelerating" else 1)
                left = (T - (p.floor + p.amp + p.hid0 + 90 * MIB + size)) / rate / 3600
                horizon = max(round(left / rng.uniform(2.5, 12), 6), 1e-6)
    if name is not None and scenario != "clean" and "imbal" not in parts:
        optional.append({"kind": "rank_imbalance", "rank": victim})

    unknown = {c: rng.random() < q for c, q in (("total", 0.2), ("free", 0.2), ("active", 0.4))}
    if any(f["kind"] == "oom_risk" for f in findings) and unknown["total"]:
        unknown["free"] = False
    if unknown["total"] and unknown["free"] and rng.random() < 0.5:
        unknown["free"] = False
    host_size = int(rng.choice([4, 8]))
    skew = {h: rng.uniform(-0.02, 0.02) * L if p.world > 1 else 0.0 for h in range(64)}
    start_ns = 1_780_000_000_000_000_000 + int(seed % 9_000_000) * 1_000_000_000
    missing = {r for r in ranks if p.world > 3 and r != victim and rng.random() < 0.04}
    jitter = rng.uniform(0.005, 0.05)
    miss = rng.choice([0, 0.01, 0.04])
    per_rank, first_ns, last_ns = {}, None, None
    for r in ranks:
        if r in missing:
            continue
        rr = np.random.default_rng(seed * 1000 + r)
        t = np.arange(p.n + 1) * p.dt + rr.normal(0, jitter * p.dt, p.n + 1)
        t = np.sort(np.maximum(t, 0))
        alloc, need, hidden = rank_series(p, t, anomalies[r], factor[r], seed * 1000 + r)
        held = reserved_of(p, alloc, need, t, frag.get(r), seed * 1000 + r + 500)
        held = np.maximum(held, np.ceil(alloc / (2 * MIB)) * 2 * MIB)
        session = np.zeros(len(t), int)
        if "restart" in decoys:
            k = len(t) // 2
            t2 = t[k:] - t[k]
            a2, n2, h2 = rank_series(p, t2, [], factor[r], seed * 1000 + r + 7)
            alloc[k:], hidden[k:] = a2, h2
            held[k:] = np.maximum(reserved_of(p, a2, n2, t2, None, 5), a2)
            session[k:] = 1
        if p.cpu:
            held, hidden = alloc, np.zeros_like(alloc)
        keep = rr.random(len(t)) >= miss
        if rr.random() < 0.2:
            at = int(rr.uniform(0.3, 0.9) * len(t))
            keep[at : at + max(2, len(t) // 60)] = False
        if p.world > 2 and rr.random() < 0.12 and not ("spike" in parts and r == victim):
            keep &= t >= rr.uniform(0.02, 0.18) * L
        offset = skew[r // host_size]
        ns = start_ns + np.round((t + offset) * 1e9).astype(np.int64)
        per_rank[r] = (ns[keep], alloc[keep], held[keep], hidden[keep], session[keep], offset)
        lo, hi = int(ns[keep][0]), int(ns[keep][-1])
        first_ns = lo if first_ns is None else min(first_ns, lo)
        last_ns = hi if last_ns is None else max(last_ns, hi)

    if wide and not is_sound(p, per_rank, anomalies, victim):
        return None
    events = []
    for r, (ns, alloc, held, hidden, session, offset) in per_rank.items():

        def base(at, kind, sess):
            return {
                "schema_version": 3,
                "session_id": f"{trace_id}-r{r}-s{sess}",
                "timestamp_ns": int(at),
                "event_type": kind,
                "rank": r,
                "host": f"node{r // host_size}",
                "collector": "stormlog.cuda_tracker",
                "pid": 1000 + r,
                "job_id": "job",
                "local_rank": r % 8,
                "context": None,
                "allocator_change_bytes": 0,
                "allocator_allocated_bytes": 0,
                "allocator_reserved_bytes": 0,
                "allocator_active_bytes": None,
                "allocator_inactive_bytes": None,
                "device_used_bytes": 0,
                "device_free_bytes": None,
                "device_total_bytes": None,
                "world_size": p.world,
                "device_id": -1 if p.cpu else r % 8,
                "sampling_interval_ms": int(p.dt * 1000),
                "metadata": {"backend": "cuda"},
            }

        for i in range(len(ns)):
            e = base(ns[i], "sample", session[i])
            a, h = int(alloc[i]), int(held[i])
            used = min(h + int(hidden[i]), int(T))
            e.update(
                {
                    "allocator_allocated_bytes": a,
                    "allocator_reserved_bytes": h,
                    "device_used_bytes": used,
                    "device_free_bytes": None if unknown["free"] else int(T) - used,
                    "device_total_bytes": None if unknown["total"] else int(T),
                }
            )
            events.append(e)
        if p.phases and "restart" not in decoys:
            for s, e_, kind in p.bumps:
                word = "checkpoint" if kind == "checkpoint" else "evaluation"
                for at, what in ((s, "enter"), (e_, "exit")):
                    e = base(start_ns + int((at + offset) * 1e9), f"phase_{what}", 0)
                    e["metadata"]["phase_scope"] = {"name": word, "action": what}
                    events.append(e)
    one_by_one = wide and rng.random() < 0.3
    events.sort(key=lambda e: (e["rank"] if one_by_one else 0, e["timestamp_ns"]))
    for f in findings:
        rank = (
            f["rank"]
            if f["rank"] is not None
            else (victim if "first_cause" in parts else min(per_rank))
        )
        shift = start_ns + per_rank[rank][5] * 1e9 if rank in per_rank else start_ns
        onset, last = f.pop("onset"), f.pop("last")
        f["onset_ns"] = None if onset is None else int(shift + onset * 1e9)
        if onset is not None:
            lo = [x[5] for x in per_rank.values()] if f["rank"] is None else [per_rank[rank][5]]
            hi = last if last is not None else onset
            f["onset_ns"] = int(start_ns + (onset + min(lo)) * 1e9)
            f["onset_last_ns"] = int(start_ns + (hi + max(lo)) * 1e9)
    path = f"traces/{trace_id}.jsonl.gz"
    with gzip.open(os.path.join(out, path), "wt", compresslevel=1) as fh:
        for e in events:
            fh.write(json.dumps(e, separators=(",", ":")) + "\n")
    hard = (
        "hard"
        if any(
            f["kind"] not in ("rank_imbalance", "oom_risk", "rank_first_cause")
            and f["magnitude"] < 0.02 * T
            for f in findings
        )
        else "easy"
    )
    info = {
        "findings": findings,
        "optional": optional,
        "difficulty": hard,
        "clean": not findings,
        "scenario": scenario,
        "decoys": sorted(decoys),
        "start_ns": first_ns,
        "end_ns": last_ns,
        "sample_interval_ns": int(p.dt * 1e9),
        "world_size": p.world,
        "shape": shape,
    }
    return info, {"file": path, "oom_horizon_hours": horizon}


def is_sound(p, per_rank, anomalies, victim):
    """Whether the device holds everything, and every spike was sampled twice outside phases."""
    for _, _, held, hidden, _, _ in per_rank.values():
        if (held + hidden).max() >= 0.984 * p.total and "frag" in p.scenario:
            return False
        if (held + hidden).max() > p.total and p.scenario != "clean":
            return False
    t = (per_rank[victim][0] - per_rank[victim][0][0]) / 1e9
    for a in anomalies[victim]:
        if a.kind != "spike":
            continue
        start = a.onset - (p.length - t[-1])
        seen = (t >= start) & (t < start + a.length)
        near = 3 * p.dt
        marked = [b for b in p.bumps if p.phases or a.channel == "alloc"]
        if seen.sum() < 2 or any(
            b[0] - near < a.onset + a.length and a.onset < b[1] + near for b in marked
        ):
            return False
    return True


COMBINATIONS = (
    "leak+spike",
    "step+drift",
    "leak+step",
    "frag+spike",
    "drift+spike",
    "leak+frag",
    "leak+drift",
)
MORE_COMBINATIONS = (
    "step+spike",
    "step+frag",
    "drift+frag",
    "oom+spike",
    "first_cause+spike",
    "imbal+spike",
    "leak+drift+spike",
    "step+drift+spike",
    "drift+frag+spike",
    "leak+step+spike",
)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("out")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--clean", type=int, default=200)
    ap.add_argument("--per-scenario", type=int, default=30)
    ap.add_argument("--wide", action="store_true")
    a = ap.parse_args()
    os.makedirs(os.path.join(a.out, "traces"), exist_ok=True)
    plan = ["clean"] * a.clean
    for s in ("leak", "drift", "frag", "spike", "step", "oom", "first_cause", "imbal"):
        plan += [s] * a.per_scenario
    for s in COMBINATIONS + (MORE_COMBINATIONS if a.wide else ()):
        plan += [s] * max(1, a.per_scenario // 6)
    labels, traces = {}, {}
    for i, scenario in enumerate(plan):
        tid = f"s{i:04d}"
        made, turn = None, 0
        while made is None:
            made = make(tid, scenario, a.seed * 100_000 + i + 10_000_000 * turn, a.out, a.wide)
            turn += 1
        labels[tid], traces[tid] = made
    with open(os.path.join(a.out, "labels.json"), "w") as fh:
        json.dump({"traces": labels}, fh)
    with open(os.path.join(a.out, "traces.json"), "w") as fh:
        json.dump(traces, fh)


if __name__ == "__main__":
    main()
