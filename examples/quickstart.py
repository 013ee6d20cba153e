"""Plan a network, look at the plan, compare strategies, store the plan: run me, or open me as a notebook.

The ``# %%`` lines are cells in editors that know them; in a notebook a plan shows as a coloured grid.
"""

# %% Load a model, plan it, look at it, compare it.
import tempfile
from pathlib import Path

import hypar

model = hypar.load_model("alexnet")
plan = hypar.plan_model(model, levels=4, strategy="accpar")
print(plan)
for row in hypar.compare_strategies(model, levels=4, strategies=["owt", "hypar", "accpar"]):
    print(f"{row.name:8} {row.gain:6.2f} times less volume than dp")

# %% Hold a choice and see what it costs.
pinned = hypar.plan_model(model, levels=4, strategy="accpar", pins=["fc1@H1=dp"])
print(f"fc1 as dp at H1 costs {pinned.cost.value / plan.cost.value - 1:+.1%}")
for change in hypar.diff_plans(plan, pinned):
    if change.what == "choice":
        print(" ", change)

# %% Store the plan and check it, as a CI job does with `hypar check`.
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "alexnet.json"
    plan.write(file)
    print("still what planning gives:", hypar.check_plan(file).ok)

# %% A grid for a page or a notebook.
print(plan.render("html")[:60], "...")
