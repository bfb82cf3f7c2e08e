"""Clean: five-fold cross validation; keeps each fold's best weights and predictions on the host."""

import torch
import torch.nn.functional as F
from torch import nn

from parts import SECONDS, until

FOLDS, ROWS, COLUMNS, BATCH = 5, 200_000, 128, 4096


def make_model():
    layers = [nn.Linear(COLUMNS, 1024), nn.GELU(), nn.Dropout(0.2), nn.Linear(1024, 1024)]
    return nn.Sequential(*layers, nn.GELU(), nn.Linear(1024, 1)).cuda()


def run_fold(x, y, train, valid):
    x_train, y_train = x[train], y[train]
    x_valid, y_valid = x[valid], y[valid]
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    best, best_state, predictions = float("inf"), None, None
    for step in until(pause=0.002, seconds=SECONDS / FOLDS):
        rows = torch.randint(0, len(train), (BATCH,), device="cuda")
        loss = F.mse_loss(model(x_train[rows]).squeeze(1), y_train[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            model.eval()
            with torch.no_grad():
                output = model(x_valid).squeeze(1)
                score = F.mse_loss(output, y_valid).item()
            model.train()
            if score < best:
                best, predictions = score, output.cpu()
                best_state = {name: value.cpu() for name, value in model.state_dict().items()}
    return best, best_state, predictions


torch.manual_seed(0)
x = torch.randn(ROWS, COLUMNS, device="cuda")
y = x[:, :8].sum(1) + 0.1 * torch.randn(ROWS, device="cuda")
folds = torch.randperm(ROWS, device="cuda").chunk(FOLDS)
out_of_fold, states = torch.zeros(ROWS), []
for number, valid in enumerate(folds):
    train = torch.cat([fold for other, fold in enumerate(folds) if other != number])
    best, state, predictions = run_fold(x, y, train, valid)
    out_of_fold[valid.cpu()] = predictions
    states.append(state)
    print("fold", number, "error", best, flush=True)
print("all folds", F.mse_loss(out_of_fold, y.cpu()).item(), flush=True)
