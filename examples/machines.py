"""Score a plan on machines, search for time, explore and sweep: run me, or open me as a notebook.

The ``# %%`` lines are cells in editors that know them.
"""

# %% Plan for a machine: the plan carries its score.
import hypar

model = hypar.load_model("alexnet")
machine = hypar.load_machine("hmc")
plan = hypar.plan_model(model, levels=4, hardware=machine)
print(plan)

# %% The same plan on the same devices wired otherwise.
for topology in ("h_tree", "torus", "ring"):
    wired = hypar.load_machine("hmc", {"topology": topology, "bandwidth": "link"})
    score = hypar.score_plan(plan, hardware=wired, model=model)
    print(f"{topology:8} {score.time_s * 1e3:7.1f} ms, {score.energy_j:.2f} J")

# %% Search for the least time instead of the least bytes, in a larger space.
fast = hypar.plan_model(model, levels=4, space="all", cost="time", search="joint", hardware=machine)
if fast.score and plan.score:
    print(f"least time: {fast.score.time_s / plan.score.time_s:.3f} of it; {fast.claim}")

# %% Every combination of two layers' choices.
found = hypar.explore_model(model, vary=["conv5", "fc3"], hardware=machine, levels=4)
print(found)
for point in found[:3]:
    print(f"  {found.speedup(point):.3f} times as fast as dp", "<- the plan" if point.own else "")

# %% Levels by strategies, on a machine that grows with the array.
runs = hypar.sweep_model(model, hardware="hmc", levels=range(5), strategy=["dp", "hypar"], scale=True)
for run in runs:
    if run.totals:
        print(f"{run.axes['strategy']:6} {2 ** run.axes['levels']:3} devices {run.totals.time_s:6.3f} s")
