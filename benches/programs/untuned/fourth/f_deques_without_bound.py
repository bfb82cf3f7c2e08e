"""Bug: the last readings of each sensor are wanted, but the deques have no maxlen."""

import collections
import random
import statistics

from parts import until

recent = collections.defaultdict(collections.deque)  # CULPRIT-HOLDER


def observe(sensor, reading):
    window = recent[sensor]
    window.append(reading)  # CULPRIT-HOLDER
    if len(window) < 20:
        return None
    last = [window[-k]["value"] for k in range(1, 20)]
    return statistics.fmean(last)


def main():
    rnd = random.Random(1)
    alarms = 0
    for n in until(50):
        for sensor in range(64):
            reading = {"at": n * 0.02, "value": rnd.gauss(0, 1), "raw": rnd.randbytes(300)}  # CULPRIT
            mean = observe(sensor, reading)
            alarms += mean is not None and abs(mean) > 0.8
    print(alarms >= 0)


if __name__ == "__main__":
    main()
