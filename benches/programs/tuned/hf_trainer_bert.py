# Clean: Hugging Face Trainer; a BERT classifier with random weights, evaluation and checkpoints.
import tempfile
import time

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from common import SECONDS, STEPS
from tiny import CUDA

width, layers, length = (512, 6, 128) if CUDA else (64, 2, 32)


class Rows(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        ids = torch.randint(0, 2000, (length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids[0] % 2}


class TimeLimit(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        self.end = time.monotonic() + SECONDS

    def on_step_end(self, args, state, control, **kwargs):
        if not STEPS:
            time.sleep(0.0 if CUDA else 0.03)
            control.should_training_stop = time.monotonic() > self.end


config = BertConfig(
    vocab_size=2000, hidden_size=width, num_hidden_layers=layers, num_attention_heads=8, intermediate_size=4 * width
)
with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(
        output_dir=folder, max_steps=STEPS or 100_000, per_device_train_batch_size=16, per_device_eval_batch_size=64,
        eval_strategy="steps", eval_steps=100 if CUDA else 50, save_steps=300 if CUDA else 100,
        save_total_limit=1, logging_steps=50,
        report_to=[], disable_tqdm=True, seed=0,
    )
    trainer = Trainer(
        BertForSequenceClassification(config), args, callbacks=[TimeLimit()],
        train_dataset=Rows(4000), eval_dataset=Rows(512),
    )
    trainer.log = lambda *_, **__: None  # its lines contain times
    trainer.train()
print("trained", trainer.state.global_step if STEPS else "")
