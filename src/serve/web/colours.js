// Colours of curves that come and go: each keeps its own as long as it is there.

export const COLOURS = ["cwnd", "ssthresh", "goodput", "srtt", "loss", "inflight", "timeout"];

/** The least number that is not taken. */
export function firstFree(taken) {
  let number = 0;
  while (taken.has(number)) number += 1;
  return number;
}
