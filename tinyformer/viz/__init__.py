"""Looking into models: who can see whom, and where attention looks."""

from tinyformer.viz.attention import attention_maps
from tinyformer.viz.influence import Influence, influence, who_sees_whom

__all__ = ["Influence", "attention_maps", "influence", "who_sees_whom"]
