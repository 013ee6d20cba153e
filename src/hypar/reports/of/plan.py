"""The documents of a plan, of its score, and of an explanation: what its choices cost less than any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note, Section, Table
from hypar.errors import InputError
from hypar.network.training import AS_USUAL
from hypar.plan.plan import Plan
from hypar.plan.records import Score, origin_of
from hypar.planning.resolved import cost_convention
from hypar.reports import steps, words
from hypar.reports.text import faster_than
from hypar.sharding.dims import BATCH, EXPERT, TENSOR
from hypar.sharding.space import dims_named
from hypar.sharding.tree import Split
from hypar.studies.remarks import baseline_scores, on_this_machine, proven, remarks
from hypar.units import amount, format_seconds

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.studies.alternatives import Alternative, Explanation, LayerExplanation
    from hypar.studies.step import StepRows


FEW, SEEN = 12, {"anew", "stays", "more", "said", "bar"}
"""The most alternatives in a table beside the plan's own, and layers with a table; and what readers alone have of a row."""

PARALLEL = {"dp": BATCH, "tp": TENSOR, "ep": EXPERT, "cp": "sequence"}
"""What each kind of parallelism inside a stage divides."""

_ANEW = Note("anew", "what the level costs more with this choice, all other layers planned anew for it")
_STAYS = Note("stays", "what it costs more, all other layers as planned")


def plugin(made: Plan | Score | Explanation) -> Document:
    """Return the document of a plan, of a score or of an explanation."""
    if not isinstance(made, Score):
        return plan_document(made) if isinstance(made, Plan) else explanation_document(made)
    from hypar.planning import sources  # noqa: PLC0415 (only for a score)

    rows = None
    with suppress(InputError):
        if plan := origin_of(made).plan:
            machine, graph = sources.machine_of(made), sources.network_of(made)
            rows = _step_rows(plan, hardware=machine, model=graph, optimizer=made.optimizer)
    return score_document(made, rows)


def _step_rows(plan: Plan, **given: Any) -> StepRows:
    """Return the rows of a step, whose modules a plan without a machine does not need."""
    from hypar.planning.replay import run_plan  # noqa: PLC0415 (as said)
    from hypar.studies.step import StepRows  # noqa: PLC0415 (as said)

    return StepRows(run_plan(plan, **given))


def plan_document(plan: Plan, *, full: bool = False, costs: bool = False) -> Document:
    """Return the document of a plan, of one that knows its network with the remarks on it, and its machine with its step.

    ``full`` gives a large network a row for each layer too, ``costs`` more of its step. Without pins it is compared with dp.
    """
    score, cells, most = plan.score, words.cells_of(plan), len(plan.layers) if full else words.MOST_ROWS
    made, scores = origin_of(plan), baseline_scores(plan)
    said = remarks(plan, scores) if made.network else []
    rows = _step_rows(plan) if made.network and made.machine else None
    base = None if plan.pins or plan.strategy == "dp" else scores.get("dp")
    cost = f"{plan.model.name}: {plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step"
    beyond = ", in more shards than elements" * any(note.label == "shards" for note in said)
    return Document(
        title=(cost if score is None else steps.headed(plan.model.name, score, base, plan.zero)) + beyond,
        about=f"strategy {plan.strategy}, {words.asked(plan)}",
        tone=words.tone_of(score),
        parts=(
            words.data([*_choice_rows(plan)]),
            layers_table(plan, rows, most=most, costs=costs),
            *([steps.step_timeline(rows, most=most)] if rows else []),
            *steps.groups_table(score, plan.stages, rows if full or costs else None),
            *(steps.chunks_table(rows) if rows else []),
        ),
        notes=(
            *(_parallel_note(plan, made.network) if made.network else ()),
            *_training_notes(plan),
            _cost_note(plan),
            *([] if score is None else steps.step_notes(plan, score, rows)),
            *_request_notes(plan),
            *(Note("" if at else "search", line) for at, line in enumerate(plan.claim.splitlines())),
            *said,
            *words.choice_notes(cells(split, layer) for split in plan.splits for layer in plan.layers),
        ),
    )


def score_document(score: Score, rows: StepRows | None = None) -> Document:
    """Return the document of a score, with its step if that is known."""
    ran = rows.ran if rows else None
    plan = ran.plan if ran else None
    return Document(
        title=steps.headed(plan.model.name if plan else "", score),
        about=f"strategy {plan.strategy}, {words.asked(plan)}" if plan else "",
        tone=words.tone_of(score),
        parts=(
            words.data([*_item_rows(score)]),
            *steps.groups_table(score, ran.stages if ran else None),
            *([steps.step_timeline(rows)] if rows else []),
        ),
        notes=(
            *steps.step_notes(plan, score, rows),
            *(on_this_machine(ran.plan, ran.machine) if ran else ()),
        ),
    )


def _item_rows(score: Score) -> Iterator[dict[str, Any]]:
    quantities = {
        ("time", "s"): (score.time_s, score.time),
        ("critical path", "s"): (score.time_s, score.critical),
        ("busy", "s"): (score.time_s, score.busy),
        ("energy", "J"): (score.energy_j, score.energy or {}),
        ("communication", "B"): (score.communication_bytes, score.communication),
        ("memory", "B"): (score.memory_bytes, score.memory),
    }
    for (quantity, unit), (total, items) in quantities.items():
        for item, value in {"total": total, **items}.items():
            yield {"quantity": quantity, "item": item, "value": value, "unit": unit}


def _choice_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer and level, for data frames; one for each layer if no level cuts it."""
    stages, cells = words.stage_numbers(plan), words.cells_of(plan)
    for layer in plan.layers:
        first: dict[str, Any] = {"layer": layer, **({"stage": stages[layer]} if stages else {})}
        own = [split for split in plan.splits if layer in split.choices]
        for split in own:
            yield {
                **first, **({"group": split.group} if plan.heterogeneous else {}),
                "level": f"H{split.level + 1}", "ways": split.ways, "dim": split.dim(layer) or "whole",
                "choice": cells(split, layer).text, "cost": split.costs[layer], "unit": plan.cost.unit,
            }  # fmt: skip
        if not own:
            yield first


def layers_table(plan: Plan, rows: StepRows | None, *, most: int, costs: bool) -> Table:
    """Return a row for each layer or part, and their sum: of identical devices what it takes of a step, or else the cost.

    Seconds on the critical path add up to the step; with stages they are a layer's own. With ``costs`` rows have energies too.
    """
    parts, levels, cells = words.parts_of(plan, most=most), _levels(plan), words.cells_of(plan)
    folded, stages = len(parts) < len(plan.layers), words.stage_numbers(plan)
    rows = rows if costs or not (plan.heterogeneous or plan.staged) else None
    devices = words.devices_of(plan)
    takes = words.layers_cost(plan) if rows is None else partial(steps.spent, rows)

    def row(part: words.Part) -> dict[str, Any]:
        first = part.layers[0]
        choices = {column.key: cells(split, first) for column, split in levels}
        some = sorted({stages[layer] for layer in part.layers if layer in stages})
        stage = some[0] if len(some) == 1 else "-".join(map(str, some[:: len(some) - 1 or 1])) or None
        own = {"layer": part.title, "stage": stage, "devices": devices.get(first)}
        return own | choices | takes(part.layers)

    columns = (
        Column("layer", "layers" if folded else "layer"), Column("stage", unit="whole"),
        *(column for column, _ in levels),
        Column("devices", unit="whole"), Column("received", unit="bytes"),
        Column("energy", unit="joules", show=costs), Column("time", unit="seconds"),
        Column("cost", plan.cost.name, plan.cost.unit), Column("bar", "computes, receives" * (rows is not None), "bar"),
    )  # fmt: skip
    total = {"layer": f"all {len(plan.layers)} layers" if folded else "all layers", **takes(plan.layers)}
    apart = {"bar", "time"} if stages else {"bar"}
    return Table(columns, [*map(row, parts)], {key: own for key, own in total.items() if key not in apart})


def _levels(plan: Plan) -> list[tuple[Column, Split]]:
    """Return a column, as ``H1-H4``, of each group's successive levels at which every layer has one choice, and the first one."""
    cell, found = words.cells_of(plan), []
    choices = ((split, [cell(split, layer) for layer in plan.layers]) for split in plan.splits)
    for (group, _), run in groupby(choices, lambda pair: (pair[0].group, pair[1])):
        own = [split for split, _ in run]
        found.append((Column(key=words.levels_of(group, [split.level for split in own])), own[0]))
    return found


def _training_notes(plan: Plan) -> Iterator[Note]:
    stages, own = plan.stages, plan.training
    if stages is not None and stages.pipelined:
        parts = f" in {stages.parts} parts" if stages.parts_of_each else ""
        each = f"{parts}, {_count(stages.microbatches, 'microbatch', 'es')} a mini-batch"
        by = f"{_count(len(stages.stages), 'stage')} by {stages.schedule}{each}"
        yield Note("stages", f"{by}; the costliest is busy {format_seconds(stages.bottleneck_s)} a step")
    parts = f"{own.microbatches} microbatches a mini-batch" if own.microbatches > 1 else ""
    shares = f"ZeRO {own.zero}" if own.zero else ""
    again = f"recompute {own.recompute}" if own.recompute != AS_USUAL.recompute else ""
    if said := ", ".join(filter(None, (parts, own.precision, shares, again))):
        yield Note("training", said)


def _parallel_note(plan: Plan, graph: LayerGraph) -> Iterator[Note]:
    """Yield the degrees in which most multiplications of a network over tokens are divided evenly, in the words of practice."""
    if plan.uneven or not graph.over_tokens:
        return
    done = Counter[tuple[tuple[str, int], ...]]()
    for layer in graph.nodes(plan.graph).layers:
        degrees = {"pp": len(plan.stages.stages) if plan.stages else 1, **dict.fromkeys(PARALLEL, 1)}
        for split in plan.splits:
            for dim, degree in split.choice(layer.name).degrees if layer.name in split.choices else ():
                named = (word for word, own in PARALLEL.items() if dim in dims_named(layer, own))
                word = next(named, dim)
                degrees[word] = degrees.get(word, 1) * degree
        done[tuple([own for own in degrees.items() if own[1] > 1])] += int(layer.nest.macs)
    (most, own), *_ = done.most_common(1)
    part = "" if own == done.total() else f" in {own / done.total():.0%} of the multiplications"
    if most:
        yield Note("parallel", ", ".join(f"{word} {degree}" for word, degree in most) + part)


def _count(number: int, name: str, plural: str = "s") -> str:
    return f"{number} {name}{plural * (number != 1)}"


def _cost_note(plan: Plan) -> Note:
    """Return the cost that was minimised, level by level; a detail beside a score."""
    unit, each = plan.cost.unit, ((words.levels_of(own.group, [own.level]), own.cost) for own in plan.splits)
    levels = ", ".join(f"{level} {amount(cost, unit)}" for level, cost in each)
    total = f"{plan.cost.name} {amount(plan.cost.value, unit)} a step"
    counted = ", summed over all stages" * plan.staged + f", by the convention {cost_convention(plan)!r}"
    return Note("cost", total + counted + f": {levels}" * bool(levels), plan.score is not None)


def _request_notes(plan: Plan) -> Iterator[Note]:
    """Yield what was asked for beyond a strategy and an array, and what came of it."""
    yield from (Note("shares", _shares(split)) for split in plan.splits if split.sides is not None)
    weight = plan.cost.parameters.get("inter_weight", 1)
    if weight != 1:
        yield Note("weight", f"communication between layers counts {weight} times")
    if plan.pins:
        # The ways of training in stages are searched with choices that were proposed.
        yield Note("pins", ", ".join(plan.pins), plan.strategy == "fit" and plan.staged)
    if plan.baselines is not None:
        times = (f"{name} {format_seconds(seconds)}" for name, seconds in plan.baselines.step_s.items())
        yield Note("timed", f"{', '.join(times)} a step; taken: {plan.baselines.taken}")
    if plan.refined is not None:
        gain = faster_than("before", plan.refined.before_s, plan.refined.after_s)
        changed = _count(plan.refined.changed, "choice")
        yield Note("refined", f"{changed} by the time of the whole step: {gain}")
    if plan.chunks is not None:
        own, alone = plan.score.time_s if plan.score else 0.0, plan.chunks.alone_s
        gain = f"; {faster_than('with each layer by itself', alone, own)}" if own and 0 < alone != own else ""
        yield Note("chunks", f"gradients in {plan.chunks.words}{gain}")


def _shares(split: Split) -> str:
    pairs = zip(split.sides or (), split.shares, strict=True)
    named = ", ".join(f"{side.group} {format(share, '.4g') if share else 'idle'}" for side, share in pairs)
    own = len(split.layer_shares or ())
    apart = f"; {_count(own, 'layer')} with shares of their own" if own else ""
    return f"{words.levels_of(split.group, [split.level])}: {named}{apart}"


# Explanations


def explanation_document(found: Explanation) -> Document:
    """Return why a layer has its choice, and what each other costs; of several layers a row each, of many no more."""
    made = [_rows(found, one) for one in found.explained]
    known = words.data([{key: row[key] for key in row if key not in SEEN} for rows in made for row in rows])
    seen = [sorted(rows, key=lambda row: (row["more"], not row["chosen"])) for rows in made]
    each = [
        Section(_answer(found.plan, one, rows), (_alternatives(one, rows), *_lacks(one)))
        for one, rows in zip(found.explained, seen, strict=True)
    ]
    anew = any(rows[0]["anew"] is not None for rows in seen)
    least = sum(rows[0]["more"] == 0 for rows in seen)
    count = f"{'all' if least == len(seen) else f'{least} of'} {len(seen)} choices cost least"
    few, notes = len(each) <= FEW, (_ANEW, _STAYS) if anew else (_STAYS,)
    costs = Column("costs", head="anew" if anew else "stays", unit=found.plan.cost.unit)
    whole = Section(f"{found.plan.model.name}: {count}", (_nearest(each, seen, costs), *each * few))
    title, parts, _ = each[0] if len(each) == 1 else whole
    return Document(title=title, parts=(known, *parts), notes=notes if few else notes[:1])


def _nearest(answers: Iterable[Section], seen: Iterable[Sequence[dict[str, Any]]], costs: Column) -> Table:
    """Return each layer's choice at each level with the next and what it costs more, or why less; the closest first."""
    heads = (Column(key) for key in ("layer", "level", "choice", "next"))
    columns = (*heads, costs, Column("bar", "", "bar"))
    rows = []
    for answer, alternatives in zip(answers, seen, strict=True):
        own, other = _first_two(alternatives)
        more = other.get("more")
        bar = answer.title.rpartition(": ")[2] if more is not None and more < 0 else more
        rows.append({**own, "next": other.get("choice"), "costs": more, "bar": bar})
    return Table(columns, sorted(rows, key=lambda row: (row["costs"] is None, row["costs"])))


def _first_two(rows: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the plan's own row and the cheapest other with another name; an empty one if there is none."""
    own = next(row for row in rows if row["chosen"])
    return own, next((row for row in rows if row["choice"] != own["choice"]), {})


def explanation_data(found: Explanation) -> dict[str, Any]:
    """Return every alternative of the layers asked for."""
    layers = []
    for one in found.explained:
        each = [
            {"choice": dict(own.choice.degrees), "chosen": own.chosen, **own.items, **_costs(own)}
            for own in one.alternatives
        ]
        place = {"layer": one.layer, "level": one.level, **({"group": one.group} if one.group else {})}
        layers.append({**place, "left_out": list(one.left_out), "alternatives": each})
    return {"layers": layers}


def _costs(one: Alternative) -> dict[str, float | None]:
    return {key: getattr(one, key) for key in ("received", "sent", "total", "replanned")}


def _rows(found: Explanation, one: LayerExplanation) -> list[dict[str, Any]]:
    """Return a row for each choice: its costs, and what it costs more than the plan's, all else planned anew and as planned."""
    own, text, rows = one.chosen, words.texts_of(found.plan), []
    for each in one.alternatives:
        anew, stays = None, each.total - own.total
        if each.replanned is not None and own.replanned is not None:
            anew = each.replanned - own.replanned
        row = {
            "layer": one.layer, "level": one.place, "choice": text(each.choice, one.ways), "chosen": each.chosen,
            "devices": each.choice.devices(one.ways), "received": each.received, "sent": each.sent,
            **each.items, **_costs(each), "unit": found.plan.cost.unit,
        }  # fmt: skip
        more = {"anew": anew, "stays": stays, "more": stays if anew is None else anew}
        rows.append({**row, **more, "said": "plan" * each.chosen, "bar": each.total})
    return rows


def _answer(plan: Plan, one: LayerExplanation, rows: Sequence[dict[str, Any]]) -> str:
    """Say what the plan's choice costs less than the nearest other, or why the plan has a dearer one."""
    chosen, other = _first_two(rows)
    own = f"{one.layer} {one.place}: {chosen['choice']}"
    if not other:
        return f"{own} is the only choice"
    stays = "" if other["anew"] is not None else ", all other layers as planned"
    less = amount(abs(other["more"]), plan.cost.unit)
    if other["more"] >= 0:
        return f"{own} costs least{stays}; next is {other['choice']}, {less} more"
    reasons = {
        "the plan was refined by the engine's time": plan.refined is not None,
        "the plan has pins": bool(plan.pins),
        "the plan weighs all levels together": one.jointly,
        f"solver {plan.solver!r} is not exact": not proven(plan),
    }
    why = "; ".join(text for text, holds in reasons.items() if holds)
    return f"{own} costs {less} more than {other['choice']}{stays}: {why}"


def _alternatives(one: LayerExplanation, rows: Sequence[dict[str, Any]]) -> Table:
    shown = [row for rank, row in enumerate(rows) if rank < FEW or row["chosen"]]
    costs, unit = ("received", "sent", *one.chosen.items), rows[0]["unit"]
    columns = (
        Column("choice"),
        *(Column(key, unit=unit) for key in ("anew", "stays")),
        Column("devices", unit="count", show=any(row["devices"] != one.ways for row in shown)),
        *(Column(key, unit=unit) for key in costs),
        Column("said", ""), Column("bar", "total", "bar"),
    )  # fmt: skip
    return Table(columns=columns, rows=shown)


def _lacks(one: LayerExplanation) -> Iterator[Note]:
    hidden = len(one.alternatives) - FEW
    if hidden > 0:
        yield Note("", f"{hidden} more expensive choices not shown")
    if one.jointly:
        text = f"{one.place} alone: the levels below, for which the plan may pay here, are not included"
        yield Note("", text)
    yield from (Note("left out", line) for line in one.left_out)
