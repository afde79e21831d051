"""Training: batches, objectives, optimisers, schedules, floors, checkpoints, and the loop."""

from tinyformer.training.batches import ExampleBatches, RowBatches, TokenBatches, windows
from tinyformer.training.checkpoint import Checkpoint, CheckpointError
from tinyformer.training.examples import Masking, labelled, once, pairs
from tinyformer.training.floors import Floor, lowest, ngram_floors
from tinyformer.training.log import read_log
from tinyformer.training.loop import Interrupted, NotFinite, Trainer, mean_loss, shares
from tinyformer.training.objectives import (causal_lm, classification, masked_lm, seq2seq,
                                            shifted_right, tagging)
from tinyformer.training.optimisers import SGD, Adam, AdamW, clip_grad_norm
from tinyformer.training.profile import Profile, profiled
from tinyformer.training.progress import Progress
from tinyformer.training.schedules import constant, noam, warmup_cosine, warmup_linear

__all__ = ["Adam", "AdamW", "Checkpoint", "CheckpointError", "ExampleBatches", "Floor",
           "Interrupted", "Masking", "NotFinite", "Profile", "Progress", "RowBatches", "SGD",
           "TokenBatches", "Trainer", "causal_lm", "classification", "clip_grad_norm", "constant",
           "labelled", "lowest", "masked_lm", "mean_loss", "ngram_floors", "noam", "once", "pairs",
           "profiled", "read_log", "seq2seq", "shares", "shifted_right", "tagging", "warmup_cosine",
           "warmup_linear", "windows"]
