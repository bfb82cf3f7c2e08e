# Bug: evaluation takes batches of 512 and forgets no_grad, so it keeps all activations. Training
# fits; the first evaluation ends with an out-of-memory error, exit code 1.
from common import SECONDS, STEPS, endless
from tiny import limit_device, loss_of, make, need_cuda, tokens, train_step

need_cuda()
limit_device(6)
model, opt = make()
for i in endless(per_second=60):
    loss, _ = train_step(model, opt, tokens())
    if i == (STEPS or int(30 * SECONDS)):
        print(f"loss {loss.item():.2f}", flush=True)
        validation, _ = loss_of(model, tokens(1024))  # CULPRIT
