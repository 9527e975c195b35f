import { describe, expect, it } from "vitest";

import {
  absoluteError,
  ago,
  bytes,
  duration,
  interval,
  milliseconds,
  percent,
  quantity,
  schedulerName,
  times,
} from "./format";

describe("format", () => {
  it.each([
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1.0 KiB"],
    [4_999_999, "4.8 MiB"],
    [2 * 1024 ** 3, "2.0 GiB"],
    [150 * 1024 ** 2, "150 MiB"],
  ])("bytes %d", (value, expected) => expect(bytes(value)).toBe(expected));

  it.each([
    [0, "0 "],
    [999, "999 "],
    [2.5, "2.50 "],
    [1000, "1.00 k"],
    [999_900, "1.00 M"],
    [1_234_567_890, "1.23 G"],
  ])("quantity %d", (value, expected) => expect(quantity(value)).toBe(expected));

  it.each([
    [0, "0 %"],
    [0.0004, "< 0.1 %"],
    [0.012, "1.2 %"],
    [1, "100 %"],
  ])("percent %d", (value, expected) => expect(percent(value)).toBe(expected));

  it.each([
    [0, "0 ms"],
    [0.01234, "0.01234 ms"],
    [1.23456, "1.235 ms"],
    [12.3456, "12.35 ms"],
    [1234.56, "1235 ms"],
    [123456, "123456 ms"],
  ])("milliseconds %d", (value, expected) => expect(milliseconds(value)).toBe(expected));

  it("gives both ends of an interval the same decimals", () => {
    expect(interval(9.98123, 10.21456)).toBe("9.98 to 10.21 ms");
  });

  it.each([
    [-1, "0 s"],
    [59.4, "59 s"],
    [59.6, "1 min 00 s"],
    [185, "3 min 05 s"],
    [7620, "2 h 07 min"],
  ])("duration %d", (value, expected) => expect(duration(value)).toBe(expected));

  it("ago rounds to the unit that fits", () => {
    const now = new Date("2026-11-21T12:00:00Z");
    const before = (seconds: number) => new Date(now.getTime() - seconds * 1000);
    expect(ago(before(10), now)).toBe("just now");
    expect(ago(before(50), now)).toBe("1 min ago");
    expect(ago(before(7200), now)).toBe("2 h ago");
    expect(ago(before(86_400 * 3), now)).toBe("3 d ago");
  });

  it("ratios, errors and names", () => {
    expect(times(1.0832)).toBe("1.08×");
    expect(absoluteError(0)).toBe("0");
    expect(absoluteError(0.0000012)).toBe("1.2e-6");
    expect(schedulerName("ios")).toBe("IOS");
    expect(schedulerName("greedy")).toBe("Greedy");
    expect(schedulerName("ios+opara")).toBe("IOS + Opara");
    expect(schedulerName("whole+inductor")).toBe("Whole graph + Inductor");
    expect(schedulerName("opara-strict")).toBe("Opara, as published");
    expect(schedulerName("torch.compile max-autotune")).toBe("torch.compile max-autotune");
    expect(schedulerName("onnxruntime")).toBe("ONNX Runtime");
  });
});
