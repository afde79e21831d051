"""Training: batches, schedules, optimisers, n-gram floors, checkpoints and the loop around them."""

from tinyformer.training.batches import RowBatches, TokenBatches, windows
from tinyformer.training.checkpoint import Checkpoint, CheckpointError
from tinyformer.training.floors import Floor, lowest, ngram_floors
from tinyformer.training.log import read_log
from tinyformer.training.loop import Interrupted, NotFinite, Trainer, mean_loss
from tinyformer.training.optimisers import SGD, Adam, AdamW, clip_grad_norm
from tinyformer.training.progress import Progress
from tinyformer.training.schedules import constant, noam, warmup_cosine, warmup_linear

__all__ = ["Adam", "AdamW", "Checkpoint", "CheckpointError", "Floor", "Interrupted", "NotFinite",
           "Progress", "RowBatches", "SGD", "TokenBatches", "Trainer", "clip_grad_norm", "constant",
           "lowest", "mean_loss", "ngram_floors", "noam", "read_log", "warmup_cosine",
           "warmup_linear", "windows"]
