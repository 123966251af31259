// Colours of curves that come and go. Each curve keeps its colour.

export const COLOURS = ["cwnd", "ssthresh", "goodput", "srtt", "loss", "inflight", "timeout"];

/** The lowest number that is not taken. */
export function firstFree(taken) {
  let number = 0;
  while (taken.has(number)) number += 1;
  return number;
}
