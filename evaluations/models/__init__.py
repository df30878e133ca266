from .evaluation import Batch, Evaluation, Mission
from .rollout import Rollout, RolloutTry, Verdict

__all__ = ["Batch", "Evaluation", "Mission", "Rollout", "RolloutTry", "Verdict"]
