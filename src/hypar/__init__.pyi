"""The public names: ``__init__.py`` imports each from its module when it is first used."""

from hypar.errors import HyparError as HyparError
from hypar.importers.config_file import from_config as from_config
from hypar.importers.jax_function import from_jax as from_jax
from hypar.importers.onnx_file import from_onnx as from_onnx
from hypar.importers.torch_module import from_torch as from_torch
from hypar.machine.accelergy import read_energies as read_energies
from hypar.machine.load import load_machine as load_machine
from hypar.machine.machine import Machine as Machine
from hypar.machine.profiles import Profile as Profile, read_profile as read_profile
from hypar.network.graph import load_model as load_model
from hypar.network.graph import LayerGraph as LayerGraph
from hypar.plan.diff import Change as Change, diff_plans as diff_plans
from hypar.plan.plan import Plan as Plan, read_plan as read_plan
from hypar.plan.records import Score as Score
from hypar.planning.planner import plan_model as plan_model
from hypar.planning.replay import score_plan as score_plan
from hypar.registry import machines as machines, models as models, strategies as strategies
from hypar.studies.pieces import Exported as Exported, export_plan as export_plan
from hypar.studies.alternatives import Explanation as Explanation, explain_plan as explain_plan
from hypar.studies.alternatives import Exploration as Exploration, explore_model as explore_model
from hypar.studies.check import Verdict as Verdict, check_plan as check_plan
from hypar.studies.grid import Comparison as Comparison, Run as Run, compare_strategies as compare_strategies
from hypar.studies.grid import Sweep as Sweep, sweep_model as sweep_model
from hypar.studies.step import score_layers as score_layers
from hypar.studies.profile import profile_model as profile_model
from hypar.studies.verify import Verified as Verified, verify_plan as verify_plan

__all__: list[str]
__version__: str
