"""Bug: video surfaces from the CUDA driver (ctypes) are not freed when a frame is a repetition."""

import ctypes

import torch

from parts import ConvNet, until

HEIGHT, WIDTH = 1080, 1920
SIZE = ctypes.c_size_t(HEIGHT * WIDTH * 3)
driver = ctypes.CDLL("libcuda.so.1")


def check(code):
    if code:
        raise RuntimeError(f"CUDA driver error {code}")


def decode(number, frame):
    """Writes the frame and returns true, or returns false when it repeats the previous one."""
    surface = ctypes.c_uint64()
    check(driver.cuMemAlloc_v2(ctypes.byref(surface), SIZE))  # CULPRIT
    check(driver.cuMemsetD8_v2(surface, ctypes.c_ubyte(number % 255), SIZE))
    if number % 5 == 0:
        return False
    check(driver.cuMemcpyDtoD_v2(ctypes.c_uint64(frame.data_ptr()), surface, SIZE))
    check(driver.cuMemFree_v2(surface))
    return True


model = ConvNet(widths=(16, 32, 64)).cuda().eval()
frame = torch.empty(HEIGHT, WIDTH, 3, dtype=torch.uint8, device="cuda")
repeated = 0
for number in until(pause=0.025):
    if not decode(number, frame):
        repeated += 1
        continue
    with torch.no_grad():
        image = frame.permute(2, 0, 1).unsqueeze(0).float() / 255
        label = model(image).argmax(1).item()
    if number % 100 == 1:
        print("frame", number, "class", label, "repeated", repeated, flush=True)
